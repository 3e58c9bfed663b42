package conformance

import (
	"time"

	"croft.dev/croft/internal/engine"
)

func usageCases() []testCase {
	return []testCase{
		{name: "Usage tells a program that computes from one that sleeps", run: usageGrows},
		{name: "Usage is of this instance's attempts until they are removed", run: usageMine},
		{name: "Usage is of all steps of an attempt", run: usageOfSteps},
	}
}

// computed is CPU time that no program gets by just starting.
const computed = 100 * time.Millisecond

func usageGrows(w *world) {
	busy, asleep := w.start(w.Commands.Busy), w.start(w.Commands.Sleep)
	w.awaitLine(busy.Attempt.Primary(), "ready")
	w.awaitPhase(asleep.Attempt.Primary(), engine.PhaseRunning)
	before := w.usage(asleep)
	w.await("a program that sleeps to have used what it took to start", func() bool {
		last := before
		now := w.usage(asleep)
		if !now.At.After(last.At) {
			return false
		}
		before = now
		return now.CPU-last.CPU < computed/4
	})
	first := w.usage(busy)
	var now engine.AttemptUsage
	w.await("a program that computes to use CPU", func() bool {
		now = w.usage(busy)
		if now.CPU < first.CPU {
			w.Fatalf("the CPU time used went back from %v to %v", first.CPU, now.CPU)
		}
		return now.CPU > first.CPU+computed
	})
	if !now.At.After(first.At) || now.Memory <= 0 {
		w.Errorf("usage: %+v, then %+v", first, now)
	}
	if after := w.usage(asleep); after.CPU-before.CPU >= computed {
		w.Errorf("a program that sleeps used %v of CPU while another used %v", after.CPU-before.CPU, now.CPU-first.CPU)
	}
}

// usage is what an attempt that runs uses, which must be known.
func (w *world) usage(a engine.Allocation) engine.AttemptUsage {
	w.Helper()
	all, err := w.Engine.Usage(w.Context())
	w.must("Usage", err)
	for _, u := range all.Attempts {
		if u.Attempt == a.Attempt {
			return u
		}
	}
	w.Fatalf("Usage doesn't know of %s, which runs: %+v", a.Attempt, all)
	return engine.AttemptUsage{}
}

func usageMine(w *world) {
	other, instance := w.Other(w.T)
	w.Cleanup(func() { w.must("Close", other.Close()) })
	theirs := w.allocationOf(other, instance, w.Commands.Sleep)
	w.must("Start", other.Start(w.Context(), theirs))
	gone := w.start(w.Commands.Exit(0))
	w.awaitExit(gone.Attempt.Primary())
	w.must("Remove", w.Engine.Remove(w.Context(), gone.Attempt))
	all, err := w.Engine.Usage(w.Context())
	w.must("Usage", err)
	for _, u := range all.Attempts {
		if u.Attempt == theirs.Attempt || u.Attempt == gone.Attempt {
			w.Errorf("Usage has %+v", u)
		}
	}
}

func usageOfSteps(w *world) {
	a := w.start(w.Commands.Sleep)
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	before := w.usage(a)
	s := w.add(a, 2, w.Commands.Busy)
	w.awaitLine(s, "ready")
	w.await("a step that computes to use its attempt's CPU", func() bool { return w.usage(a).CPU > before.CPU+computed })
}
