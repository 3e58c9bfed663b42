package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) hookCmd() *cobra.Command {
	return group("hook", "URLs that what you are told is posted to", `  croft notice hook add chat https://bot.example.org/croft
  croft notice hook ls
  croft notice hook rm chat`,
		a.hookAddCmd(), a.hookLsCmd(), a.hookSetCmd(), a.hookSecretCmd(), a.hookRmCmd())
}

func (a *app) hookAddCmd() *cobra.Command {
	var user string
	var in v1.NewWebhook
	cmd := &cobra.Command{
		Use:   "add [flags] NAME URL|-",
		Short: "Have what you are told posted to a URL, and print the secret that signs it, once",
		Long: `Have what you are told posted to a URL as JSON, signed as Standard Webhooks says
(www.standardwebhooks.com), for which there are libraries in many languages. The secret
that whoever listens there checks the signature with goes to standard output, now and
never again. A URL that is secret itself is read from standard input, as -, which no list
of processes shows. What isn't taken is tried again for days; the same event may come twice, with
the same webhook-id.`,
		Example: `  croft notice hook add chat https://bot.example.org/croft
  croft notice hook add lab https://bot.example.org/lab --account nlp --words fail,budget
  croft notice hook add chat - < chat.url`,
		Args: needArgs(2, 2, "NAME and URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if in.URL, err = a.hookURL(args[1]); err != nil {
				return err
			}
			in.Name = args[0]
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			got, err := c.MakeWebhook(cmd.Context(), name, in)
			if err != nil {
				return err
			}
			return a.printSecret(got)
		},
	}
	a.hookUserFlag(cmd, &user)
	cmd.Flags().StringVar(&in.Words, "words", "", "what is posted, as croft notice set has it; by default all but array_tasks")
	cmd.Flags().StringVarP(&in.Account, "account", "A", "", "everybody's jobs in this account, which you manage, and its credits")
	a.completeFlag(cmd, "account", a.accountNames)
	return cmd
}

func (a *app) hookLsCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the URLs that what you are told is posted to",
		Example: "  croft notice hook ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Webhooks(cmd.Context(), name))
			if err != nil {
				return err
			}
			t := newTable("NAME", "~URL", "ACCOUNT", "~WORDS", "~OFF")
			for _, h := range list {
				t.row(h.Name, h.URL, cmp.Or(h.Account, "-"), h.Words, cmp.Or(h.Off, "-"))
			}
			return printList(a, list, "no webhooks: croft notice hook add NAME URL", t)
		},
	}
	a.hookUserFlag(cmd, &user)
	return cmd
}

func (a *app) hookSetCmd() *cobra.Command {
	var user, to, words string
	var on, off bool
	cmd := &cobra.Command{
		Use:   "set [flags] NAME",
		Short: "Change where to, and what, is posted",
		Example: `  croft notice hook set chat --words fail,stop
  croft notice hook set chat --url https://bot2.example.org/croft --on
  croft notice hook set chat --off`,
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.hookNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			var in v1.WebhookPatch
			fs := cmd.Flags()
			if fs.Changed("url") {
				given, err := a.hookURL(to)
				if err != nil {
					return err
				}
				in.URL = &given
			}
			if fs.Changed("words") {
				in.Words = &words
			}
			if on || off {
				in.On = &on
			}
			if in == (v1.WebhookPatch{}) {
				return usage("say what changes: --url, --words, --on or --off")
			}
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			got, err := c.SetWebhook(cmd.Context(), name, args[0], in)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { writeHook(w, got) })
		},
	}
	a.hookUserFlag(cmd, &user)
	fs := cmd.Flags()
	fs.StringVar(&to, "url", "", "where to; - reads it from standard input")
	fs.StringVar(&words, "words", "", "what is posted, as croft notice set has it; empty: all but array_tasks")
	fs.BoolVar(&on, "on", false, "post to it again")
	fs.BoolVar(&off, "off", false, "post nothing to it")
	cmd.MarkFlagsMutuallyExclusive("on", "off")
	return cmd
}

func (a *app) hookSecretCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "secret NAME",
		Short: "Make a new secret for a webhook and print it, once",
		Long: `Make a new secret for a webhook and print it, once. For a day what is posted is signed
with the one before too, so that whoever listens can take the new one when it suits.`,
		Example:           "  croft notice hook secret chat",
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.hookNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			got, err := c.RenewWebhook(cmd.Context(), name, args[0])
			if err != nil {
				return err
			}
			return a.printSecret(got)
		},
	}
	a.hookUserFlag(cmd, &user)
	return cmd
}

func (a *app) hookRmCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:               "rm NAME",
		Short:             "Post nothing to a URL any more",
		Example:           "  croft notice hook rm chat",
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.hookNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			if err := c.RemoveWebhook(cmd.Context(), name, args[0]); err != nil {
				return err
			}
			return a.done("webhook %s is removed", args[0])
		},
	}
	a.hookUserFlag(cmd, &user)
	return cmd
}

// hookURL is the URL that is given, or the first line of standard input.
func (a *app) hookURL(given string) (string, error) {
	if given != "-" {
		return given, nil
	}
	text, err := io.ReadAll(io.LimitReader(a.env.Stdin, maxSecret))
	if err != nil {
		return "", usage("nothing was read: %v", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first), nil
}

func (a *app) hookUserFlag(cmd *cobra.Command, user *string) {
	cmd.Flags().StringVarP(user, "user", "u", "", "whose, by default yours")
	a.completeFlag(cmd, "user", a.userNames)
}

// printSecret prints the secret alone to standard output, so that it can be put where it is
// needed, and the rest beside it.
func (a *app) printSecret(h *v1.Webhook) error {
	return a.print(h, func(w io.Writer) {
		writeHook(a.env.Stderr, h)
		fmt.Fprintln(w, clean(h.Secret))
	})
}

func writeHook(w io.Writer, h *v1.Webhook) {
	block(w, "webhook", h.Name, "url", h.URL, "account", h.Account, "words", h.Words, "off", h.Off)
}
