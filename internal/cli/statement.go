package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) statementCmd() *cobra.Command {
	var by string
	var machine bool
	cmd := &cobra.Command{
		Use:   "statement ACCOUNT [PERIOD] | --machine [NODE|PARTITION] [PERIOD]",
		Short: "Say where an account's credits went, or the machine's time",
		Long: `Say where the credits of an account and of those below it went: what its grants had,
what came in, what each member spent, what is left and until when. With --machine, where
the device-hours of the inventory went. A period is a month, 2026-11, a day, or from one to
another, 2026-11-01..2026-11-15; by default it is the current month. Days begin at midnight
UTC.

The last line says whether the postings of the period equal its metered device-time. If
they don't it is the first difference, and the exit code is 1. CSV has the lines of --by, by
default each member's; -o focus has them as the FinOps Open Cost and Usage Specification
names its columns, by default each day's.`,
		Example: `  croft statement nlp 2026-11 --by job
  croft statement nlp 2026-11 -o html > nlp-2026-11.html
  croft statement --machine gpu1 2026-11`,
		Args: func(_ *cobra.Command, args []string) error {
			if !machine && len(args) == 0 {
				return usage("whose statement? croft statement ACCOUNT, or croft statement --machine")
			}
			if len(args) > 2 {
				return usage("a statement is of one account and one period")
			}
			return nil
		},
		ValidArgsFunction: firstArg(a.accountNames),
		Annotations:       map[string]string{moreOutputs: "csv html focus"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if machine {
				return a.machineStatement(cmd, args)
			}
			return a.accountStatement(cmd, args[0], strings.Join(args[1:], ""), by)
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "go deeper: member, token, job, step, device or day")
	cmd.Flags().BoolVar(&machine, "machine", false, "where the device-hours of a node, a partition or everything went")
	cmd.Flags().StringVarP(&a.output, "output", "o", "table", "output: table, json, yaml, csv, html or focus (FOCUS 1.2)")
	cmd.MarkFlagsMutuallyExclusive("by", "machine")
	a.completeFlag(cmd, "by", fixed("member", "token", "job", "step", "device", "day"))
	a.completeFlag(cmd, "output", fixed("table", "json", "yaml", "csv", "html", "focus"))
	return cmd
}

func (a *app) accountStatement(cmd *cobra.Command, account, period, by string) error {
	switch {
	case by != "":
	case a.output == "csv":
		by = "member"
	case a.output == "focus":
		by = "day"
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	s, err := c.Statement(cmd.Context(), account, period, by)
	if err != nil {
		return err
	}
	switch a.output {
	case "csv":
		err = writeCSV(a.env.Stdout, statementCSV(s))
	case "focus":
		err = writeCSV(a.env.Stdout, focusCSV(s))
	case "html":
		err = a.statementHTML(s).write(a.env.Stdout)
	default:
		err = a.print(s, func(w io.Writer) { a.writeStatement(w, s) })
	}
	return cmp.Or(err, a.verdict(s.Verified, s.Difference))
}

// machineStatement takes a node or a partition, a period, or both.
func (a *app) machineStatement(cmd *cobra.Command, args []string) error {
	var of, period string
	switch {
	case len(args) == 2:
		of, period = args[0], args[1]
	case len(args) == 1 && isPeriod(args[0]):
		period = args[0]
	case len(args) == 1:
		of = args[0]
	}
	if a.output == "focus" {
		return usage("-o focus is of what accounts spent; the machine's balance has csv")
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	s, err := c.MachineStatement(cmd.Context(), of, period)
	if err != nil {
		return err
	}
	switch a.output {
	case "csv":
		err = writeCSV(a.env.Stdout, machineCSV(s))
	case "html":
		err = a.machineHTML(s).write(a.env.Stdout)
	default:
		err = a.print(s, func(w io.Writer) { a.writeMachine(w, s) })
	}
	return cmp.Or(err, a.verdict(s.Verified, s.Difference))
}

// isPeriod tells a period from the name of a node.
func isPeriod(s string) bool {
	first, _, _ := strings.Cut(s, "..")
	_, month := time.Parse("2006-01", first)
	_, day := time.Parse(time.DateOnly, first)
	return month == nil || day == nil
}

// verdict ends a statement that isn't right with an exit code of its own. What is read by
// programs says so itself; beside a table of them it is said on standard error.
func (a *app) verdict(verified bool, difference string) error {
	if verified {
		return nil
	}
	if a.output == "csv" || a.output == "focus" {
		fmt.Fprintln(a.env.Stderr, "NOT verified: "+clean(difference))
	}
	return exitStatus(1)
}

const (
	accountVerified = "verified: postings equal metered device-time"
	machineVerified = "verified: every device-second has one payer"
)

func (a *app) writeStatement(w io.Writer, s *v1.Statement) {
	l := &ledgerLines{}
	for _, g := range s.Grants {
		l.row(sourceName(g), fundsOf(g), a.grantText(g))
	}
	several := len(s.Accounts) > 2
	for i, u := range s.Users {
		indent := "  "
		if several {
			if indent = "    "; i == 0 || s.Users[i-1].Account != u.Account {
				l.row("  "+u.Account, "", accountText(s, u.Account))
			}
		}
		l.hours(indent+u.User, u.GPUHours, u.Charged, plural(int(u.Jobs), "job")+modelsText(u.Models))
	}
	for _, n := range s.Devices {
		l.row(n.Node, "", balanceText(n.Total, n.By))
	}
	l.write(w)
	for _, c := range s.Corrections {
		fmt.Fprintln(w, correctionText(c))
	}
	if s.By != "" {
		fmt.Fprintln(w)
		a.linesTable(s).write(w, a.width(), a.paintState)
	}
	a.writeClosed(w, s.Closed)
	writeVerdict(w, accountVerified, s.Verified, s.Difference)
}

func writeVerdict(w io.Writer, yes string, verified bool, difference string) {
	if !verified {
		yes = "NOT verified: " + clean(difference)
	}
	fmt.Fprintln(w, yes)
}

// ledgerLines are lines of a name, an amount and a text, aligned; of members, the amount is
// hours and credits.
type ledgerLines struct{ rows [][4]string }

func (l *ledgerLines) row(name, amount, text string) {
	l.rows = append(l.rows, [4]string{clean(name), "", clean(amount), text})
}

func (l *ledgerLines) hours(name, hours, amount, text string) {
	l.rows = append(l.rows, [4]string{clean(name), clean(hours), clean(amount), text})
}

func (l *ledgerLines) write(w io.Writer) {
	first, hours, amount := 8, 0, 0
	for _, r := range l.rows {
		first, hours, amount = max(first, displayWidth(r[0])), max(hours, displayWidth(r[1])), max(amount, displayWidth(r[2]))
	}
	first = min(first, 30)
	for _, r := range l.rows {
		line := pad(cut(r[0], first), first)
		if r[1] != "" {
			line += "  " + left(r[1], hours) + " gpu-h"
		}
		if r[2] != "" {
			line += "  " + left(r[2], amount)
		}
		fmt.Fprintln(w, line+"  "+r[3])
	}
}

// left pads s on its left to n cells.
func left(s string, n int) string {
	return strings.Repeat(" ", max(0, n-displayWidth(s))) + s
}

func sourceName(g v1.StatementGrant) string {
	switch {
	case g.ID == "":
		return "beyond all grants"
	case g.Part:
		return g.Source + " of " + g.Account
	}
	return g.Source
}

// fundsOf is what a grant had to spend in the period.
func fundsOf(g v1.StatementGrant) string {
	if g.Part {
		return ""
	}
	return sum(g.Opening, g.Given)
}

func (a *app) grantText(g v1.StatementGrant) string {
	if g.Part {
		return "spent " + clean(g.Spent)
	}
	out := "spent " + clean(g.Spent)
	if !isZero(g.Expired) {
		out += "  expired " + clean(g.Expired)
	}
	out += "  left " + clean(g.Left)
	if !isZero(g.Deposits) {
		out += " (" + clean(g.Deposits) + " set aside)"
	}
	switch {
	case g.Until != nil:
		out += ", at this pace until " + g.Until.In(a.env.Zone).Format(time.DateOnly)
	case g.State == "open" || g.State == "future":
		out += before(", ends ", a.lastDay(g.End))
	default:
		out += ", " + clean(g.State)
	}
	return out
}

func accountText(s *v1.Statement, name string) string {
	for _, a := range s.Accounts {
		if a.Account == name && !a.Below {
			return clean(a.GPUHours) + " gpu-h  " + clean(a.Charged)
		}
	}
	return ""
}

// modelsText says which models hours were of, where there are several.
func modelsText(models []v1.StatementModel) string {
	if len(models) < 2 {
		return ""
	}
	var parts []string
	for _, m := range models {
		parts = append(parts, orDash(clean(m.Model))+" "+clean(m.GPUHours)+" gpu-h "+clean(m.Charged))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func (a *app) writeMachine(w io.Writer, s *v1.MachineStatement) {
	l := &ledgerLines{}
	for _, n := range s.Nodes {
		l.row(n.Node, "", balanceText(n.Total, n.By))
		if len(n.Models) > 1 {
			for _, m := range n.Models {
				l.row("  "+m.Model, "", balanceText(m.Total, m.By))
			}
		}
	}
	if len(s.Nodes) != 1 {
		l.row("all", "", balanceText(s.Total, s.By))
	}
	l.write(w)
	a.writeClosed(w, s.Closed)
	writeVerdict(w, machineVerified, s.Verified, s.Difference)
}

// balanceText is "2880 gpu-h = users 2431 + idle 402", what people used first.
func balanceText(total string, by map[string]string) string {
	var parts []string
	for _, k := range payersOf(by) {
		parts = append(parts, clean(k)+" "+clean(by[k]))
	}
	if len(parts) == 0 {
		return clean(total) + " gpu-h"
	}
	return clean(total) + " gpu-h = " + strings.Join(parts, " + ")
}

// payersOf lists the parts of a balance in their usual order.
func payersOf(by map[string]string) []string {
	order := []string{"users", "reserved", "idle", "overhead", "foreign", "maintenance", "faults"}
	for _, k := range slices.Sorted(maps.Keys(by)) {
		if !slices.Contains(order, k) {
			order = append(order, k)
		}
	}
	return slices.DeleteFunc(order, func(k string) bool { _, ok := by[k]; return !ok })
}

// linesTable has a column for each thing that the lines tell apart.
func (a *app) linesTable(s *v1.Statement) *table {
	heads := map[string][]string{
		"member": {}, "token": {"~TOKEN"}, "day": {"DAY"}, "job": {"JOB"}, "step": {"STEP"}, "device": {"STEP", "DEVICE", "FROM", "TO", ">GPU"},
	}[s.By]
	t := newTable(slices.Concat([]string{"~GRANT", "~ACCOUNT", "~USER"}, heads, []string{"~MODEL", ">GPU-H", ">CREDITS"})...)
	for _, l := range s.Lines {
		cells := []string{l.Source, l.Account, l.User}
		switch s.By {
		case "day":
			cells = append(cells, l.Day)
		case "token":
			cells = append(cells, orDash(tokenText(l.Token)))
		case "job":
			cells = append(cells, l.Job)
		case "step":
			cells = append(cells, l.Step)
		case "device":
			cells = append(cells, l.Step, l.Device, a.clockOr(l.From, ""), a.clockOr(l.To, ""), string(l.GPU))
		}
		t.row(append(cells, l.Model, l.GPUHours, l.Credits)...)
	}
	return t
}
