package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"croft.dev/croft/internal/engine"
)

// Attach implements engine.Engine. A program that doesn't copy its input ignores it,
// and a terminal echoes nothing.
func (c *conn) Attach(ctx context.Context, id engine.StepID, req engine.AttachRequest) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	a, from, err := c.join(id, req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fed := make(chan struct{})
	if req.Stdin != nil {
		go c.fleet.feed(ctx, a, req.Stdin, fed)
		if !a.TTY {
			// With whoever gives the input it ends too. feed may wait for more for ever.
			defer c.fleet.inputEnds(a)
		}
	}
	if req.Resize != nil {
		go c.fleet.follow(ctx, a, req.Resize)
	}
	return c.output(ctx, a, from, req, fed)
}

// join finds a step to attach to, and where its log is by then.
func (c *conn) join(id engine.StepID, req engine.AttachRequest) (*step, int, error) {
	f := c.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	a := c.step(id)
	if a == nil || a.removed {
		return nil, 0, &engine.NotFoundError{Attempt: id.Attempt}
	}
	f.settle(a)
	switch err := f.contact(a); {
	case err != nil:
		return nil, 0, err
	case a.phase != engine.PhaseRunning:
		return nil, 0, &engine.NotFoundError{Attempt: id.Attempt}
	case req.Stdin != nil && !a.Stdin:
		return nil, 0, &engine.AttachError{Message: engine.NoInput}
	case req.Stdin != nil && !a.TTY && a.given:
		return nil, 0, &engine.AttachError{Message: engine.InputGiven}
	}
	from := len(a.log)
	if req.Stdin != nil {
		a.given = true
		if !a.TTY {
			f.attached(a)
		}
	}
	return a, from, nil
}

// output writes what the step prints, until it has ended or, with a terminal, the
// input has.
func (c *conn) output(ctx context.Context, a *step, from int, req engine.AttachRequest, fed <-chan struct{}) error {
	f := c.fleet
	for {
		var over bool
		select {
		case <-fed:
			over = a.TTY
		default:
		}
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
			out := req.Stdout
			if e.stream == engine.Stderr && !a.TTY {
				out = req.Stderr
			}
			if err := write(out, e.text); err != nil {
				return err
			}
		}
		if ended || over {
			return nil
		}
		select {
		case <-changed:
		case <-fed:
			if !a.TTY {
				fed = nil
			}
		case <-c.closed:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := c.reachable(); err != nil {
			return err
		}
	}
}

// feed gives the step its input. fed is closed when that has ended.
func (f *Fleet) feed(ctx context.Context, a *step, in io.Reader, fed chan<- struct{}) {
	defer close(fed)
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if ctx.Err() != nil {
			return
		}
		f.input(a, buf[:n])
		if err != nil {
			break
		}
	}
	if !a.TTY {
		f.inputEnds(a)
	}
}

// endOfTransmission is what a terminal sends for the end of the input.
const endOfTransmission = 4

// input lets the program have some of its input.
func (f *Fleet) input(a *step, b []byte) {
	f.mu.Lock()
	f.settle(a)
	over := false
	if a.TTY {
		if i := bytes.IndexByte(b, endOfTransmission); i >= 0 {
			b, over = b[:i], true
		}
	}
	if len(b) > 0 && a.phase == engine.PhaseRunning && a.program.Stdin {
		a.write(f.clock.Now(), engine.Stdout, string(b))
	}
	f.mu.Unlock()
	if over {
		f.inputEnds(a)
	}
}

// inputEnds ends a program that copies its input.
func (f *Fleet) inputEnds(a *step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle(a)
	if a.phase == engine.PhaseRunning && a.program.Stdin && a.program.Run >= 0 && a.ends.IsZero() {
		a.ends = f.clock.Now().Add(a.program.Run)
		f.settle(a)
	}
}

// follow gives the step's terminal the sizes of one who is attached.
func (f *Fleet) follow(ctx context.Context, a *step, sizes <-chan engine.Size) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			f.resize(a, size)
		}
	}
}

// resize sets the size of the step's terminal.
func (f *Fleet) resize(a *step, size engine.Size) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle(a)
	if !a.TTY || a.phase != engine.PhaseRunning || size == a.size {
		return
	}
	a.size = size
	f.attached(a)
	if a.program.Sizes {
		a.print(f.clock.Now(), engine.Stdout, fmt.Sprint(size.Rows, " ", size.Cols))
	}
}

// attached lets a program begin that waited for somebody to attach. f.mu is held.
func (f *Fleet) attached(a *step) {
	if now := f.clock.Now(); now.Before(a.origin) {
		a.origin = now
		a.schedule()
		f.settle(a)
	}
}
