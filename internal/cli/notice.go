package cli

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) noticeCmd() *cobra.Command {
	return group("notice", "What you are told by mail, or webhook", `  croft notice address ada@example.org
  croft notice set fail,stop
  croft notice ls`,
		a.noticeShowCmd(), a.noticeAddressCmd(), a.noticeSetCmd(), a.noticeLsCmd(), a.noticeTestCmd(), a.hookCmd())
}

func (a *app) writeContact(w io.Writer, c *v1.Contact) {
	block(w, "address", cmp.Or(c.Address, "none: croft notice address ADDRESS"), "mail", c.Mail, "site", truth(c.On, "", "sends no mail"))
}

func (a *app) noticeUserFlag(cmd *cobra.Command, user *string) {
	cmd.Flags().StringVarP(user, "user", "u", "", "whose, by default yours")
	a.completeFlag(cmd, "user", a.userNames)
}

func (a *app) noticeShowCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show where you are told things, and which",
		Example: "  croft notice show",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			got, err := c.Contact(cmd.Context(), name)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { a.writeContact(w, got) })
		},
	}
	a.noticeUserFlag(cmd, &user)
	return cmd
}

func (a *app) noticeAddressCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "address ADDRESS|none",
		Short: "Say where mail to you goes",
		Example: `  croft notice address ada@example.org
  croft notice address none
  croft notice address -u ada ada@example.org`,
		Args: needArgs(1, 1, "ADDRESS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			to := args[0]
			if to == "none" {
				to = ""
			}
			return a.setContact(cmd, user, v1.ContactPatch{Address: &to})
		},
	}
	a.noticeUserFlag(cmd, &user)
	return cmd
}

func (a *app) noticeSetCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "set WORD[,WORD…]|all|none|default",
		Short: "Say what mail you want",
		Long: `Say what mail you want, in words with commas between them:

  begin        a job has begun
  end          a job has ended
  fail         a job has failed
  requeue      a job waits again, as after a preemption
  time_limit   a job's time is up
  stop         a job is to be stopped by others: idle, without money, preempted
  array_tasks  that of each element of an array, not of the array as a whole
  budget       80 and 95 % of the credits of an account that you manage are used up
  request      somebody asks for what you decide, or what you asked for is decided

A job that says itself what is sent (--mail-type) is taken at its word. By default it is
budget,request.`,
		Example: `  croft notice set fail,stop,budget
  croft notice set none`,
		Args: needArgs(1, 1, "WORD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			words := args[0]
			if words == "default" {
				words = ""
			}
			return a.setContact(cmd, user, v1.ContactPatch{Mail: &words})
		},
	}
	a.noticeUserFlag(cmd, &user)
	return cmd
}

func (a *app) setContact(cmd *cobra.Command, user string, in v1.ContactPatch) error {
	c, name, err := a.clientFor(cmd.Context(), user)
	if err != nil {
		return err
	}
	got, err := c.SetContact(cmd.Context(), name, in)
	if err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) { a.writeContact(w, got) })
}

func (a *app) noticeLsCmd() *cobra.Command {
	var q v1.NoticeQuery
	var last int
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List what you were told, and whether it was delivered",
		Long: `List what you were told in the last 30 days, the newest first, and whether a mail server
or your webhook has taken it. What isn't taken is tried again for days, and then given up.`,
		Example: `  croft notice ls
  croft notice ls -u '*' --state waiting,given_up`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list := []v1.Notice{}
			for n, err := range c.Notices(cmd.Context(), q) {
				if err != nil {
					return err
				}
				if list = append(list, n); len(list) == last {
					break
				}
			}
			t := newTable("AT", "USER", "BY", "STATE", ">TRIES", "~SUBJECT", "~NOTE")
			for _, n := range list {
				note := n.Message
				if n.State == "waiting" && n.Tries > 0 && n.Next != nil {
					note = strings.TrimPrefix(note+", again at "+a.clock(*n.Next), ", ")
				}
				t.row(a.clock(n.At), n.User, cmp.Or(n.Webhook, "mail"), n.State, strconv.FormatInt(n.Tries, 10), n.Subject, note)
			}
			return printList(a, list, "no notices", t)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&q.User, "user", "u", "", "whose, by default yours; * for everybody's")
	fs.StringVar(&q.State, "state", "", "waiting, delivered or given_up, separated by commas")
	fs.StringVarP(&q.Job, "job", "j", "", "only about this job")
	fs.IntVarP(&last, "last", "n", 50, "how many")
	a.completeFlag(cmd, "user", a.userNames)
	a.completeFlag(cmd, "state", fixed("waiting", "delivered", "given_up"))
	a.completeFlag(cmd, "job", a.jobIDs("all"))
	return cmd
}

func (a *app) noticeTestCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "test",
		Short:   "Have yourself told something, to see whether it arrives",
		Example: "  croft notice test",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.TestNotice(cmd.Context())
			if err != nil {
				return err
			}
			return a.done("%s: croft notice ls says whether it was delivered", testGoes(got))
		},
	}
}

func testGoes(c *v1.Contact) string {
	if c.Address == "" || !c.On {
		return "something is posted to your webhooks"
	}
	return "a mail goes to " + clean(c.Address) + ", and the like to your webhooks, if you have any"
}
