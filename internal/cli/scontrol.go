package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) scontrolCmd() *cobra.Command {
	var oneLine bool
	cmd := a.batchCmd(group("scontrol", "Show and change jobs and nodes, as Slurm's scontrol does", `  scontrol show job 118
  scontrol hold 118,119
  scontrol update NodeName=gpu1 State=DRAIN Reason="new driver"`,
		a.controlJobs("scontrol", "hold", "Keep waiting jobs from starting", (*v1.Client).Hold),
		a.controlJobs("scontrol", "release", "Let held jobs start", (*v1.Client).Release),
		a.controlJobs("scontrol", "requeue", "Stop running jobs and queue them again", requeueOf(false)),
		a.controlJobs("scontrol", "requeuehold", "Stop running jobs and hold them", requeueOf(true)),
		a.controlShowCmd("scontrol", &oneLine), a.controlUpdateCmd("scontrol"), a.scontrolPingCmd(),
	))
	slurmFlags(cmd, "h")
	cmd.PersistentFlags().BoolVarP(&oneLine, "oneliner", "o", false, "show each thing in one line")
	ignored(cmd.PersistentFlags(), "all", "a", "details", "d", "hide", "", "quiet", "Q")
	return cmd
}

func (a *app) ccontrolCmd() *cobra.Command {
	oneLine := false
	cmd := a.batchCmd(group("ccontrol", "Show and change jobs and nodes, as CraneSched's ccontrol does", `  ccontrol show job 118
  ccontrol hold 118,119
  ccontrol update node gpu1 state=drain reason="new driver"`,
		a.controlJobs("ccontrol", "hold", "Keep waiting jobs from starting", (*v1.Client).Hold),
		a.controlJobs("ccontrol", "release", "Let held jobs start", (*v1.Client).Release),
		a.controlJobs("ccontrol", "requeue", "Stop running jobs and queue them again", requeueOf(false)),
		a.controlShowCmd("ccontrol", &oneLine), a.controlUpdateCmd("ccontrol"),
	))
	craneFlags(cmd)
	return cmd
}

// control does something to a job.
type control func(c *v1.Client, ctx context.Context, id string) (*v1.Job, error)

func requeueOf(hold bool) control {
	return func(c *v1.Client, ctx context.Context, id string) (*v1.Job, error) {
		return c.Requeue(ctx, id, v1.RequeueRequest{Hold: hold})
	}
}

func (a *app) controlJobs(program, verb, short string, do control) *cobra.Command {
	return &cobra.Command{
		Use:               verb + " JOB[,JOB…]…",
		Short:             short,
		Example:           "  " + program + " " + verb + " 118,119",
		Args:              needArgs(1, -1, "JOB"),
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.controlled(strings.Split(jobNumbers(args), ","), func(c *v1.Client, id string) (*v1.Job, error) {
				return do(c, cmd.Context(), id)
			}, func([]v1.Job) error { return nil })
		},
	}
}

func (a *app) controlShowCmd(program string, oneLine *bool) *cobra.Command {
	return &cobra.Command{
		Use:   "show job|node|partition|reservation|hostnames|hostlist [NAME]",
		Short: "Show a job, nodes, partitions, reservations, or the hosts of a list",
		Long: `Show a job or all that haven't ended, nodes, partitions, reservations, the hosts
that a list such as gpu[1-3] stands for, or hosts as such a list.`,
		Example: "  " + program + " show job 118\n  " + program + " show node gpu[1-2]\n  " + program + " show hostnames gpu[1-3]",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && strings.HasPrefix(strings.ToLower(args[0]), "host") {
				return a.showHosts(strings.ToLower(args[0]), args[1:])
			}
			return a.showThing(cmd.Context(), args, *oneLine)
		},
	}
}

// showHosts needs no server.
func (a *app) showHosts(what string, args []string) error {
	if what == "hostlist" {
		fmt.Fprintln(a.env.Stdout, clean(foldHosts(strings.Split(words(args), ","))))
		return nil
	}
	list := words(args)
	if len(args) == 0 {
		list = a.env.Getenv("SLURM_JOB_NODELIST")
	}
	names, err := expandHosts(list)
	for _, n := range names {
		fmt.Fprintln(a.env.Stdout, clean(n))
	}
	return err
}

func (a *app) scontrolPingCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ping",
		Short:   "Say whether the server answers",
		Example: "  scontrol ping",
		Args:    needArgs(0, 0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ping(cmd.Context()) },
	}
}

func (a *app) controlUpdateCmd(program string) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "update KEY=VALUE…",
		Short: "Change a node, a job's priority or a partition",
		Long: `Take a node out of use or back, fix a job's priority, or change a partition. Each
stands for one of croft's own commands, which --dry-run prints; those can do more:
croft node, croft prioritize, croft partition.`,
		Example: "  " + program + " update NodeName=gpu1 State=DRAIN Reason=\"new driver\"\n  " + program + " update JobId=118 Priority=5000\n  " +
			program + " update --dry-run PartitionName=gpu AllowAccounts=nlp MaxTime=2-0",
		RunE: func(cmd *cobra.Command, args []string) error { return a.update(cmd.Context(), args, dry) },
	}
	dryRun(cmd, &dry)
	return cmd
}

// ping says whether the server answers.
func (a *app) ping(ctx context.Context) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if _, err := c.Status(ctx); err != nil {
		return err
	}
	fmt.Fprintf(a.env.Stdout, "Slurmctld(primary) at %s is UP\n", clean(c.Server()))
	return nil
}

// updateKeys are what an update may say. The first of each kind names the thing.
var updateKeys = []string{"NodeName", "State", "Reason", "JobId", "Priority", "PartitionName", "AllowAccounts", "DenyAccounts", "AllowQos", "MaxTime"}

// update is "update" of a node, a job or a partition, in Slurm's words or CraneSched's.
func (a *app) update(ctx context.Context, args []string, dry bool) error {
	set, err := pairs(named(args), updateKeys...)
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, s := range set {
		got[s.key] = s.value
	}
	lines, err := updateLines(got)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if strings.HasPrefix(line[1], "-") || strings.HasPrefix(line[2], "-") && line[2] != "--" { // would be a flag of croft's
			return usage("%q isn't a name", line[2])
		}
		if err := a.asCroft(ctx, dry, line...); err != nil {
			return err
		}
	}
	return nil
}

// named reads "node NAME …" as "NodeName=NAME …", and so on.
func named(args []string) []string {
	if len(args) < 2 || strings.Contains(args[0], "=") {
		return args
	}
	key, ok := map[string]string{"node": "NodeName", "job": "JobId", "partition": "PartitionName"}[strings.ToLower(args[0])]
	switch {
	case !ok:
		return args
	case strings.Contains(args[1], "="):
		return args[1:]
	}
	return slices.Concat([]string{key + "=" + args[1]}, args[2:])
}

// updateLines says an update in croft's commands.
func updateLines(got map[string]string) ([][]string, error) {
	switch {
	case got["JobId"] != "":
		return jobLines(got)
	case got["PartitionName"] != "":
		line := []string{"partition", "set", got["PartitionName"]}
		line = flagged(line, "accounts", got["AllowAccounts"])
		line = flagged(line, "deny", got["DenyAccounts"])
		line = flagged(line, "qos", got["AllowQos"])
		if limit := got["MaxTime"]; limit != "" {
			d, err := slurmSpan(limit)
			if err != nil {
				return nil, err
			}
			line = flagged(line, "max-time", span(d))
		}
		if len(line) == 3 {
			return nil, usage("what of the partition? AllowAccounts, DenyAccounts, AllowQos or MaxTime")
		}
		return [][]string{line}, nil
	case got["NodeName"] != "":
		return nodeLines(got)
	}
	return nil, usage("update what? want NodeName=NODE State=DRAIN Reason=TEXT, JobId=JOB Priority=N or PartitionName=NAME MaxTime=TIME")
}

func jobLines(got map[string]string) ([][]string, error) {
	n, err := strconv.ParseInt(got["Priority"], 10, 64)
	if err != nil {
		return nil, usage("Priority=%s: want a whole number; other things of a job are changed by croft clone --set", got["Priority"])
	}
	var lines [][]string
	for id := range strings.SplitSeq(jobNumbers([]string{got["JobId"]}), ",") {
		lines = append(lines, []string{"prioritize", id, "--", strconv.FormatInt(n, 10)})
	}
	return lines, nil
}

func nodeLines(got map[string]string) ([][]string, error) {
	nodes, err := expandHosts(got["NodeName"])
	if err != nil {
		return nil, err
	}
	var lines [][]string
	for _, node := range nodes {
		switch strings.ToUpper(got["State"]) {
		case "DRAIN":
			lines = append(lines, []string{"node", "drain", node, "--reason", got["Reason"]})
		case "RESUME", "IDLE", "UNDRAIN":
			lines = append(lines, []string{"node", "resume", node})
		default:
			return nil, usage("State=%s: want DRAIN or RESUME", got["State"])
		}
	}
	return lines, nil
}

// asCroft runs a command of croft's own, or says which it would be.
func (a *app) asCroft(ctx context.Context, dry bool, args ...string) error {
	if dry {
		words := []string{"croft"}
		for _, w := range args {
			words = append(words, shellWord(w))
		}
		fmt.Fprintln(a.env.Stdout, strings.Join(words, " "))
		return nil
	}
	if a.output != "table" {
		args = append([]string{"--output", a.output}, args...)
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.env.Stdin)
	root.SetOut(a.env.Stdout)
	root.SetErr(a.env.Stderr)
	return root.ExecuteContext(ctx)
}

func dryRun(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVar(dry, "dry-run", false, "print croft's own commands and do nothing")
}

// shellWord quotes a word for a shell, if it needs that.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(clean(s), "'", `'\''`) + "'"
}
