package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
)

func stepCases() []testCase {
	return []testCase{
		{name: "a step runs beside the primary and is listed with its number", run: stepIsListed},
		{name: "StartStep twice is one run", run: stepTwice},
		{name: "StartStep from eight sides at once is one run", run: stepConcurrently},
		{name: "StartStep does not restart an exited step", run: stepAfterExit},
		{name: "steps have output, environment and devices of their own", run: stepsApart},
		{name: "TERM reaches the step alone", run: stepSignal},
		{name: "StopStep ends the step alone", run: stepStop},
		{name: "Exec runs inside the step that is named", run: stepExec},
		{name: "steps outlive the primary until Stop and keep Remove from its work, or end with it", run: stepsOutlive},
		{name: "a step of an ended attempt is refused", run: stepOfEnded},
		{name: "a step of an unknown attempt is not found", run: stepOfUnknown},
		{name: "a step without its program or image ends with 127 or a StartError", run: stepNotFound},
		{name: "Watch reports a step running, then exited", run: stepWatch},
		{name: "another connection lists the same steps", run: stepReconnect},
		{name: "StartStep with a cancelled context starts nothing", run: stepCancelled},
	}
}

// step returns a step of an attempt that runs the command on what the attempt has.
func step(a engine.Allocation, n int, command []string) engine.Step {
	s := a.Primary()
	s.N, s.Command = n, command
	return s
}

// add starts a step of a started attempt.
func (w *world) add(a engine.Allocation, n int, command []string) engine.StepID {
	w.Helper()
	w.must("StartStep", w.startStep(a, step(a, n, command)))
	return engine.StepID{Attempt: a.Attempt, N: n}
}

// startStep starts a step once the primary runs; before, an engine may be unable to.
func (w *world) startStep(a engine.Allocation, s engine.Step) error {
	w.Helper()
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	return w.Engine.StartStep(w.Context(), a, s)
}

func stepIsListed(w *world) {
	a := w.start(w.Commands.Sleep)
	id := w.add(a, 2, w.Commands.Sleep)
	got := w.awaitPhase(id, engine.PhaseRunning)
	if got.Started.IsZero() || got.Started.Before(w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning).Started) {
		w.Errorf("Started = %v, the primary's is earlier", got.Started)
	}
	got.Started = time.Time{}
	want := labels(a, engine.PhaseRunning)
	want.Step = 2
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("status (-want +got):\n%s", diff)
	}
}

func stepTwice(w *world) {
	a := w.start(w.Commands.Sleep)
	id := w.add(a, 2, w.Commands.UntilTerm)
	w.awaitLine(id, "ready")
	first := w.awaitPhase(id, engine.PhaseRunning)
	w.add(a, 2, w.Commands.UntilTerm)
	if diff := cmp.Diff(first, w.status(id)); diff != "" {
		w.Errorf("status after the second StartStep (-before +after):\n%s", diff)
	}
	w.wantOutput(id, "ready")
}

func stepConcurrently(w *world) {
	a := w.start(w.Commands.Sleep)
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	s := step(a, 2, w.Commands.Print([]Line{{Stream: engine.Stdout, Text: "once"}}, 0))
	var (
		calls sync.WaitGroup
		errs  [8]error
	)
	for i := range errs {
		calls.Go(func() { errs[i] = w.Engine.StartStep(w.Context(), a, s) })
	}
	calls.Wait()
	w.must("StartStep", errors.Join(errs[:]...))
	id := engine.StepID{Attempt: a.Attempt, N: 2}
	w.awaitExit(id)
	w.wantOutput(id, "once")
}

func stepAfterExit(w *world) {
	a := w.start(w.Commands.Sleep)
	once := w.Commands.Print([]Line{{Stream: engine.Stdout, Text: "once"}}, 3)
	id := w.add(a, 2, once)
	ended := w.awaitExit(id)
	if ended.ExitCode != 3 {
		w.Errorf("exit code %d, want 3", ended.ExitCode)
	}
	w.add(a, 2, once)
	if diff := cmp.Diff(ended, w.status(id)); diff != "" {
		w.Errorf("status after StartStep (-before +after):\n%s", diff)
	}
	w.wantOutput(id, "once")
}

func stepsApart(w *world) {
	a := w.start(w.Commands.Sleep)
	for n, devices := range map[int]string{2: "gpu0", 3: "gpu1"} {
		s := step(a, n, w.Commands.PrintEnv("CROFT_DEVICES"))
		s.Env = map[string]string{"CROFT_DEVICES": devices}
		w.must("StartStep", w.startStep(a, s))
		id := engine.StepID{Attempt: a.Attempt, N: n}
		w.awaitExit(id)
		w.wantOutput(id, devices)
	}
	w.wantOutput(a.Attempt.Primary())
}

func stepSignal(w *world) {
	a := w.start(w.Commands.UntilTerm)
	id := w.add(a, 2, w.Commands.UntilTerm)
	for _, each := range []engine.StepID{a.Attempt.Primary(), id} {
		w.awaitLine(each, "ready")
	}
	w.must("Signal", w.Engine.Signal(w.Context(), id, "TERM"))
	if got := w.awaitExit(id); got.ExitCode != 0 {
		w.Errorf("exit code %d; the program exits with 0 on TERM", got.ExitCode)
	}
	if got := w.status(a.Attempt.Primary()); got.Phase != engine.PhaseRunning {
		w.Errorf("the primary is %+v", got)
	}
	w.must("Signal after the end", w.Engine.Signal(w.Context(), id, "TERM"))
}

func stepStop(w *world) {
	a := w.start(w.Commands.Sleep)
	first, second := w.add(a, 2, w.Commands.IgnoreTerm), w.add(a, 3, w.Commands.Sleep)
	w.awaitLine(first, "ready")
	w.must("StopStep", w.Engine.StopStep(w.Context(), first))
	ended := w.awaitExit(first)
	if ended.ExitCode != 137 || ended.OutOfMemory {
		w.Errorf("exit code %d, out of memory %v; want 137 and false", ended.ExitCode, ended.OutOfMemory)
	}
	for _, each := range []engine.StepID{a.Attempt.Primary(), second} {
		if got := w.awaitPhase(each, engine.PhaseRunning); got.Phase != engine.PhaseRunning {
			w.Errorf("%s is %+v", each, got)
		}
	}
	w.must("second StopStep", w.Engine.StopStep(w.Context(), first))
	w.must("StopStep of one that never was", w.Engine.StopStep(w.Context(), engine.StepID{Attempt: a.Attempt, N: 9}))
	if diff := cmp.Diff(ended, w.status(first)); diff != "" {
		w.Errorf("status after the second StopStep (-before +after):\n%s", diff)
	}
}

func stepExec(w *world) {
	a := w.start(w.Commands.Sleep)
	s := step(a, 2, w.Commands.Sleep)
	s.Env = map[string]string{"GREETING": "inside"}
	w.must("StartStep", w.startStep(a, s))
	id := engine.StepID{Attempt: a.Attempt, N: 2}
	w.awaitPhase(id, engine.PhaseRunning)
	if code, stdout, stderr := w.exec(id, w.Commands.PrintEnv("GREETING")); code != 0 || stdout != "inside\n" {
		w.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	_, err := w.Engine.Exec(w.Context(), engine.StepID{Attempt: a.Attempt, N: 9}, engine.ExecRequest{Command: w.Commands.Sleep})
	if none := new(engine.NotFoundError); !errors.As(err, &none) {
		w.Errorf("Exec in a step that isn't there: error %v, want NotFoundError", err)
	}
}

func stepsOutlive(w *world) {
	a := w.start(w.Commands.UntilTerm)
	w.awaitLine(a.Attempt.Primary(), "ready")
	id := w.add(a, 2, w.Commands.Sleep)
	w.awaitPhase(id, engine.PhaseRunning)
	w.must("Signal", w.Engine.Signal(w.Context(), a.Attempt.Primary(), "TERM"))
	primary := w.awaitExit(a.Attempt.Primary())
	if !w.StepsEnd {
		if got := w.status(id); got.Phase != engine.PhaseRunning {
			w.Errorf("the step after its primary's end: %+v", got)
		}
		if err := w.Engine.Remove(w.Context(), a.Attempt); err == nil || engine.IsUnavailable(err) {
			w.Errorf("Remove of an attempt with a running step: error %v", err)
		}
		w.must("Stop", w.Engine.Stop(w.Context(), a.Attempt))
	}
	w.wantStopped(w.awaitExit(id))
	if diff := cmp.Diff(primary, w.status(a.Attempt.Primary())); diff != "" {
		w.Errorf("the primary's status after Stop (-before +after):\n%s", diff)
	}
	w.must("Remove", w.Engine.Remove(w.Context(), a.Attempt))
	w.wantGone(a.Attempt.Primary())
	w.wantGone(id)
}

func stepOfEnded(w *world) {
	a := w.start(w.Commands.Exit(0))
	w.awaitExit(a.Attempt.Primary())
	w.wantStartError(w.Engine.StartStep(w.Context(), a, step(a, 2, w.Commands.Sleep)))
	w.wantGone(engine.StepID{Attempt: a.Attempt, N: 2})
}

func stepOfUnknown(w *world) {
	a := w.allocation(w.Commands.Sleep)
	err := w.Engine.StartStep(w.Context(), a, step(a, 2, w.Commands.Sleep))
	var none *engine.NotFoundError
	if !errors.As(err, &none) || none.Attempt != a.Attempt {
		w.Errorf("error %v, want NotFoundError", err)
	}
	w.must("Signal", w.Engine.Signal(w.Context(), engine.StepID{Attempt: a.Attempt, N: 2}, "TERM"))
	w.must("StopStep", w.Engine.StopStep(w.Context(), engine.StepID{Attempt: a.Attempt, N: 2}))
}

func stepNotFound(w *world) {
	a := w.start(w.Commands.Sleep)
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	if err := w.Engine.StartStep(w.Context(), a, step(a, 2, w.Commands.NotFound)); err != nil {
		w.wantStartError(err)
	} else if got := w.awaitExit(engine.StepID{Attempt: a.Attempt, N: 2}); got.ExitCode != 127 || got.Failure == "" {
		w.Errorf("exit code %d, failure %q; want 127 and a reason", got.ExitCode, got.Failure)
	}
	s := step(a, engine.PrimaryStep, w.Commands.Sleep)
	w.wantStartError(w.Engine.StartStep(w.Context(), a, s))
	s.N, s.Host, s.Image, s.ImageID = 3, false, w.ImageMissing, ""
	w.wantNoImage(engine.StepID{Attempt: a.Attempt, N: 3}, w.Engine.StartStep(w.Context(), a, s))
}

func stepWatch(w *world) {
	events, err := w.Engine.Watch(w.Context())
	w.must("Watch", err)
	a := w.start(w.Commands.Sleep)
	id := w.add(a, 2, w.Commands.UntilTerm)
	w.awaitLine(id, "ready")
	w.awaitEvent(events, id, engine.PhaseRunning)
	w.must("Signal", w.Engine.Signal(w.Context(), id, "TERM"))
	got := w.awaitEvent(events, id, engine.PhaseExited)
	if diff := cmp.Diff(w.status(id), got); diff != "" {
		w.Errorf("status (-List +Watch):\n%s", diff)
	}
}

func stepReconnect(w *world) {
	a := w.start(w.Commands.Sleep)
	ids := []engine.StepID{w.add(a, 2, w.Commands.Sleep), w.add(a, 3, w.Commands.Exit(9))}
	want := []engine.Status{w.awaitPhase(ids[0], engine.PhaseRunning), w.awaitExit(ids[1])}
	second := w.Reconnect(w.T)
	defer func() { w.must("Close", second.Close()) }()
	var got []engine.Status
	for _, id := range ids {
		s, _ := w.statusAt(second, id)
		got = append(got, s)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("status by another connection (-first +second):\n%s", diff)
	}
	all, err := second.List(w.Context())
	w.must("List", err)
	if n := len(slices.DeleteFunc(all, func(s engine.Status) bool { return s.Attempt != a.Attempt })); n != 3 {
		w.Errorf("%d steps are listed, not 3", n)
	}
}

func stepCancelled(w *world) {
	a := w.start(w.Commands.Sleep)
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	id := engine.StepID{Attempt: a.Attempt, N: 2}
	w.wantCancelled("StartStep", func(ctx context.Context) error {
		return w.Engine.StartStep(ctx, a, step(a, 2, w.Commands.Sleep))
	})
	w.wantGone(id)
	w.add(a, 2, w.Commands.Sleep)
	before := w.awaitPhase(id, engine.PhaseRunning)
	w.wantCancelled("StopStep", func(ctx context.Context) error { return w.Engine.StopStep(ctx, id) })
	if diff := cmp.Diff(before, w.status(id)); diff != "" {
		w.Errorf("status (-before +after):\n%s", diff)
	}
}
