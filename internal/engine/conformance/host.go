package conformance

import (
	"croft.dev/croft/internal/engine"
)

func hostCases() []testCase {
	return []testCase{
		{name: "a program on the host and a container run beside each other", run: hostBesideContainer},
		{name: "a program on the host without a command, or with an input, is refused", run: hostRefused, containers: true},
	}
}

// hostBesideContainer has a step of the kind that the primary isn't.
func hostBesideContainer(w *world) {
	a := w.start(w.Commands.Sleep)
	s := step(a, 2, w.Commands.UntilTerm)
	s.Container = w.onHost(s.Container)
	if w.host {
		s.Container = (&world{T: w.T, suite: w.suite}).allocation(w.Commands.UntilTerm).Container
	}
	w.must("StartStep", w.startStep(a, s))
	id := engine.StepID{Attempt: a.Attempt, N: 2}
	w.awaitLine(id, "ready")
	w.must("Signal", w.Engine.Signal(w.Context(), id, "TERM"))
	if got := w.awaitExit(id); got.ExitCode != 0 {
		w.Errorf("the step ended as %+v", got)
	}
	if got := w.status(a.Attempt.Primary()); got.Phase != engine.PhaseRunning {
		w.Errorf("the primary is %+v", got)
	}
	s.N, s.Command = 3, w.Commands.IgnoreTerm
	w.must("StartStep", w.startStep(a, s))
	id.N = 3
	w.awaitLine(id, "ready")
	w.must("Stop", w.Engine.Stop(w.Context(), a.Attempt))
	for _, each := range []engine.StepID{a.Attempt.Primary(), id} {
		w.wantStopped(w.awaitExit(each))
	}
}

func hostRefused(w *world) {
	for _, change := range []func(*engine.Container){
		func(c *engine.Container) { c.Command = nil },
		func(c *engine.Container) { c.Stdin = true },
		withTTY,
	} {
		a := w.allocation(w.Commands.Sleep)
		a.Container = w.onHost(a.Container)
		change(&a.Container)
		w.wantStartError(w.Engine.Start(w.Context(), a))
	}
}
