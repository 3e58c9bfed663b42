package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/terminal"
)

func terminalCases() []testCase {
	return []testCase{
		{name: "all who join a terminal see the same, and it stays when they leave", run: terminalStays, containers: true},
		{name: "who was cut off from a terminal goes on with the next byte, also by another server", run: terminalGoesOn, containers: true},
		{name: "the end of a terminal's shell is told with its exit code", run: terminalEnds, containers: true},
		{name: "a terminal is resized", run: terminalResizes, containers: true},
		{name: "a terminal is ended, and listed as such", run: terminalIsEnded, containers: true},
		{name: "a terminal is of its step and ends with it", run: terminalOfStep, containers: true},
		{name: "what doesn't run has no terminals", run: terminalUnknown},
	}
}

// inTerminal is one who has joined a terminal, or asked for something.
type inTerminal struct {
	io.ReadWriteCloser
	mu     sync.Mutex
	first  terminal.Joined
	text   string // all that was shown
	at     int64  // how much was had of the output
	ended  *terminal.Ended
	list   []terminal.Info
	refuse *terminal.Refused
	over   bool
}

// askTerminals connects with a step's terminals and asks for something.
func (w *world) askTerminals(e engine.Engine, id engine.StepID, hello terminal.Hello) *inTerminal {
	w.Helper()
	conn, err := call(w, "Terminals", func() (io.ReadWriteCloser, error) { return e.Terminals(w.Context(), id, true) })
	w.must("Terminals", err)
	w.Cleanup(func() { conn.Close() })
	w.must("say hello", terminal.WriteJSON(conn, terminal.HelloAs, hello))
	t := &inTerminal{ReadWriteCloser: conn}
	go t.read()
	return t
}

func joining(name string) terminal.Hello {
	return terminal.Hello{Ask: terminal.ToJoin, Name: name, Size: terminal.Size{Cols: 80, Rows: 24}}
}

// joinTerminal joins a terminal of the primary and waits until that has answered.
func (w *world) joinTerminal(id engine.StepID, hello terminal.Hello) *inTerminal {
	w.Helper()
	t := w.askTerminals(w.Engine, id, hello)
	w.await("to have joined", func() bool { return t.joined() })
	return t
}

func (t *inTerminal) read() {
	for {
		kind, data, err := terminal.ReadOne(t)
		t.mu.Lock()
		switch {
		case err != nil:
			t.over = true
		case kind == terminal.Screen:
			t.text += string(data)
		case kind == terminal.Output:
			t.text += string(data)
			t.at += int64(len(data))
		case kind == terminal.JoinedAs:
			err = json.Unmarshal(data, &t.first)
			t.at = t.first.Seq
		case kind == terminal.Exit:
			t.ended = new(terminal.Ended)
			err = json.Unmarshal(data, t.ended)
		case kind == terminal.Listing:
			err = json.Unmarshal(data, &t.list)
		case kind == terminal.RefusedFor:
			t.refuse = new(terminal.Refused)
			err = json.Unmarshal(data, t.refuse)
		}
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// with calls do with what was had.
func (t *inTerminal) with(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do()
}

func (t *inTerminal) joined() (yes bool) {
	t.with(func() { yes = t.first.ID != "" })
	return yes
}

func (t *inTerminal) isOver() (yes bool) {
	t.with(func() { yes = t.over })
	return yes
}

func (w *world) typeIn(t *inTerminal, text string) {
	w.Helper()
	w.must("type", terminal.Write(t, terminal.Input, []byte(text)))
}

func (w *world) awaitShown(t *inTerminal, text string) {
	w.Helper()
	w.await(fmt.Sprintf("%q to be shown", text), func() (yes bool) {
		t.with(func() { yes = strings.Contains(t.text, text) })
		return yes
	})
}

// sleeping starts an attempt whose program leaves alone what runs beside it.
func (w *world) sleeping() engine.StepID {
	w.Helper()
	id := w.start(w.Commands.Sleep).Attempt.Primary()
	w.awaitPhase(id, engine.PhaseRunning)
	return id
}

func terminalStays(w *world) {
	id := w.sleeping()
	_, err := call(w, "Terminals", func() (io.ReadWriteCloser, error) { return w.Engine.Terminals(w.Context(), id, false) })
	var none *engine.NoTerminalsError
	if !errors.As(err, &none) || none.Step != id {
		w.Errorf("without any: %v", err)
	}
	first := w.joinTerminal(id, joining("main"))
	w.typeIn(first, "echo on''e\r")
	w.awaitShown(first, "one\r\n")
	second := w.joinTerminal(id, joining("main"))
	w.awaitShown(second, "one\r\n")
	w.typeIn(second, "echo tw''o\r")
	w.awaitShown(first, "two\r\n")
	w.awaitShown(second, "two\r\n")
	other := w.joinTerminal(id, joining("other"))
	first.Close()
	second.Close()
	again := w.joinTerminal(id, joining("main"))
	w.awaitShown(again, "two\r\n")
	if again.first.ID != first.first.ID || again.first.Fresh || !first.first.Fresh || other.first.ID == first.first.ID {
		w.Errorf("joined %+v, %+v and %+v", first.first, again.first, other.first)
	}
	other.with(func() {
		if strings.Contains(other.text, "two") {
			w.Errorf("another terminal shows %q", other.text)
		}
	})
}

func terminalGoesOn(w *world) {
	id := w.sleeping()
	first := w.joinTerminal(id, joining("main"))
	w.typeIn(first, "seq 3''0000\r")
	w.awaitShown(first, "\n100\r\n")
	first.Close()
	w.await("the connection to end", first.isOver)
	hello := joining("main")
	hello.ID, hello.After = first.first.ID, first.at
	second := w.askTerminals(w.Reconnect(w.T), id, hello)
	w.await("the rest", func() (all bool) { // which the first may have had; nothing is typed: its echo would come amid it
		second.with(func() { all = second.first.ID != "" && strings.Contains(first.text+second.text, "\n30000\r\n") })
		return all
	})
	second.with(func() {
		if second.first.Seq-second.first.Lost != first.at || second.first.ID != hello.ID {
			w.Errorf("joined %+v after %d", second.first, first.at)
		}
		if second.first.Lost > 0 {
			return // it was quicker; what is there is shown from the start
		}
		var all strings.Builder
		for i := range 30000 {
			fmt.Fprintf(&all, "%d\r\n", i+1)
		}
		if !strings.Contains(first.text+second.text, all.String()) {
			w.Errorf("%d bytes before and %d after aren't all", len(first.text), len(second.text))
		}
	})
}

func terminalEnds(w *world) {
	id := w.sleeping()
	first := w.joinTerminal(id, joining("main"))
	w.typeIn(first, "exit 7\r")
	w.await("the connection to end", first.isOver)
	hello := joining("main")
	hello.ID = first.first.ID
	late := w.joinTerminal(id, hello)
	w.await("the connection to end", late.isOver)
	for _, t := range []*inTerminal{first, late} {
		if t.ended == nil || t.ended.ExitCode != 7 {
			w.Errorf("ended %+v", t.ended)
		}
	}
	if again := w.joinTerminal(id, joining("main")); !again.first.Fresh || again.first.ID == hello.ID {
		w.Errorf("joined %+v", again.first)
	}
	if got := w.status(id); got.Phase != engine.PhaseRunning {
		w.Errorf("the step: %+v", got)
	}
}

func terminalResizes(w *world) {
	id := w.sleeping()
	first := w.joinTerminal(id, joining("main"))
	w.typeIn(first, "stty size\r")
	w.awaitShown(first, "24 80\r\n")
	for range 1000 { // a flood of them does no harm
		w.must("resize", terminal.WriteJSON(first, terminal.Resize, terminal.Size{Cols: 99, Rows: 30}))
	}
	w.typeIn(first, "stty size\r")
	w.awaitShown(first, "30 99\r\n")
	hello := joining("main")
	hello.Size = terminal.Size{Cols: 132, Rows: 50}
	second := w.joinTerminal(id, hello)
	w.typeIn(second, "stty size\r")
	w.awaitShown(first, "50 132\r\n")
	second.Close()
	w.typeIn(first, "echo la''st\r")
	w.awaitShown(first, "last\r\n")
}

func terminalIsEnded(w *world) {
	id := w.sleeping()
	first := w.joinTerminal(id, joining("main"))
	if end := w.askTerminals(w.Engine, id, terminal.Hello{Ask: terminal.ToEnd, Name: "main"}); true {
		w.await("the answer", end.isOver)
		if end.ended == nil {
			w.Errorf("ending it: %+v", end.refuse)
		}
	}
	w.await("the connection to end", first.isOver)
	if first.ended == nil {
		w.Error("who was in it wasn't told")
	}
	list := w.askTerminals(w.Engine, id, terminal.Hello{Ask: terminal.ToList})
	w.await("the answer", list.isOver)
	if len(list.list) != 1 || list.list[0].Name != "main" || list.list[0].Ended == nil {
		w.Errorf("list %+v", list.list)
	}
}

func terminalOfStep(w *world) {
	a := w.start(w.Commands.Sleep)
	w.must("StartStep", w.startStep(a, step(a, 2, w.Commands.Sleep)))
	id := engine.StepID{Attempt: a.Attempt, N: 2}
	w.awaitPhase(id, engine.PhaseRunning)
	in := w.joinTerminal(id, joining("main"))
	beside := w.joinTerminal(a.Attempt.Primary(), joining("main"))
	w.must("StopStep", w.Engine.StopStep(w.Context(), id))
	w.awaitExit(id)
	w.await("the connection to end", in.isOver)
	w.typeIn(beside, "echo sti''ll\r")
	w.awaitShown(beside, "still\r\n")
	w.must("Stop", w.Engine.Stop(w.Context(), a.Attempt))
	w.await("the connection to end", beside.isOver)
}

func terminalUnknown(w *world) {
	unknown := attemptID(w.Instance, w.jobs.Add(1), 1).Primary()
	ended := w.start(w.Commands.Exit(0)).Attempt.Primary()
	w.awaitExit(ended)
	for _, id := range []engine.StepID{unknown, ended, {Attempt: ended.Attempt, N: 2}} {
		_, err := call(w, "Terminals", func() (io.ReadWriteCloser, error) { return w.Engine.Terminals(w.Context(), id, true) })
		var none *engine.NotFoundError
		var refused *engine.AttachError
		if !errors.As(err, &none) && !errors.As(err, &refused) {
			w.Errorf("%s: error %v, want NotFoundError", id, err)
		}
	}
}
