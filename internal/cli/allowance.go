package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) allowanceCmd() *cobra.Command {
	return group("allowance", "Credits given to accounts period after period", `  croft allowance set nlp 500 --per month --carry-over 100
  croft allowance ls
  croft allowance rm nlp/month`, a.allowanceSetCmd(), a.allowanceLsCmd(), a.allowanceRmCmd())
}

func (a *app) allowanceSetCmd() *cobra.Command {
	var in v1.Allowance
	cmd := &cobra.Command{
		Use:   "set ACCOUNT CREDITS",
		Short: "Give an account credits in each week, month, quarter or year",
		Long: `Give an account credits in each week, month, quarter or year: one grant, which ends with the
period. Periods, and the days of --from and --until, are of UTC, as in statements. One that begins
within a period gives the full amount for what is left of it.

--carry-over has what a period leaves, up to an amount or a share of it, go into the next period's
grant; the rest ends with its grant.

The same account and name again replace what was set, for later periods: what was given stays.`,
		Example: `  croft allowance set nlp 500 --per month --carry-over 100
  croft allowance set faculty 20000 --per year --subtree --source budget --from 2027-01-01
  croft allowance set ml24 25 --per week --until 2027-03-31 --carry-over 50%`,
		Args:              needArgs(2, 2, "ACCOUNT and how many CREDITS"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.Per == "" {
				return usage("--per: in which periods? --per month, for example")
			}
			in.Account, in.Amount = args[0], args[1]
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.SetAllowance(cmd.Context(), in)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "allowance %s: %s per %s%s\n", clean(allowanceName(*got)), clean(got.Amount), clean(got.Per), before(", carries over ", clean(got.CarryOver)))
				fmt.Fprintf(w, "last grant %s, gives again %s\n", orDash(clean(got.Grant)), orDash(allowanceNext(*got)))
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&in.Per, "per", "", "week, month, quarter or year")
	fs.StringVar(&in.Name, "name", "", "what it is called, by default the period")
	fs.StringVar(&in.From, "from", "", "first `DAY`, 2027-01-01; by default it begins now")
	fs.StringVar(&in.Until, "until", "", "last `DAY`: no period that begins later is granted")
	fs.StringVar(&in.CarryOver, "carry-over", "", "credits, or a share such as 50%, of what a period leaves for the next")
	fs.StringVar(&in.Source, "source", "", "where the money comes from, by default allowance and the name")
	fs.BoolVar(&in.Subtree, "subtree", false, "accounts below may spend it too")
	a.completeFlag(cmd, "per", fixed("week", "month", "quarter", "year"))
	return cmd
}

func allowanceName(x v1.Allowance) string { return x.Account + "/" + x.Name }

// allowanceNext is the day on which an allowance gives again.
func allowanceNext(x v1.Allowance) string {
	if x.Next == nil {
		return ""
	}
	return x.Next.UTC().Format(time.DateOnly)
}

func (a *app) allowanceLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "ls [ACCOUNT]",
		Short: "List allowances with the grant that each gave last",
		Example: `  croft allowance ls
  croft allowance ls nlp`,
		Args:              needArgs(0, 1, ""),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Allowances(cmd.Context(), strings.Join(args, "")))
			if err != nil {
				return err
			}
			t := newTable("~ALLOWANCE", ">AMOUNT", "PER", ">CARRY-OVER", "~SOURCE", "FROM", "UNTIL", "GRANT", "NEXT")
			for _, x := range list {
				t.row(allowanceName(x), x.Amount, x.Per, x.CarryOver, x.Source, x.From, x.Until, x.Grant, allowanceNext(x))
			}
			return printList(a, list, "no allowances: croft allowance set ACCOUNT CREDITS --per month", t)
		},
	}
}

func (a *app) allowanceRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "rm ACCOUNT/NAME",
		Short:   "End an allowance; what it gave stays",
		Example: "  croft allowance rm nlp/month",
		Args:    needArgs(1, 1, "ACCOUNT/NAME, as croft allowance ls has it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			account, name, ok := strings.Cut(args[0], "/")
			if !ok || account == "" || name == "" {
				return usage("%s: want ACCOUNT/NAME, nlp/month for example", clean(args[0]))
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveAllowance(cmd.Context(), account, name); err != nil {
				return err
			}
			return a.done("allowance %s gives nothing more", args[0])
		},
	}
}
