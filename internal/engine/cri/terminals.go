package cri

import (
	"context"
	"errors"
	"fmt"
	"io"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/keep"
	"croft.dev/croft/internal/engine/record"
)

// Terminals implements engine.Engine. The keeper is started as an exec, and is a process of
// the container's from then on; its socket lies beside the note of how the step ended.
func (e *Engine) Terminals(ctx context.Context, id engine.StepID, start bool) (io.ReadWriteCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	have, err := e.find(ctx, id.Attempt)
	if err != nil {
		return nil, err
	}
	if _, ok := have.hosts[id]; ok {
		return nil, &engine.AttachError{Message: "a program on the machine itself has no terminals beside it: run a shell with croft exec -it"}
	}
	c := have.step(id.N)
	if c == nil || c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, &engine.NotFoundError{Attempt: id.Attempt}
	}
	dir := e.scratch(id.Attempt).step(id.N).record()
	conn, err := keep.Dial(dir)
	if errors.Is(err, keep.ErrNone) {
		if !start {
			return nil, &engine.NoTerminalsError{Step: id}
		}
		conn, err = e.startKeeper(ctx, id, c.GetId(), dir)
	}
	var refused *engine.AttachError
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil, engine.IsUnavailable(err), errors.As(err, &refused):
		return nil, err
	}
	e.log.Info("a step's terminals can't be reached", "step", id.String(), "error", err)
	return nil, &engine.AttachError{Message: "what keeps its terminals doesn't answer as it should: end the processes croft-terminals in it"}
}

// keeperTries is how often a keeper is started that goes just when it is to be connected with.
const keeperTries = 3

// startKeeper starts the keeper of a step, one call at a time, and connects with it.
func (e *Engine) startKeeper(ctx context.Context, id engine.StepID, container, dir string) (io.ReadWriteCloser, error) {
	unlock, err := e.keepers.lock(ctx, engine.AttemptID(id.String()))
	if err != nil {
		return nil, err
	}
	defer unlock()
	conn, err := keep.Dial(dir) // another call may have started it
	for try := 0; errors.Is(err, keep.ErrNone) && try < keeperTries; try++ {
		said := &keep.Brief{}
		code, xerr := e.execIn(ctx, container, engine.ExecRequest{
			Command: []string{record.InitPath, keep.AsLauncher, record.Dir}, Stdout: io.Discard, Stderr: said,
		})
		switch {
		case xerr != nil:
			return nil, e.whyNotAttached(ctx, id, xerr)
		case code != 0:
			return nil, &engine.AttachError{Message: fmt.Sprintf("no terminal can be opened in it: %s (exit code %d)", said, code)}
		}
		conn, err = keep.Dial(dir)
	}
	return conn, err
}
