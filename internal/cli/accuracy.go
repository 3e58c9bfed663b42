package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) accuracyCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "accuracy [PERIOD]",
		Short: "Say how good quotes were: starts and costs against what became of them",
		Long: `Say how good quotes were: when jobs began and what they cost, against what their users
were told as they submitted. It has the jobs that you may read and that ended in the
period, a month, a day or from one to another, by default the current month; and if that
isn't over, those that live. The more a start was promised the nearer it should be: "now"
and "promised" are kept to, "estimated" isn't.

Early and late are by more than 30 s; a job that hasn't begun by the time that was said is
late, too. The cost is quoted for all of the time that is asked for, so most jobs come to
less.`,
		Example: `  croft quote accuracy
  croft quote accuracy 2026-11 -o json`,
		Args: needArgs(0, 1, "PERIOD, 2026-11 for example"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.QuoteAccuracy(cmd.Context(), strings.Join(args, ""))
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { a.writeAccuracy(w, got) })
		},
	}
}

func (a *app) writeAccuracy(w io.Writer, got *v1.Accuracy) {
	if len(got.Starts) == 0 {
		fmt.Fprintf(w, "no jobs of %s that anything was said of\n", clean(got.Period))
		return
	}
	t := newTable("~PARTITION", "SAID", ">JOBS", ">STARTED", ">EARLY", ">ON TIME", ">LATE", ">P50", ">P90", ">LATEST")
	for _, s := range got.Starts {
		t.row(s.Partition, s.Said, count(s.Jobs), count(s.Started), count(s.Early), count(s.OnTime), count(s.Late), string(s.P50), string(s.P90), string(s.Latest))
	}
	t.write(w, a.width(), a.paintState)
	if len(got.Costs) == 0 {
		return
	}
	fmt.Fprintln(w)
	t = newTable("~PARTITION", ">JOBS", ">COST OFF P50", ">P90", ">ABOVE")
	for _, c := range got.Costs {
		t.row(c.Partition, count(c.Jobs), c.P50+"%", c.P90+"%", count(c.Above))
	}
	t.write(w, a.width(), a.paintState)
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

// quoted is what was said of a job as it was submitted: "start 16:40, promised; 2.288".
func (a *app) quoted(q *v1.Quoted) string {
	if q == nil {
		return ""
	}
	said := "start " + clean(q.Kind)
	if q.Start != nil && q.Kind != "now" {
		said = "start " + a.clock(*q.Start) + ", " + clean(q.Kind)
	}
	if q.Cost != "" {
		said += "; " + clean(q.Cost) + " credits"
	}
	return said
}
