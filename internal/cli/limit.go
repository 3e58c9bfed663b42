package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) limitCmd() *cobra.Command {
	return group("limit", "Limits on what may be used at once", `  croft limit set gpu 4 -A nlp
  croft limit show -A nlp -u ada`,
		a.limitSetCmd(), a.limitLsCmd(), a.limitShowCmd(), a.limitRmCmd())
}

// scopeFlags says whose limit it is.
func (a *app) scopeFlags(cmd *cobra.Command, account, user *string) {
	cmd.Flags().StringVarP(account, "account", "A", "", "of this account")
	cmd.Flags().StringVarP(user, "user", "u", "", "of this user; with -A, of the user in the account")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, "user", a.userNames)
}

func (a *app) limitSetCmd() *cobra.Command {
	var l v1.Limit
	cmd := &cobra.Command{
		Use:   "set RESOURCE MAX",
		Short: "Set a limit",
		Long: `Set a limit on what an account, a user or a user in an account may use at once.
Resources: cpu, mem, gpu, gpu:MODEL, running and submitted (jobs), time (of a job).`,
		Example: `  croft limit set gpu 4 -A nlp
  croft limit set mem 512G -A nlp -u ada
  croft limit set time 24h -u guest`,
		Args: needArgs(2, 2, "RESOURCE and MAX"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"cpu", "mem", "gpu", "gpu:", "running", "submitted", "time"}, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if l.Account == "" && l.User == "" {
				return usage("whose limit? -A ACCOUNT, -u USER or both")
			}
			l.Resource, l.Max = args[0], v1.Quantity(args[1])
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.SetLimit(cmd.Context(), l)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "limit %s: %s at most %s for %s\n", clean(got.ID), clean(got.Resource), clean(string(got.Max)), scope(*got))
			})
		},
	}
	a.scopeFlags(cmd, &l.Account, &l.User)
	cmd.Flags().StringVarP(&l.Partition, "partition", "p", "", "only in this partition")
	a.completeFlag(cmd, "partition", a.partitionNames)
	return cmd
}

// scope says in words whose limit it is.
func scope(l v1.Limit) string {
	var parts []string
	if l.User != "" {
		parts = append(parts, "user "+clean(l.User))
	}
	if l.Account != "" {
		parts = append(parts, "account "+clean(l.Account))
	}
	s := strings.Join(parts, " in ")
	if l.Partition != "" {
		s += " on " + clean(l.Partition)
	}
	return s
}

func limitTable(list []v1.LimitUse) *table {
	t := newTable("ID", "~SCOPE", "RESOURCE", ">USED", ">MAX", "~FROM")
	for _, l := range list {
		t.row(l.ID, scope(l.Limit), l.Resource, string(l.Used), string(l.Max), l.From)
	}
	return t
}

func (a *app) listLimits(cmd *cobra.Command, account, user string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	list, err := v1.Collect(c.Limits(cmd.Context(), account, user))
	if err != nil {
		return err
	}
	return printList(a, list, "no limits: croft limit set RESOURCE MAX -A ACCOUNT", limitTable(list))
}

func (a *app) limitLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List all limits",
		Example: "  croft limit ls",
		Args:    needArgs(0, 0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listLimits(cmd, "", "") },
	}
}

func (a *app) limitShowCmd() *cobra.Command {
	var account, user string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the limits that bind an account or a user, and what is used of them",
		Long: `Show the limits that bind an account or a user, those of accounts above included,
and what is used of them; by default your own.`,
		Example: `  croft limit show
  croft limit show -A nlp -u ada`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if account == "" && user == "" {
				c, err := a.client()
				if err != nil {
					return err
				}
				if user, err = orMe(cmd.Context(), c, ""); err != nil {
					return err
				}
			}
			return a.listLimits(cmd, account, user)
		},
	}
	a.scopeFlags(cmd, &account, &user)
	return cmd
}

func (a *app) limitRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "rm ID",
		Short:   "Remove a limit",
		Example: "  croft limit rm 3",
		Args:    needArgs(1, 1, "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveLimit(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.done("limit %s is removed", args[0])
		},
	}
}
