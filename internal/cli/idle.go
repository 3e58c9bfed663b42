package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) keepCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "keep TIME [JOB…]",
		Short: "Keep running jobs from being stopped for being idle",
		Long: `Declare running jobs to be at work for so long from now, whatever is seen of them:
none is stopped for being idle before. 0 takes it back. In a job (where CROFT_JOB_ID is
set) it is that job's own unless others are named. How long it can be at a time is the
site's to say; it can be done again.`,
		Example: `  croft keep 6h 118
  croft keep 0 118
  CROFT_JOB_ID=118 croft keep 2h`,
		Args:              needArgs(1, -1, "TIME and JOB"),
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, jobs := v1.KeepRequest{For: v1.Quantity(args[0])}, args[1:]
			if own := a.env.Getenv("CROFT_JOB_ID"); len(jobs) == 0 && own != "" {
				jobs = []string{own}
			}
			if len(jobs) == 0 && !strings.ContainsAny(args[0], "0123456789") {
				return usage("keep for how long? %s is no time: croft keep 6h JOB", clean(args[0]))
			}
			if len(jobs) == 0 {
				return usage("keep which job? Give its number: croft keep %s JOB", args[0])
			}
			return a.controlled(jobs, func(c *v1.Client, id string) (*v1.Job, error) { return c.Keep(cmd.Context(), id, req) }, a.printKept)
		},
	}
}

func (a *app) printKept(jobs []v1.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	return a.print(v1.Page[v1.Job]{Items: jobs}, func(w io.Writer) {
		for _, j := range jobs {
			text := "isn't kept"
			if j.Idle != nil && j.Idle.Kept != nil {
				text = "kept until " + a.clock(*j.Idle.Kept)
			}
			fmt.Fprintf(w, "%s %s\n", clean(j.ID), text)
		}
	})
}

func (a *app) idleCmd() *cobra.Command {
	q := v1.JobQuery{User: "*", State: "running"}
	cmd := &cobra.Command{
		Use:   "idle",
		Short: "Show which running jobs are idle, and what follows",
		Long: `Show of the running jobs that you may see whether they show signs of work: device and
CPU use, what web programs say of themselves, connections, and declarations by croft
keep. STOPS is when a job is stopped if it stays idle, in brackets when that is only
tried out (dry-run). A job of which something isn't known isn't stopped.`,
		Example: `  croft idle
  croft idle -u ada -A nlp -o json`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			jobs, err := v1.Collect(firstJobs(cmd.Context(), c, q))
			if err != nil {
				return err
			}
			return printList(a, jobs, "no running jobs", a.idleTable(jobs))
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&q.Account, "account", "A", "", "only of this account")
	fs.StringVarP(&q.User, "user", "u", "*", "only of this user")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, "user", a.userNames)
	return cmd
}

func (a *app) idleTable(jobs []v1.Job) *table {
	t := newTable("ID", "USER", "ACCOUNT", "STANDING", ">IDLE", "STOPS", "~SIGNALS")
	for _, j := range jobs {
		i := j.Idle
		if i == nil {
			continue
		}
		t.row(j.ID, j.User, j.Account, i.Standing, orDash(string(i.For)), orDash(a.stops(i)), signals(i))
	}
	return t
}

// stops is when an idle job is stopped, or until when it is kept.
func (a *app) stops(i *v1.Idle) string {
	switch {
	case i.Kept != nil:
		return "kept " + a.clock(*i.Kept)
	case i.StopsAt == nil:
		return ""
	case i.Mode != "stop":
		return "(" + a.clock(*i.StopsAt) + ")"
	}
	return a.clock(*i.StopsAt)
}

// signals are what was seen, those that don't count in brackets.
func signals(i *v1.Idle) string {
	var out []string
	for _, s := range i.Signals {
		text := clean(s.Seen)
		if !s.Counts {
			text = "(" + text + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// idleness says of a job that shows no sign of work what follows; "" of others.
func (a *app) idleness(j *v1.Job) string {
	i := j.Idle
	switch {
	case i == nil || i.Mode == "off":
		return ""
	case i.Kept != nil:
		return "kept until " + a.clock(*i.Kept)
	case i.Standing == "idle" && i.StopsAt != nil && i.Mode == "stop":
		return "for " + clean(string(i.For)) + ", stops " + a.clock(*i.StopsAt) + " unless it works: croft keep 6h " + clean(j.ID)
	case i.Standing == "idle" && i.StopsAt != nil:
		return "for " + clean(string(i.For)) + ", would be stopped " + a.clock(*i.StopsAt) + " (dry-run)"
	}
	return clean(i.Text)
}
