package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) whyCmd() *cobra.Command {
	var when string
	var history bool
	cmd := &cobra.Command{
		Use:   "why JOB",
		Short: "Say why a job waits, was refused or ended",
		Long: `Say why a job waits, was refused or ended. With --at, where it stood at a time in the
past, and why it waited then; with --history, all that was decided of it. What keeps a job
waiting is looked at twice a minute, for the first 100 of each queue, and kept whenever it
has become something else.`,
		Example: `  croft why 131
  croft why R-7
  croft why 131 --at 14:03`,
		Args:              needArgs(1, 1, "JOB"),
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if history || when != "" {
				return a.decisions(cmd, c, args[0], when)
			}
			why, err := c.Why(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(why, func(w io.Writer) { a.writeWhy(w, why) })
		},
	}
	cmd.Flags().StringVar(&when, "at", "", "where it stood then: 14:03, 20m for that long ago, 2026-11-30 14:03 or RFC 3339")
	cmd.Flags().BoolVar(&history, "history", false, "all that was decided of it, the oldest first")
	cmd.MarkFlagsMutuallyExclusive("at", "history")
	return cmd
}

// decisions shows what was decided of a job; with a time what held then.
func (a *app) decisions(cmd *cobra.Command, c *v1.Client, job, when string) error {
	var at time.Time
	var err error
	if when != "" {
		if at, err = a.past(when); err != nil {
			return usage("--at: %v", err)
		}
	}
	all, err := v1.Collect(c.Decisions(cmd.Context(), job, at))
	if err != nil {
		return err
	}
	if when == "" {
		t := newTable("AT", "STATE", "~BY", "~WHAT")
		for _, d := range all {
			t.row(a.dated(d.At), d.State, d.By, cmp.Or(d.Message, d.Kind))
		}
		return printList(a, all, "nothing was decided of it", t)
	}
	return a.print(v1.Page[v1.Decision]{Items: all}, func(w io.Writer) { a.writeStood(w, job, at, all) })
}

// writeStood says where a job stood at a time: the last that gave it a state, and why it
// waited.
func (a *app) writeStood(w io.Writer, job string, at time.Time, all []v1.Decision) {
	for i, d := range all {
		if d.Window == nil {
			line := fmt.Sprintf("%s was %s at %s, since %s", clean(job), clean(d.State), a.dated(at), a.dated(d.At))
			if d.Message != "" {
				line += ": " + clean(d.Message)
			}
			fmt.Fprintln(w, line)
			if i == len(all)-1 && d.State == "queued" {
				fmt.Fprintln(w, "  why isn't known: it wasn't among the first of its queue, or hadn't been looked at yet")
			}
			continue
		}
		fmt.Fprintf(w, "  as of %s: %s\n", d.At.In(a.env.Zone).Format("15:04:05"), a.window(*d.Window))
		if len(d.Reasons) == 0 {
			fmt.Fprintln(w, "  "+clean(d.Message))
		}
		a.printReasons(w, "  ", 2, d.Reasons, "")
	}
}

// past is a point in time that has passed, as parseSince reads it; a minute is all of it, as
// far as it has passed.
func (a *app) past(s string) (time.Time, error) {
	t, err := a.parseSince(s)
	if err != nil {
		return t, err
	}
	now := a.env.Now()
	for _, minute := range []string{"15:04", "2006-01-02 15:04"} {
		if _, err := time.Parse(minute, s); err == nil && t.Before(now) {
			return t.Add(min(time.Minute-1, now.Sub(t))), nil
		}
	}
	return t, nil
}
