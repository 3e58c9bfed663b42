package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) accountCmd() *cobra.Command {
	return group("account", "Accounts: who pays, and who may spend", `  croft account ls
  croft account add nlp --from-group nlp-lab
  croft account member add nlp ada --role manager`,
		a.accountAddCmd(), a.accountLsCmd(), a.accountShowCmd(), a.accountSetCmd(), a.accountImportCmd(), a.accountMoveCmd(), a.accountRmCmd(),
		group("member", "Members of an account", `  croft account member add nlp ada
  croft account member rm nlp ada`, a.memberAddCmd(), a.memberRmCmd()),
	)
}

func (a *app) accountAddCmd() *cobra.Command {
	var acc v1.Account
	var ends string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make an account",
		Long: `Make an account. Billing is showback unless it is set: jobs are metered and posted,
and never refused for want of credits. enforce refuses them, off doesn't count. An
account that a manager makes is billed as the account above it. At its end an account's
memberships and grants end too, and so do the accounts below it; what runs then goes on
to its own limit.`,
		Example: `  croft account add nlp --from-group nlp-lab
  croft account add course --parent faculty --billing enforce --ends 2027-03-31`,
		Args: needArgs(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			acc.Name = args[0]
			if acc.Ends, err = a.whenFlag(ends, endOfDay); err != nil {
				return err
			}
			got, err := c.AddAccount(cmd.Context(), acc)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { a.writeAccountLine(w, got) })
		},
	}
	cmd.Flags().StringVar(&acc.Parent, "parent", "", "account above it")
	cmd.Flags().StringVar(&acc.Billing, "billing", "", "off, showback or enforce")
	cmd.Flags().StringVar(&acc.OutOfCredit, "out-of-credit", "", "stop or drain what runs once credits are used up, or overdraft")
	a.completeFlag(cmd, "out-of-credit", fixed("stop", "drain", "overdraft"))
	cmd.Flags().StringVar(&acc.Overdraft, "overdraft", "", "credits by which jobs may go beyond the grants; later ones repay them")
	cmd.Flags().StringVar(&acc.Group, "from-group", "", "Unix group whose members are the account's")
	cmd.Flags().StringVar(&ends, "ends", "", "when it ends: +120d or a date, which is in it; by default never")
	cmd.Flags().Int64Var(&acc.Weight, "weight", 0, "of its share, against accounts and members beside it (default 1)")
	a.completeFlag(cmd, "parent", a.accountNames)
	a.completeFlag(cmd, "billing", fixed("off", "showback", "enforce"))
	return cmd
}

// outOfCredit says of an account what isn't usual.
func outOfCredit(acc *v1.Account) string {
	switch acc.OutOfCredit {
	case "drain":
		return "drain: what runs goes on to its time limit, nothing new starts"
	case "overdraft":
		return "overdraft: jobs may use up to " + acc.Overdraft + " more, which the next credits repay"
	}
	return ""
}

// overdrawn says how much of an overdraft is used, if any is.
func overdrawn(m *v1.AccountMoney) string {
	if m == nil || m.Overdrawn == "" {
		return ""
	}
	return m.Overdrawn + " of the overdraft are used; " + m.Owed + " are owed"
}

// writeAccountLine is "nlp: 23 members, follows the group nlp-lab".
func (a *app) writeAccountLine(w io.Writer, acc *v1.Account) {
	line := clean(acc.Name) + ": " + plural(len(acc.Members), "member")
	if acc.Group != "" {
		line += ", follows the group " + clean(acc.Group)
	}
	if acc.Billing != "" {
		line += ", billing " + clean(acc.Billing)
	}
	switch acc.OutOfCredit {
	case "drain":
		line += ", drains when its credits are used up"
	case "overdraft":
		line += ", overdraft of " + acc.Overdraft
	}
	if acc.Ends != nil {
		line += ", until " + a.until(acc.Ends)
	}
	if acc.Closed {
		line += ", closed"
	}
	fmt.Fprintln(w, line)
}

func (a *app) accountLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List accounts",
		Example: "  croft account ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Accounts(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("~NAME", "~PARENT", "BILLING", "~GROUP", ">AVAILABLE", ">DEPOSITS", ">SPENT", "STATE")
			for _, x := range list {
				m := x.Balance
				if m == nil {
					m = &v1.AccountMoney{}
				}
				t.row(x.Name, x.Parent, x.Billing, x.Group, m.Available, m.Deposits, m.Spent, a.standing(x))
			}
			return printList(a, list, "no accounts: croft account add NAME", t)
		},
	}
}

// standing is an account's state in a word.
func (a *app) standing(acc v1.Account) string {
	switch {
	case acc.Retired != nil:
		return "removed"
	case acc.Closed:
		return "closed"
	case acc.Ends != nil && !a.env.Now().Before(*acc.Ends):
		return "ended"
	}
	return "open"
}

func (a *app) accountShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Show an account with its members, credits and limits",
		Example:           "  croft account show nlp",
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			acc, err := c.Account(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(acc, func(w io.Writer) { a.writeAccount(w, acc) })
		},
	}
}

func (a *app) writeAccount(w io.Writer, acc *v1.Account) {
	money := ""
	if m := acc.Balance; m != nil {
		money = fmt.Sprintf("available %s, in deposits %s, spent %s", m.Available, m.Deposits, m.Spent)
	}
	state := a.standing(*acc)
	if state == "open" {
		state = ""
	}
	weight := ""
	if acc.Weight > 1 {
		weight = strconv.FormatInt(acc.Weight, 10)
	}
	block(w, "account", acc.Name, "parent", acc.Parent, "state", state, "ends", a.until(acc.Ends), "billing", acc.Billing, "out of credit", outOfCredit(acc), "group", acc.Group, "weight", weight, "credits", money, "overdrawn", overdrawn(acc.Balance))
	if len(acc.Grants) > 0 {
		fmt.Fprintln(w)
		a.grantTable(acc.Grants).write(w, a.width(), a.paintState)
		a.grantNotes(w, acc.Grants)
	}
	if len(acc.Usage) > 0 {
		fmt.Fprintln(w)
		limitTable(acc.Usage).write(w, a.width(), a.paintState)
	}
	if len(acc.Members) > 0 {
		t := newTable("~MEMBER", "ROLE", "BY", ">WEIGHT", "ENDS")
		for _, m := range acc.Members {
			by := ""
			if m.Group {
				by = "group"
			}
			t.row(m.User, m.Role, by, strconv.FormatInt(max(m.Weight, 1), 10), a.until(m.Ends))
		}
		fmt.Fprintln(w)
		t.write(w, a.width(), a.paintState)
	}
}

func (a *app) accountSetCmd() *cobra.Command {
	var billing, outOfCredit, overdraft, unixGroup, ends string
	var closed bool
	var weight int64
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change an account",
		Example: `  croft account set nlp --billing enforce
  croft account set nlp --out-of-credit overdraft --overdraft 50
  croft account set course --ends +30d`,
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			var p v1.AccountPatch
			given := cmd.Flags().Changed
			if given("billing") {
				p.Billing = &billing
			}
			if given("out-of-credit") {
				p.OutOfCredit = &outOfCredit
			}
			if given("overdraft") {
				p.Overdraft = &overdraft
			}
			if given("from-group") {
				p.Group = &unixGroup
			}
			if given("closed") {
				p.Closed = &closed
			}
			var err error
			if p.Ends, err = a.endFlag(ends); err != nil {
				return err
			}
			if given("weight") {
				p.Weight = &weight
			}
			if p == (v1.AccountPatch{}) {
				return usage("change what? --billing, --out-of-credit, --overdraft, --from-group, --ends, --weight or --closed")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			acc, err := c.SetAccount(cmd.Context(), args[0], p)
			if err != nil {
				return err
			}
			return a.print(acc, func(w io.Writer) { a.writeAccountLine(w, acc) })
		},
	}
	cmd.Flags().StringVar(&billing, "billing", "", "off, showback or enforce")
	cmd.Flags().StringVar(&outOfCredit, "out-of-credit", "", "stop or drain what runs once credits are used up, or overdraft")
	a.completeFlag(cmd, "out-of-credit", fixed("stop", "drain", "overdraft"))
	cmd.Flags().StringVar(&overdraft, "overdraft", "", "credits by which jobs may go beyond the grants; later ones repay them")
	cmd.Flags().StringVar(&unixGroup, "from-group", "", "Unix group to follow; \"\" follows none")
	cmd.Flags().StringVar(&ends, "ends", "", "when it ends: +120d or a date, which is in it, or never")
	cmd.Flags().Int64Var(&weight, "weight", 1, "of its share, against accounts and members beside it")
	cmd.Flags().BoolVar(&closed, "closed", false, "accept no more jobs; --closed=false opens it again")
	a.completeFlag(cmd, "billing", fixed("off", "showback", "enforce"))
	return cmd
}

func (a *app) memberAddCmd() *cobra.Command {
	req := v1.MemberRequest{Role: "member"}
	var ends string
	var weight int64
	cmd := &cobra.Command{
		Use:   "add ACCOUNT USER",
		Short: "Make a user a member, or change a membership",
		Example: `  croft account member add nlp ada
  croft account member add nlp ada --weight 2
  croft account member add nlp guest --ends +14d`,
		Args:              needArgs(2, 2, "ACCOUNT and USER"),
		ValidArgsFunction: a.accountThenUser,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if req.Ends, err = a.whenFlag(ends, endOfDay); err != nil {
				return err
			}
			if given := cmd.Flags().Changed; given("weight") {
				if req.Weight = &weight; !given("role") {
					req.Role = "" // as it is
				}
			}
			m, err := c.SetMember(cmd.Context(), args[0], args[1], req)
			if err != nil {
				return err
			}
			return a.print(m, func(w io.Writer) {
				weighs := ""
				if m.Weight > 1 {
					weighs = ", weight " + strconv.FormatInt(m.Weight, 10)
				}
				fmt.Fprintf(w, "%s: %s is %s%s%s\n", clean(args[0]), clean(m.User), clean(m.Role), before(" until ", a.until(m.Ends)), weighs)
			})
		},
	}
	cmd.Flags().StringVar(&req.Role, "role", req.Role, "viewer, member, manager or owner")
	cmd.Flags().Int64Var(&weight, "weight", 1, "of the user's share, against members and accounts beside")
	cmd.Flags().StringVar(&ends, "ends", "", "when it ends: +14d or a date, which is in it; by default with the account")
	a.completeFlag(cmd, "role", fixed("viewer", "member", "manager", "owner"))
	return cmd
}

func (a *app) memberRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "rm ACCOUNT USER",
		Short:             "End a membership; the user's jobs go on",
		Example:           "  croft account member rm nlp ada",
		Args:              needArgs(2, 2, "ACCOUNT and USER"),
		ValidArgsFunction: a.accountThenUser,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveMember(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			return a.done("%s: %s is no member any more", args[0], args[1])
		},
	}
}

// done says that something without an answer of its own was done; scripts take
// it from the exit code.
func (a *app) done(format string, names ...string) error {
	if a.output != "table" {
		return nil
	}
	args := make([]any, len(names))
	for i, n := range names {
		args[i] = clean(n)
	}
	_, err := fmt.Fprintf(a.env.Stdout, format+"\n", args...)
	return err
}
