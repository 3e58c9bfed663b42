package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
)

func viewCases() []testCase {
	return []testCase{
		{name: "the inventory has the node and only devices of known nodes", run: inventory, containers: true},
		{name: "another connection lists the same with all labels", run: reconnect},
		{name: "Close stops nothing", run: closeStopsNothing},
		{name: "attempts of another instance aren't listed", run: otherInstance},
		{name: "Watch reports running, then exited", run: watch},
		{name: "Watch closes its channel when its context ends", run: watchEnds},
		{name: "a watcher that doesn't read holds up nothing, List repairs", run: watchStalled},
		{name: "questions with a cancelled context return at once", run: viewCancelled},
	}
}

func inventory(w *world) {
	inv, err := w.Engine.Inventory(w.Context())
	w.must("Inventory", err)
	var names []string
	for _, n := range inv.Nodes {
		names = append(names, n.Name)
		if n.Name == w.Node && (!n.Ready || n.CPU <= 0 || n.Memory <= 0) {
			w.Errorf("node: %+v", n)
		}
	}
	if !slices.Contains(names, w.Node) {
		w.Errorf("nodes %v, want %q among them", names, w.Node)
	}
	seen := make(map[string]bool)
	for _, d := range inv.Devices {
		if d.UUID == "" || d.Name == "" || d.Model == "" || seen[d.UUID] || !slices.Contains(names, d.Node) {
			w.Errorf("device: %+v", d)
		}
		seen[d.UUID] = true
	}
}

func reconnect(w *world) {
	running := w.start(w.Commands.Sleep)
	ended := w.start(w.Commands.Exit(9))
	want := []engine.Status{w.awaitPhase(running.Attempt.Primary(), engine.PhaseRunning), w.awaitExit(ended.Attempt.Primary())}
	second := w.Reconnect(w.T)
	defer func() { w.must("Close", second.Close()) }()
	var got []engine.Status
	for _, a := range []engine.Allocation{running, ended} {
		s, ok := w.statusAt(second, a.Attempt.Primary())
		if !ok {
			w.Errorf("the second connection doesn't list %s", a.Attempt)
		}
		got = append(got, s)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("status by another connection (-first +second):\n%s", diff)
	}
	w.must("Start by the second", second.Start(w.Context(), running))
	if diff := cmp.Diff(want[0], w.status(running.Attempt.Primary())); diff != "" {
		w.Errorf("status after Start by the second (-before +after):\n%s", diff)
	}
}

func closeStopsNothing(w *world) {
	second := w.Reconnect(w.T)
	a := w.allocation(w.Commands.Sleep)
	w.must("Start", second.Start(w.Context(), a))
	before := w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	w.must("Close", second.Close())
	w.pass()
	if diff := cmp.Diff(before, w.status(a.Attempt.Primary())); diff != "" {
		w.Errorf("status after Close (-before +after):\n%s", diff)
	}
}

func otherInstance(w *world) {
	other, instance := w.Other(w.T)
	w.Cleanup(func() {
		if err := other.Close(); err != nil {
			w.Errorf("Close: %v", err)
		}
	})
	a := w.allocationOf(other, instance, w.Commands.Sleep)
	w.must("Start", other.Start(w.Context(), a))
	if _, ok := w.statusAt(other, a.Attempt.Primary()); !ok {
		w.Error("the other instance doesn't see its own attempt")
	}
	if s, ok := w.statusAt(w.Engine, a.Attempt.Primary()); ok {
		w.Errorf("another instance's attempt is listed: %+v", s)
	}
	w.must("Stop", w.Engine.Stop(w.Context(), a.Attempt))
	w.must("Remove", w.Engine.Remove(w.Context(), a.Attempt))
	if s, ok := w.statusAt(other, a.Attempt.Primary()); !ok || s.Phase == engine.PhaseExited {
		w.Errorf("one instance stopped an attempt of another: %+v, listed %v", s, ok)
	}
}

func watch(w *world) {
	events, err := w.Engine.Watch(w.Context())
	w.must("Watch", err)
	a := w.start(w.Commands.UntilTerm)
	w.awaitLine(a.Attempt.Primary(), "ready")
	w.awaitEvent(events, a.Attempt.Primary(), engine.PhaseRunning)
	w.must("Signal", w.Engine.Signal(w.Context(), a.Attempt.Primary(), "TERM"))
	got := w.awaitEvent(events, a.Attempt.Primary(), engine.PhaseExited)
	if diff := cmp.Diff(w.status(a.Attempt.Primary()), got); diff != "" {
		w.Errorf("status (-List +Watch):\n%s", diff)
	}
}

// awaitEvent waits for an event of the phase; an end in place of it is a failure.
func (w *world) awaitEvent(events <-chan engine.Status, id engine.StepID, phase engine.Phase) engine.Status {
	w.Helper()
	var found engine.Status
	w.await("Watch to report "+id.String()+" "+string(phase), func() bool {
		for {
			select {
			case s, ok := <-events:
				if !ok {
					w.Fatal("the channel was closed")
				}
				if s.ID() != id || s.Phase != phase && s.Phase != engine.PhaseExited {
					continue
				}
				if s.Phase != phase {
					w.Fatalf("waited for %s, got %+v", phase, s)
				}
				found = s
				return true
			default:
				return false
			}
		}
	})
	return found
}

func watchEnds(w *world) {
	ctx, cancel := context.WithCancel(w.Context())
	events, err := w.Engine.Watch(ctx)
	w.must("Watch", err)
	cancel()
	w.await("the channel to be closed", func() bool {
		select {
		case _, ok := <-events:
			return !ok
		default:
			return false
		}
	})
}

func watchStalled(w *world) {
	_, err := w.Engine.Watch(w.Context())
	w.must("Watch", err)
	for range 2 {
		a := w.start(w.Commands.Exit(0))
		w.awaitExit(a.Attempt.Primary())
	}
}

func watchLost(w *world) {
	events, err := w.Engine.Watch(w.Context())
	w.must("Watch", err)
	w.LoseEvents(true)
	lost := w.start(w.Commands.Exit(0))
	w.awaitExit(lost.Attempt.Primary())
	w.LoseEvents(false)
	select {
	case s := <-events:
		w.Errorf("an event wasn't lost: %+v", s)
	default:
	}
	seen := w.start(w.Commands.Sleep)
	w.awaitEvent(events, seen.Attempt.Primary(), engine.PhaseRunning)
}

func viewCancelled(w *world) {
	a := w.start(w.Commands.Sleep)
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	questions := []struct {
		name string
		ask  func(ctx context.Context) error
	}{
		{"Inventory", func(ctx context.Context) error { _, err := w.Engine.Inventory(ctx); return err }},
		{"Image", func(ctx context.Context) error { _, _, err := w.Engine.Image(ctx, w.ImageOK); return err }},
		{"Pull", func(ctx context.Context) error {
			_, err := w.Engine.Pull(ctx, engine.PullRequest{Ref: w.ImageOK}, nil)
			return err
		}},
		{"List", func(ctx context.Context) error { _, err := w.Engine.List(ctx); return err }},
		{"Usage", func(ctx context.Context) error { _, err := w.Engine.Usage(ctx); return err }},
		{"Exec", func(ctx context.Context) error {
			_, err := w.Engine.Exec(ctx, a.Attempt.Primary(), engine.ExecRequest{Command: w.Commands.Sleep})
			return err
		}},
		{"Attach", func(ctx context.Context) error {
			return w.Engine.Attach(ctx, a.Attempt.Primary(), engine.AttachRequest{})
		}},
		{"Logs", func(ctx context.Context) error {
			return w.Engine.Logs(ctx, a.Attempt.Primary(), engine.LogOptions{Follow: true, Tail: -1}, new(recorder))
		}},
	}
	for _, q := range questions {
		w.wantCancelled(q.name, q.ask)
	}

	// A follower that waits lets go as well.
	ctx, cancel := context.WithTimeout(w.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := call(w, "Logs", func() (struct{}, error) {
		return struct{}{}, w.Engine.Logs(ctx, a.Attempt.Primary(), engine.LogOptions{Follow: true, Tail: -1}, new(recorder))
	}); err == nil {
		w.Error("Logs of a running attempt ended without an error before the attempt did")
	}
}
