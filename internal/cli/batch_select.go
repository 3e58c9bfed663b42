package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/version"
)

// batchCmd is the root command of a program under a batch system's name.
func (a *app) batchCmd(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.Version = version.Version
	cmd.SetVersionTemplate("{{.Name}} of croft {{.Version}}\n")
	cmd.CompletionOptions.DisableDefaultCmd = true
	asJSON := false
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		a.output = "table"
		if asJSON {
			a.output = "json"
		}
		a.running = true
		return nil
	}
	cmd.PersistentFlags().BoolVar(&asJSON, "json", false, "print the API's objects as JSON")
	return cmd
}

// slurmFlags are the flags of every Slurm command. Where -h means something else,
// only --help is help.
func slurmFlags(cmd *cobra.Command, helpLetter string) {
	fs := cmd.Flags()
	fs.BoolP("help", helpLetter, false, "print this help")
	fs.BoolP("version", "V", false, "print the version")
	fs.CountP("verbose", "v", "nothing more is said; for scripts that give it")
}

// craneFlags are the flags of every CraneSched command.
func craneFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringP("config", "C", "", "not used; for scripts that give it")
	fs.BoolP("version", "v", false, "print the version")
}

// jobSelection is the flags by which batch users choose jobs. Each is a list
// separated by commas; a job must be in all that are given.
type jobSelection struct {
	ids, names, users, accounts, partitions, qos, states, nodes []string
	me                                                          bool
}

// query is the selection as a query of everybody's jobs. outcomes, if any, are
// those that ended jobs must have had.
func (s jobSelection) query(otherwise string) (q v1.JobQuery, outcomes []string, err error) {
	q = v1.JobQuery{
		ID: jobNumbers(s.ids), Name: words(s.names), User: words(s.users), Account: words(s.accounts), Partition: words(s.partitions),
		QoS: words(s.qos), State: otherwise, Limit: v1.MaxPage,
	}
	if q.User == "" && !s.me {
		q.User = "*"
	}
	nodes, err := expandHosts(words(s.nodes))
	if err != nil {
		return q, nil, err
	}
	q.Node = strings.Join(nodes, ",")
	switch state := words(s.states); {
	case strings.EqualFold(state, "all"):
		q.State = "all"
	case state != "":
		var in []string
		if in, outcomes, err = statesOf(state); err != nil {
			return q, nil, err
		}
		q.State = strings.Join(in, ",")
	}
	return q, outcomes, nil
}

// words joins the values of a flag that is given more than once.
func words(lists []string) string {
	var out []string
	for _, l := range lists {
		for w := range strings.SplitSeq(l, ",") {
			if w = strings.TrimSpace(w); w != "" {
				out = append(out, w)
			}
		}
	}
	return strings.Join(out, ",")
}

// jobNumbers is words for jobs: of "118.batch", a step, the job.
func jobNumbers(lists []string) string {
	var out []string
	for id := range strings.SplitSeq(words(lists), ",") {
		id, _, _ = strings.Cut(id, ".")
		if id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return strings.Join(out, ",")
}

// batchJobs collects what a query and the outcomes select, the oldest first, at most
// most of them (0: all).
func (a *app) batchJobs(ctx context.Context, q v1.JobQuery, outcomes []string, most int) ([]batchJob, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	if most > 0 && most < q.Limit {
		q.Limit = most
	}
	q.Elements = true
	jobs := []batchJob{}
	var started listedElements
	for job, err := range c.Jobs(ctx, q) {
		if err != nil {
			return nil, err
		}
		started.note(job)
		job, ok := started.row(job, q.From.IsZero())
		if !ok || !isAmong(q.ID, job) || job.State == "ended" && len(outcomes) > 0 && !slices.Contains(outcomes, job.Outcome) {
			continue
		}
		jobs = append(jobs, batchJob{job, a.env.Now(), a.env.Zone})
		if len(jobs) == most {
			break
		}
	}
	slices.Reverse(jobs)
	return jobs, nil
}

// wireJobs is the wire form of jobs, for --json.
func wireJobs(jobs []batchJob) v1.Page[v1.Job] {
	out := v1.Page[v1.Job]{Items: []v1.Job{}}
	for _, j := range jobs {
		out.Items = append(out.Items, j.Job)
	}
	return out
}

// repeat calls show, and again every seconds until it fails or the program is
// interrupted.
func (a *app) repeat(ctx context.Context, seconds uint, show func() error) error {
	for {
		if err := show(); err != nil || seconds == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(seconds) * time.Second):
		}
	}
}

// eachJob does something to jobs one after the other. One that fails doesn't keep the
// others from it; the exit code is the last failure's.
func (a *app) eachJob(ids []string, do func(id string) error) error {
	var failed error
	for _, id := range ids {
		if err := do(id); err != nil {
			failed = err
			if len(ids) > 1 {
				a.complain(id, err)
			}
		}
	}
	if failed != nil && len(ids) > 1 {
		return exitStatus(codes.Of(v1.CodeOf(failed)).Exit)
	}
	return failed
}

// complain says what went wrong with one of several things.
func (a *app) complain(what string, err error) {
	fmt.Fprintf(a.env.Stderr, "%s: %s\n", clean(what), clean(err.Error()))
}

// ignored takes flags, given as pairs of a name and a letter, that change nothing
// here, so that scripts may give them.
func ignored(fs *pflag.FlagSet, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		fs.BoolP(pairs[i], pairs[i+1], false, "")
		fs.Lookup(pairs[i]).Hidden = true
	}
}

// completeJobs completes the usual flags that choose jobs.
func (a *app) completeJobs(cmd *cobra.Command, ids, user, account, partition string) {
	for flag, words := range map[string]completer{ids: a.jobIDs("live"), user: a.userNames, account: a.accountNames, partition: a.partitionNames} {
		if flag != "" {
			a.completeFlag(cmd, flag, words)
		}
	}
}
