package cli

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) userCmd() *cobra.Command {
	return group("user", "Users and their tokens", `  croft user ls
  croft user add ada
  croft user token create laptop`,
		a.userAddCmd(), a.userLsCmd(), a.userShowCmd(), a.userSetCmd(), a.userRetireCmd(),
		group("token", "Personal tokens", `  croft user token create laptop
  croft user token ls`, a.tokenCreateCmd(), a.tokenLsCmd(), a.tokenShowCmd(), a.tokenRevokeCmd()),
	)
}

func (a *app) userAddCmd() *cobra.Command {
	var u v1.User
	var uid int64
	var ends string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a user",
		Long:  "Make a user. A name that this machine knows gets its uid, unless --uid is given.",
		Example: `  croft user add ada
  croft user add ops --role operator
  croft user add guest --ends +14d`,
		Args: needArgs(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			u.Name = args[0]
			if cmd.Flags().Changed("uid") {
				u.UID = &uid
			}
			if u.Ends, err = a.whenFlag(ends, endOfDay); err != nil {
				return err
			}
			got, err := c.AddUser(cmd.Context(), u)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { a.writeUser(w, got) })
		},
	}
	cmd.Flags().StringVar(&u.Role, "role", "", "user, operator, admin or auditor")
	cmd.Flags().Int64Var(&uid, "uid", 0, "Unix uid on the machine")
	cmd.Flags().StringVar(&ends, "ends", "", "when the user ends: +14d or a date, which is in it; by default never")
	a.completeFlag(cmd, "role", fixed("user", "operator", "admin", "auditor"))
	return cmd
}

func (a *app) writeUser(w io.Writer, u *v1.User) {
	block(w, "user", u.Name, "role", u.Role, "uid", uidText(u.UID), "state", a.barred(*u), "ends", a.until(u.Ends), "warning", u.Warning, "accounts", memberships(u.Accounts))
}

// barred is what keeps a user from everything, in a word.
func (a *app) barred(u v1.User) string {
	switch {
	case u.Retired != nil:
		return "retired"
	case u.Blocked:
		return "blocked"
	case u.Ends != nil && !a.env.Now().Before(*u.Ends):
		return "ended"
	}
	return ""
}

func uidText(uid *int64) string {
	if uid == nil {
		return ""
	}
	return strconv.FormatInt(*uid, 10)
}

func memberships(list []v1.Membership) string {
	parts := make([]string, len(list))
	for i, m := range list {
		parts[i] = m.Account + " (" + m.Role + ")"
	}
	return strings.Join(parts, ", ")
}

func (a *app) userLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List users",
		Example: "  croft user ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Users(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("~NAME", "ROLE", ">UID", "~ACCOUNTS", "~NOTE")
			for _, u := range list {
				note := strings.Trim(a.barred(u)+"; "+u.Warning, "; ")
				t.row(u.Name, u.Role, uidText(u.UID), memberships(u.Accounts), note)
			}
			return printList(a, list, "no users: croft user add NAME", t)
		},
	}
}

func (a *app) userShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show [NAME]",
		Short: "Show a user, by default yourself",
		Example: `  croft user show
  croft user show ada`,
		Args:              needArgs(0, 1, "NAME"),
		ValidArgsFunction: firstArg(a.userNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			name, err := orMe(cmd.Context(), c, strings.Join(args, ""))
			if err != nil {
				return err
			}
			u, err := c.User(cmd.Context(), name)
			if err != nil {
				return err
			}
			return a.print(u, func(w io.Writer) { a.writeUser(w, u) })
		},
	}
}

// clientFor is a client, and the name of the user whom something is about: the caller, for none.
func (a *app) clientFor(ctx context.Context, user string) (c *v1.Client, name string, err error) {
	if c, err = a.client(); err == nil {
		name, err = orMe(ctx, c, user)
	}
	return c, name, err
}

// orMe is name, or the caller's own for none.
func orMe(ctx context.Context, c *v1.Client, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	me, err := c.Me(ctx)
	if err != nil {
		return "", err
	}
	return me.User, nil
}

func (a *app) userSetCmd() *cobra.Command {
	var role, ends string
	var blocked, rebind bool
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a user",
		Example: `  croft user set ada --role operator
  croft user set ada --blocked
  croft user set ada --rebind`,
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.userNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := v1.UserPatch{Rebind: rebind}
			if cmd.Flags().Changed("role") {
				p.Role = &role
			}
			if cmd.Flags().Changed("blocked") {
				p.Blocked = &blocked
			}
			var err error
			if p.Ends, err = a.endFlag(ends); err != nil {
				return err
			}
			if p == (v1.UserPatch{}) {
				return usage("change what? --role, --blocked, --ends or --rebind")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			u, err := c.SetUser(cmd.Context(), args[0], p)
			if err != nil {
				return err
			}
			return a.print(u, func(w io.Writer) { a.writeUser(w, u) })
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "user, operator, admin or auditor")
	cmd.Flags().BoolVar(&blocked, "blocked", false, "accept nothing from the user; --blocked=false lets them in again")
	cmd.Flags().StringVar(&ends, "ends", "", "when the user ends: +14d or a date, which is in it, or never")
	cmd.Flags().BoolVar(&rebind, "rebind", false, "bind the name to the uid that it has on the machine now")
	a.completeFlag(cmd, "role", fixed("user", "operator", "admin", "auditor"))
	return cmd
}
