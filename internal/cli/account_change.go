package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

// endFlag is the end that a flag gives in a patch: a point in time, or never; "" for
// a flag that is absent.
func (a *app) endFlag(s string) (*string, error) {
	if s == "" || s == "never" {
		if s == "" {
			return nil, nil
		}
		return &s, nil
	}
	t, err := a.parseWhen(s, endOfDay)
	if err != nil {
		return nil, err
	}
	text := t.Format(time.RFC3339Nano)
	return &text, nil
}

func (a *app) accountMoveCmd() *cobra.Command {
	var req v1.MoveRequest
	var root bool
	cmd := &cobra.Command{
		Use:   "move NAME",
		Short: "Put an account, with all below it, under another one",
		Long: `Put an account, with all below it, under another one. What is above it from then on
binds new jobs and may pay for them. Jobs that were accepted before go on with the
grants and the limits of where they were submitted.`,
		Example: `  croft account move nlp --under faculty
  croft account move nlp --top`,
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if root == (req.Under != "") {
				return usage("move it where? --under ACCOUNT, or --top")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.MoveAccount(cmd.Context(), args[0], req)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				where := "at the top"
				if req.Under != "" {
					where = "under " + clean(req.Under)
				}
				if req.DryRun {
					fmt.Fprintf(w, "%s would be %s; nothing was moved: leave out --dry-run\n", clean(args[0]), where)
				} else {
					fmt.Fprintf(w, "%s is %s\n", clean(args[0]), where)
				}
				if m := got.Account.Balance; m != nil && !req.DryRun {
					fmt.Fprintf(w, "it has %s credits to spend now, and is bound by %s\n", clean(m.Available), plural(len(got.Account.Usage), "limit"))
				}
				if got.Jobs > 0 {
					fmt.Fprintf(w, "%s accepted before, with the grants and limits of then\n", plural(got.Jobs, "job"))
				}
			})
		},
	}
	cmd.Flags().StringVar(&req.Under, "under", "", "the account above it")
	cmd.Flags().BoolVar(&root, "top", false, "make it an account with none above")
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "only say whether it could be moved, and which jobs go on as before")
	a.completeFlag(cmd, "under", a.accountNames)
	return cmd
}

func (a *app) accountRmCmd() *cobra.Command {
	var expire bool
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove an account that nothing needs any more",
		Long: `Remove an account that nothing needs any more. Its name becomes free; its jobs and
its books stay: croft statement NAME. What is in the way is named: accounts below it,
jobs that haven't ended, limits, and credits, unless --expire-grants gives those up.`,
		Example: `  croft account rm course
  croft account rm course --expire-grants`,
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveAccount(cmd.Context(), args[0], expire); err != nil {
				return err
			}
			return a.done("account %s is removed; its books stay", args[0])
		},
	}
	cmd.Flags().BoolVar(&expire, "expire-grants", false, "give up what is left of its grants")
	return cmd
}

func (a *app) userRetireCmd() *cobra.Command {
	var req v1.RetireRequest
	cmd := &cobra.Command{
		Use:   "retire NAME",
		Short: "Let a user go for good",
		Long: `Let a user go for good: tokens, sessions, the password and memberships end, and the
name and the uid become free. What the user did stays in the books. Jobs that haven't
ended are in the way, unless --stop ends them.`,
		Example: `  croft user retire ada
  croft user retire ada --stop`,
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.userNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.RetireUser(cmd.Context(), args[0], req)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "user %s is retired; %s stopped, %s and %s ended\n", clean(got.User),
					plural(got.Jobs, "job"), plural(got.Tokens, "token"), plural(got.Members, "membership"))
			})
		},
	}
	cmd.Flags().BoolVar(&req.Stop, "stop", false, "stop the user's jobs")
	return cmd
}
