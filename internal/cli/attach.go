package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) attachCmd() *cobra.Command { return a.attachTo("croft attach") }

// cattachCmd is the same under the name that CraneSched has for it.
func (a *app) cattachCmd() *cobra.Command { return a.batchCmd(a.attachTo("cattach")) }

func (a *app) attachTo(program string) *cobra.Command {
	var noStdin bool
	var keys string
	cmd := &cobra.Command{
		Use:   strings.TrimPrefix(program, "croft ") + " JOB[.STEP]",
		Short: "Join the streams of a running job",
		Long: `Join the streams of a running job, or of a further step: what it writes from now on
comes here, and what is typed here goes to it, if it was started with an input. It ends
with the program, with the program's exit code.

On a terminal every key is the program's; ctrl-p and then ctrl-q detach from it, and
the program goes on. Any number may be attached. Without a terminal the input belongs to
the first who gives it, and its end here is its end there; Ctrl-C leaves.`,
		Example:           fmt.Sprintf("  %[1]s 118\n  %[1]s --no-stdin 118.2", program),
		Args:              needArgs(1, 1, "JOB[.STEP]"),
		ValidArgsFunction: a.jobIDs("running"),
		RunE: func(cmd *cobra.Command, args []string) error {
			sequence, err := parseKeys(keys)
			if err != nil {
				return err
			}
			job, n, err := jobOrStep(args[0])
			if err != nil {
				return err
			}
			j := joint{name: clean(args[0]), job: job, step: max(n, 1), keys: sequence, stdout: a.env.Stdout, stderr: a.env.Stderr}
			return a.attach(cmd.Context(), j, !noStdin)
		},
	}
	cmd.Flags().BoolVar(&noStdin, "no-stdin", false, "only watch")
	keysFlag(cmd, &keys)
	return cmd
}

func keysFlag(cmd *cobra.Command, keys *string) {
	cmd.Flags().StringVar(keys, "detach-keys", defaultKeys, "`KEYS` that detach from a terminal")
}

// interruptible is ctx until the user interrupts: then it ends with that cause.
func (a *app) interruptible(ctx context.Context, cause error) (_ context.Context, stop func()) {
	signals, ignore := a.env.Signals(os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-signals:
			cancel(cause)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); ignore() }
}

// attach stays attached to what runs until it has ended, and returns its exit code as an
// error.
func (a *app) attach(ctx context.Context, j joint, stdin bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	step, err := c.Step(ctx, j.job, j.step)
	if err != nil {
		return err
	}
	ctx, stop := a.interruptible(ctx, errLeft)
	defer stop()
	if j.tty = step.Spec.TTY; stdin && step.Spec.Stdin {
		j.in = newInput(ctx, a.env.Stdin)
	}
	err = a.join(ctx, c, j)
	switch {
	case errors.Is(context.Cause(ctx), errLeft):
		fmt.Fprintf(a.env.Stderr, "left %s: it goes on%s\n", j.name, map[bool]string{true: ", its input has ended"}[j.in != nil && !j.tty])
		return exitStatus(exitInterrupted)
	case errors.Is(err, errLeft):
		fmt.Fprintf(a.env.Stderr, "detached from %s: %s\n", j.name, a.attachAgain(j.name))
		return nil
	case err != nil:
		return a.cutOff(j, err)
	}
	return a.afterEnd(ctx, c, j, step)
}

// attachAgain is the command that comes back to what one was attached to.
func (a *app) attachAgain(name string) string {
	if len(a.env.Args) > 0 && filepath.Base(a.env.Args[0]) == "ccon" {
		return "ccon attach " + name
	}
	return "croft attach " + name
}

// cutOff is why one isn't attached any more. If that was the end of the connection, or of
// the server's to the runtime, it says how to go on.
func (a *app) cutOff(j joint, err error) error {
	if v1.CodeOf(err) != codes.Unavailable {
		return err
	}
	next := a.attachAgain(j.name)
	if j.in != nil && !j.tty {
		next = "its input has ended; croft logs -f " + j.name
	}
	fmt.Fprintf(a.env.Stderr, "the connection was lost; %s goes on: %s\n", j.name, next)
	return err
}

// afterEnd says how what one was attached to has ended.
func (a *app) afterEnd(ctx context.Context, c *v1.Client, j joint, was *v1.Step) error {
	if j.step > 1 {
		end, err := c.WaitStep(ctx, j.job, j.step, v1.Ended, v1.WaitOptions{Window: away})
		if err != nil {
			return err
		}
		return a.finishStep(end, quietly(end.Outcome == string(codes.Completed)))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	again := false
	end, err := c.Wait(ctx, j.job, v1.Ended, v1.WaitOptions{
		Window: away, Poll: func(*v1.Job) time.Duration { return time.Second },
		Each: func(now *v1.Job) {
			if now.State == "queued" || now.State == "held" || now.Attempt != was.Attempt {
				again = true
				cancel()
			}
		},
	})
	switch {
	case again:
		fmt.Fprintf(a.env.Stderr, "%s has ended and waits again: %s\n", j.name, a.attachAgain(j.name))
		return exitStatus(codes.ExitInternal)
	case err != nil:
		return err
	}
	last := v1.Step{ID: j.name, State: end.State, Outcome: end.Outcome, ExitCode: end.ExitCode, Message: end.Message}
	return a.finishStep(&last, quietly(end.Outcome == string(codes.Completed)))
}

// joint is what one is attached to, and with what.
type joint struct {
	name           string // as the user says it
	job            string
	step           int
	tty            bool
	in             *input // nil: none is given
	keys           []byte
	stdout, stderr io.Writer
}

// detachGrace is how long what was typed before the sequence may take to arrive.
const detachGrace = 2 * time.Second

// join attaches until what runs has ended, or the user has typed the sequence: errLeft.
// On a terminal it makes every key the program's meanwhile.
func (a *app) join(ctx context.Context, c *v1.Client, j joint) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opt := v1.AttachOptions{Step: j.step, Stdout: j.stdout, Stderr: j.stderr}
	var left <-chan struct{}
	if j.in != nil {
		keys := j.keys
		raw := j.tty && a.env.Term.In && a.env.Term.Out
		if raw {
			restore, err := a.rawTerminal(ctx, &opt.Size, &opt.Resize)
			if err != nil {
				return err
			}
			defer restore()
		} else {
			keys = nil
		}
		t := newTypist(ctx, j.in, keys, j.tty)
		opt.Stdin, left = t, t.left
	}
	done := make(chan error, 1)
	go func() { done <- c.Attach(ctx, j.job, opt) }()
	select {
	case err := <-done:
		return err
	case <-left:
	}
	select {
	case <-done:
	case <-time.After(detachGrace): // the program doesn't read
		cancel()
		<-done
	}
	return errLeft
}

// rawTerminal hands every key to the program, and tells how large the terminal is, until
// restore is called.
func (a *app) rawTerminal(ctx context.Context, size *v1.TerminalSize, resize *<-chan v1.TerminalSize) (restore func(), err error) {
	if *size, _ = a.env.Term.Size(); size.Cols == 0 || size.Rows == 0 {
		*size = v1.TerminalSize{Cols: 80, Rows: 24}
	}
	signals, stop := a.env.Signals(syscall.SIGWINCH)
	ctx, cancel := context.WithCancel(ctx)
	*resize = a.sizes(ctx, signals)
	cooked, err := a.env.Term.Raw()
	if err != nil {
		cancel()
		stop()
		return nil, usage("the terminal can't be used: %v", err)
	}
	return func() { cooked(); cancel(); stop() }, nil
}
