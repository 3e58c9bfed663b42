package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) grantCmd() *cobra.Command {
	return group("grant", "Credits given to accounts", `  croft grant add nlp 500 --source DFG-123 --until 2027-03-31
  croft grant ls`, a.grantAddCmd(), a.grantTransferCmd(), a.grantLsCmd())
}

func (a *app) grantAddCmd() *cobra.Command {
	var g v1.Grant
	var start, until string
	cmd := &cobra.Command{
		Use:   "add ACCOUNT CREDITS",
		Short: "Give credits to an account",
		Long:  "Give credits to an account. The day of --until is the last on which they can be spent.",
		Example: `  croft grant add nlp 500 --source DFG-123 --until 2027-03-31
  croft grant add faculty 10000 --source budget-2027 --start 2027-01-01 --subtree`,
		Args:              needArgs(2, 2, "ACCOUNT and how many CREDITS"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if g.Start, err = a.whenFlag(start, startOfDay); err != nil {
				return err
			}
			if g.End, err = a.whenFlag(until, endOfDay); err != nil {
				return err
			}
			if g.Source == "" {
				return usage("--source: where do the credits come from? --source DFG-123, for example")
			}
			g.Account, g.Amount = args[0], args[1]
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.AddGrant(cmd.Context(), g)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "grant %s: %s gets %s from %s%s\n", clean(got.ID), clean(got.Account), clean(got.Amount), clean(got.Source), before(" until ", a.lastDay(got.End)))
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&g.Source, "source", "", "where the money comes from")
	fs.StringVar(&start, "start", "", "first day, by default now")
	fs.StringVar(&until, "until", "", "last day, by default none")
	fs.BoolVar(&g.Subtree, "subtree", false, "accounts below may spend it too")
	return cmd
}

func (a *app) grantTransferCmd() *cobra.Command {
	var t v1.GrantTransfer
	cmd := &cobra.Command{
		Use:   "transfer FROM TO CREDITS",
		Short: "Give credits of one account to another",
		Long: `Give credits of one account to another, for whoever manages the first. They come out of its own grants,
the one that ends first first, and keep their source and their end. croft request transfer asks for
credits of an account that you don't manage.`,
		Example: `  croft grant transfer vision nlp 50
  croft grant transfer vision nlp 50 --grant 12 --subtree`,
		Args:              needArgs(3, 3, "FROM and TO, two accounts, and how many CREDITS"),
		ValidArgsFunction: a.twoAccounts,
		RunE: func(cmd *cobra.Command, args []string) error {
			t.From, t.To, t.Amount = args[0], args[1], args[2]
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.TransferGrant(cmd.Context(), t)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				for _, g := range got.Items {
					fmt.Fprintf(w, "grant %s: %s gets %s from %s%s\n", clean(g.ID), clean(g.Account), clean(g.Amount), clean(g.Source), before(" until ", a.lastDay(g.End)))
				}
			})
		},
	}
	cmd.Flags().StringVar(&t.Grant, "grant", "", "out of this grant alone; by default the one that ends first pays first")
	cmd.Flags().BoolVar(&t.Subtree, "subtree", false, "accounts below TO may spend it too")
	return cmd
}

// grantNotes says which grants are nearly used up, how long open ones last, and what went
// over into others.
func (a *app) grantNotes(w io.Writer, list []v1.Grant) {
	for _, g := range list {
		var notes []string
		if g.Warning != "" {
			notes = append(notes, fmt.Sprintf("%d%% used, %s", g.Used, clean(g.Warning)))
		}
		if g.Lasts != nil {
			notes = append(notes, "lasts until "+g.Lasts.In(a.env.Zone).Format(time.DateOnly)+" at this pace")
		}
		if g.Carried != "" {
			notes = append(notes, clean(g.Carried)+" were carried over")
		}
		if g.Repaid != "" {
			notes = append(notes, clean(g.Repaid)+" repaid the overdraft")
		}
		if g.Transferred != "" {
			notes = append(notes, clean(g.Transferred)+" went to other accounts")
		}
		if len(notes) > 0 {
			fmt.Fprintf(w, "grant %s, %s of %s: %s\n", clean(g.ID), clean(g.Source), clean(g.Account), strings.Join(notes, "; "))
		}
	}
}

// before puts a word before text that may be empty.
func before(word, text string) string {
	if text == "" {
		return ""
	}
	return word + text
}

func (a *app) grantLsCmd() *cobra.Command {
	var account string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List grants with what is left of them",
		Example: `  croft grant ls
  croft grant ls -A nlp`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Grants(cmd.Context(), account))
			if err != nil {
				return err
			}
			return a.print(v1.Page[v1.Grant]{Items: list}, func(w io.Writer) {
				a.printTable(a.grantTable(list), "no grants: croft grant add ACCOUNT CREDITS --source SOURCE")
				a.grantNotes(w, list)
			})
		},
	}
	cmd.Flags().StringVarP(&account, "account", "A", "", "only of this account")
	a.completeFlag(cmd, "account", a.accountNames)
	return cmd
}

func (a *app) grantTable(list []v1.Grant) *table {
	t := newTable("ID", "~ACCOUNT", "~SOURCE", ">AMOUNT", ">AVAILABLE", ">DEPOSITS", ">SPENT", ">USED", "UNTIL", "STATE")
	for _, g := range list {
		t.row(g.ID, g.Account, g.Source, g.Amount, g.Available, g.Deposits, g.Spent, fmt.Sprint(g.Used, "%"), a.lastDay(g.End), g.State)
	}
	return t
}

func (a *app) priceCmd() *cobra.Command {
	return group("price", "The price book", `  croft price set --gpu '*=1' --cpu 0.01 --mem 0.001
  croft price ls`, a.priceSetCmd(), a.priceLsCmd())
}

func (a *app) priceSetCmd() *cobra.Command {
	var p v1.PriceVersion
	var gpu []string
	var from string
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Publish a version of the price book",
		Long: `Publish a version of the price book: credits per hour of a core, a GiB and a
device. Running attempts keep the versions that were published when they started.`,
		Example: `  croft price set --gpu '*=1' --cpu 0.01 --mem 0.001
  croft price set -p gpu --gpu A100-80GB=1.5 --gpu '*=1' --from 2027-01-01`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.From, err = a.whenFlag(from, startOfDay); err != nil {
				return err
			}
			if p.GPU, err = parseRates(gpu); err != nil {
				return err
			}
			if p.CPU == "" && p.Mem == "" && len(p.GPU) == 0 {
				return usage("price of what? --gpu, --cpu or --mem")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.SetPrice(cmd.Context(), p)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "price %s of %s from %s: gpu %s, cpu %s, mem %s\n", clean(got.ID), partition(got.Partition),
					a.clockOr(got.From, "now"), orDash(rates(got.GPU)), orDash(clean(got.CPU)), orDash(clean(got.Mem)))
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&p.Partition, "partition", "p", "", "only of this partition")
	fs.StringVar(&p.CPU, "cpu", "", "credits per core-hour")
	fs.StringVar(&p.Mem, "mem", "", "credits per GiB-hour")
	fs.StringArrayVar(&gpu, "gpu", nil, "credits per device-hour as `MODEL=RATE`, * is any other model (repeatable)")
	fs.StringVar(&from, "from", "", "from when on, by default now")
	a.completeFlag(cmd, "partition", a.partitionNames)
	return cmd
}

// parseRates reads MODEL=RATE; a rate alone is every model's.
func parseRates(list []string) (map[string]string, error) {
	m := map[string]string{}
	for _, s := range list {
		model, rate, ok := strings.Cut(s, "=")
		if !ok {
			model, rate = "*", s
		}
		if _, twice := m[model]; twice || model == "" || rate == "" {
			return nil, usage("--gpu %s: want MODEL=RATE, each model once", s)
		}
		m[model] = rate
	}
	return m, nil
}

// rates is "A100 1.5, * 1".
func rates(gpu map[string]string) string {
	var parts []string
	for _, model := range slices.Sorted(maps.Keys(gpu)) {
		parts = append(parts, clean(model)+" "+clean(gpu[model]))
	}
	return strings.Join(parts, ", ")
}

func partition(name string) string {
	if name == "" {
		return "every partition"
	}
	return clean(name)
}

func (a *app) priceLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the versions of the price book",
		Example: "  croft price ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Prices(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("ID", "~PARTITION", "FROM", "~GPU", ">CPU", ">MEM", "~BY")
			for _, p := range list {
				t.row(p.ID, partition(p.Partition), a.clockOr(p.From, ""), rates(p.GPU), p.CPU, p.Mem, p.By)
			}
			return printList(a, list, "no prices: croft price set --gpu '*=1' --cpu 0.01 --mem 0.001", t)
		},
	}
}

func (a *app) ledgerCmd() *cobra.Command {
	return group("ledger", "The ledger: verify it, see its postings", `  croft ledger verify
  croft ledger show --job 118`, a.ledgerVerifyCmd(), a.ledgerShowCmd())
}

func (a *app) ledgerVerifyCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Check the ledger against jobs, devices and itself",
		Long: `Check the ledger: balances against postings, deposits against jobs, charges against
metered device-time. Ends with exit code 125 when something differs.`,
		Example: "  croft ledger verify",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			v, err := c.VerifyLedger(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.print(v, func(w io.Writer) { writeVerification(w, v) }); err != nil {
				return err
			}
			if !v.OK {
				return exitStatus(codes.ExitInternal)
			}
			return nil
		},
	}
}

func writeVerification(w io.Writer, v *v1.Verification) {
	for _, c := range v.Checks {
		state := "ok"
		if !c.OK {
			state = "DIFFERS"
		}
		fmt.Fprintf(w, "%-7s  %s, %s checked\n", state, clean(c.Name), grouped(c.Checked))
		if c.First != "" {
			fmt.Fprintf(w, "         %s\n", clean(c.First))
		}
	}
	result := "verified: zero drift"
	if !v.OK {
		result = "NOT verified"
	}
	fmt.Fprintf(w, "%s, %s postings up to %s\n", result, grouped(v.Transfers), grouped(v.Seq))
}

func (a *app) ledgerShowCmd() *cobra.Command {
	var q v1.TransferQuery
	cmd := &cobra.Command{
		Use:   "show",
		Short: "List postings",
		Example: `  croft ledger show --job 118
  croft ledger show --ledger spent:1 -n 20`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list := []v1.Transfer{}
			for x, err := range c.Transfers(cmd.Context(), q) {
				if err != nil {
					return err
				}
				list = append(list, x)
				if q.Limit > 0 && len(list) == q.Limit {
					break
				}
			}
			t := newTable("ID", "AT", "~FROM", "~TO", ">AMOUNT", "KIND", "JOB", "~BY")
			for _, x := range list {
				t.row(x.ID, a.moment(x.At), x.From, x.To, x.Amount, x.Kind, x.Job, byText(x.User, x.Token))
			}
			return printList(a, list, "no postings", t)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&q.Ledger, "ledger", "", "only from or to this ledger account")
	fs.StringVarP(&q.Job, "job", "j", "", "only of this job")
	fs.IntVarP(&q.Limit, "limit", "n", 100, "at most this many, 0 is all")
	a.completeFlag(cmd, "job", a.jobIDs("all"))
	return cmd
}
