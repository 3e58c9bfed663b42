package sim

import (
	"context"
	"slices"

	"croft.dev/croft/internal/engine"
)

// watchBuffer is how many events wait for a slow reader; the rest is lost, as
// engine.Engine allows.
const watchBuffer = 256

// watcher is a Watch in progress.
type watcher struct {
	conn   *conn
	events chan engine.Status
}

// Watch implements engine.Engine.
func (c *conn) Watch(ctx context.Context) (<-chan engine.Status, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	f := c.fleet
	w := &watcher{conn: c, events: make(chan engine.Status, watchBuffer)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers = append(f.watchers, w)
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.watchers = slices.DeleteFunc(f.watchers, func(other *watcher) bool { return other == w })
		close(w.events)
	})
	return w.events, nil
}

// publish tells the watchers of a step's instance what has become of it.
// f.mu is held.
func (f *Fleet) publish(a *step) {
	if f.faults.loseEvents || f.faults.down {
		return
	}
	s := f.status(a)
	for _, w := range f.watchers {
		if w.conn.instance != a.Instance || isClosed(w.conn.closed) {
			continue
		}
		select {
		case w.events <- s:
		default:
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
