package cri

import (
	"context"
	"log/slog"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
)

// hub reads the runtime's events and those of host steps once for all who watch: Watch's
// callers and those who follow a log. It runs while there is one of them.
type hub struct {
	e    *Engine
	mu   sync.Mutex
	subs map[*subscription]struct{}
	stop context.CancelFunc // of the running reader, nil without one
	done chan struct{}      // closed when that reader has ended
	shut bool
}

// subscription is one watcher's queue.
type subscription struct {
	ch chan engine.Status
}

// queueSize is how far a watcher may lag; what doesn't fit is lost to it.
const queueSize = 256

func newHub(e *Engine) *hub {
	return &hub{e: e, subs: make(map[*subscription]struct{})}
}

func (h *hub) subscribe() (*subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut {
		return nil, context.Canceled
	}
	s := &subscription{ch: make(chan engine.Status, queueSize)}
	h.subs[s] = struct{}{}
	if h.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		h.stop, h.done = cancel, make(chan struct{})
		go h.run(ctx, h.done)
	}
	return s, nil
}

func (h *hub) unsubscribe(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
	if len(h.subs) == 0 && h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

func (h *hub) close() {
	h.mu.Lock()
	h.shut = true
	done := h.done
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
	h.mu.Unlock()
	if done != nil {
		<-done
	}
}

func (h *hub) publish(st engine.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		select {
		case s.ch <- st:
		default: // it will have to list
		}
	}
}

// run reads events until ctx ends, connecting again when the runtime was away.
func (h *hub) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	defer h.watchHosts(ctx)() // before the first listing, so that nothing is missed
	const first, last = 50 * time.Millisecond, 2 * time.Second
	wait := first
	for ctx.Err() == nil {
		began := time.Now()
		err := h.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > last {
			wait = first
		}
		level := slog.LevelDebug // of further tries in the same outage
		if wait == first {
			level = slog.LevelWarn
		}
		h.e.log.Log(ctx, level, "the runtime's events were cut off", "error", err, "retry_in", wait)
		if h.e.cfg.Cut != nil {
			h.e.cfg.Cut()
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		wait = min(2*wait, last)
	}
}

// read opens the stream of events, catches up by a full listing, and passes
// events on until the stream breaks.
func (h *hub) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := h.e.rt.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return err
	}
	// The question goes out after the stream's request on the same connection, so
	// that what happens in between is seen by one of the two.
	if all, err := h.e.List(ctx); err == nil {
		for _, st := range all {
			h.publish(st)
		}
	}
	for {
		ev, err := stream.Recv()
		if err != nil {
			return err
		}
		if st, ok := h.e.fromEvent(ctx, ev); ok {
			h.publish(st)
		}
	}
}

// fromEvent turns an event into a status; most carry all that is needed.
func (e *Engine) fromEvent(ctx context.Context, ev *runtimeapi.ContainerEventResponse) (engine.Status, bool) {
	labels := ev.GetPodSandboxStatus().GetLabels()
	if labels[labelInstance] != e.cfg.Instance || ev.GetContainerId() == ev.GetPodSandboxStatus().GetId() {
		return engine.Status{}, false
	}
	st := e.fromLabels(labels)
	for _, s := range ev.GetContainersStatuses() {
		if s.GetId() == ev.GetContainerId() {
			st.Step = stepOf(s.GetLabels())
			e.fromStatus(&st, s)
			return st, true
		}
	}
	// An event without the container's status (it may be deleted): ask.
	r, err := e.rt.containerStatus(ctx, ev.GetContainerId(), false)
	if err != nil || r.GetStatus() == nil {
		return engine.Status{}, false
	}
	st.Step = stepOf(r.GetStatus().GetLabels())
	e.fromStatus(&st, r.GetStatus())
	return st, true
}

func (e *Engine) fromStatus(st *engine.Status, s *runtimeapi.ContainerStatus) {
	switch s.GetState() {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		e.created(st, time.Unix(0, s.GetCreatedAt()))
	case runtimeapi.ContainerState_CONTAINER_RUNNING, runtimeapi.ContainerState_CONTAINER_EXITED:
		e.apply(st, e.remember(s))
	default:
		st.Phase = engine.PhaseUnknown
	}
}

// Watch implements engine.Engine. After the runtime was away, everything is
// reported once more.
func (e *Engine) Watch(ctx context.Context) (<-chan engine.Status, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := e.hub.subscribe()
	if err != nil {
		return nil, err
	}
	out := make(chan engine.Status)
	go func() {
		defer close(out)
		defer e.hub.unsubscribe(s)
		for {
			select {
			case <-ctx.Done():
				return
			case st := <-s.ch:
				select {
				case out <- st:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out, nil
}
