package sim

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"croft.dev/croft/internal/engine"
)

// Logs implements engine.Engine.
func (c *conn) Logs(ctx context.Context, id engine.StepID, opts engine.LogOptions, w engine.LogWriter) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	f := c.fleet
	f.mu.Lock()
	a := c.step(id)
	if a == nil {
		f.mu.Unlock()
		return &engine.NotFoundError{Attempt: id.Attempt}
	}
	from := a.selectLog(opts)
	f.mu.Unlock()
	for {
		f.mu.Lock()
		f.settle(a)
		entries, ended, changed := slices.Clone(a.log[from:]), a.phase == engine.PhaseExited, a.changed
		err := f.contact(a)
		f.mu.Unlock()
		if err != nil {
			return err
		}
		from += len(entries)
		for _, e := range entries {
			if e.at.Before(opts.Since) {
				continue
			}
			if err := w.WriteLog(e.at, e.stream, []byte(e.text)); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil || !opts.Follow || ended {
			return err
		}
		if err := c.await(ctx, changed); err != nil {
			return err
		}
	}
}

// selectLog returns where in the log the selection begins.
func (a *step) selectLog(opts engine.LogOptions) int {
	from := slices.IndexFunc(a.log, func(e logEntry) bool { return !e.at.Before(opts.Since) })
	if from < 0 {
		from = len(a.log)
	}
	if opts.Tail >= 0 {
		from = max(from, len(a.log)-opts.Tail)
	}
	return from
}

// await waits for a change, and fails if the fleet can't be asked then.
func (c *conn) await(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
	case <-c.closed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.reachable()
}

// Exec implements engine.Engine. The command is read as Script reads a step's.
// It is killed when the step ends.
func (c *conn) Exec(ctx context.Context, id engine.StepID, req engine.ExecRequest) (int, error) {
	if err := c.enter(ctx); err != nil {
		return 0, err
	}
	f := c.fleet
	f.mu.Lock()
	a := c.step(id)
	if a == nil || a.removed {
		f.mu.Unlock()
		return 0, &engine.NotFoundError{Attempt: id.Attempt}
	}
	f.settle(a)
	phase, err := a.phase, f.contact(a)
	f.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case phase != engine.PhaseRunning:
		return 0, fmt.Errorf("sim: step %s is not running", id)
	}
	return c.runExec(ctx, a, req)
}

func (c *conn) runExec(ctx context.Context, a *step, req engine.ExecRequest) (int, error) {
	if req.SFTP {
		return 1, write(req.Stderr, "a virtual machine has no files\n")
	}
	p := parseCommand(req.Command, environment(a.Allocation), a.Workdir)
	if p.Failure != "" {
		return 127, write(req.Stderr, p.Failure+"\n")
	}
	began := c.fleet.clock.Now()
	for _, o := range p.Output {
		if killed, err := c.until(ctx, a, o.At-c.fleet.clock.Now().Sub(began)); killed || err != nil {
			return 128 + sigkill, err
		}
		out := req.Stdout
		if o.Stream == engine.Stderr && !req.TTY {
			out = req.Stderr
		}
		if err := write(out, o.Text+"\n"); err != nil {
			return 0, err
		}
	}
	if p.Stdin && req.Stdin != nil && req.Stdout != nil {
		if _, err := io.Copy(req.Stdout, req.Stdin); err != nil {
			return 0, err
		}
	}
	left := p.Run - c.fleet.clock.Now().Sub(began)
	if p.Run == untilSignalled {
		left = longest
	}
	if killed, err := c.until(ctx, a, left); killed || err != nil {
		return 128 + sigkill, err
	}
	return p.Exit, nil
}

// until lets d pass, unless the step ends before.
func (c *conn) until(ctx context.Context, a *step, d time.Duration) (killed bool, err error) {
	timer := c.fleet.clock.NewTimer(d)
	defer timer.Stop()
	for {
		c.fleet.mu.Lock()
		ended, changed := a.phase == engine.PhaseExited, a.changed
		err := c.fleet.contact(a)
		c.fleet.mu.Unlock()
		if ended || err != nil {
			return ended, err
		}
		select {
		case <-timer.C:
			return false, nil
		case <-changed:
		case <-c.closed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		if err := c.reachable(); err != nil {
			return false, err
		}
	}
}

func write(w io.Writer, text string) error {
	if w == nil {
		return nil
	}
	_, err := io.WriteString(w, text)
	return err
}
