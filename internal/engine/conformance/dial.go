package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"croft.dev/croft/internal/engine"
)

func dialCases() []testCase {
	return []testCase{
		{name: "Dial reaches what listens on a step's loopback", run: dialReaches, containers: true},
		{name: "Dial reaches a further step, and neither another's port", run: dialApart, containers: true},
		{name: "Dial to where nothing listens is a DialError", run: dialNothing, containers: true},
		{name: "Dial to what isn't there or has ended is not found", run: dialUnknown},
		{name: "a connection ends with its step", run: dialEnds, containers: true},
	}
}

// listenPort is one that nothing of the suite listens on otherwise.
const listenPort = 18_099

// dial connects once the program listens. That it doesn't may be said by the first Read only.
func (w *world) dial(e engine.Engine, id engine.StepID) net.Conn {
	w.Helper()
	var c net.Conn
	w.await(fmt.Sprint("port ", listenPort, " of ", id), func() bool {
		got, err := e.Dial(w.Context(), id, listenPort)
		if not := new(engine.DialError); errors.As(err, &not) {
			return false
		}
		w.must("Dial", err)
		c = got
		return true
	})
	w.Cleanup(func() { c.Close() })
	w.must("SetDeadline", c.SetDeadline(time.Now().Add(patience)))
	return c
}

// wantPage asks for the page of Commands.Listen, until the program listens.
func (w *world) wantPage(e engine.Engine, id engine.StepID) {
	w.Helper()
	w.await("the page of "+id.String(), func() bool {
		c := w.dial(e, id)
		go func() { _, _ = io.WriteString(c, "GET / HTTP/1.0\r\nHost: x\r\n\r\n") }() // what is read says how it went
		b, err := io.ReadAll(c)
		if not := new(engine.DialError); errors.As(err, &not) {
			return false
		}
		if _, body, _ := bytes.Cut(b, []byte("\r\n\r\n")); err != nil || string(body) != "hello\n" {
			w.Fatalf("%s answers %q, %v", id, b, err)
		}
		return true
	})
}

func dialReaches(w *world) {
	a := w.allocation(w.Commands.Listen(listenPort))
	a.Pod.Closed = true // which keeps this way open
	w.must("Start", w.Engine.Start(w.Context(), a))
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	again := w.Reconnect(w.T)
	defer func() { w.must("Close", again.Close()) }()
	for _, e := range []engine.Engine{w.Engine, w.Engine, again} {
		w.wantPage(e, a.Attempt.Primary())
	}
}

// dialApart has two attempts that listen on one number.
func dialApart(w *world) {
	a, other := w.start(w.Commands.Sleep), w.start(w.Commands.Sleep)
	s := step(a, 2, w.Commands.Listen(listenPort))
	w.must("StartStep", w.startStep(a, s))
	id := engine.StepID{Attempt: a.Attempt, N: 2}
	w.awaitPhase(id, engine.PhaseRunning)
	w.wantPage(w.Engine, id)
	w.awaitPhase(other.Attempt.Primary(), engine.PhaseRunning)
	w.wantNothingListens(other.Attempt.Primary())
}

func (w *world) wantNothingListens(id engine.StepID) {
	w.Helper()
	c, err := w.Engine.Dial(w.Context(), id, listenPort)
	if err == nil { // then the first Read says it
		w.Cleanup(func() { c.Close() })
		w.must("SetDeadline", c.SetDeadline(time.Now().Add(patience)))
		_, err = c.Read(make([]byte, 1))
	}
	var not *engine.DialError
	if !errors.As(err, &not) || not.Port != listenPort || not.Message != engine.NothingListens {
		w.Errorf("connection %v, error %v, want a DialError", c, err)
	}
}

func dialNothing(w *world) {
	a := w.start(w.Commands.Sleep)
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	w.wantNothingListens(a.Attempt.Primary())
}

func dialUnknown(w *world) {
	unknown := attemptID(w.Instance, w.jobs.Add(1), 1)
	ended := w.start(w.Commands.Exit(0))
	w.awaitExit(ended.Attempt.Primary())
	for _, id := range []engine.StepID{unknown.Primary(), ended.Attempt.Primary(), {Attempt: ended.Attempt, N: 7}} {
		c, err := w.Engine.Dial(w.Context(), id, listenPort)
		var none *engine.NotFoundError
		if !errors.As(err, &none) || none.Attempt != id.Attempt {
			w.Errorf("%s: connection %v, error %v, want NotFoundError", id, c, err)
		}
	}
}

func dialEnds(w *world) {
	a := w.start(w.Commands.Listen(listenPort))
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	w.wantPage(w.Engine, a.Attempt.Primary()) // it listens
	c := w.dial(w.Engine, a.Attempt.Primary())
	w.must("Stop", w.Engine.Stop(w.Context(), a.Attempt))
	w.awaitExit(a.Attempt.Primary())
	if b, err := io.ReadAll(c); len(b) > 0 || errors.Is(err, net.ErrClosed) || isTimeout(err) {
		w.Errorf("after its end %q, %v", b, err)
	}
	if c, err := w.Engine.Dial(w.Context(), a.Attempt.Primary(), listenPort); err == nil {
		c.Close()
		w.Error("what has ended is reached")
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
