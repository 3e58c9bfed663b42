package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "croft.dev/croft/api/v1"
)

// cconCmd is docker's way to containers, with CraneSched's words: jobs that run a
// container, and further containers in a job.
func (a *app) cconCmd() *cobra.Command {
	var o batchOptions
	var c craneOptions
	root := a.batchCmd(&cobra.Command{
		Use:   "ccon [flags] COMMAND",
		Short: "Run containers as jobs and as steps of jobs, as CraneSched's ccon does",
		Long: `Run containers as jobs, and in a job further ones beside it, with the words that
docker has for them. A container is named JOB.STEP; that of the job itself is JOB.1, or
JOB for short.

Flags that size a job stand before run: ccon -c 4 --gres gpu:1 run IMAGE. After run
they are taken too, -p, -t and -w by their long names, since they mean something else
there.`,
		Example: `  ccon -c 4 --mem 8G --gres gpu:1 run -v ./data:/data:ro train:1 python train.py
  ccon ps -a
  ccon exec -it 118 sh`,
		TraverseChildren: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return fmt.Errorf("which ccon command? %s", strings.Join(names(cmd), ", "))
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	})
	root.Flags().BoolP("version", "v", false, "print the version")
	root.PersistentFlags().StringP("config", "C", "", "not used; for scripts that give it")
	root.PersistentFlags().String("debug-level", "", "not used; for scripts that give it")
	o.sizeFlags(root.Flags(), &c, true)
	a.completeFlag(root, "account", a.accountNames)
	a.completeFlag(root, "partition", a.partitionNames)
	before := root.PersistentPreRunE
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if err := onlyWithRun(root, cmd); err != nil {
			return err
		}
		return before(cmd, args)
	}
	root.AddCommand(a.cconRunCmd(&o, &c), a.cconPsCmd(), a.cconPodsCmd(), a.cconStopCmd(), a.cconWaitCmd(), a.cconLogsCmd(), a.cconAttachCmd(), a.cconExecCmd(),
		a.cconInspectCmd(), a.cconInspectpCmd(), a.registryLoginCmd("ccon"), a.registryLogoutCmd("ccon"))
	for _, gone := range [][2]string{
		{"create", "a container is made and started at once: ccon run -d, or ccon -H run -d for one that waits until croft release JOB"},
		{"start", "a container that has ended isn't started again: croft clone JOB submits its job anew"},
		{"restart", "a container isn't restarted: croft requeue JOB runs its job again, croft clone JOB submits it anew"},
		{"rm", "nothing needs to be removed: what is left of a container goes with its job, and its record and log stay"},
	} {
		root.AddCommand(cconAbsent(gone[0], gone[1]))
	}
	return root
}

// cconAbsent is a command of docker's that has no meaning here, and says what does it.
func cconAbsent(name, instead string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              "Not here: " + strings.SplitN(instead, ":", 2)[0],
		Example:            "  ccon " + name + " 118.1",
		Hidden:             true,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(_ *cobra.Command, args []string) error {
			return usage("there is no ccon %s: %s", name, instead)
		},
	}
}

// craneOptions are flags of a job that CraneSched's commands have and Slurm's haven't.
type craneOptions struct {
	extraAttr, comment string
}

// sizeFlags registers the flags that describe a job. After run, those whose letters it
// has for itself go by their names alone.
func (o *batchOptions) sizeFlags(fs *pflag.FlagSet, c *craneOptions, before bool) {
	letter := func(s string) string { return truth(before || !strings.Contains("ptw", s), s, "") }
	fs.StringVarP(&o.nodes, "nodes", "N", "", "1; croft run --nodes has several")
	fs.StringVarP(&o.tasks, "ntasks", "n", "", "1; a step is one task")
	fs.StringVarP(&o.cpus, "cpus-per-task", "c", "", "CPU cores, such as 4 or 0.5")
	fs.StringVar(&o.tasksPerNode, "ntasks-per-node", "", "1")
	fs.StringVar(&o.mem, "mem", "", "memory, such as 64G; without a unit MB")
	fs.StringVar(&o.gres, "gres", "", "devices, as gpu:2 or gpu:MODEL:2")
	fs.StringVarP(&o.partition, "partition", letter("p"), "", "partition")
	fs.StringVarP(&o.account, "account", "A", "", "account that pays")
	fs.StringVarP(&o.qos, "qos", "q", "", "quality of service")
	fs.StringVarP(&o.time, "time", letter("t"), "", "longest run: minutes, H:M:S or D-H:M:S")
	fs.StringVarP(&o.reservation, "reservation", "r", "", "run in the windows of this reservation")
	fs.BoolVarP(&o.hold, "hold", "H", false, "don't start before croft release")
	fs.StringVarP(&o.onNodes, "nodelist", letter("w"), "", "")
	fs.StringVarP(&o.except, "exclude", "x", "", "")
	fs.BoolVar(&o.exclusive, "exclusive", false, "")
	fs.StringVar(&c.extraAttr, "extra-attr", "", "")
	o.mailFlags(fs)
	fs.StringVar(&c.comment, "comment", "", "")
	hide(fs, "nodelist", "exclude", "exclusive", "extra-attr", "comment")
	if !before {
		hide(fs, "mail-type", "mail-user")
		hide(fs, sizeNames...)
	}
}

// sizeNames are the flags that size a job and stand before run.
var sizeNames = []string{"nodes", "ntasks", "cpus-per-task", "ntasks-per-node", "mem", "gres", "partition", "account", "qos", "time", "reservation", "hold"}

// onlyWithRun refuses flags for a job where none is submitted.
func onlyWithRun(root, cmd *cobra.Command) error {
	if cmd.Name() == "run" {
		return nil
	}
	var err error
	root.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "help" && f.Name != "version" && err == nil {
			err = fmt.Errorf("--%s is for ccon run", f.Name)
		}
	})
	return err
}

// unused says of flags that change nothing here that they don't.
func (c *craneOptions) unused(a *app, program string) {
	for _, f := range [][2]string{{"extra-attr", c.extraAttr}, {"comment", c.comment}} {
		if f[1] != "" {
			fmt.Fprintf(a.env.Stderr, "%s: --%s isn't used here\n", program, f[0])
		}
	}
}

// cconSizes sets what a container needs. It is one task on one node.
func (o *batchOptions) cconSizes(spec *v1.JobSpec) error {
	if err := o.unsupported(); err != nil {
		return err
	}
	whole := *o
	for _, f := range []struct {
		name  string
		value *string
	}{{"ntasks", &whole.tasks}, {"ntasks-per-node", &whole.tasksPerNode}} {
		if *f.value != "" && *f.value != "1" && o.oneNode() {
			return usage("--%s %s: a step is one task: ask for its cores with -c", f.name, *f.value)
		}
		*f.value = ""
	}
	whole.cpus = "" // parts of a core are known here, which are not to Slurm
	if _, err := whole.sizes(spec); err != nil {
		return err
	}
	spec.CPU = v1.Quantity(o.cpus)
	return nil
}

// inJob is the job that this runs in, if any, and the variable that says so.
func (a *app) inJob() (job, variable string) {
	for _, variable = range []string{"CROFT_JOB_ID", "CRANE_JOB_ID"} {
		if job = a.env.Getenv(variable); job != "" {
			break
		}
	}
	return job, variable
}

// container splits the name of a container, JOB.STEP or JOB, which is its primary.
func container(name string) (job string, n int, err error) {
	if job, n, err = jobOrStep(name); err == nil && n == 0 {
		n = 1
	}
	if err != nil || job == "" || strings.ContainsAny(job, "/ \t") {
		return "", 0, usage("%q isn't a container: give its job's number, a dot and its own, such as 118.2, or the job's alone", name)
	}
	return job, n, nil
}

// containerIDs completes names of containers.
func (a *app) containerIDs(state string) completer { return firstArg(a.jobIDs(state)) }

// nodeFlag is one that some commands have for clusters of several nodes.
func nodeFlag(fs *pflag.FlagSet, node *string) {
	fs.StringVarP(node, "target-node", "n", "", "node that the container is on; it is on one only")
}

// nodeIs checks that a job is where the caller believes it to be.
func (a *app) nodeIs(ctx context.Context, name, node string) error {
	if node == "" {
		return nil
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	switch job, err := c.Job(ctx, name); {
	case err != nil:
		return err
	case job.Node == "":
		return usage("-n %s: job %s isn't on a node", node, clean(name))
	case job.Node != node:
		return usage("-n %s: job %s is on %s", node, clean(name), clean(job.Node))
	}
	return nil
}

// transportFlag takes how CraneSched's clients speak with a node; Croft has one way.
func transportFlag(fs *pflag.FlagSet) {
	fs.String("transport", "", "not used; for scripts that give it")
	hide(fs, "transport")
}

// isContainer reports whether a job runs a container of its own.
func isContainer(j *v1.Job) bool {
	return j.Array == nil && (j.Spec.Kind == "" || j.Spec.Kind == "container")
}

// commandLine is a container's command as a list shows it.
func commandLine(command, args []string) string {
	words := slices.Concat(command, args)
	if len(words) == 0 {
		return ""
	}
	return `"` + cut(clean(strings.Join(words, " ")), 24) + `"`
}
