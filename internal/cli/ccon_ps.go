package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

// listFlags are those of ps and pods.
type listFlags struct {
	every, quiet bool
	most         int
}

func (f *listFlags) register(cmd *cobra.Command, what string) {
	fs := cmd.Flags()
	fs.BoolVarP(&f.every, "all", "a", false, what+" that have ended, too")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "only their names")
	fs.IntVarP(&f.most, "last", "n", 0, "of the newest so many jobs at most")
}

// query selects the jobs whose containers are listed: the caller's own, and to those who
// run the site everybody's.
func (a *app) containerJobs(ctx context.Context, f listFlags) (v1.JobQuery, error) {
	q := v1.JobQuery{State: "live", Elements: true, Limit: f.most}
	if f.every {
		q.State = "all"
	}
	if f.most < 0 {
		return q, usage("-n %d: want a number of jobs", f.most)
	}
	c, err := a.client()
	if err != nil {
		return q, err
	}
	me, err := c.Me(ctx)
	if err == nil && me.Role != "user" {
		q.User = "*"
	}
	return q, err
}

func (a *app) cconPsCmd() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "ps [flags]",
		Short: "List containers",
		Long: `List your containers that haven't ended, those of jobs and the further ones in them;
operators are shown everybody's. Why one waits: croft why JOB.`,
		Example: `  ccon ps
  ccon ps -a -n 20
  ccon ps -q`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.containerJobs(cmd.Context(), f)
			if err != nil {
				return err
			}
			return a.listContainers(cmd.Context(), q, f)
		},
	}
	f.register(cmd, "containers")
	return cmd
}

// listContainers prints the containers of jobs. Of all that is looked at it keeps no more
// than what it prints.
func (a *app) listContainers(ctx context.Context, q v1.JobQuery, f listFlags) error {
	t := newTable("CONTAINER", "~IMAGE", "~COMMAND", "CREATED", "STATUS", "NODELIST")
	items := []v1.Step{}
	show := func(s *v1.Step, node string) {
		switch {
		case a.output != "table":
			items = append(items, *s)
		case f.quiet:
			fmt.Fprintln(a.env.Stdout, clean(s.ID))
		default:
			t.row(s.ID, s.Spec.Image, commandLine(s.Spec.Command, s.Spec.Args), a.ago(s.Submitted), a.containerStatus(s), node)
		}
	}
	for j, err := range firstJobs(ctx, a.api, q) {
		if err != nil {
			return err
		}
		if isContainer(&j) {
			show(primaryOf(&j), j.Node)
		}
		if j.Steps == 0 {
			continue
		}
		sq := v1.StepQuery{Limit: v1.MaxPage}
		if !f.every {
			sq.State = "live"
		}
		for s, err := range a.api.Steps(ctx, j.ID, sq) {
			if err != nil {
				return err
			}
			if !s.Spec.Host {
				show(&s, j.Node)
			}
		}
	}
	switch {
	case a.output != "table":
		return a.print(v1.Page[v1.Step]{Items: items}, nil)
	case !f.quiet:
		a.printTable(t, "no containers; ccon ps -a has those that ended")
	}
	return nil
}

// primaryOf is a job's own container, as the API shows it as step 1.
func primaryOf(j *v1.Job) *v1.Step {
	s := &v1.Step{
		ID: j.ID + ".1", Job: j.ID, N: 1, State: j.State, Outcome: j.Outcome, ExitCode: j.ExitCode, Message: j.Message, Attempt: j.Attempt,
		Image: j.Image, Devices: j.Devices, Progress: j.Progress, Submitted: j.Submitted, Started: j.Started, Ended: j.Ended, Seq: j.Seq,
		Spec: v1.StepSpec{
			Name: j.Spec.Name, Image: j.Spec.Image, Command: j.Spec.Command, Args: j.Spec.Args, Env: j.Spec.Env,
			Workdir: j.Spec.Workdir, Mounts: j.Spec.Mounts, Pull: j.Spec.Pull, Grace: j.Spec.Grace, Stdin: j.Spec.Stdin, TTY: j.Spec.TTY,
		},
	}
	if s.State == "held" {
		s.State = "queued"
	}
	return s
}

// containerStatus is "Up 5 minutes", "Exited (1) 2 hours ago" or what it waits for.
func (a *app) containerStatus(s *v1.Step) string {
	switch {
	case s.State == "ended" && s.Started == nil:
		return capital(jobState(stepAsJob(s))) + a.agoOr(s.Ended)
	case s.State == "ended":
		word := "Exited"
		if s.Outcome != "completed" && s.Outcome != "failed" {
			word = capital(s.Outcome)
		}
		if s.ExitCode != nil {
			word += " (" + strconv.Itoa(*s.ExitCode) + ")"
		}
		return word + a.agoOr(s.Ended)
	case s.State == "running" && s.Started != nil:
		return "Up " + humanSpan(a.env.Now().Sub(*s.Started))
	case s.State == "queued" && s.Progress != "":
		return capital(s.Progress)
	}
	return capital(s.State)
}

func (a *app) cconPodsCmd() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "pods [flags]",
		Short: "List the pods of jobs",
		Long: `List the pods of your jobs that haven't ended: what their containers have in common.
Operators are shown everybody's.`,
		Example: `  ccon pods
  ccon pods -a -n 20`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.containerJobs(cmd.Context(), f)
			if err != nil {
				return err
			}
			return a.listPods(cmd.Context(), q, f)
		},
	}
	f.register(cmd, "pods")
	return cmd
}

func (a *app) listPods(ctx context.Context, q v1.JobQuery, f listFlags) error {
	t := newTable("JOBID", "~POD", "PARTITION", "CREATED", "STATUS", "PORTS")
	items := []v1.Job{}
	for j, err := range firstJobs(ctx, a.api, q) {
		switch {
		case err != nil:
			return err
		case !isContainer(&j):
		case a.output != "table":
			items = append(items, j)
		case f.quiet:
			fmt.Fprintln(a.env.Stdout, clean(j.ID))
		default:
			pod := v1.Pod{Name: j.Name}
			if p := j.Spec.Pod; p != nil {
				pod = v1.Pod{Name: otherwise(p.Name, j.Name), Ports: p.Ports}
			}
			t.row(j.ID, pod.Name, j.Spec.Partition, a.ago(j.Submitted), a.containerStatus(primaryOf(&j)), strings.Join(pod.Ports, ","))
		}
	}
	switch {
	case a.output != "table":
		return a.print(v1.Page[v1.Job]{Items: items}, nil)
	case !f.quiet:
		a.printTable(t, "no pods; ccon pods -a has those that ended")
	}
	return nil
}

func (a *app) cconInspectCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "inspect CONTAINER",
		Short:             "Show all of a container, as JSON",
		Example:           "  ccon inspect 118.2",
		Args:              needArgs(1, 1, "CONTAINER"),
		ValidArgsFunction: a.containerIDs("all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.oneContainer(args[0], func(c *v1.Client, job string, n int) (*v1.Step, error) { return c.Step(cmd.Context(), job, n) })
			if err != nil {
				return err
			}
			return writeJSON(a.env.Stdout, s, "  ")
		},
	}
}

func (a *app) cconInspectpCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "inspectp JOB",
		Short:             "Show all of a job and its pod, as JSON",
		Example:           "  ccon inspectp 118",
		Args:              needArgs(1, 1, "JOB"),
		ValidArgsFunction: a.containerIDs("all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if job, _, err := container(args[0]); err != nil || job != args[0] {
				return usage("%q isn't a job: a pod has its job's number, such as %s", args[0], otherwise(job, "118"))
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			job, err := c.Job(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return writeJSON(a.env.Stdout, job, "  ")
		},
	}
}

// ago is how long ago something was, as docker says it.
func (a *app) ago(t time.Time) string { return humanSpan(a.env.Now().Sub(t)) + " ago" }

func (a *app) agoOr(t *time.Time) string {
	if t == nil {
		return ""
	}
	return " " + a.ago(*t)
}

// capital is a state as a list of containers says it.
func capital(s string) string {
	words := []byte(clean(s))
	for i, b := range words {
		switch {
		case b == '_':
			words[i] = ' '
		case i == 0 && b >= 'a' && b <= 'z':
			words[i] = b - 'a' + 'A'
		}
	}
	return string(words)
}

// humanSpan is a length of time as docker says it.
func humanSpan(d time.Duration) string {
	const day = 24 * time.Hour
	several := func(n int64, one string) string { return plural(int(n), one) }
	switch {
	case d < time.Second:
		return "Less than a second"
	case d < time.Minute:
		return several(int64(d/time.Second), "second")
	case d < 2*time.Minute:
		return "About a minute"
	case d < time.Hour:
		return several(int64(d/time.Minute), "minute")
	case d < 90*time.Minute:
		return "About an hour"
	case d < 2*day:
		return several(int64((d+30*time.Minute)/time.Hour), "hour")
	case d < 14*day:
		return several(int64(d/day), "day")
	case d < 60*day:
		return several(int64(d/(7*day)), "week")
	case d < 730*day:
		return several(int64(d/(30*day)), "month")
	}
	return several(int64(d/(365*day)), "year")
}
