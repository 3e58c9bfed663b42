package cli

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) completionCmd() *cobra.Command {
	shells := map[string]func(*cobra.Command, io.Writer) error{
		"bash": func(c *cobra.Command, w io.Writer) error { return c.GenBashCompletionV2(w, true) },
		"zsh":  func(c *cobra.Command, w io.Writer) error { return c.GenZshCompletion(w) },
		"fish": func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) },
	}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion script for a shell",
		Long:  "Print the completion script for a shell. Job ids, accounts, users and more complete too.",
		Example: `  source <(croft completion bash)
  croft completion zsh > ~/.zfunc/_croft
  croft completion fish > ~/.config/fish/completions/croft.fish`,
		Args:              needArgs(1, 1, "shell"),
		ValidArgsFunction: firstArg(fixed("bash", "zsh", "fish")),
		RunE: func(cmd *cobra.Command, args []string) error {
			gen := shells[args[0]]
			if gen == nil {
				return usage("%s: want bash, zsh or fish", args[0])
			}
			return gen(cmd.Root(), a.env.Stdout)
		},
	}
}

// completer lists what may stand in a place. Cobra keeps those that begin as
// what is there.
type completer = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

func (a *app) completeFlag(cmd *cobra.Command, flag string, f completer) {
	// It fails only for a flag that doesn't exist or has one already: a mistake
	// in this package, which the test of every help page would show.
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

func fixed(words ...string) completer {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// firstArg completes the first argument only.
func firstArg(f completer) completer {
	return func(cmd *cobra.Command, args []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, part)
	}
}

// Bounds of a completion: a shell that hangs at a key is worse than one that
// completes nothing.
const (
	completionTime = time.Second
	completionMost = 200
)

// complete lists the words that word makes of a listing's items.
func complete[T any](a *app, list func(context.Context, *v1.Client) iter.Seq2[T, error], word func(T) string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []cobra.Completion
	for item, err := range list(ctx, c) {
		if err != nil || len(words) == completionMost {
			break
		}
		words = append(words, word(item))
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// jobIDs completes ids of the caller's jobs in a state, with what they are.
func (a *app) jobIDs(state string) completer {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.Job, error] {
			return c.Jobs(ctx, v1.JobQuery{State: state})
		}, func(j v1.Job) string {
			return cobra.CompletionWithDesc(clean(j.ID), clean(jobState(&j)+" "+j.Name))
		})
	}
}

func (a *app) accountNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.Account, error] { return c.Accounts(ctx) },
		func(x v1.Account) string { return clean(x.Name) })
}

func (a *app) userNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.User, error] { return c.Users(ctx) },
		func(x v1.User) string { return clean(x.Name) })
}

func (a *app) nodeNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.Node, error] { return c.Nodes(ctx) },
		func(x v1.Node) string { return clean(x.Name) })
}

func (a *app) partitionNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.Partition, error] { return c.Partitions(ctx) },
		func(x v1.Partition) string { return clean(x.Name) })
}

func (a *app) qosNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.QoS, error] { return c.QoSList(ctx) },
		func(x v1.QoS) string { return clean(x.Name) })
}

func (a *app) reservationNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.Reservation, error] { return c.Reservations(ctx) },
		func(x v1.Reservation) string { return clean(x.Name) })
}

// registryNames completes the registries that the caller is logged in to.
func (a *app) registryNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.Registry, error] {
		me, err := c.Me(ctx)
		if err != nil {
			return func(yield func(v1.Registry, error) bool) { yield(v1.Registry{}, err) }
		}
		return c.Registries(ctx, me.User)
	}, func(x v1.Registry) string { return clean(x.Registry) })
}

// imageNames completes images saved from jobs.
func (a *app) imageNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.Image, error] { return c.Images(ctx) },
		func(x v1.Image) string { return clean(x.Name) })
}

// sshKeyNames completes the fingerprints of the caller's keys.
func (a *app) sshKeyNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.SSHKey, error] {
		me, err := c.Me(ctx)
		if err != nil {
			return func(yield func(v1.SSHKey, error) bool) { yield(v1.SSHKey{}, err) }
		}
		return c.SSHKeys(ctx, me.User)
	}, func(x v1.SSHKey) string { return clean(x.Fingerprint) })
}

func (a *app) hookNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.Webhook, error] {
		me, err := c.Me(ctx)
		if err != nil {
			return func(yield func(v1.Webhook, error) bool) { yield(v1.Webhook{}, err) }
		}
		return c.Webhooks(ctx, me.User)
	}, func(x v1.Webhook) string { return clean(x.Name) })
}

// modelNames completes the accelerator models that there are.
func (a *app) modelNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			seen := map[string]bool{}
			for n, err := range c.Nodes(ctx) {
				if err != nil {
					yield("", err)
					return
				}
				for _, d := range n.Devices {
					if !seen[d.Model] {
						seen[d.Model] = true
						if !yield(d.Model, nil) {
							return
						}
					}
				}
			}
		}
	}, clean)
}

// accountThenUser completes ACCOUNT USER.
func (a *app) accountThenUser(cmd *cobra.Command, args []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.accountNames(cmd, args, part)
	case 1:
		return a.userNames(cmd, args, part)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
