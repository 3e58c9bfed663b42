package conformance

import (
	"context"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
)

func endCases() []testCase {
	return []testCase{
		{name: "the exit code is reported", run: exitCode},
		{name: "TERM reaches the program", run: termIsForwarded},
		{name: "a program may ignore TERM, Stop ends it", run: stopKills},
		{name: "Stop is idempotent and the status stays until Remove", run: stopTwice},
		{name: "Remove refuses an attempt that runs", run: removeRefusesRunning},
		{name: "Remove is idempotent and leaves the log", run: removeTwice},
		{name: "an unknown attempt is no error to Signal, Stop and Remove", run: unknownAttempt},
		{name: "an ended attempt is no error to Signal and Stop", run: endedAttempt},
		{name: "Stop and Remove with a cancelled context change nothing", run: endCancelled},
	}
}

func exitCode(w *world) {
	for _, code := range []int{0, 42} {
		a := w.start(w.Commands.Exit(code))
		got := w.awaitExit(a.Attempt.Primary())
		if got.ExitCode != code || got.OutOfMemory || got.Failure != "" {
			w.Errorf("exit %d is reported as %+v", code, got)
		}
		if got.Started.IsZero() || got.Finished.Before(got.Started) {
			w.Errorf("exit %d: started %v, finished %v", code, got.Started, got.Finished)
		}
	}
}

func termIsForwarded(w *world) {
	a := w.start(w.Commands.UntilTerm)
	w.awaitLine(a.Attempt.Primary(), "ready")
	w.must("Signal", w.Engine.Signal(w.Context(), a.Attempt.Primary(), "TERM"))
	if got := w.awaitExit(a.Attempt.Primary()); got.ExitCode != 0 {
		w.Errorf("exit code %d; the program exits with 0 on TERM", got.ExitCode)
	}
}

func stopKills(w *world) {
	a := w.start(w.Commands.IgnoreTerm)
	w.awaitLine(a.Attempt.Primary(), "ready")
	w.must("Signal", w.Engine.Signal(w.Context(), a.Attempt.Primary(), "TERM"))
	for range 5 {
		w.pass()
	}
	if got := w.status(a.Attempt.Primary()); got.Phase != engine.PhaseRunning {
		w.Fatalf("TERM ended a program that ignores it: %+v", got)
	}
	w.must("Stop", w.Engine.Stop(w.Context(), a.Attempt))
	got := w.awaitExit(a.Attempt.Primary())
	if got.ExitCode != 137 || got.OutOfMemory {
		w.Errorf("after Stop: exit code %d, out of memory %v; want 137 and false", got.ExitCode, got.OutOfMemory)
	}
}

// wantStopped checks how Stop has ended a program: by SIGKILL, which an engine may tell it of
// by SIGTERM just before.
func (w *world) wantStopped(got engine.Status) {
	w.Helper()
	if got.ExitCode != 137 && got.ExitCode != 143 || got.OutOfMemory || got.Failure != "" {
		w.Errorf("after Stop: %+v", got)
	}
}

func stopTwice(w *world) {
	a := w.start(w.Commands.Sleep)
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	w.must("Stop", w.Engine.Stop(w.Context(), a.Attempt))
	ended := w.awaitExit(a.Attempt.Primary())
	w.must("second Stop", w.Engine.Stop(w.Context(), a.Attempt))
	if diff := cmp.Diff(ended, w.status(a.Attempt.Primary())); diff != "" {
		w.Errorf("status after the second Stop (-before +after):\n%s", diff)
	}
	w.must("Remove", w.Engine.Remove(w.Context(), a.Attempt))
	w.wantGone(a.Attempt.Primary())
}

func (w *world) wantGone(id engine.StepID) {
	w.Helper()
	if s, ok := w.statusAt(w.Engine, id); ok {
		w.Errorf("still listed: %+v", s)
	}
}

func removeRefusesRunning(w *world) {
	a := w.start(w.Commands.Sleep)
	before := w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	if err := w.Engine.Remove(w.Context(), a.Attempt); err == nil {
		w.Error("Remove of a running attempt: no error")
	} else if engine.IsUnavailable(err) {
		w.Errorf("Remove of a running attempt is no matter of availability: %v", err)
	}
	if diff := cmp.Diff(before, w.status(a.Attempt.Primary())); diff != "" {
		w.Errorf("status after Remove (-before +after):\n%s", diff)
	}
}

func removeTwice(w *world) {
	a := w.start(w.Commands.Print([]Line{{Stream: engine.Stdout, Text: "kept"}}, 0))
	w.awaitExit(a.Attempt.Primary())
	w.must("Remove", w.Engine.Remove(w.Context(), a.Attempt))
	w.wantGone(a.Attempt.Primary())
	w.must("second Remove", w.Engine.Remove(w.Context(), a.Attempt))
	w.wantOutput(a.Attempt.Primary(), "kept")
}

func unknownAttempt(w *world) {
	id := attemptID(w.Instance, w.jobs.Add(1), 1)
	w.must("Signal", w.Engine.Signal(w.Context(), id.Primary(), "TERM"))
	w.must("Stop", w.Engine.Stop(w.Context(), id))
	w.must("Remove", w.Engine.Remove(w.Context(), id))
	w.wantGone(id.Primary())
}

func endedAttempt(w *world) {
	a := w.start(w.Commands.Exit(5))
	ended := w.awaitExit(a.Attempt.Primary())
	w.must("Signal", w.Engine.Signal(w.Context(), a.Attempt.Primary(), "TERM"))
	w.must("Stop", w.Engine.Stop(w.Context(), a.Attempt))
	if diff := cmp.Diff(ended, w.status(a.Attempt.Primary())); diff != "" {
		w.Errorf("status (-before +after):\n%s", diff)
	}
}

func endCancelled(w *world) {
	a := w.start(w.Commands.Sleep)
	before := w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	w.wantCancelled("Stop", func(ctx context.Context) error { return w.Engine.Stop(ctx, a.Attempt) })
	w.wantCancelled("Signal", func(ctx context.Context) error { return w.Engine.Signal(ctx, a.Attempt.Primary(), "KILL") })
	for range 5 {
		w.pass()
	}
	if diff := cmp.Diff(before, w.status(a.Attempt.Primary())); diff != "" {
		w.Errorf("status (-before +after):\n%s", diff)
	}
	w.must("Stop", w.Engine.Stop(w.Context(), a.Attempt))
	ended := w.awaitExit(a.Attempt.Primary())
	w.wantCancelled("Remove", func(ctx context.Context) error { return w.Engine.Remove(ctx, a.Attempt) })
	if diff := cmp.Diff(ended, w.status(a.Attempt.Primary())); diff != "" {
		w.Errorf("status after Remove (-before +after):\n%s", diff)
	}
}

func outOfMemory(w *world) {
	a := w.start(w.Commands.MemoryHog)
	got := w.awaitExit(a.Attempt.Primary())
	if !got.OutOfMemory || got.ExitCode != 137 {
		w.Errorf("out of memory %v, exit code %d; want true and 137", got.OutOfMemory, got.ExitCode)
	}
}
