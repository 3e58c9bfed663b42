package cli

import (
	"fmt"
	"io"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"github.com/spf13/cobra"
)

func (a *app) tokenCreateCmd() *cobra.Command {
	var user, expires, devices string
	var req v1.TokenRequest
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and print its secret, once",
		Long: `Make a token for the HTTP address of the server. Its secret goes to standard
output and is never shown again. A token may what its user may, unless it is narrowed:
to scopes (read; submit, which is one's own jobs; manage, what managers and operators
do, reading included; admin), to an account with those below it, or both. A narrowed one makes no tokens.

Caps bound what all jobs that are submitted by it come to together: credits spent and set aside, and
devices held at once. A token with caps reads, submits, and acts only in jobs of its own; it runs nothing
on the machine itself. Its jobs go on when it ends, and its caps with them.`,
		Example: `  croft user token create laptop
  croft user token create ci --user robot --expires +90d > token
  croft user token create agent --account nlp --spend 50 --devices 2 --expires +30d`,
		Args: needArgs(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			until, err := a.whenFlag(expires, endOfDay)
			if err != nil {
				return err
			}
			req.Name, req.Expires, req.Devices = args[0], until, v1.Quantity(devices)
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			tok, err := c.AddToken(cmd.Context(), name, req)
			if err != nil {
				return err
			}
			return a.print(tok, func(w io.Writer) {
				fmt.Fprintf(a.env.Stderr, "token %s of %s; it is shown only now: CROFT_TOKEN=…, or in ~/.config/croft/token\n", clean(tok.ID), clean(tok.User))
				fmt.Fprintln(w, clean(tok.Secret))
			})
		},
	}
	a.tokenUserFlag(cmd, &user)
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: +90d or a date; by default never")
	cmd.Flags().StringSliceVar(&req.Scopes, "scope", nil, "narrow it to read, submit, manage or admin, separated by commas")
	cmd.Flags().StringVarP(&req.Account, "account", "A", "", "narrow it to this account and those below it")
	cmd.Flags().StringVar(&req.Spend, "spend", "", "credits that its jobs may spend together, what is set aside included")
	cmd.Flags().StringVar(&req.SpendPer, "spend-per", "", "of what is spent: day, week, month or total; by default total")
	cmd.Flags().StringVar(&devices, "devices", "", "devices that its jobs may hold at once; 0 for none")
	cmd.Flags().StringVar(&req.AskAbove, "ask-above", "", "a job that may cost more `CREDITS` waits until you approve it")
	a.completeFlag(cmd, "spend-per", fixed("day", "week", "month", "total"))
	a.completeFlag(cmd, "scope", fixed("read", "submit", "manage", "admin"))
	a.completeFlag(cmd, "account", a.accountNames)
	return cmd
}

func (a *app) tokenUserFlag(cmd *cobra.Command, user *string) {
	cmd.Flags().StringVarP(user, "user", "u", "", "whose token, by default yours")
	a.completeFlag(cmd, "user", a.userNames)
}

func (a *app) tokenLsCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List tokens",
		Example: "  croft user token ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Tokens(cmd.Context(), name))
			if err != nil {
				return err
			}
			t := newTable("ID", "~NAME", "~USER", "CREATED", "EXPIRES", "~NARROWED TO", "~CREDITS", "~DEVICES")
			for _, k := range list {
				t.row(k.ID, k.Name, k.User, a.clock(k.Created), a.clockOr(k.Expires, "never"), narrowedTo(k), spendBrief(k.Spend), devicesBrief(k.Devices))
			}
			return printList(a, list, "no tokens: croft user token create NAME", t)
		},
	}
	a.tokenUserFlag(cmd, &user)
	return cmd
}

func (a *app) tokenRevokeCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "End a token at once",
		Example: "  croft user token revoke 7",
		Args:    needArgs(1, 1, "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			if err := c.RevokeToken(cmd.Context(), name, args[0]); err != nil {
				return err
			}
			return a.done("token %s of %s is revoked", args[0], name)
		},
	}
	a.tokenUserFlag(cmd, &user)
	return cmd
}

func (a *app) tokenShowCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show a token with its caps and what is used of them",
		Example: "  croft user token show 7",
		Args:    needArgs(1, 1, "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			for tok, err := range c.Tokens(cmd.Context(), name) {
				if err != nil {
					return err
				}
				if tok.ID == args[0] {
					return a.print(tok, func(w io.Writer) { a.writeToken(w, &tok) })
				}
			}
			return &v1.Problem{Code: string(codes.NotFound), Detail: "no such token: " + clean(args[0]) + " (croft user token ls)"}
		},
	}
	a.tokenUserFlag(cmd, &user)
	return cmd
}

func (a *app) writeToken(w io.Writer, k *v1.Token) {
	credits, devices := "", ""
	if s := k.Spend; s != nil {
		credits = fmt.Sprintf("%s left of %s%s%s: %s spent, %s set aside", s.Left, s.Max, perText(s.Per), before(", until ", a.clockOr(s.Until, "")), s.Spent, s.Aside)
	}
	if d := k.Devices; d != nil {
		devices = fmt.Sprintf("%s in use of %s", d.InUse, d.Max)
	}
	block(w,
		"token", k.Name+" #"+k.ID,
		"user", k.User,
		"created", a.clock(k.Created),
		"expires", a.clockOr(k.Expires, "never"),
		"narrowed to", narrowedTo(*k),
		"credits", credits,
		"devices", devices,
		"asks above", k.AskAbove,
	)
}

// perText is of which time a cap on credits is.
func perText(per string) string {
	if per == "total" {
		return " in all"
	}
	return " per " + per
}

func narrowedTo(k v1.Token) string {
	return strings.TrimSpace(strings.Join(k.Scopes, ",") + " " + k.Account)
}

// spendBrief and devicesBrief are how a token's caps stand.
func spendBrief(s *v1.TokenSpend) string {
	if s == nil {
		return "-"
	}
	return s.Left + " left of " + s.Max + perText(s.Per)
}

func devicesBrief(d *v1.TokenDevices) string {
	if d == nil {
		return "-"
	}
	return string(d.InUse) + " of " + string(d.Max)
}

// tokenText is a token by its name and number; "" where there is none.
func tokenText(t *v1.ByToken) string {
	if t == nil {
		return ""
	}
	return t.Name + " #" + t.ID
}

// byText is somebody with the token that he acted by: "ada by token ci #7".
func byText(user string, t *v1.ByToken) string {
	if t == nil {
		return user
	}
	return user + " by token " + tokenText(t)
}
