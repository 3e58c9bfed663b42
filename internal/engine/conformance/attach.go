package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"

	"croft.dev/croft/internal/engine"
)

func attachCases() []testCase {
	return []testCase{
		{name: "what is attached is the program's input, and its end reaches it", run: attachInput, containers: true},
		{name: "megabytes of any bytes pass in both directions", run: attachBinary, containers: true},
		{name: "an input without outputs reaches the program", run: attachInputOnly, containers: true},
		{name: "the input belongs to the first who gives it", run: attachFirst, containers: true},
		{name: "leaving ends the input that was given", run: attachLeaves, containers: true},
		{name: "leaving leaves a program alone, also by a writer's error", run: attachDetaches, containers: true},
		{name: "many are attached at once", run: attachMany, containers: true},
		{name: "Attach ends with the program", run: attachSeesEnd},
		{name: "an input for what has none is refused", run: attachNoInput},
		{name: "Attach to a step that is unknown or has ended is not found", run: attachUnknown},
		{name: "a further step is attached to by its number", run: attachStep, containers: true},
		{name: "a terminal is left and attached to again", run: attachTerminal, containers: true},
		{name: "a terminal is resized", run: attachResize, containers: true},
		{name: "a program that waits to be attached to is seen from its first byte", run: attachAwaited, containers: true},
		{name: "so is one that waits for a terminal", run: attachAwaitedTerminal, containers: true},
	}
}

// screen is what one who is attached sees.
type screen struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

func (w *world) awaitText(s *screen, text string) {
	w.Helper()
	w.await(fmt.Sprintf("%q to be seen", text), func() bool { return strings.Contains(s.String(), text) })
}

// with starts an attempt whose program has an input.
func (w *world) with(command []string, change func(*engine.Container)) engine.StepID {
	w.Helper()
	a := w.allocation(command)
	a.Stdin = true
	if change != nil {
		change(&a.Container)
	}
	w.must("Start", w.Engine.Start(w.Context(), a))
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	return a.Attempt.Primary()
}

func withTTY(c *engine.Container) { c.TTY = true }
func awaited(c *engine.Container) { c.AwaitAttach = true }

// attached is an Attach that goes on.
type attached struct {
	screen
	in    *io.PipeWriter
	sizes chan engine.Size
	leave context.CancelFunc
	done  chan struct{}
	err   error // once done
}

// attach attaches; with input what is written to in reaches the program.
func (w *world) attach(id engine.StepID, input bool) *attached {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	a := &attached{sizes: make(chan engine.Size, 8), leave: cancel, done: make(chan struct{})}
	req := engine.AttachRequest{Stdout: a, Stderr: a, Resize: a.sizes}
	if input {
		req.Stdin, a.in = io.Pipe()
	}
	go func() {
		defer close(a.done)
		a.err = w.Engine.Attach(ctx, id, req)
	}()
	return a
}

// type_ writes to the program's input; it doesn't wait for it.
func (a *attached) type_(text string) { go func() { _, _ = io.WriteString(a.in, text) }() }

// awaitLeft waits for the end of an Attach and returns its error.
func (w *world) awaitLeft(a *attached) error {
	w.Helper()
	w.await("Attach to return", func() bool { return isClosed(a.done) })
	return a.err
}

// attachOnce attaches with an input until the program ends, and returns its output.
func (w *world) attachOnce(id engine.StepID, input io.Reader) string {
	w.Helper()
	var out screen
	_, err := call(w, "Attach", func() (struct{}, error) {
		return struct{}{}, w.Engine.Attach(w.Context(), id, engine.AttachRequest{Stdin: input, Stdout: &out, Stderr: &out})
	})
	w.must("Attach", err)
	return out.String()
}

func attachInput(w *world) {
	id := w.with(w.Commands.Copy, nil)
	if got := w.attachOnce(id, strings.NewReader("good morning\n")); got != "good morning\n" {
		w.Errorf("output %q", got)
	}
	if got := w.awaitExit(id); got.ExitCode != 0 {
		w.Errorf("status %+v", got)
	}
	w.wantOutput(id, "good morning")
}

func attachBinary(w *world) {
	id := w.with(w.Commands.Copy, nil)
	data := make([]byte, 3<<20+7)
	fill := rand.NewChaCha8([32]byte{1})
	_, _ = fill.Read(data)
	if got := w.attachOnce(id, bytes.NewReader(data)); got != string(data) {
		w.Errorf("%d bytes came back of %d, or others", len(got), len(data))
	}
}

func attachInputOnly(w *world) {
	id := w.with(w.Commands.Copy, nil)
	_, err := call(w, "Attach", func() (struct{}, error) {
		return struct{}{}, w.Engine.Attach(w.Context(), id, engine.AttachRequest{Stdin: strings.NewReader("unseen\n")})
	})
	w.must("Attach", err)
	w.awaitExit(id)
	w.wantOutput(id, "unseen")
}

func (w *world) wantRefused(err error, want string) {
	w.Helper()
	var refused *engine.AttachError
	if !errors.As(err, &refused) || refused.Message != want {
		w.Errorf("error %v, want an AttachError: %s", err, want)
	}
}

// feedUntil gives lines until all watchers have seen some.
func (w *world) feedUntil(feeder *attached, watchers ...*attached) {
	w.Helper()
	n := 0
	w.await("all to see something", func() bool {
		n++
		if _, err := fmt.Fprintln(feeder.in, "line", n); err != nil {
			w.Fatal(err)
		}
		for _, a := range watchers {
			if a.String() == "" {
				return false
			}
		}
		return true
	})
}

func attachFirst(w *world) {
	id := w.with(w.Commands.Copy, nil)
	first := w.attach(id, true)
	first.type_("mine\n")
	w.awaitText(&first.screen, "mine\n")
	w.wantRefused(w.awaitLeft(w.attach(id, true)), engine.InputGiven)
	other := w.attach(id, false)
	w.feedUntil(first, other)
	w.must("end the input", first.in.Close())
	w.must("Attach", w.awaitLeft(first))
	w.must("Attach without an input", w.awaitLeft(other))
	if got := other.String(); !strings.HasSuffix(first.String(), got) {
		w.Errorf("the other saw %q of %q", got, first.String())
	}
}

func attachLeaves(w *world) {
	id := w.with(w.Commands.Copy, nil)
	a := w.attach(id, true)
	a.type_("half\n")
	w.awaitText(&a.screen, "half\n")
	a.leave()
	if err := w.awaitLeft(a); !errors.Is(err, context.Canceled) {
		w.Errorf("error %v, want the context's", err)
	}
	if got := w.awaitExit(id); got.ExitCode != 0 {
		w.Errorf("status %+v", got)
	}
	w.wantOutput(id, "half")
}

// full is a writer whose other end has gone.
type full struct{}

var errFull = errors.New("nobody reads")

func (full) Write([]byte) (int, error) { return 0, errFull }

func attachDetaches(w *world) {
	id := w.with(w.Commands.Copy, nil)
	a := w.attach(id, false)
	w.pass()
	a.leave()
	if err := w.awaitLeft(a); !errors.Is(err, context.Canceled) {
		w.Errorf("error %v, want the context's", err)
	}
	feeder := w.attach(id, true)
	_, err := call(w, "Attach", func() (struct{}, error) {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				_, _ = io.WriteString(feeder.in, "more\n")
			}
		}()
		return struct{}{}, w.Engine.Attach(w.Context(), id, engine.AttachRequest{Stdout: full{}})
	})
	if !errors.Is(err, errFull) {
		w.Errorf("error %v, want the writer's", err)
	}
	if got := w.status(id); got.Phase != engine.PhaseRunning {
		w.Errorf("status %+v", got)
	}
	w.must("end the input", feeder.in.Close())
	w.must("Attach", w.awaitLeft(feeder))
}

func attachMany(w *world) {
	id := w.with(w.Commands.Copy, nil)
	feeder := w.attach(id, true)
	watchers := make([]*attached, 8)
	for i := range watchers {
		watchers[i] = w.attach(id, false)
	}
	w.feedUntil(feeder, watchers...)
	w.must("end the input", feeder.in.Close())
	w.must("Attach", w.awaitLeft(feeder))
	for _, a := range watchers {
		w.must("Attach", w.awaitLeft(a))
		if got := a.String(); !strings.HasSuffix(feeder.String(), got) || !strings.HasPrefix(got, "line ") {
			w.Errorf("one of many saw %q of %q", got, feeder.String())
		}
	}
}

func attachSeesEnd(w *world) {
	a := w.start(w.Commands.UntilTerm)
	w.awaitLine(a.Attempt.Primary(), "ready")
	att := w.attach(a.Attempt.Primary(), false)
	w.pass()
	if isClosed(att.done) {
		w.Fatalf("Attach ended early: %v", att.err)
	}
	w.must("Signal", w.Engine.Signal(w.Context(), a.Attempt.Primary(), "TERM"))
	err := w.awaitLeft(att)
	var none *engine.NotFoundError
	if err != nil && !errors.As(err, &none) { // it may have come too late
		w.Errorf("Attach: %v", err)
	}
}

func attachNoInput(w *world) {
	a := w.start(w.Commands.Sleep)
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	w.wantRefused(w.awaitLeft(w.attach(a.Attempt.Primary(), true)), engine.NoInput)
}

func attachUnknown(w *world) {
	unknown := attemptID(w.Instance, w.jobs.Add(1), 1).Primary()
	ended := w.start(w.Commands.Exit(0)).Attempt.Primary()
	w.awaitExit(ended)
	for _, id := range []engine.StepID{unknown, ended, {Attempt: ended.Attempt, N: 2}} {
		var none *engine.NotFoundError
		if err := w.awaitLeft(w.attach(id, false)); !errors.As(err, &none) || none.Attempt != id.Attempt {
			w.Errorf("%s: error %v, want NotFoundError", id, err)
		}
	}
}

func attachStep(w *world) {
	a := w.start(w.Commands.Sleep)
	s := step(a, 2, w.Commands.Copy)
	s.Stdin = true
	w.must("StartStep", w.startStep(a, s))
	id := engine.StepID{Attempt: a.Attempt, N: 2}
	w.awaitPhase(id, engine.PhaseRunning)
	if got := w.attachOnce(id, strings.NewReader("to the step\n")); got != "to the step\n" {
		w.Errorf("output %q", got)
	}
	w.awaitExit(id)
	if got := w.status(a.Attempt.Primary()); got.Phase != engine.PhaseRunning {
		w.Errorf("the primary: %+v", got)
	}
}

func attachTerminal(w *world) {
	id := w.with(w.Commands.Copy, withTTY)
	first := w.attach(id, true)
	first.type_("one\n")
	w.awaitText(&first.screen, "one")
	w.must("detach", first.in.Close())
	w.must("Attach", w.awaitLeft(first))
	if got := w.status(id); got.Phase != engine.PhaseRunning {
		w.Fatalf("status after the first has left: %+v", got)
	}
	second, third := w.attach(id, true), w.attach(id, true)
	second.type_("two\n")
	w.awaitText(&second.screen, "two")
	third.type_("three\n")
	w.awaitText(&second.screen, "three")
	w.awaitText(&third.screen, "three")
	second.type_("\x04")
	w.must("Attach", w.awaitLeft(second))
	w.must("Attach", w.awaitLeft(third))
	if got := w.awaitExit(id); got.ExitCode != 0 {
		w.Errorf("status %+v", got)
	}
}

func attachResize(w *world) {
	id := w.with(w.Commands.Sizes, withTTY)
	a := w.attach(id, true)
	for i, size := range []engine.Size{{Cols: 80, Rows: 24}, {Cols: 132, Rows: 50}, {Cols: 1000, Rows: 200}} {
		a.sizes <- size
		w.awaitText(&a.screen, fmt.Sprint(size.Rows, " ", size.Cols))
		if i == 0 {
			for range 1000 { // a flood of them does no harm
				select {
				case a.sizes <- engine.Size{Cols: 81, Rows: 25}:
				default:
				}
			}
		}
	}
	a.leave()
	_ = w.awaitLeft(a)
}

func attachAwaited(w *world) {
	id := w.with(w.Commands.Print([]Line{{Stream: engine.Stdout, Text: "first"}}, 3), awaited)
	w.wantSilent(id)
	if got := w.attachOnce(id, strings.NewReader("")); got != "first\n" {
		w.Errorf("output %q", got)
	}
	if got := w.awaitExit(id); got.ExitCode != 3 {
		w.Errorf("status %+v", got)
	}
	id = w.with(w.Commands.Copy, awaited)
	w.wantSilent(id)
	if got := w.attachOnce(id, strings.NewReader("\x06\x00good morning\n")); got != "\x06\x00good morning\n" {
		w.Errorf("output %q", got)
	}
}

func attachAwaitedTerminal(w *world) {
	id := w.with(w.Commands.Print([]Line{{Stream: engine.Stdout, Text: "first"}}, 3), func(c *engine.Container) { withTTY(c); awaited(c) })
	w.wantSilent(id)
	a := w.attach(id, true)
	a.sizes <- engine.Size{Cols: 80, Rows: 24}
	w.must("Attach", w.awaitLeft(a))
	if got := strings.TrimRight(a.String(), "\r\n"); got != "first" {
		w.Errorf("output %q", got)
	}
	if got := w.awaitExit(id); got.ExitCode != 3 {
		w.Errorf("status %+v", got)
	}
}

// wantSilent checks that a program waits.
func (w *world) wantSilent(id engine.StepID) {
	w.Helper()
	for range 10 {
		w.pass()
	}
	if got := w.log(id, engine.LogOptions{Tail: -1}); len(got) > 0 {
		w.Errorf("the program didn't wait: %+v", got)
	}
}
