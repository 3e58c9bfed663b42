package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/record"
)

// Attach implements engine.Engine. The runtime sees to it that the input ends for the
// program with the first attach that gives any (CRI's StdinOnce).
func (e *Engine) Attach(ctx context.Context, id engine.StepID, req engine.AttachRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	have, err := e.find(ctx, id.Attempt)
	if err != nil {
		return err
	}
	if h, ok := have.hosts[id]; ok {
		return e.attachHost(ctx, id, h, req)
	}
	c := have.step(id.N)
	if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return &engine.NotFoundError{Attempt: id.Attempt}
	}
	tty := c.GetLabels()[labelTerminal] != ""
	if req.Stdin != nil && c.GetLabels()[labelInput] == "" {
		return &engine.AttachError{Message: engine.NoInput}
	}
	s := joined(tty, req)
	r, err := ask(ctx, e.rt, func(ctx context.Context) (*runtimeapi.AttachResponse, error) {
		return e.rt.runtime.Attach(ctx, &runtimeapi.AttachRequest{
			ContainerId: c.GetId(), Tty: tty, Stdin: s.stdin != nil, Stdout: s.stdout != nil, Stderr: s.stderr != nil,
		})
	})
	if err == nil && s.stdin != nil && !tty {
		err = e.attachFirst(ctx, id, c.GetLabels()[labelAwaits] != "", r.GetUrl(), s)
	} else if err == nil {
		err = attach(ctx, r.GetUrl(), s)
	}
	var refused *engine.AttachError
	var left *leaving
	switch {
	case errors.As(err, &left):
		return left.cause
	case err == nil, ctx.Err() != nil, engine.IsUnavailable(err), errors.As(err, &refused):
		return err
	}
	return e.whyNotAttached(ctx, id, err)
}

// whyNotAttached is err, unless the step has ended meanwhile.
func (e *Engine) whyNotAttached(ctx context.Context, id engine.StepID, err error) error {
	have, ferr := e.find(ctx, id.Attempt)
	switch {
	case ferr != nil:
		return ferr
	case have.step(id.N).GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING:
		return &engine.NotFoundError{Attempt: id.Attempt}
	}
	return &engine.UnavailableError{Cause: err} // the streaming server went down, as the runtime does when it restarts
}

// joined is what is asked of the runtime. Some output is always among it: by its end
// the end of the program is seen.
func joined(tty bool, req engine.AttachRequest) streams {
	s := streams{tty: tty, stdin: req.Stdin, stdout: req.Stdout, stderr: req.Stderr, resize: req.Resize}
	switch {
	case tty:
		s.stdout, s.stderr = or(s.stdout), nil
	case s.stdout == nil:
		s.stderr = or(s.stderr)
	}
	return s
}

// attachFirst attaches with the input of a step that has no terminal, if nobody has
// given it before.
func (e *Engine) attachFirst(ctx context.Context, id engine.StepID, awaited bool, address string, s streams) error {
	own := e.scratch(id.Attempt).step(id.N)
	f, err := os.OpenFile(own.given(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return &engine.AttachError{Message: engine.InputGiven}
	case errors.Is(err, fs.ErrNotExist):
		return &engine.NotFoundError{Attempt: id.Attempt}
	case err != nil:
		return fmt.Errorf("cri: %w", err)
	}
	f.Close()
	turn := false
	if awaited {
		if turn, err = record.TakeTurn(own.record()); err != nil {
			e.log.Warn("a program isn't told who attaches", "step", id.String(), "error", err)
		}
	}
	if turn {
		s.stdin = io.MultiReader(bytes.NewReader([]byte{record.Attached}), s.stdin)
	}
	in := &touched{Reader: s.stdin, ctx: ctx}
	s.stdin = in
	err = attach(ctx, address, s)
	// The runtime ends the input when the connection does. It hasn't where there never
	// was one, or where it went down itself: then somebody else may give it.
	var left *leaving
	begun := in.read.Load()
	if turn && !begun {
		_ = record.LeaveTurn(own.record()) // it goes with the step
	}
	if !begun || err != nil && !errors.As(err, &left) {
		if rerr := os.Remove(own.given()); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			e.log.Warn("an input can't be given again", "step", id.String(), "error", rerr)
		}
	}
	return err
}

// settling is how long an input is held back once the streams are there. The runtime
// begins to hand it on before it joins the output, and doesn't say when it has: what
// answers at once would do so before anybody listens.
const settling = 100 * time.Millisecond

// touched notes that something was asked of a reader, and waits then before it reads.
type touched struct {
	io.Reader
	ctx  context.Context // of the attach: an io.Reader has no other way to get it
	read atomic.Bool
}

func (t *touched) Read(b []byte) (int, error) {
	if !t.read.Swap(true) {
		select {
		case <-time.After(settling):
		case <-t.ctx.Done():
			return 0, t.ctx.Err()
		}
	}
	return t.Reader.Read(b)
}

// attach carries the streams until the program ends, or a writer fails: the client of
// the streaming protocol would go on without it.
func attach(ctx context.Context, address string, s streams) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	guard := func(w io.Writer) io.Writer {
		if w == nil {
			return nil
		}
		return guarded{w, cancel}
	}
	s.stdout, s.stderr = guard(s.stdout), guard(s.stderr)
	err := stream(ctx, address, s)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return &leaving{cause}
	}
	return err
}

// leaving is the end of an attach by who attached, not by the program or the runtime.
type leaving struct{ cause error }

func (l *leaving) Error() string { return l.cause.Error() }

type guarded struct {
	w      io.Writer
	cancel context.CancelCauseFunc
}

// Write never fails: the stream's end follows, and until then nothing holds it up.
func (g guarded) Write(b []byte) (int, error) {
	if _, err := g.w.Write(b); err != nil {
		g.cancel(err)
	}
	return len(b), nil
}
