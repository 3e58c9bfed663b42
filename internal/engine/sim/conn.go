package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"croft.dev/croft/internal/engine"
)

// conn is one server's connection to a fleet.
type conn struct {
	fleet    *Fleet
	instance string
	closing  sync.Once
	closed   chan struct{}
}

var _ engine.Engine = (*conn)(nil)

// enter is the way into every call: it is slow or fails if a fault says so.
func (c *conn) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.fleet.mu.Lock()
	latency := c.fleet.faults.latency
	c.fleet.mu.Unlock()
	if err := c.wait(ctx, latency); err != nil {
		return err
	}
	return c.reachable()
}

// wait lets d pass on the fleet's clock.
func (c *conn) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := c.fleet.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return c.reachable()
	}
}

// reachable returns an UnavailableError if the fleet can't be asked.
func (c *conn) reachable() error {
	select {
	case <-c.closed:
		return &engine.UnavailableError{Cause: errors.New("the connection is closed")}
	default:
	}
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	if c.fleet.faults.down {
		return &engine.UnavailableError{Cause: errors.New("connection refused")}
	}
	return nil
}

// Inventory implements engine.Engine.
func (c *conn) Inventory(ctx context.Context) (engine.Inventory, error) {
	if err := c.enter(ctx); err != nil {
		return engine.Inventory{}, err
	}
	f := c.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	var inv engine.Inventory
	for _, n := range f.nodes {
		shown := n.Node
		shown.Labels = maps.Clone(n.Labels)
		if n.lost {
			shown.Ready, shown.Reason = false, "contact lost"
		}
		inv.Nodes = append(inv.Nodes, shown)
	}
	for _, d := range f.devices {
		shown := *d
		shown.Foreign = slices.Clone(d.Foreign)
		inv.Devices = append(inv.Devices, shown)
	}
	return inv, nil
}

// Image implements engine.Engine.
func (c *conn) Image(ctx context.Context, ref string) (engine.Image, bool, error) {
	if err := c.enter(ctx); err != nil {
		return engine.Image{}, false, err
	}
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	i := c.fleet.image(ref)
	if i == nil || !i.Present {
		return engine.Image{}, false, nil
	}
	return i.describe(), true, nil
}

// pullSteps is how often a pull reports its progress.
const pullSteps = 10

// Pull implements engine.Engine.
func (c *conn) Pull(ctx context.Context, req engine.PullRequest, progress func(engine.Progress)) (engine.Image, error) {
	if err := c.enter(ctx); err != nil {
		return engine.Image{}, err
	}
	img, err := c.fleet.pullable(req)
	if err != nil {
		return engine.Image{}, err
	}
	for step := int64(1); step <= pullSteps && !img.Present; step++ {
		if err := c.wait(ctx, img.PullTime/pullSteps); err != nil {
			return engine.Image{}, err
		}
		if err := c.reachable(); err != nil {
			return engine.Image{}, err
		}
		if progress != nil {
			done := img.Size / pullSteps * step
			if step == pullSteps {
				done = img.Size
			}
			progress(engine.Progress{Done: done, Total: img.Size})
		}
	}
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	c.fleet.images[req.Ref].Present = true
	return img.describe(), nil
}

// pullable returns a copy of the image that req may have.
func (f *Fleet) pullable(req engine.PullRequest) (Image, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.image(req.Ref)
	switch {
	case i == nil:
		return Image{}, &engine.PullError{Ref: req.Ref, NotFound: true, Message: "no such image"}
	case i.Password != "" && i.Password != req.Password:
		return Image{}, &engine.PullError{Ref: req.Ref, Denied: true, Message: "access denied"}
	}
	return *i, nil
}

// Start implements engine.Engine. An attempt that was removed is never started
// again: that is refused, since it would be a second run.
func (c *conn) Start(ctx context.Context, alloc engine.Allocation) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	f := c.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	switch a := f.steps[alloc.Attempt.Primary()]; {
	case a != nil && a.removed:
		return &engine.StartError{Message: "this attempt has ended and was removed"}
	case a != nil && a.Instance != alloc.Instance:
		return &engine.StartError{Message: "this attempt belongs to another instance"}
	case a == nil:
		if err := f.startNew(alloc, engine.PrimaryStep); err != nil {
			return err
		}
	}
	return f.answer()
}

// StartStep implements engine.Engine.
func (c *conn) StartStep(ctx context.Context, alloc engine.Allocation, s engine.Step) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	f := c.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	primary := c.step(alloc.Attempt.Primary())
	switch {
	case primary == nil || primary.removed:
		return &engine.NotFoundError{Attempt: alloc.Attempt}
	case s.N <= engine.PrimaryStep:
		return &engine.StartError{Message: fmt.Sprintf("a step can't have the number %d", s.N)}
	}
	if f.steps[engine.StepID{Attempt: alloc.Attempt, N: s.N}] == nil {
		f.settle(primary)
		if primary.phase == engine.PhaseExited {
			return &engine.StartError{Message: "the job has ended"}
		}
		alloc.Container, alloc.CPU, alloc.Memory, alloc.Devices = s.Container, s.CPU, s.Memory, s.Devices
		if err := f.startNew(alloc, s.N); err != nil {
			return err
		}
		primary.added = append(primary.added, f.steps[engine.StepID{Attempt: alloc.Attempt, N: s.N}])
	}
	return f.answer()
}

// answer is that of a start which is done. f.mu is held.
func (f *Fleet) answer() error {
	if f.faults.badStarts > 0 {
		f.faults.badStarts--
		return &engine.UnavailableError{Cause: context.DeadlineExceeded}
	}
	return nil
}

// startNew starts a step that isn't known, if its node has what it needs. f.mu is
// held.
func (f *Fleet) startNew(alloc engine.Allocation, n int) error {
	on := f.node(alloc.Node)
	if on == nil {
		return &engine.StartError{Message: fmt.Sprintf("there is no node %q", alloc.Node)}
	}
	if on.lost {
		return &engine.UnavailableError{Cause: errors.New("no contact with node " + on.Name)}
	}
	for _, d := range alloc.Devices {
		if own := f.device(d.UUID); own == nil || own.Node != on.Name {
			return &engine.StartError{Message: fmt.Sprintf("node %s has no device %s", on.Name, d.UUID)}
		}
	}
	if alloc.Host {
		switch {
		case len(alloc.Command) == 0:
			return &engine.StartError{Message: "a program on the machine needs a command"}
		case alloc.Stdin || alloc.TTY:
			return &engine.StartError{Message: "a program on the machine has neither an input nor a terminal"}
		}
	} else if i := f.image(alloc.Image); i == nil || !i.Present {
		return &engine.StartError{Message: fmt.Sprintf("image %s is not present", alloc.Image)}
	}
	p := f.behaviour(alloc)
	if p.Refusal != "" {
		return &engine.StartError{Message: p.Refusal}
	}
	f.start(alloc, n, p)
	return nil
}

// Signal implements engine.Engine.
func (c *conn) Signal(ctx context.Context, id engine.StepID, sig string) error {
	return c.change(ctx, id.Attempt, func(steps []*step) error {
		for _, a := range steps {
			if a.n == id.N {
				return c.fleet.signal(a, sig)
			}
		}
		return nil
	})
}

// StopStep implements engine.Engine.
func (c *conn) StopStep(ctx context.Context, id engine.StepID) error {
	return c.change(ctx, id.Attempt, func(steps []*step) error {
		for _, a := range steps {
			if a.n == id.N {
				c.fleet.kill(a)
			}
		}
		return nil
	})
}

// Stop implements engine.Engine.
func (c *conn) Stop(ctx context.Context, id engine.AttemptID) error {
	return c.change(ctx, id, func(steps []*step) error {
		for _, a := range steps {
			c.fleet.kill(a)
		}
		return nil
	})
}

// Remove implements engine.Engine.
func (c *conn) Remove(ctx context.Context, id engine.AttemptID) error {
	return c.change(ctx, id, func(steps []*step) error {
		for _, a := range steps {
			if c.fleet.settle(a); a.phase != engine.PhaseExited {
				return fmt.Errorf("sim: step %s still runs", a.id())
			}
		}
		for _, a := range steps {
			a.removed = true
		}
		return nil
	})
}

// change calls f with the steps of an attempt of this instance that is listed, its
// primary first. Without one there is nothing to do.
func (c *conn) change(ctx context.Context, id engine.AttemptID, f func([]*step) error) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	primary := c.step(id.Primary())
	if primary == nil || primary.removed {
		return nil
	}
	if err := c.fleet.contact(primary); err != nil {
		return err
	}
	return f(append([]*step{primary}, primary.added...))
}

// contact returns an UnavailableError if the contact with the step's node is lost.
// f.mu is held.
func (f *Fleet) contact(a *step) error {
	if f.node(a.Node).lost {
		return &engine.UnavailableError{Cause: errors.New("no contact with node " + a.Node)}
	}
	return nil
}

// step returns a step of this instance, also of a removed attempt, or nil.
// fleet.mu is held.
func (c *conn) step(id engine.StepID) *step {
	a := c.fleet.steps[id]
	if a == nil || a.Instance != c.instance {
		return nil
	}
	return a
}

// List implements engine.Engine: by the order of starts.
func (c *conn) List(ctx context.Context) ([]engine.Status, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	f := c.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []engine.Status
	for _, a := range f.ordered() {
		if a.Instance == c.instance && !a.removed {
			f.settle(a)
			all = append(all, f.status(a))
		}
	}
	return all, nil
}

// Close implements engine.Engine.
func (c *conn) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return nil
}
