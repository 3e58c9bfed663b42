package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) shareCmd() *cobra.Command {
	return group("share", "Accounts' guaranteed parts of partitions", `  croft share set nlp gpu 8 -p main --borrow 4
  croft share ls -p main`,
		a.shareSetCmd(), a.shareLsCmd(), a.shareShowCmd(), a.shareRmCmd())
}

func (a *app) shareSetCmd() *cobra.Command {
	var s v1.Share
	var limit, borrow, lend string
	cmd := &cobra.Command{
		Use:   "set ACCOUNT RESOURCE AMOUNT",
		Short: "Guarantee an account a part of a partition",
		Long: `Guarantee an account, with all accounts below it, a part of what a partition has of cpu,
mem, gpu or gpu:MODEL. It is part of what the account above it is guaranteed, or else of
the partition.

What an account doesn't use of its guarantee, others may borrow, up to --lend. What it
may borrow itself is bounded by --borrow, and all that it has by --limit. Who borrows
gives way when somebody needs what he is guaranteed, on the terms that the QoS of his jobs
has for preemption.

The same account, partition and resource replace the share before. A share below what is
used stops nothing: what is used beyond it is borrowed.`,
		Example: `  croft share set nlp gpu 8 -p main
  croft share set nlp gpu 8 -p main --limit 16 --lend 4
  croft share set guests gpu 0 -p main --borrow 2 --weight 1`,
		Args: needArgs(3, 3, "ACCOUNT, RESOURCE and AMOUNT"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return a.accountNames(cmd, args, part)
			case 1:
				return []string{"cpu", "mem", "gpu", "gpu:"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Partition == "" {
				return usage("a part of which partition? -p PARTITION")
			}
			s.Account, s.Resource, s.Guaranteed = args[0], args[1], v1.Quantity(args[2])
			s.Limit, s.Borrow, s.Lend = v1.Quantity(limit), v1.Quantity(borrow), v1.Quantity(lend)
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.SetShare(cmd.Context(), s)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "share %s: %s is guaranteed %s %s in partition %s\n", clean(got.ID), clean(got.Account), clean(string(got.Guaranteed)), clean(got.Resource), clean(got.Partition))
				standing(w, *got)
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&s.Partition, "partition", "p", "", "in this partition")
	f.StringVar(&limit, "limit", "", "the most in use at once, what is borrowed included")
	f.StringVar(&borrow, "borrow", "", "the most that may be borrowed from others")
	f.StringVar(&lend, "lend", "", "the most of the guarantee that others may use while it is unused (default all)")
	f.Int64Var(&s.Weight, "weight", 0, "among those that borrow (default the account's own)")
	a.completeFlag(cmd, "partition", a.partitionNames)
	return cmd
}

// standing says who has more than his share.
func standing(w io.Writer, s v1.ShareUse) {
	if s.Over != "" {
		fmt.Fprintf(w, "over by %s: %s used. Nothing is stopped; nothing more is given until there is room.\n", clean(string(s.Over)), clean(string(s.Used)))
	}
	if s.Borrowed != "" {
		fmt.Fprintf(w, "%s of the %s that it uses are borrowed: they give way when somebody needs what he is guaranteed\n", clean(string(s.Borrowed)), clean(string(s.Used)))
	}
	if len(s.Borrowers) == 0 {
		return
	}
	var who []string
	for _, b := range s.Borrowers {
		name := b.Account
		if name == "" {
			name = "others"
		}
		who = append(who, clean(name)+" "+clean(string(b.Borrowed)))
	}
	fmt.Fprintf(w, "borrowed from those who use less than their guarantee: %s\n", strings.Join(who, ", "))
}

func shareTable(list []v1.ShareUse) *table {
	t := newTable("ID", "~PARTITION", "~ACCOUNT", "~RESOURCE", ">SHARE", ">LIMIT", ">BORROW", ">LEND", ">USED", ">BORROWED", ">FREE")
	for _, s := range list {
		t.row(s.ID, s.Partition, s.Account, s.Resource, string(s.Guaranteed), string(s.Limit), string(s.Borrow), string(s.Lend), string(s.Used), string(s.Borrowed), string(s.Free))
	}
	return t
}

func (a *app) shareLsCmd() *cobra.Command {
	var partition string
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List shares with what is in use of them",
		Example: "  croft share ls\n  croft share ls -p main -o json",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Shares(cmd.Context(), "", partition))
			if err != nil {
				return err
			}
			return printList(a, list, "no shares: croft share set ACCOUNT RESOURCE AMOUNT -p PARTITION", shareTable(list))
		},
	}
	cmd.Flags().StringVarP(&partition, "partition", "p", "", "only in this partition")
	a.completeFlag(cmd, "partition", a.partitionNames)
	return cmd
}

func (a *app) shareShowCmd() *cobra.Command {
	var partition string
	cmd := &cobra.Command{
		Use:   "show ACCOUNT",
		Short: "Show the shares of an account, and who has borrowed from them",
		Long: `Show the shares of an account and of those above and below it: what is guaranteed, in use,
borrowed and free, and who uses what it is guaranteed and doesn't use. They give way when
a job of the account needs it.`,
		Example:           "  croft share show nlp",
		Args:              needArgs(1, 1, "ACCOUNT"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Shares(cmd.Context(), args[0], partition))
			if err != nil {
				return err
			}
			return a.print(v1.Page[v1.ShareUse]{Items: list}, func(w io.Writer) {
				if len(list) == 0 {
					fmt.Fprintln(a.env.Stderr, "no shares: the account may borrow what others don't use")
					return
				}
				shareTable(list).write(w, a.width(), a.paintState)
				for _, s := range list {
					if s.Account == args[0] && (s.Over != "" || s.Borrowed != "" || len(s.Borrowers) > 0) {
						fmt.Fprintf(w, "\n%s of partition %s:\n", clean(s.Resource), clean(s.Partition))
						standing(w, s)
					}
				}
			})
		},
	}
	cmd.Flags().StringVarP(&partition, "partition", "p", "", "only in this partition")
	a.completeFlag(cmd, "partition", a.partitionNames)
	return cmd
}

func (a *app) shareRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "rm ID",
		Short:   "Remove a share",
		Example: "  croft share rm 3",
		Args:    needArgs(1, 1, "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveShare(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.done("share %s is removed", args[0])
		},
	}
}
