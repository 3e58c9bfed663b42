package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) workspaceCmd() *cobra.Command {
	cmd := group("workspace", "Workspaces: stopped, started, until they are deleted", `  croft workspace new jupyter --gpu 1
  croft workspace ls
  croft workspace stop jupyter`,
		a.workspaceNewCmd("new TEMPLATE", "Start a workspace of a template", "", `  croft workspace new jupyter --gpu 1 -t 4h
  croft workspace new board --name runs
  croft workspace new ben/board`),
		a.workspaceLsCmd(), a.workspaceStartCmd(), a.workspaceStopCmd(), a.workspaceRmCmd(), a.workspaceShareCmd(), a.workspaceUnshareCmd())
	cmd.Aliases = []string{"ws"}
	return cmd
}

func (a *app) notebookCmd() *cobra.Command {
	return a.workspaceNewCmd("notebook", "Start a notebook, or go on with it", "jupyter", `  croft notebook --gpu 1
  croft notebook --name vision --image lab/jupyter:2 --mem 64G`)
}

func (a *app) codeCmd() *cobra.Command {
	return a.workspaceNewCmd("code", "Start VS Code in the browser, or go on with it", "code", `  croft code
  croft code --gpu 1 -t 4h`)
}

func (a *app) shellCmd() *cobra.Command {
	return a.workspaceNewCmd("shell", "Start a shell on the machine's devices, or go on with it", "shell", `  croft shell --gpu 1
  croft shell --image train:1`)
}

// workspaceOptions are the flags of the commands that start workspaces.
type workspaceOptions struct {
	specFlags
	workspaceEntry
	image  string
	noHome bool
}

// workspaceEntry is how a workspace is entered that has been started.
type workspaceEntry struct {
	detach, open bool
	again        string // the command that comes back to it
}

func (e *workspaceEntry) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&e.detach, "detach", "d", false, "don't wait until it is ready; print its number")
	cmd.Flags().BoolVar(&e.open, "open", false, openUsage)
	cmd.MarkFlagsMutuallyExclusive("detach", "open")
}

const workspaceLong = `One that you have by that name is gone on with: what runs is shown again, what is
stopped is started. Else it is made of the template, with the flags' changes. Your
home is mounted. It waits for its turn like any job. Once its program answers, the
address goes to standard output at which a browser is known as you: that of whoever
opens it first, in the next minutes. One without a web program, as a shell, is joined
on a terminal, as croft terminal does; elsewhere its number is printed.

It stops at its time limit at the latest. Files in your home stay, and so does its
address; it is yours until croft workspace rm.`

// workspaceNewCmd starts a workspace of a template; "": which says the first argument.
func (a *app) workspaceNewCmd(use, short, template, example string) *cobra.Command {
	var o workspaceOptions
	least := 1
	if template != "" {
		least = 0
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: strings.ToUpper(short[:1]) + short[1:] + ".\n\n" + workspaceLong, Example: example,
		Args: needArgs(least, least, "template"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := template
			if len(args) > 0 {
				name = args[0]
			} else if o.again = "croft " + use; o.Name != "" {
				o.again += " --name " + clean(o.Name)
			}
			return a.workspaceUp(cmd, name, &o)
		},
	}
	if template == "" {
		cmd.ValidArgsFunction = a.templateNames
	}
	o.amounts(a, cmd)
	o.containers(cmd)
	fs := cmd.Flags()
	fs.StringVar(&o.image, "image", "", "another `IMAGE` than the template's")
	fs.BoolVar(&o.noHome, "no-home", false, "don't mount your home")
	o.flags(cmd)
	for _, none := range []string{"array", "after", "deadline"} {
		_ = fs.MarkHidden(none) // a workspace has none, as the server says
	}
	return cmd
}

// workspaceUp makes, starts or finds a workspace, and waits until it is ready.
func (a *app) workspaceUp(cmd *cobra.Command, template string, o *workspaceOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	_, own, shared := strings.Cut(template, "/")
	if !shared {
		own = template
	}
	name := otherwise(o.Name, own)
	job, err := a.workspaceAtRest(cmd.Context(), c, name)
	switch {
	case err != nil:
		return err
	case job != nil:
		changes, err := o.changes(a, cmd)
		if err != nil {
			return err
		}
		delete(changes, "name")
		if o.image != "" {
			changes["image"] = o.image
		}
		job, err = a.workspaceAgain(cmd.Context(), c, job, changes)
		if err != nil {
			return err
		}
	default:
		if job, err = a.workspaceMake(cmd, c, template, o); err != nil {
			return err
		}
	}
	return a.workspaceReady(cmd.Context(), c, job, o.workspaceEntry)
}

// workspaceOf is the caller's workspace of a name; nil if there is none.
func (a *app) workspaceOf(ctx context.Context, c *v1.Client, name string) (*v1.Job, error) {
	job, err := c.Job(ctx, name)
	var p *v1.Problem
	switch {
	case errors.As(err, &p) && codes.Code(p.Code) == codes.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case job.Spec.Kind != v1.KindWorkspace:
		return nil, usage("%s is a job, not a workspace: croft workspace ls lists yours", name)
	}
	return job, nil
}

// workspaceAtRest is workspaceOf; what is just being stopped, or deleted, is waited for.
func (a *app) workspaceAtRest(ctx context.Context, c *v1.Client, name string) (*v1.Job, error) {
	job, err := a.workspaceOf(ctx, c, name)
	if err != nil || job == nil || job.State != "stopping" {
		return job, err
	}
	a.tell("%s %s is being stopped", clean(job.ID), clean(job.Name))
	job, err = c.Wait(ctx, job.ID, v1.Ended, v1.WaitOptions{Window: away})
	if err != nil || job.State == "ended" {
		return nil, err
	}
	return job, nil
}

// workspaceMake submits a workspace of a template.
func (a *app) workspaceMake(cmd *cobra.Command, c *v1.Client, template string, o *workspaceOptions) (*v1.Job, error) {
	t, err := a.template(cmd.Context(), c, template)
	if err != nil {
		return nil, err
	}
	spec := t.Spec
	o.override(cmd, &spec)
	spec.Image = otherwise(o.image, spec.Image)
	if o.noHome {
		spec.Mounts = slices.DeleteFunc(slices.Clone(spec.Mounts), func(m v1.Mount) bool { return m.Source == "~" })
	}
	home := slices.Clone(spec.Mounts) // ~ is the machine's to resolve
	spec.Mounts = nil
	if err := a.readTimes(&spec); err != nil {
		return nil, err
	}
	if err := o.readParts(a, &spec); err != nil {
		return nil, err
	}
	spec.Mounts = append(home, spec.Mounts...)
	job, err := a.submit(cmd.Context(), spec, "")
	if err == nil {
		a.tell("%s %s: %s", clean(job.ID), clean(job.Name), a.jobQuote(job))
	}
	return job, err
}

// workspaceAgain goes on with a workspace: one that is stopped is started, with changes.
func (a *app) workspaceAgain(ctx context.Context, c *v1.Client, job *v1.Job, changes map[string]string) (*v1.Job, error) {
	if job.State != "stopped" {
		if len(changes) > 0 {
			return nil, usage("%s is %s as it was made: croft workspace stop %s first, or make another by another name", clean(job.Name), clean(job.State), clean(job.Name))
		}
		return job, nil
	}
	started, err := c.Start(ctx, job.ID, v1.StartRequest{Set: changes})
	if err != nil {
		return nil, err
	}
	a.tell("%s %s: %s", clean(started.ID), clean(started.Name), a.jobQuote(started))
	return started, nil
}

// tell prints a line beside the output proper.
func (a *app) tell(format string, args ...any) { fmt.Fprintf(a.env.Stderr, format+"\n", args...) }

func (a *app) workspaceLsCmd() *cobra.Command {
	user := ""
	cmd := &cobra.Command{
		Use: "ls", Short: "List workspaces, stopped ones too", Example: "  croft workspace ls", Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var all []v1.Job
			for j, err := range c.Jobs(cmd.Context(), v1.JobQuery{User: user}) {
				if err != nil {
					return err
				}
				if j.Spec.Kind == v1.KindWorkspace {
					all = append(all, j)
				}
			}
			t := newTable("ID", "NAME", "STATE", ">GPU", ">CPU", ">MEM", ">TIME", "~IMAGE", "~INFO")
			for _, j := range all {
				state := jobState(&j)
				if j.State == "running" && j.Ready != nil {
					state = "ready"
				}
				t.row(j.ID, j.Name, state, orDash(devicesOf(&j)), string(j.Spec.CPU), string(j.Spec.Mem), a.jobTime(&j), j.Spec.Image, a.jobInfo(&j))
			}
			return printList(a, all, "no workspaces; croft notebook starts one", t)
		},
	}
	cmd.Flags().StringVarP(&user, "user", "u", "", "of another `USER`; * is everybody whom you may see")
	return cmd
}

func (a *app) workspaceStartCmd() *cobra.Command {
	var o workspaceOptions
	cmd := &cobra.Command{
		Use: "start WORKSPACE", Short: "Start a stopped workspace, at today's price",
		Long: `Start a stopped workspace and wait until it is ready. It is admitted as a new job
is: it may wait, or be refused with what would do. Flags change how it runs from now
on; its name and account stay.`,
		Example: `  croft workspace start jupyter
  croft workspace start jupyter --gpu 2 -t 8h`,
		Args: needArgs(1, 1, "WORKSPACE"), ValidArgsFunction: a.jobIDs("stopped"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			job, err := a.workspaceAtRest(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if job == nil {
				return usage("no such workspace: %s (croft workspace ls)", args[0])
			}
			if err := ownWorkspace(cmd.Context(), c, job, args[0]); err != nil {
				return err
			}
			changes, err := o.changes(a, cmd)
			if err != nil {
				return err
			}
			if o.image != "" {
				changes["image"] = o.image
			}
			if job, err = a.workspaceAgain(cmd.Context(), c, job, changes); err != nil {
				return err
			}
			return a.workspaceReady(cmd.Context(), c, job, o.workspaceEntry)
		},
	}
	o.amounts(a, cmd)
	fs := cmd.Flags()
	fs.StringVar(&o.image, "image", "", "another `IMAGE` than before")
	o.workspaceEntry.flags(cmd)
	for _, none := range []string{"array", "after", "deadline", "name", "account"} {
		_ = fs.MarkHidden(none) // a workspace has none, or keeps it, as the server says
	}
	return cmd
}

// ownWorkspace refuses to go on with somebody else's that runs; the server does with one that
// is to be started. Only one's own are found by their names.
func ownWorkspace(ctx context.Context, c *v1.Client, job *v1.Job, named string) error {
	if job.State == "stopped" || job.Name == named {
		return nil
	}
	me, err := c.Me(ctx)
	if err != nil || me.User == job.User {
		return err
	}
	return usage("%s is %s's, and %s: croft app open %s, if it is shared with you", clean(job.ID), clean(job.User), clean(job.State), clean(job.ID))
}

func (a *app) workspaceStopCmd() *cobra.Command {
	var req v1.StopRequest
	return a.workspaceStops(&req, &cobra.Command{
		Use: "stop WORKSPACE…", Short: "Stop workspaces, which can be started again", Example: "  croft workspace stop jupyter",
	})
}

func (a *app) workspaceRmCmd() *cobra.Command {
	req := v1.StopRequest{Delete: true}
	return a.workspaceStops(&req, &cobra.Command{
		Use: "rm WORKSPACE…", Short: "Delete workspaces; files in mounted folders stay", Example: "  croft workspace rm jupyter",
	})
}

// workspaceID is the id of a workspace that is named by that or by its name.
func (a *app) workspaceID(ctx context.Context, c *v1.Client, text string) (string, error) {
	job, err := a.workspaceOf(ctx, c, text)
	switch {
	case err != nil:
		return "", err
	case job == nil:
		return "", usage("no such workspace: %s (croft workspace ls)", text)
	}
	return job.ID, nil
}

// workspaceShareCmd is croft app share, by the name that a workspace has.
func (a *app) workspaceShareCmd() *cobra.Command {
	cmd := a.appShareCmd(a.workspaceID)
	cmd.Use, cmd.Args = "share WORKSPACE (--with USER | --account ACCOUNT | --public)", needArgs(1, 1, "WORKSPACE")
	cmd.Short = "Let others into a workspace"
	cmd.Example = `  croft workspace share jupyter --with ben
  croft workspace share jupyter --account nlp --view --until 17:00`
	return cmd
}

func (a *app) workspaceUnshareCmd() *cobra.Command {
	cmd := a.appUnshareCmd(a.workspaceID)
	cmd.Use, cmd.Args = "unshare WORKSPACE (--with USER | --account ACCOUNT | --public)", needArgs(1, 1, "WORKSPACE")
	cmd.Short = "Let others no longer into a workspace"
	cmd.Example = "  croft workspace unshare jupyter --with ben"
	return cmd
}

// workspaceStops has a command stop workspaces, and nothing else.
func (a *app) workspaceStops(req *v1.StopRequest, cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = needArgs(1, -1, "WORKSPACE"), a.jobIDs("live")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.controlled(args, func(c *v1.Client, id string) (*v1.Job, error) {
			id, err := a.workspaceID(cmd.Context(), c, id)
			if err != nil {
				return nil, err
			}
			return c.Stop(cmd.Context(), id, *req)
		}, a.printStates)
	}
	cmd.Flags().BoolVar(&req.Now, "now", false, "SIGKILL at once, without grace")
	return cmd
}
