package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) accountCmd() *cobra.Command {
	return group("account", "Accounts: who pays, and who may spend", `  croft account ls
  croft account add nlp --from-group nlp-lab
  croft account member add nlp ada --role manager`,
		a.accountAddCmd(), a.accountLsCmd(), a.accountShowCmd(), a.accountSetCmd(),
		group("member", "Members of an account", `  croft account member add nlp ada
  croft account member rm nlp ada`, a.memberAddCmd(), a.memberRmCmd()),
	)
}

func (a *app) accountAddCmd() *cobra.Command {
	var acc v1.Account
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make an account",
		Long: `Make an account. Billing is showback unless it is set: jobs are metered and posted,
and never refused for want of credits. enforce refuses them, off doesn't count. An
account that a manager makes is billed as the account above it.`,
		Example: `  croft account add nlp --from-group nlp-lab
  croft account add course --parent faculty --billing enforce`,
		Args: needArgs(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			acc.Name = args[0]
			got, err := c.AddAccount(cmd.Context(), acc)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { writeAccountLine(w, got) })
		},
	}
	cmd.Flags().StringVar(&acc.Parent, "parent", "", "account above it")
	cmd.Flags().StringVar(&acc.Billing, "billing", "", "off, showback or enforce")
	cmd.Flags().StringVar(&acc.Group, "from-group", "", "Unix group whose members are the account's")
	a.completeFlag(cmd, "parent", a.accountNames)
	a.completeFlag(cmd, "billing", fixed("off", "showback", "enforce"))
	return cmd
}

// writeAccountLine is "nlp: 23 members, follows the group nlp-lab".
func writeAccountLine(w io.Writer, acc *v1.Account) {
	line := clean(acc.Name) + ": " + plural(len(acc.Members), "member")
	if acc.Group != "" {
		line += ", follows the group " + clean(acc.Group)
	}
	if acc.Billing != "" {
		line += ", billing " + clean(acc.Billing)
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
				t.row(x.Name, x.Parent, x.Billing, x.Group, m.Available, m.Deposits, m.Spent, openOrClosed(x.Closed))
			}
			return printList(a, list, "no accounts: croft account add NAME", t)
		},
	}
}

func openOrClosed(closed bool) string {
	if closed {
		return "closed"
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
	closed := ""
	if acc.Closed {
		closed = "closed"
	}
	block(w, "account", acc.Name, "parent", acc.Parent, "state", closed, "billing", acc.Billing, "group", acc.Group, "credits", money)
	if len(acc.Grants) > 0 {
		fmt.Fprintln(w)
		a.grantTable(acc.Grants).write(w, a.width(), a.paintState)
	}
	if len(acc.Usage) > 0 {
		fmt.Fprintln(w)
		limitTable(acc.Usage).write(w, a.width(), a.paintState)
	}
	if len(acc.Members) > 0 {
		t := newTable("~MEMBER", "ROLE", "BY")
		for _, m := range acc.Members {
			by := ""
			if m.Group {
				by = "group"
			}
			t.row(m.User, m.Role, by)
		}
		fmt.Fprintln(w)
		t.write(w, a.width(), a.paintState)
	}
}

func (a *app) accountSetCmd() *cobra.Command {
	var billing, unixGroup string
	var closed bool
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change an account",
		Example: `  croft account set nlp --billing enforce
  croft account set course --closed`,
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			var p v1.AccountPatch
			given := cmd.Flags().Changed
			if given("billing") {
				p.Billing = &billing
			}
			if given("from-group") {
				p.Group = &unixGroup
			}
			if given("closed") {
				p.Closed = &closed
			}
			if p == (v1.AccountPatch{}) {
				return usage("change what? --billing, --from-group or --closed")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			acc, err := c.SetAccount(cmd.Context(), args[0], p)
			if err != nil {
				return err
			}
			return a.print(acc, func(w io.Writer) { writeAccountLine(w, acc) })
		},
	}
	cmd.Flags().StringVar(&billing, "billing", "", "off, showback or enforce")
	cmd.Flags().StringVar(&unixGroup, "from-group", "", "Unix group to follow; \"\" follows none")
	cmd.Flags().BoolVar(&closed, "closed", false, "accept no more jobs; --closed=false opens it again")
	a.completeFlag(cmd, "billing", fixed("off", "showback", "enforce"))
	return cmd
}

func (a *app) memberAddCmd() *cobra.Command {
	role := "member"
	cmd := &cobra.Command{
		Use:   "add ACCOUNT USER",
		Short: "Make a user a member, or change a member's role",
		Example: `  croft account member add nlp ada
  croft account member add nlp ada --role manager`,
		Args:              needArgs(2, 2, "ACCOUNT and USER"),
		ValidArgsFunction: a.accountThenUser,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			m, err := c.SetMember(cmd.Context(), args[0], args[1], role)
			if err != nil {
				return err
			}
			return a.print(m, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s is %s\n", clean(args[0]), clean(m.User), clean(m.Role))
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", role, "viewer, member, manager or owner")
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
