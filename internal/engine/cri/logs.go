package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/logfile"
)

// Logs implements engine.Engine.
func (e *Engine) Logs(ctx context.Context, id engine.StepID, opts engine.LogOptions, w engine.LogWriter) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !attemptName.MatchString(string(id.Attempt)) {
		return &engine.NotFoundError{Attempt: id.Attempt}
	}
	if _, err := os.Stat(e.logDir(id.Attempt)); errors.Is(err, fs.ErrNotExist) {
		return &engine.NotFoundError{Attempt: id.Attempt}
	} else if err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	ended := make(exit)
	if opts.Follow {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := e.awaitExit(ctx, id, ended); err != nil {
			return err
		}
	}
	return logfile.Read(ctx, e.logPath(id), opts, ended, w)
}

// exit is closed when a step has ended.
type exit chan struct{}

// Done implements logfile.Ended.
func (x exit) Done() <-chan struct{} { return x }

// awaitExit arranges for ended to be closed at the step's end, or when it is
// no more. It subscribes before it asks, so that no end is missed; an event that
// the runtime lost is made up for by asking now and then.
func (e *Engine) awaitExit(ctx context.Context, id engine.StepID, ended exit) error {
	sub, err := e.hub.subscribe()
	if err != nil {
		return err
	}
	over, err := e.isOver(ctx, id)
	if err != nil || over {
		e.hub.unsubscribe(sub)
		if over {
			close(ended)
		}
		return err
	}
	go func() {
		defer e.hub.unsubscribe(sub)
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case st := <-sub.ch:
				over = st.ID() == id && st.Phase == engine.PhaseExited
			case <-tick.C:
				// Not knowing is not an end: asked again at the next tick.
				over, _ = e.isOver(ctx, id)
			}
			if over {
				close(ended)
				return
			}
		}
	}()
	return nil
}

// isOver reports whether a step has ended or is no more.
func (e *Engine) isOver(ctx context.Context, id engine.StepID) (bool, error) {
	all, err := e.List(ctx)
	if err != nil {
		return false, err
	}
	for _, st := range all {
		if st.ID() == id {
			return st.Phase == engine.PhaseExited, nil
		}
	}
	// One that is being started has its scratch before its container.
	_, err = os.Lstat(string(e.scratch(id.Attempt).step(id.N)))
	return errors.Is(err, fs.ErrNotExist), nil
}
