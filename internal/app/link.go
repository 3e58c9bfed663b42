package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"croft.dev/croft/internal/engine"
)

// link is an engine that may not be there yet, or not any more: the server starts,
// answers and queues jobs without one. Until it is connected every call says
// unavailable, from which nobody concludes anything.
type link struct {
	connect func(context.Context) (engine.Engine, error)
	ensure  func(context.Context) error // the runtime beneath; nil: not ours
	what    string                      // it is called in messages
	log     *slog.Logger
	cut     chan struct{} // has something while the runtime may be away

	mu  sync.Mutex
	eng engine.Engine
	err error
}

var _ engine.Engine = (*link)(nil)

// Times of the link's care for the runtime.
const (
	ensurePeriod = 10 * time.Second
	retryPeriod  = 2 * time.Second
)

// lost has the runtime looked at now: its events were cut off.
func (l *link) lost() {
	select {
	case l.cut <- struct{}{}:
	default:
	}
}

// run keeps the runtime running and the engine connected until ctx ends.
func (l *link) run(ctx context.Context) {
	for {
		wait := ensurePeriod
		if err := l.try(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn(l.what+" isn't there, will try again", "error", err)
			wait = retryPeriod
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-l.cut:
		}
	}
}

// try ensures the runtime and connects, if that isn't so already.
func (l *link) try(ctx context.Context) error {
	var err error
	if l.ensure != nil {
		err = l.ensure(ctx)
	}
	l.mu.Lock()
	connected := l.eng != nil
	l.mu.Unlock()
	if err == nil && !connected {
		var eng engine.Engine
		if eng, err = l.connect(ctx); err == nil {
			l.mu.Lock()
			l.eng = eng
			l.mu.Unlock()
		}
	}
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	return err
}

var errNotConnected = errors.New("not connected yet")

func (l *link) get() (engine.Engine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.eng == nil {
		err := l.err
		if err == nil {
			err = errNotConnected
		}
		return nil, &engine.UnavailableError{Cause: err}
	}
	return l.eng, nil
}

// failure is why the runtime couldn't be seen to the last time; nil: it could.
func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *link) Inventory(ctx context.Context) (engine.Inventory, error) {
	e, err := l.get()
	if err != nil {
		return engine.Inventory{}, err
	}
	return e.Inventory(ctx)
}

func (l *link) Image(ctx context.Context, ref string) (engine.Image, bool, error) {
	e, err := l.get()
	if err != nil {
		return engine.Image{}, false, err
	}
	return e.Image(ctx, ref)
}

func (l *link) Pull(ctx context.Context, req engine.PullRequest, progress func(engine.Progress)) (engine.Image, error) {
	e, err := l.get()
	if err != nil {
		return engine.Image{}, err
	}
	return e.Pull(ctx, req, progress)
}

func (l *link) SaveImage(ctx context.Context, step engine.StepID, req engine.SaveRequest, progress func(engine.Progress)) (engine.Saved, error) {
	e, err := l.get()
	if err != nil {
		return engine.Saved{}, err
	}
	return e.SaveImage(ctx, step, req, progress)
}

func (l *link) RemoveImage(ctx context.Context, ref string) error {
	return l.do(func(e engine.Engine) error { return e.RemoveImage(ctx, ref) })
}

func (l *link) SavedImages(ctx context.Context, prefix string) ([]string, error) {
	e, err := l.get()
	if err != nil {
		return nil, err
	}
	return e.SavedImages(ctx, prefix)
}

func (l *link) Start(ctx context.Context, a engine.Allocation) error {
	return l.do(func(e engine.Engine) error { return e.Start(ctx, a) })
}

func (l *link) StartStep(ctx context.Context, a engine.Allocation, s engine.Step) error {
	return l.do(func(e engine.Engine) error { return e.StartStep(ctx, a, s) })
}

func (l *link) Signal(ctx context.Context, step engine.StepID, sig string) error {
	return l.do(func(e engine.Engine) error { return e.Signal(ctx, step, sig) })
}

func (l *link) StopStep(ctx context.Context, step engine.StepID) error {
	return l.do(func(e engine.Engine) error { return e.StopStep(ctx, step) })
}

func (l *link) Stop(ctx context.Context, attempt engine.AttemptID) error {
	return l.do(func(e engine.Engine) error { return e.Stop(ctx, attempt) })
}

func (l *link) Remove(ctx context.Context, attempt engine.AttemptID) error {
	return l.do(func(e engine.Engine) error { return e.Remove(ctx, attempt) })
}

func (l *link) do(f func(engine.Engine) error) error {
	e, err := l.get()
	if err != nil {
		return err
	}
	return f(e)
}

func (l *link) List(ctx context.Context) ([]engine.Status, error) {
	e, err := l.get()
	if err != nil {
		return nil, err
	}
	return e.List(ctx)
}

func (l *link) Watch(ctx context.Context) (<-chan engine.Status, error) {
	e, err := l.get()
	if err != nil {
		return nil, err
	}
	return e.Watch(ctx)
}

// PlanQueues implements engine.Queues, for an engine that has some.
func (l *link) PlanQueues(ctx context.Context, want []engine.Queue) (engine.QueuePlan, error) {
	q, err := l.queues()
	if err != nil {
		return engine.QueuePlan{}, err
	}
	return q.PlanQueues(ctx, want)
}

// ApplyQueues implements engine.Queues, likewise.
func (l *link) ApplyQueues(ctx context.Context, want []engine.Queue) (engine.QueuePlan, error) {
	q, err := l.queues()
	if err != nil {
		return engine.QueuePlan{}, err
	}
	return q.ApplyQueues(ctx, want)
}

func (l *link) queues() (engine.Queues, error) {
	e, err := l.get()
	if err != nil {
		return nil, err
	}
	q, ok := e.(engine.Queues)
	if !ok {
		return nil, engine.ErrNoQueues
	}
	return q, nil
}

func (l *link) Usage(ctx context.Context) (engine.Usage, error) {
	e, err := l.get()
	if err != nil {
		return engine.Usage{}, err
	}
	return e.Usage(ctx)
}

func (l *link) Logs(ctx context.Context, step engine.StepID, opts engine.LogOptions, w engine.LogWriter) error {
	return l.do(func(e engine.Engine) error { return e.Logs(ctx, step, opts, w) })
}

func (l *link) Exec(ctx context.Context, step engine.StepID, req engine.ExecRequest) (int, error) {
	e, err := l.get()
	if err != nil {
		return 0, err
	}
	return e.Exec(ctx, step, req)
}

func (l *link) Attach(ctx context.Context, step engine.StepID, req engine.AttachRequest) error {
	e, err := l.get()
	if err != nil {
		return err
	}
	return e.Attach(ctx, step, req)
}

func (l *link) Dial(ctx context.Context, step engine.StepID, port uint16) (net.Conn, error) {
	e, err := l.get()
	if err != nil {
		return nil, err
	}
	return e.Dial(ctx, step, port)
}

func (l *link) Listen(ctx context.Context, step engine.StepID, port uint16) (net.Listener, error) {
	e, err := l.get()
	if err != nil {
		return nil, err
	}
	return e.Listen(ctx, step, port)
}

func (l *link) Terminals(ctx context.Context, step engine.StepID, start bool) (io.ReadWriteCloser, error) {
	e, err := l.get()
	if err != nil {
		return nil, err
	}
	return e.Terminals(ctx, step, start)
}

func (l *link) Volumes(ctx context.Context, uid int64) ([]engine.Volume, error) {
	e, err := l.get()
	if err != nil {
		return nil, err
	}
	return e.Volumes(ctx, uid)
}

func (l *link) RemoveVolume(ctx context.Context, uid int64, name string) error {
	e, err := l.get()
	if err != nil {
		return err
	}
	return e.RemoveVolume(ctx, uid, name)
}

// Close releases the engine, if there is one.
func (l *link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.eng == nil {
		return nil
	}
	return l.eng.Close()
}
