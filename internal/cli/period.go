package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) periodCmd() *cobra.Command {
	return group("period", "Close the books of a month for good", `  croft period ls
  croft period close 2026-11`, a.periodLsCmd(), a.periodShowCmd(), a.periodCloseCmd())
}

func (a *app) periodLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List closed periods, and the months that aren't closed",
		Example: "  croft period ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			all, err := v1.Collect(c.Periods(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("PERIOD", "STATE", "CLOSED", "~BY", "HASH")
			for _, p := range all {
				closed := ""
				if p.Closed != nil {
					closed = p.Closed.UTC().Format(time.DateOnly)
				}
				t.row(p.Period, p.State, closed, p.By, short(p.Hash))
			}
			return printList(a, all, "no periods: nothing was granted yet", t)
		},
	}
}

func (a *app) periodShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show PERIOD",
		Short:   "Show a closed period with its sums, or what keeps one from being closed",
		Example: "  croft period show 2026-11",
		Args:    needArgs(1, 1, "PERIOD, 2026-11 for example"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			p, err := c.Period(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := a.print(p, func(w io.Writer) { a.writePeriod(w, p) }); err != nil || p.State != "closed" {
				return err
			}
			return a.verdict(p.Verified, p.Difference)
		},
	}
}

func (a *app) periodCloseCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "close PERIOD",
		Short: "Close the books of a period: nothing opens them again",
		Long: `Close the books of a period: a month, 2026-11, a day, or from one to another. From then on
its statements never change: what they are made of is kept, with its hash. What is corrected
later is posted in an open period. Nothing opens a closed period again.

It is refused while something of the period isn't settled; croft period show says what.`,
		Example: "  croft period close 2026-11",
		Args:    needArgs(1, 1, "PERIOD, 2026-11 for example"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			p, err := c.ClosePeriod(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(p, func(w io.Writer) { a.writePeriod(w, p) })
		},
	}
}

// short is the beginning of a hash, which tells it from others.
func short(hash string) string { return hash[:min(len(hash), 12)] }

func (a *app) writePeriod(w io.Writer, p *v1.Period) {
	if p.State != "closed" {
		fmt.Fprintf(w, "%s  %s\n", clean(p.Period), clean(p.State))
		for _, o := range p.Open {
			fmt.Fprintf(w, "  %s\n", clean(o))
		}
		return
	}
	if len(p.Accounts) > 0 {
		t := newTable("ACCOUNT", ">GIVEN", ">SPENT", ">EXPIRED", "HASH")
		for _, s := range p.Accounts {
			t.row(s.Account, s.Given, s.Spent, s.Expired, short(s.Hash))
		}
		t.write(w, a.width(), a.paintState)
	}
	if p.Closed != nil {
		a.writeClosed(w, []v1.StatementClosed{{Period: p.Period, At: *p.Closed, By: p.By, Hash: p.Hash}})
	}
	writeVerdict(w, "verified: the postings and what was kept agree", p.Verified, p.Difference)
}

func (a *app) writeClosed(w io.Writer, closed []v1.StatementClosed) {
	a.closedLines(closed, func(line string) { fmt.Fprintln(w, line) })
}

func (a *app) closedLines(closed []v1.StatementClosed, line func(string)) {
	for _, c := range closed {
		line(fmt.Sprintf("%s closed %s by %s, SHA-256 %s", clean(c.Period), c.At.UTC().Format(time.DateOnly), orDash(clean(c.By)), clean(c.Hash)))
	}
}

func correctionText(c v1.StatementCorrection) string {
	of := "jobs of others"
	if c.Job != "" {
		of = fmt.Sprintf("job %s, attempt %d", clean(c.Job), c.Attempt)
	}
	return fmt.Sprintf("corrects %s: %s  %s", clean(c.Period), of, clean(c.Credits))
}
