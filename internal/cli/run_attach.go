package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// comeAlong checks that what is run can be given a terminal, if it is to have one.
func (a *app) comeAlong(tty bool) error {
	if tty && !(a.env.Term.In && a.env.Term.Out) {
		return usage("--tty: standard input and output aren't a terminal; without it, -i passes the input on")
	}
	return nil
}

// pumpStreams attaches to what the job runs. Where it is too late for that, there is its
// log: nothing of it was shown yet.
func (f *follower) pumpStreams(ctx context.Context) {
	err := f.a.join(ctx, f.c, *f.joint)
	if tooLate(err) {
		err = f.copyLog(ctx)
	}
	select {
	case f.logged <- err:
	case <-ctx.Done():
	}
}

// tooLate reports whether one wasn't attached at all, since the program has ended, or
// somebody else gives its input.
func tooLate(err error) bool {
	code := v1.CodeOf(err)
	return code == codes.Conflict || code == codes.NotFound
}

// leave is the end of following a job that one isn't attached to any more.
func (f *follower) leave(err error) error {
	f.bar.clear()
	if errors.Is(err, errLeft) {
		f.warn("detached from %s: %s", f.id, f.a.attachAgain(f.id))
		return nil
	}
	return f.a.cutOff(*f.joint, err)
}

// noting notes whether a stream that it writes to is within a line.
type noting struct {
	f *follower
	w io.Writer
}

func (t noting) Write(b []byte) (int, error) {
	if len(b) > 0 {
		t.f.midline.Store(b[len(b)-1] != '\n')
	}
	return t.w.Write(b)
}

// joinStep attaches to a step once it runs; left says that the user has detached.
func (a *app) joinStep(ctx context.Context, c *v1.Client, step *v1.Step) (left bool, err error) {
	if _, err := c.WaitStep(ctx, step.Job, step.N, v1.Running, v1.WaitOptions{Window: away}); err != nil {
		return false, err
	}
	j := joint{name: clean(step.ID), job: step.Job, step: step.N, tty: step.Spec.TTY, in: newInput(ctx, a.env.Stdin), stdout: a.env.Stdout, stderr: a.env.Stderr}
	if j.keys, err = parseKeys(defaultKeys); err != nil {
		return false, err
	}
	switch err = a.join(ctx, c, j); {
	case errors.Is(err, errLeft):
		fmt.Fprintf(a.env.Stderr, "detached from %s: %s\n", j.name, a.attachAgain(j.name))
		return true, nil
	case tooLate(err):
		return false, a.copyStepLog(ctx, c, step)
	case err != nil:
		return false, a.cutOff(j, err)
	}
	return false, nil
}
