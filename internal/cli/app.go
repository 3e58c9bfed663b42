package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) appCmd() *cobra.Command {
	return group("app", "Web applications in jobs", `  croft app ls
  croft app open 118
  croft app share 118 --with ben --view`,
		a.appLsCmd(), a.appOpenCmd(), a.appShareCmd(asItIs), a.appUnshareCmd(asItIs))
}

func (a *app) appLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List applications that you may open: yours, and those shared with you",
		Long: `List the web applications that you may open, in your jobs and in those shared with
you, and jobs whose terminals alone are shared. ACCESS is what you may: owner, full,
or view. At its URL an application asks who doesn't know you there to log in; croft app
open gives an address that does it for you.`,
		Example: `  croft app ls
  croft app ls -o json`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			jobs, err := v1.Collect(c.Apps(cmd.Context(), v1.AppQuery{}))
			if err != nil {
				return err
			}
			return printList(a, jobs, "no applications", a.appTable(jobs))
		},
	}
}

func (a *app) appTable(jobs []v1.AppJob) *table {
	t := newTable("JOB", "~NAME", "APP", "STATE", "USER", "ACCESS", "~SHARED WITH", "URL")
	for _, j := range jobs {
		state := j.State
		if j.Ready != nil {
			state = "ready"
		}
		apps := j.Apps
		if len(apps) == 0 {
			apps = []v1.AppAddress{{}}
		}
		for _, app := range apps {
			t.row(j.ID, j.Name, app.Name, state, j.User, j.Access, a.sharers(j.Shared), app.URL)
		}
	}
	return t
}

func (a *app) appOpenCmd() *cobra.Command {
	var req v1.OpenRequest
	var open bool
	cmd := &cobra.Command{
		Use:   "open JOB",
		Short: "Print an address of a job's web application that logs you in",
		Long: `Print an address of a web application in a job. The browser that opens it first, in
the next minutes, is known there as you, until it is logged out, and for 12 hours at
most. Whoever has the address may do that: keep it to yourself. --open has your
browser do so at once.`,
		Example: `  croft app open 118
  croft app open 118 --app board
  croft app open 118 --path /lab/tree/train.ipynb`,
		Args:              needArgs(1, 1, "JOB"),
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.Open(cmd.Context(), args[0], req)
			if err != nil {
				return err
			}
			a.show(cmd.Context(), got.URL, open)
			return a.print(got, func(w io.Writer) { fmt.Fprintln(w, clean(got.URL)) })
		},
	}
	cmd.Flags().StringVar(&req.App, "app", "", "which one, by its name; by default the first")
	cmd.Flags().StringVar(&req.Path, "path", "", "a page of it; by default where it wants browsers first")
	cmd.Flags().BoolVar(&open, "open", false, openUsage)
	return cmd
}

// finder finds the id of what a user has named.
type finder func(ctx context.Context, c *v1.Client, text string) (id string, err error)

// asItIs leaves that to the server.
func asItIs(_ context.Context, _ *v1.Client, text string) (string, error) { return text, nil }

func (a *app) appShareCmd(find finder) *cobra.Command {
	var req v1.ShareRequest
	var view, full bool
	var until string
	cmd := &cobra.Command{
		Use:   "share JOB (--with USER | --account ACCOUNT | --public)",
		Short: "Let others into a job's web applications and terminals",
		Long: `Let others into the web applications and terminals of a job of yours: a user, the
members of an account, or, where the site allows it, whoever comes, who gets no
terminals. They log in as themselves and find the address on their first page, and
terminals by croft terminal JOB. What is shared fully acts as you: they can run
whatever you can. With --view they may only look: at terminals, and at
applications by GET and HEAD and without WebSockets, which is enough for pages that
don't change; most notebooks need more. A program that keeps those who only look from
changing anything by itself can have WebSockets for them (view_safe in a job file).`,
		Example: `  croft app share 118 --with ben --view
  croft app share 118 --with ben --until 17:00
  croft app share 118 --account nlp`,
		Args:              needArgs(1, 1, "JOB"),
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("with") && !cmd.Flags().Changed("account") && !req.Public {
				return usage("share it with whom? Give --with USER, --account ACCOUNT or --public")
			}
			if view {
				req.Level = "view"
			}
			if until != "" {
				at, err := a.parseWhen(until, endOfDay)
				if err != nil {
					return err
				}
				req.Until = &at
			}
			return a.controlled(args, func(c *v1.Client, text string) (*v1.Job, error) {
				id, err := find(cmd.Context(), c, text)
				if err != nil {
					return nil, err
				}
				return c.Share(cmd.Context(), id, req)
			}, a.printShared)
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.User, "with", "", "a user")
	f.StringVar(&req.Account, "account", "", "the members of an account; to use it fully, those above viewer")
	f.BoolVar(&req.Public, "public", false, "whoever comes, without a login")
	f.BoolVar(&view, "view", false, "only to look")
	f.BoolVar(&full, "full", false, "fully (default)")
	f.StringVar(&until, "until", "", "until then; by default as long as the job")
	cmd.MarkFlagsMutuallyExclusive("with", "account", "public")
	cmd.MarkFlagsMutuallyExclusive("view", "full")
	return cmd
}

func (a *app) appUnshareCmd(find finder) *cobra.Command {
	var req v1.UnshareRequest
	cmd := &cobra.Command{
		Use:   "unshare JOB (--with USER | --account ACCOUNT | --public)",
		Short: "Let others no longer into a job's web applications and terminals",
		Long:  `Let others no longer into a job's web applications and terminals. What they have open ends at once.`,
		Example: `  croft app unshare 118 --with ben
  croft app unshare 118 --account nlp`,
		Args:              needArgs(1, 1, "JOB"),
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("with") && !cmd.Flags().Changed("account") && !req.Public {
				return usage("who isn't to come any longer? Give --with USER, --account ACCOUNT or --public")
			}
			return a.controlled(args, func(c *v1.Client, text string) (*v1.Job, error) {
				id, err := find(cmd.Context(), c, text)
				if err != nil {
					return nil, err
				}
				return c.Unshare(cmd.Context(), id, req)
			}, a.printShared)
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.User, "with", "", "the user")
	f.StringVar(&req.Account, "account", "", "the account")
	f.BoolVar(&req.Public, "public", false, "whoever comes")
	cmd.MarkFlagsMutuallyExclusive("with", "account", "public")
	return cmd
}

// printShared says whom a job's applications are shared with now.
func (a *app) printShared(jobs []v1.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	return a.print(v1.Page[v1.Job]{Items: jobs}, func(w io.Writer) {
		for _, j := range jobs {
			text := "with nobody"
			if len(j.Shared) > 0 {
				text = a.sharedWith(j.Shared)
			}
			fmt.Fprintf(w, "%s is shared %s\n", clean(j.ID), clean(text))
		}
	})
}

// sharedWith is "with ben (view, until 17:00), account nlp (full)".
func (a *app) sharedWith(with []v1.Shared) string {
	if len(with) == 0 {
		return ""
	}
	return "with " + a.sharers(with)
}

// sharers is "ben (view, until 17:00), account nlp (full)".
func (a *app) sharers(with []v1.Shared) string {
	var parts []string
	for _, s := range with {
		name := s.User
		switch {
		case s.Account != "":
			name = "account " + s.Account
		case s.Public:
			name = "everybody"
		}
		terms := s.Level
		if s.Until != nil {
			terms += ", until " + a.clockOr(s.Until, "")
		}
		parts = append(parts, name+" ("+terms+")")
	}
	return strings.Join(parts, ", ")
}
