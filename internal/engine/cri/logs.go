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
func (e *Engine) Logs(ctx context.Context, id engine.AttemptID, opts engine.LogOptions, w engine.LogWriter) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !attemptName.MatchString(string(id)) {
		return &engine.NotFoundError{Attempt: id}
	}
	if _, err := os.Stat(e.logDir(id)); errors.Is(err, fs.ErrNotExist) {
		return &engine.NotFoundError{Attempt: id}
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

// exit is closed when an attempt has ended.
type exit chan struct{}

// Done implements logfile.Ended.
func (x exit) Done() <-chan struct{} { return x }

// awaitExit arranges for ended to be closed at the attempt's end, or when it is
// no more. It subscribes before it asks, so that no end is missed; an event that
// the runtime lost is made up for by asking now and then.
func (e *Engine) awaitExit(ctx context.Context, id engine.AttemptID, ended exit) error {
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
				over = st.Attempt == id && st.Phase == engine.PhaseExited
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

// isOver reports whether an attempt has ended or is no more.
func (e *Engine) isOver(ctx context.Context, id engine.AttemptID) (bool, error) {
	all, err := e.List(ctx)
	if err != nil {
		return false, err
	}
	for _, st := range all {
		if st.Attempt == id {
			return st.Phase == engine.PhaseExited, nil
		}
	}
	// One that is being started has its scratch before its sandbox.
	_, err = os.Lstat(string(e.scratch(id)))
	return errors.Is(err, fs.ErrNotExist), nil
}
