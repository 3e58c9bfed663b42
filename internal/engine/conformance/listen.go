package conformance

import (
	"errors"
	"io"
	"net"
	"time"

	"croft.dev/croft/internal/engine"
)

func listenCases() []testCase {
	return []testCase{
		{name: "Listen takes what comes to a step's port, until it is closed", run: listenTakes, containers: true},
		{name: "Listen on a port that is taken, or isn't anybody's, is a ListenError", run: listenRefused, containers: true},
		{name: "Listen at what isn't there or has ended is not found", run: listenUnknown},
	}
}

func listenTakes(w *world) {
	a := w.start(w.Commands.Sleep)
	id := a.Attempt.Primary()
	w.awaitPhase(id, engine.PhaseRunning)
	if w.NoListen {
		_, err := w.Engine.Listen(w.Context(), id, listenPort)
		if refused := new(engine.ListenError); !errors.As(err, &refused) || refused.Message == "" {
			w.Errorf("error %v, want a ListenError with a message", err)
		}
		return
	}
	for _, port := range []uint16{0, listenPort} {
		ln, err := w.Engine.Listen(w.Context(), id, port)
		w.must("Listen", err)
		at, ok := ln.Addr().(*net.TCPAddr)
		if !ok || port != 0 && at.Port != int(port) || at.Port < engine.FirstPort {
			w.Fatalf("listens at %v", ln.Addr())
		}
		go func() {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(nc, nc) // its end is what the other side sees
			nc.Close()
		}()
		c, err := w.Engine.Dial(w.Context(), id, uint16(at.Port))
		w.must("Dial", err)
		_ = c.SetDeadline(time.Now().Add(patience))
		got := make([]byte, 5)
		go func() { _, _ = io.WriteString(c, "hello") }()
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
			w.Errorf("it answers %q, %v", got, err)
		}
		c.Close()
		w.must("Close", ln.Close())
		var not *engine.DialError
		if c, err := w.Engine.Dial(w.Context(), id, uint16(at.Port)); !errors.As(err, &not) {
			w.Errorf("after Close: connection %v, error %v, want a DialError", c, err)
		}
	}
}

func listenRefused(w *world) {
	if w.NoListen {
		return // as listenTakes has seen
	}
	a := w.start(w.Commands.Sleep)
	id := a.Attempt.Primary()
	w.awaitPhase(id, engine.PhaseRunning)
	ln, err := w.Engine.Listen(w.Context(), id, listenPort)
	w.must("Listen", err)
	defer ln.Close()
	for port, want := range map[uint16]string{listenPort: engine.PortTaken, 1: engine.PortPrivileged, engine.FirstPort - 1: engine.PortPrivileged} {
		_, err := w.Engine.Listen(w.Context(), id, port)
		var refused *engine.ListenError
		if !errors.As(err, &refused) || refused.Port != port || refused.Message != want {
			w.Errorf("port %d: error %v, want a ListenError that says %q", port, err, want)
		}
	}
}

func listenUnknown(w *world) {
	unknown := attemptID(w.Instance, w.jobs.Add(1), 1)
	ended := w.start(w.Commands.Exit(0))
	w.awaitExit(ended.Attempt.Primary())
	for _, id := range []engine.StepID{unknown.Primary(), ended.Attempt.Primary()} {
		ln, err := w.Engine.Listen(w.Context(), id, listenPort)
		var none *engine.NotFoundError
		if !errors.As(err, &none) || none.Attempt != id.Attempt {
			w.Errorf("%s: listener %v, error %v, want NotFoundError", id, ln, err)
		}
	}
}
