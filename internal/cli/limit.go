package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) limitCmd() *cobra.Command {
	return group("limit", "Limits on what may be used", `  croft limit set gpu 4 -A nlp
  croft limit show --who ada`,
		a.limitSetCmd(), a.limitLsCmd(), a.limitShowCmd(), a.limitRmCmd())
}

// scopeFlags says whose limit it is. The flag for the user is called who.
func (a *app) scopeFlags(cmd *cobra.Command, who, usage string, account, user, partition, qos *string) {
	f := cmd.Flags()
	f.StringVarP(account, "account", "A", "", "of this account and all below it")
	f.StringVarP(user, who, "u", "", usage)
	f.StringVarP(partition, "partition", "p", "", "only in this partition")
	f.StringVarP(qos, "qos", "q", "", "only for jobs of this QoS")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, who, a.userNames)
	a.completeFlag(cmd, "partition", a.partitionNames)
	a.completeFlag(cmd, "qos", a.qosNames)
}

func (a *app) limitSetCmd() *cobra.Command {
	var l v1.Limit
	cmd := &cobra.Command{
		Use:   "set RESOURCE MAX",
		Short: "Set a limit",
		Long: `Set a limit for an account with all below it, a user, a partition, a QoS or what several
of these have in common: with -A nlp -u ada, what ada uses in nlp. Of all limits that
bind a job the tightest wins.

At once: cpu, mem, gpu, gpu:MODEL; running and submitted jobs.
For each job: time, job.cpu, job.mem, job.gpu, job.gpu:MODEL.
In a period (--per): cpu-hours, mem-hours (of a GiB), gpu-hours, gpu-hours:MODEL. A job
counts in the period in which it starts: with all its time at first, with what it took once
it has ended.
Of what a user may spend in an account, per day, week, month or year, or in all: credits.
What is set aside for jobs counts. Whoever manages the account may set this.

A limit below what is used says who is over; nothing is stopped by it.`,
		Example: `  croft limit set gpu 4 -A nlp
  croft limit set gpu-hours 500 -A nlp --per month --carry-over 50%
  croft limit set credits 100 -A nlp -u ada --per month`,
		Args: needArgs(2, 2, "RESOURCE and MAX"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"cpu", "mem", "gpu", "gpu:", "running", "submitted", "time", "job.cpu", "job.mem", "job.gpu", "job.gpu:", "credits", "cpu-hours", "mem-hours", "gpu-hours", "gpu-hours:"}, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if l.Account == "" && l.User == "" && l.Partition == "" && l.QoS == "" {
				return usage("whose limit? -A ACCOUNT, -u USER, -p PARTITION, -q QOS or several of them")
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
				fmt.Fprintf(w, "limit %s: %s at most %s for %s\n", clean(got.ID), clean(ofLimit(got.Limit)), clean(string(got.Max)), clean(got.From))
				passed(w, *got)
			})
		},
	}
	cmd.Flags().StringVar(&l.Per, "per", "", `for hours and credits: day, week, month, year; for hours also "rolling 7d"`)
	cmd.Flags().StringVar(&l.CarryOver, "carry-over", "", "for hours: a share such as 50%, or hours, of what a period leaves for the next")
	a.completeFlag(cmd, "per", fixed("day", "week", "month", "year", "rolling 7d"))
	a.scopeFlags(cmd, "user", "of this user, with -A in the account; * is each user", &l.Account, &l.User, &l.Partition, &l.QoS)
	return cmd
}

// passed says who has more than a new limit allows.
func passed(w io.Writer, l v1.LimitUse) {
	var who []string
	var jobs int64
	for _, u := range l.Users {
		jobs += u.Jobs
		if who = append(who, clean(u.User)+" "+clean(string(u.Used))); u.Jobs > 0 {
			who[len(who)-1] = fmt.Sprintf("%s %d", clean(u.User), u.Jobs)
		}
	}
	list := ""
	if len(who) > 0 {
		list = " (" + strings.Join(who, ", ") + ")"
	}
	switch {
	case jobs > 0:
		fmt.Fprintf(w, "jobs that have more: %d%s. Those that run go on; those that wait stay waiting.\n", jobs, list)
	case l.Over != "":
		fmt.Fprintf(w, "over by %s: %s used%s. Nothing is stopped; nothing more is given until there is room.\n", clean(string(l.Over)), clean(string(l.Used)), list)
	}
}

// ofLimit is what a limit bounds, "gpu-hours per month".
func ofLimit(l v1.Limit) string {
	if l.Per == "" {
		return l.Resource
	}
	return l.Resource + " per " + l.Per
}

func limitTable(list []v1.LimitUse) *table {
	t := newTable("ID", "RESOURCE", ">MAX", ">USED", ">LEFT", "~FOR", "BY")
	for _, l := range list {
		resource := ofLimit(l.Limit)
		if l.Tightest {
			resource += " *"
		}
		left := string(l.Left)
		if l.Over != "" {
			left = "-" + string(l.Over)
		}
		most := string(l.Max)
		if l.Carried != "" {
			most += "+" + string(l.Carried)
		}
		used := string(l.Used)
		if l.Spent != "" && l.Spent != l.Used {
			used += " (" + string(l.Spent) + " spent)"
		}
		t.row(l.ID, resource, most, used, left, l.From, l.By)
	}
	return t
}

func (a *app) listLimits(cmd *cobra.Command, q v1.LimitQuery) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	list, err := v1.Collect(c.Limits(cmd.Context(), q))
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
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listLimits(cmd, v1.LimitQuery{}) },
	}
}

func (a *app) limitShowCmd() *cobra.Command {
	var q v1.LimitQuery
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the limits that bind an account or a user, and what is left of them",
		Long: `Show the limits that bind an account or a user, by default yourself: those of accounts
above, of partitions and QoS and the site's defaults included, with what is used and left,
and who set them. * marks the tightest of each resource among those that bind every job
that was asked about; name the partition and the QoS to have theirs compared too.`,
		Example: `  croft limit show
  croft limit show --who ada -A nlp
  croft limit show --who ada -p main -q urgent`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Account == "" && q.User == "" {
				c, err := a.client()
				if err != nil {
					return err
				}
				if q.User, err = orMe(cmd.Context(), c, ""); err != nil {
					return err
				}
			}
			return a.listLimits(cmd, q)
		},
	}
	a.scopeFlags(cmd, "who", "of this user; without -A, in all accounts that the user is in", &q.Account, &q.User, &q.Partition, &q.QoS)
	return cmd
}

func (a *app) limitRmCmd() *cobra.Command {
	var l v1.Limit
	cmd := &cobra.Command{
		Use:   "rm ID|RESOURCE",
		Short: "Remove a limit",
		Long: `Remove a limit, by its number or in the words by which it was set: its resource, and
whose it is.`,
		Example: `  croft limit rm 3
  croft limit rm gpu -A nlp -u ada`,
		Args: needArgs(1, 1, "ID or RESOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			id := args[0]
			if l.Resource = id; l != (v1.Limit{Resource: id}) {
				if id, err = a.limitOf(cmd.Context(), c, l); err != nil {
					return err
				}
			}
			if err := c.RemoveLimit(cmd.Context(), id); err != nil {
				return err
			}
			return a.done("limit %s is removed", id)
		},
	}
	cmd.Flags().StringVar(&l.Per, "per", "", "that of this period, for hours and credits")
	a.scopeFlags(cmd, "user", "of this user, with -A in the account; * is each user", &l.Account, &l.User, &l.Partition, &l.QoS)
	return cmd
}

// limitOf is the number of the limit on a resource in just this scope.
func (a *app) limitOf(ctx context.Context, c *v1.Client, of v1.Limit) (string, error) {
	for l, err := range c.Limits(ctx, v1.LimitQuery{}) {
		if err != nil {
			return "", err
		}
		is := l.Limit
		if is.ID != "" && is.Account == of.Account && is.User == of.User && is.Partition == of.Partition && is.QoS == of.QoS && is.Resource == of.Resource && is.Per == of.Per {
			return is.ID, nil
		}
	}
	return "", &v1.Problem{Code: string(codes.NotFound), Detail: "there is no such limit on " + ofLimit(of) + ": croft limit ls has all"}
}
