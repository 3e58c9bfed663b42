package conformance

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
)

func logCases() []testCase {
	return []testCase{
		{name: "a log has every line in order, with stream and time", run: logOrder},
		{name: "Tail selects the last lines", run: logTail},
		{name: "Since selects the later lines", run: logSince},
		{name: "Follow ends when the attempt has ended, with everything", run: logFollow},
		{name: "the log of an unknown attempt is not found", run: logUnknown},
		{name: "an error of the writer ends Logs", run: logWriterFails},
	}
}

// pause is between lines whose order or time matters: streams are separate pipes.
const pause = 500 * time.Millisecond

func threeLines() []Line {
	return []Line{
		{Stream: engine.Stdout, Text: "one", Pause: pause},
		{Stream: engine.Stderr, Text: "two", Pause: pause},
		{Stream: engine.Stdout, Text: "three"},
	}
}

func logOrder(w *world) {
	a := w.start(w.Commands.Print(threeLines(), 0))
	w.awaitExit(a.Attempt.Primary())
	got := w.log(a.Attempt.Primary(), engine.LogOptions{Tail: -1})
	for i := 1; i < len(got); i++ {
		if got[i].at.Before(got[i-1].at) {
			w.Errorf("line %d at %v, the one before it at %v", i, got[i].at, got[i-1].at)
		}
	}
	want := []logLine{{stream: engine.Stdout, text: "one"}, {stream: engine.Stderr, text: "two"}, {stream: engine.Stdout, text: "three"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(logLine{}), ignoreTime()); diff != "" {
		w.Errorf("log (-want +got):\n%s", diff)
	}
}

func ignoreTime() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".at" }, cmp.Ignore())
}

func logTail(w *world) {
	a := w.start(w.Commands.Print(threeLines(), 0))
	w.awaitExit(a.Attempt.Primary())
	tests := map[int][]string{0: nil, 1: {"three"}, 2: {"two", "three"}, 9: {"one", "two", "three"}}
	for tail, want := range tests {
		if diff := cmp.Diff(want, texts(w.log(a.Attempt.Primary(), engine.LogOptions{Tail: tail}))); diff != "" {
			w.Errorf("tail %d (-want +got):\n%s", tail, diff)
		}
	}
}

func logSince(w *world) {
	a := w.start(w.Commands.Print(threeLines(), 0))
	ended := w.awaitExit(a.Attempt.Primary())
	all := w.log(a.Attempt.Primary(), engine.LogOptions{Tail: -1})
	if len(all) != 3 {
		w.Fatalf("log: %+v", all)
	}
	after := all[0].at.Add(time.Nanosecond)
	if diff := cmp.Diff([]string{"two", "three"}, texts(w.log(a.Attempt.Primary(), engine.LogOptions{Tail: -1, Since: after}))); diff != "" {
		w.Errorf("since the first line (-want +got):\n%s", diff)
	}
	late := ended.Finished.Add(time.Hour)
	if got := w.log(a.Attempt.Primary(), engine.LogOptions{Tail: -1, Since: late}); len(got) != 0 {
		w.Errorf("since long after the end: %+v", got)
	}
}

func logFollow(w *world) {
	a := w.start(w.Commands.Print(threeLines(), 0))
	w.awaitLine(a.Attempt.Primary(), "one")
	r := new(recorder)
	_, err := call(w, "Logs", func() (struct{}, error) {
		return struct{}{}, w.Engine.Logs(w.Context(), a.Attempt.Primary(), engine.LogOptions{Follow: true, Tail: -1}, r)
	})
	w.must("Logs", err)
	if got := w.status(a.Attempt.Primary()); got.Phase != engine.PhaseExited {
		w.Errorf("Logs has ended, the attempt is %s", got.Phase)
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, texts(r.lines())); diff != "" {
		w.Errorf("log (-want +got):\n%s", diff)
	}
}

func logUnknown(w *world) {
	id := attemptID(w.Instance, w.jobs.Add(1), 1)
	err := w.Engine.Logs(w.Context(), id.Primary(), engine.LogOptions{Tail: -1}, new(recorder))
	var none *engine.NotFoundError
	if !errors.As(err, &none) || none.Attempt != id {
		w.Errorf("error %v, want NotFoundError", err)
	}
}

// failingWriter fails at once.
type failingWriter struct{ err error }

func (failingWriter) Flush() error { return nil }

func (f failingWriter) WriteLog(time.Time, engine.Stream, []byte) error { return f.err }

func logWriterFails(w *world) {
	a := w.start(w.Commands.UntilTerm)
	w.awaitLine(a.Attempt.Primary(), "ready")
	gone := errors.New("the reader has gone")
	_, err := call(w, "Logs", func() (struct{}, error) {
		return struct{}{}, w.Engine.Logs(w.Context(), a.Attempt.Primary(), engine.LogOptions{Follow: true, Tail: -1}, failingWriter{gone})
	})
	if !errors.Is(err, gone) {
		w.Errorf("error %v, want the writer's", err)
	}
}
