package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
)

func startCases() []testCase {
	return []testCase{
		{name: "a started attempt runs and is listed with its labels", run: startIsListed},
		{name: "two attempts share a device", run: startShared},
		{name: "Start twice is one run", run: startTwice},
		{name: "Start from eight sides at once is one run", run: startConcurrently},
		{name: "Start does not restart an exited attempt", run: startAfterExit},
		{name: "an attempt that pauses waits until it is told to end", run: startPaused, containers: true},
		{name: "Start of a program that isn't there ends with 127 or a StartError", run: startNotFound},
		{name: "Start of an image that isn't there is refused", run: startWithoutImage, containers: true},
		{name: "Start with a cancelled context returns at once and starts nothing", run: startCancelled},
	}
}

func startIsListed(w *world) {
	before := time.Now()
	a := w.start(w.Commands.Sleep)
	got := w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	if got.Started.IsZero() || (w.Step == nil && got.Started.Before(before.Add(-time.Second))) {
		w.Errorf("Started = %v, the call was made at %v", got.Started, before)
	}
	got.Started = time.Time{}
	if diff := cmp.Diff(labels(a, engine.PhaseRunning), got); diff != "" {
		w.Errorf("status (-want +got):\n%s", diff)
	}
}

// labels is the status of an attempt as far as its allocation says.
func labels(a engine.Allocation, phase engine.Phase) engine.Status {
	return engine.Status{
		Attempt: a.Attempt, Step: engine.PrimaryStep, Instance: a.Instance, Job: a.Job, N: a.N,
		Account: a.Account, SpecDigest: a.SpecDigest, Node: a.Node, Phase: phase,
	}
}

// startShared gives two attempts parts of one device at a time.
func startShared(w *world) {
	inv, err := w.Engine.Inventory(w.Context())
	w.must("Inventory", err)
	var of []engine.Device
	a, b := w.allocation(w.Commands.UntilTerm), w.allocation(w.Commands.UntilTerm)
	for _, d := range inv.Devices {
		if d.Node == a.Node && d.Healthy && len(of) == 0 {
			of = append(of, d)
		}
	}
	a.Devices, a.Part, b.Devices, b.Part = of, 500, of, 500
	for _, each := range []engine.Allocation{a, b} {
		w.must("Start", w.Engine.Start(w.Context(), each))
		w.awaitLine(each.Attempt.Primary(), "ready")
	}
	w.must("Stop", w.Engine.Stop(w.Context(), a.Attempt))
	w.awaitExit(a.Attempt.Primary())
	if got := w.status(b.Attempt.Primary()); got.Phase != engine.PhaseRunning {
		w.Errorf("when one has ended the other is %s", got.Phase)
	}
}

func startTwice(w *world) {
	a := w.start(w.Commands.UntilTerm)
	w.awaitLine(a.Attempt.Primary(), "ready")
	first := w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	w.must("second Start", w.Engine.Start(w.Context(), a))
	if diff := cmp.Diff(first, w.status(a.Attempt.Primary())); diff != "" {
		w.Errorf("status after the second Start (-before +after):\n%s", diff)
	}
	w.wantOutput(a.Attempt.Primary(), "ready")
}

func startConcurrently(w *world) {
	a := w.allocation(w.Commands.Print([]Line{{Stream: engine.Stdout, Text: "once"}}, 0))
	var (
		calls sync.WaitGroup
		errs  [8]error
	)
	for i := range errs {
		calls.Go(func() { errs[i] = w.Engine.Start(w.Context(), a) })
	}
	calls.Wait()
	w.must("Start", errors.Join(errs[:]...))
	w.awaitExit(a.Attempt.Primary())
	w.wantOutput(a.Attempt.Primary(), "once")
}

func startAfterExit(w *world) {
	a := w.start(w.Commands.Print([]Line{{Stream: engine.Stdout, Text: "once"}}, 3))
	ended := w.awaitExit(a.Attempt.Primary())
	w.must("Start after the end", w.Engine.Start(w.Context(), a))
	if diff := cmp.Diff(ended, w.status(a.Attempt.Primary())); diff != "" {
		w.Errorf("status after Start (-before +after):\n%s", diff)
	}
	w.wantOutput(a.Attempt.Primary(), "once")
}

func startPaused(w *world) {
	a := w.allocation(nil)
	a.Pause = true
	w.must("Start", w.Engine.Start(w.Context(), a))
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	if code, stdout, _ := w.exec(a.Attempt.Primary(), w.Commands.Print([]Line{{Stream: engine.Stdout, Text: "beside it"}}, 0)); code != 0 || stdout != "beside it\n" {
		w.Errorf("a command beside it wrote %q and ended with %d", stdout, code)
	}
	w.must("Signal", w.Engine.Signal(w.Context(), a.Attempt.Primary(), "TERM"))
	if got := w.awaitExit(a.Attempt.Primary()); got.ExitCode != 0 || got.Failure != "" {
		w.Errorf("exit code %d, failure %q", got.ExitCode, got.Failure)
	}
	w.wantOutput(a.Attempt.Primary())
}

func startNotFound(w *world) {
	a := w.allocation(w.Commands.NotFound)
	err := w.Engine.Start(w.Context(), a)
	if err != nil {
		w.wantStartError(err)
		return
	}
	got := w.awaitExit(a.Attempt.Primary())
	if got.ExitCode != 127 || got.Failure == "" {
		w.Errorf("exit code %d, failure %q; want 127 and a reason", got.ExitCode, got.Failure)
	}
}

func startWithoutImage(w *world) {
	a := w.allocation(w.Commands.Sleep)
	a.Image, a.ImageID = w.ImageMissing, ""
	w.wantNoImage(a.Attempt.Primary(), w.Engine.Start(w.Context(), a))
}

// wantNoImage checks that a step whose image can't be had is refused, at once or when the
// node has found that out.
func (w *world) wantNoImage(id engine.StepID, err error) {
	w.Helper()
	if err != nil {
		w.wantStartError(err)
		return
	}
	if got := w.awaitExit(id); got.Failure == "" {
		w.Errorf("without its image the step ended as %+v", got)
	}
}

func (w *world) wantStartError(err error) {
	w.Helper()
	var refused *engine.StartError
	if !errors.As(err, &refused) || refused.Message == "" {
		w.Errorf("Start: error %v (%T), want a StartError with a message", err, err)
	}
}

func startCancelled(w *world) {
	a := w.allocation(w.Commands.Sleep)
	w.wantCancelled("Start", func(ctx context.Context) error { return w.Engine.Start(ctx, a) })
	w.wantGone(a.Attempt.Primary())
}

// wantCancelled calls f with a context that has ended: it must return its error,
// and promptly (real time).
func (w *world) wantCancelled(what string, f func(ctx context.Context) error) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	began := time.Now()
	if err := f(ctx); !errors.Is(err, context.Canceled) {
		w.Errorf("%s with a cancelled context: error %v, want context.Canceled", what, err)
	}
	if took := time.Since(began); took > 2*time.Second {
		w.Errorf("%s with a cancelled context took %v", what, took)
	}
}

// wantOutput checks all that an attempt has printed so far.
func (w *world) wantOutput(id engine.StepID, lines ...string) {
	w.Helper()
	if diff := cmp.Diff(lines, w.output(id)); diff != "" {
		w.Errorf("output of %s (-want +got):\n%s", id, diff)
	}
}
