package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// openUsage is that of --open, wherever there is an address.
const openUsage = "open it in your browser"

// workspaceReady waits until a workspace's apps answer, and enters it.
func (a *app) workspaceReady(ctx context.Context, c *v1.Client, job *v1.Job, e workspaceEntry) error {
	e.again = otherwise(e.again, "croft workspace start "+clean(job.Name))
	if e.detach {
		return a.printWorkspace(job)
	}
	began, was := a.env.Now(), isReady(job)
	got, err := a.workspaceWait(ctx, c, job)
	switch {
	case errors.Is(err, errInterrupted):
		a.tell("%s %s goes on without you.  back:  %s  no more:  croft workspace stop %s", clean(job.ID), clean(job.Name), e.again, clean(job.Name))
		return exitStatus(exitInterrupted)
	case err != nil:
		return err
	case got.State != "running":
		a.tell("%s %s %s%s", clean(got.ID), clean(got.Name), clean(jobState(got)), because(otherwise(got.Message, rested(got))))
		a.tell("see:  croft logs %s", clean(got.ID))
		return exitStatus(1)
	}
	if !was {
		a.tell("%s ready in %s", clean(got.ID), span(a.env.Now().Sub(began).Round(time.Second)))
	}
	a.tellLimit(got)
	switch {
	case len(got.Spec.Apps) > 0:
		return a.openWorkspace(ctx, c, got, e)
	case a.output == "table" && a.env.Term.In && a.env.Term.Out:
		return a.sitInWorkspace(ctx, got, e)
	}
	a.tell("join its terminal:  croft terminal %s", clean(got.Name))
	return a.printWorkspace(got)
}

// workspaceWait waits until a workspace is ready or is stopped again, and shows how far it is.
func (a *app) workspaceWait(ctx context.Context, c *v1.Client, job *v1.Job) (*v1.Job, error) {
	ctx, stop := a.interruptible(ctx, errInterrupted)
	defer stop()
	bar := progress{w: a.env.Stderr, inPlace: a.env.Term.Err, now: a.env.Now}
	defer bar.clear()
	got, err := c.Wait(ctx, job.ID, v1.Ready, v1.WaitOptions{Window: away, Poll: readyPoll, Each: func(j *v1.Job) {
		if j.State != "stopped" && !isReady(j) {
			bar.show(clean(j.ID)+" "+a.workspacePhase(j), j.Progress != "" || j.State != "queued")
		}
	}})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return got, err
}

// isReady tells whether a workspace can be entered.
func isReady(j *v1.Job) bool {
	return j.State == "running" && (j.Ready != nil || len(j.Spec.Apps) == 0)
}

// readyPoll asks often while something moves.
func readyPoll(j *v1.Job) time.Duration {
	if j != nil && j.State != "queued" && j.State != "held" {
		return time.Second
	}
	return 5 * time.Second
}

// workspacePhase is what a workspace does before it is ready.
func (a *app) workspacePhase(j *v1.Job) string {
	switch {
	case j.Progress != "":
		return clean(j.Progress)
	case j.State == "queued" && j.Window != nil:
		return "queued, " + a.window(*j.Window)
	case j.State == "running":
		return "starting"
	case j.State == "held":
		return "held: " + clean(a.heldInfo(j))
	}
	return clean(j.State)
}

// tellLimit says how long a workspace goes on, and what stays.
func (a *app) tellLimit(j *v1.Job) {
	home := "no home mounted"
	if slices.ContainsFunc(j.Spec.Mounts, func(m v1.Mount) bool { return !m.ReadOnly && (m.Type == "" || m.Type == "bind") }) {
		home = "home mounted"
	}
	if j.Limit != nil {
		a.tell("%s; stops at %s at the latest, files stay", home, a.clock(*j.Limit))
	}
}

// printWorkspace prints a workspace's number.
func (a *app) printWorkspace(j *v1.Job) error {
	return a.print(j, func(w io.Writer) { fmt.Fprintln(w, clean(j.ID)) })
}

// openedWorkspace is a workspace with an address that logs in.
type openedWorkspace struct {
	*v1.Job
	URL string `json:"url"`
}

// openWorkspace prints an address of a workspace that logs in, and opens it if that is wanted.
func (a *app) openWorkspace(ctx context.Context, c *v1.Client, j *v1.Job, e workspaceEntry) error {
	opened, err := c.Open(ctx, j.ID, v1.OpenRequest{})
	if err != nil {
		return err
	}
	a.tell("this link logs in once, until %s; another:  %s", a.clock(opened.Expires), e.again)
	a.show(ctx, opened.URL, e.open)
	return a.print(openedWorkspace{j, opened.URL}, func(w io.Writer) { fmt.Fprintln(w, clean(opened.URL)) })
}

// sitInWorkspace joins a workspace's terminal, and says afterwards that it goes on.
func (a *app) sitInWorkspace(ctx context.Context, j *v1.Job, e workspaceEntry) error {
	if e.open {
		a.tell("%s has no web program that could be opened", clean(j.Name))
	}
	keys, err := parseKeys(defaultKeys)
	if err != nil {
		return err
	}
	err = a.sit(ctx, seat{job: j.ID, of: clean(j.ID), name: mainTerminal, keys: keys, back: e.again})
	var ended exitStatus
	if err == nil || errors.As(err, &ended) {
		a.tell("%s %s runs on.  back:  %s  no more:  croft workspace stop %s", clean(j.ID), clean(j.Name), e.again, clean(j.Name))
	}
	return err
}
