package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) requestCmd() *cobra.Command {
	return group("request", "Ask for what others have to approve, and approve it", `  croft request join nlp -m "my thesis, from January"
  croft request ls --inbox
  croft request approve 7`,
		a.requestJoinCmd(), a.requestCreditsCmd(), a.requestTransferCmd(), a.requestLimitCmd(), a.requestWallCmd(), a.requestReservationCmd(), a.requestAssetCmd(), a.requestLsCmd(), a.requestShowCmd(),
		a.requestApproveCmd(), a.requestRejectCmd(), a.requestWithdrawCmd(), a.requestRemindCmd())
}

// asking is what all requests say besides what they ask for.
type asking struct{ message, expires string }

func (x *asking) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&x.message, "message", "m", "", "why: `TEXT` for whoever decides")
	cmd.Flags().StringVar(&x.expires, "expires", "", "up to when it can be decided, by default in two weeks")
}

// ask makes a request and says what became of it.
func (a *app) ask(ctx context.Context, wish v1.RequestWish, x asking) error {
	in := v1.NewRequest{RequestWish: wish, Message: x.message}
	var err error
	if in.Expires, err = a.whenFlag(x.expires, endOfDay); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	got, err := c.MakeRequest(ctx, in)
	if err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) {
		fmt.Fprintf(w, "request %s: %s\n", clean(got.ID), clean(got.Asks))
		if got.State == "open" {
			fmt.Fprintf(w, "waits for %s, until %s\n", clean(got.Decides), a.clock(got.Expires))
			return
		}
		fmt.Fprintf(w, "%s\n", requestState(*got))
	})
}

func (a *app) requestJoinCmd() *cobra.Command {
	var j v1.JoinWish
	var x asking
	var until string
	cmd := &cobra.Command{
		Use:   "join ACCOUNT",
		Short: "Ask for a role in an account",
		Long: `Ask for a role in an account. Whoever manages it decides. An account that you can't see you ask to
join by its name; whether there is one shows when somebody answers.`,
		Example: `  croft request join nlp -m "my thesis, from January"
  croft request join nlp --role manager --until 2027-03-31`,
		Args:              needArgs(1, 1, "ACCOUNT"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if j.Ends, err = a.whenFlag(until, endOfDay); err != nil {
				return err
			}
			j.Account = args[0]
			return a.ask(cmd.Context(), v1.RequestWish{Join: &j}, x)
		},
	}
	cmd.Flags().StringVar(&j.Role, "role", "member", "viewer, member, manager or owner")
	cmd.Flags().StringVar(&until, "until", "", "last day, by default as long as the account")
	x.flags(cmd)
	a.completeFlag(cmd, "role", fixed("viewer", "member", "manager", "owner"))
	return cmd
}

func (a *app) requestCreditsCmd() *cobra.Command {
	var g v1.CreditsWish
	var x asking
	var until string
	cmd := &cobra.Command{
		Use:   "credits ACCOUNT CREDITS",
		Short: "Ask for credits for an account that you are a member of",
		Long:  "Ask for credits for an account that you are a member of. An admin decides, and says where they come from.",
		Example: `  croft request credits nlp 200 -m "the reviewers want a second seed"
  croft request credits nlp 200 --until 2027-03-31 --source DFG-123`,
		Args:              needArgs(2, 2, "ACCOUNT and how many CREDITS"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if g.End, err = a.whenFlag(until, endOfDay); err != nil {
				return err
			}
			g.Account, g.Amount = args[0], args[1]
			return a.ask(cmd.Context(), v1.RequestWish{Credits: &g}, x)
		},
	}
	cmd.Flags().StringVar(&g.Source, "source", "", "where they come from, by default as whoever approves says")
	cmd.Flags().StringVar(&until, "until", "", "last day on which they can be spent, by default none")
	cmd.Flags().BoolVar(&g.Subtree, "subtree", false, "accounts below may spend them too")
	x.flags(cmd)
	return cmd
}

func (a *app) requestTransferCmd() *cobra.Command {
	var t v1.TransferWish
	var x asking
	cmd := &cobra.Command{
		Use:   "transfer FROM TO CREDITS",
		Short: "Ask for credits of one account for another",
		Long: `Ask for credits of one account for another; you are a member of either. Whoever manages the account
that gives them decides. They keep the source and the end that they have there.`,
		Example: `  croft request transfer vision nlp 50 -m "we share the cluster run"
  croft request transfer vision nlp 50 --grant 12`,
		Args:              needArgs(3, 3, "FROM and TO, two accounts, and how many CREDITS"),
		ValidArgsFunction: a.twoAccounts,
		RunE: func(cmd *cobra.Command, args []string) error {
			t.From, t.To, t.Amount = args[0], args[1], args[2]
			return a.ask(cmd.Context(), v1.RequestWish{Transfer: &t}, x)
		},
	}
	cmd.Flags().StringVar(&t.Grant, "grant", "", "out of this grant alone; by default the one that ends first pays first")
	x.flags(cmd)
	return cmd
}

// twoAccounts completes the first two arguments.
func (a *app) twoAccounts(cmd *cobra.Command, args []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.accountNames(cmd, nil, part)
}

func (a *app) requestLimitCmd() *cobra.Command {
	var l v1.Limit
	var x asking
	cmd := &cobra.Command{
		Use:   "limit RESOURCE MAX",
		Short: "Ask for another limit",
		Long: `Ask for another limit in place of the one of its scope, resource and period, as croft limit set has
them: of an account that you are a member of, or with -u of your own. An operator decides; what a
user may spend in an account (credits), also whoever manages it. What the limit carries over stays.`,
		Example: `  croft request limit gpu 8 -A nlp -m "two weeks before the deadline"
  croft request limit gpu-hours 800 -A nlp --per month
  croft request limit credits 150 -A nlp -u ada --per month`,
		Args: needArgs(2, 2, "RESOURCE and MAX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if l.Account == "" && l.User == "" {
				return usage("whose limit? -A ACCOUNT, -u USER for your own, or both")
			}
			l.Resource, l.Max = args[0], v1.Quantity(args[1])
			return a.ask(cmd.Context(), v1.RequestWish{Limit: &l}, x)
		},
	}
	cmd.Flags().StringVar(&l.Per, "per", "", `for hours and credits: day, week, month, year; for hours also "rolling 7d"`)
	a.completeFlag(cmd, "per", fixed("day", "week", "month", "year", "rolling 7d"))
	a.scopeFlags(cmd, "user", "of this user, with -A in the account", &l.Account, &l.User, &l.Partition, &l.QoS)
	x.flags(cmd)
	return cmd
}

func (a *app) requestLsCmd() *cobra.Command {
	var q v1.RequestQuery
	var inbox, mine, all bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List your requests, and those that wait for you",
		Long: `List your open requests, and those that wait for you to decide. -a has those that are decided too, and
others that you may see: of accounts that you manage, for example.`,
		Example: `  croft request ls
  croft request ls --inbox
  croft request ls -a -A nlp`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				q.Whose = "all"
				if q.State == "" {
					q.State = "all"
				}
			}
			switch {
			case inbox && mine:
				return usage("--inbox or --mine, not both: croft request ls has both")
			case inbox:
				q.Whose = "inbox"
			case mine:
				q.Whose = "mine"
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Requests(cmd.Context(), q))
			if err != nil {
				return err
			}
			t := newTable("ID", "STATE", "USER", "~ASKS", "MADE", "EXPIRES", "FOR YOU")
			for _, r := range list {
				expires := ""
				if r.State == "open" {
					expires = a.clock(r.Expires)
				}
				t.row(r.ID, r.State, byText(r.User, r.Token), strings.TrimPrefix(r.Asks, r.User+" asks "), a.clock(r.Created), expires, truth(r.Mine, "yes", ""))
			}
			return printList(a, list, "no requests", t)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&inbox, "inbox", false, "only those that wait for you")
	f.BoolVar(&mine, "mine", false, "only your own")
	f.BoolVarP(&all, "all", "a", false, "those of others and those that are decided, too")
	f.StringVar(&q.State, "state", "", "open (default), approved, rejected, withdrawn, expired or all")
	f.StringVar(&q.Kind, "kind", "", "only join, credits, transfer, limit, wall, reservation, asset or job")
	f.StringVarP(&q.Account, "account", "A", "", "only about this account")
	a.completeFlag(cmd, "state", fixed("open", "approved", "rejected", "withdrawn", "expired", "all"))
	a.completeFlag(cmd, "kind", fixed("join", "credits", "transfer", "limit", "wall", "reservation", "asset", "job"))
	a.completeFlag(cmd, "account", a.accountNames)
	return cmd
}

func (a *app) requestShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Show a request: what it would change, and who decides",
		Example:           "  croft request show 7",
		Args:              needArgs(1, 1, "ID, as croft request ls has it"),
		ValidArgsFunction: firstArg(a.requestIDs("me")),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.Request(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { a.writeRequest(w, *got) })
		},
	}
}

func (a *app) writeRequest(w io.Writer, r v1.Request) {
	var changes []string
	for _, c := range r.Changes {
		changes = append(changes, fmt.Sprintf("%s: %s → %s", c.What, c.Before, c.After))
	}
	decides := r.Decides
	if len(r.Deciders) > 0 {
		decides += ": " + strings.Join(r.Deciders, ", ")
	}
	expires := ""
	if r.State == "open" {
		expires = a.clock(r.Expires)
	} else {
		decides = ""
	}
	block(w,
		"request", r.ID,
		"state", requestState(r),
		"asks", byText(r.User, r.Token)+strings.TrimPrefix(r.Asks, r.User),
		"message", r.Message,
		"changes", strings.Join(changes, "; "),
		"decides", decides,
		"made", a.clock(r.Created),
		"expires", expires,
		"reminded", a.clockOr(r.Reminded, ""),
		"decided", a.clockOr(r.Decided, ""),
		"said", r.Words,
		"failed", r.Failed,
	)
}

// requestState is where a request stands, with who brought it there.
func requestState(r v1.Request) string {
	if r.By == "" || r.State == "withdrawn" {
		return r.State
	}
	return r.State + " by " + clean(r.By)
}

// decideCmd is a command that does something with a request.
func (a *app) decideCmd(use, short, long, example, whose string, do func(context.Context, *v1.Client, string) (*v1.Request, error)) *cobra.Command {
	return &cobra.Command{
		Use: use + " ID", Short: short, Long: long, Example: example,
		Args:              needArgs(1, 1, "ID, as croft request ls has it"),
		ValidArgsFunction: firstArg(a.requestIDs(whose)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := do(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				state := requestState(*got)
				if use == "remind" {
					state = "those who decide are reminded: " + got.Decides
				}
				fmt.Fprintf(w, "request %s: %s: %s\n", clean(got.ID), clean(got.Asks), clean(state))
			})
		},
	}
}

func (a *app) requestApproveCmd() *cobra.Command {
	var in v1.RequestApproval
	cmd := a.decideCmd("approve", "Approve a request: what it asks for is done at once",
		`Approve a request: what it asks for is done in the same step, as if you did it yourself. You may approve
what you may do without a request, and never your own. If it can't be done now, the request stays open.`,
		`  croft request approve 7
  croft request approve 8 --source DFG-123 -m "until March"`, "inbox",
		func(ctx context.Context, c *v1.Client, id string) (*v1.Request, error) {
			return c.ApproveRequest(ctx, id, in)
		})
	cmd.Flags().StringVarP(&in.Words, "message", "m", "", "`TEXT` for whoever asked")
	cmd.Flags().StringVar(&in.Source, "source", "", "of credits: where they come from")
	return cmd
}

func (a *app) requestRejectCmd() *cobra.Command {
	var in v1.RequestDecision
	cmd := a.decideCmd("reject", "Reject a request", "", `  croft request reject 7 -m "ask the head of the lab first"`, "inbox",
		func(ctx context.Context, c *v1.Client, id string) (*v1.Request, error) {
			return c.RejectRequest(ctx, id, in)
		})
	cmd.Flags().StringVarP(&in.Words, "message", "m", "", "why: `TEXT` for whoever asked")
	return cmd
}

func (a *app) requestWithdrawCmd() *cobra.Command {
	return a.decideCmd("withdraw", "Take your request back", "", "  croft request withdraw 7", "mine",
		func(ctx context.Context, c *v1.Client, id string) (*v1.Request, error) {
			return c.WithdrawRequest(ctx, id)
		})
}

func (a *app) requestRemindCmd() *cobra.Command {
	return a.decideCmd("remind", "Remind those who decide your request, once a day", "", "  croft request remind 7", "mine",
		func(ctx context.Context, c *v1.Client, id string) (*v1.Request, error) {
			return c.RemindRequest(ctx, id)
		})
}

// requestIDs completes the numbers of open requests.
func (a *app) requestIDs(whose string) completer {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.Request, error] {
			return c.Requests(ctx, v1.RequestQuery{Whose: whose})
		}, func(r v1.Request) string { return cobra.CompletionWithDesc(clean(r.ID), clean(r.Asks)) })
	}
}
