package conformance

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"croft.dev/croft/internal/engine"
)

// world is what one case works with.
type world struct {
	*testing.T
	*suite
	host bool // programs are on the host, not in containers
}

// allocation returns an attempt of a job that no other case uses. It is stopped
// and removed when the case ends.
func (w *world) allocation(command []string) engine.Allocation {
	w.Helper()
	return w.allocationOf(w.Engine, w.Instance, command)
}

func (w *world) allocationOf(e engine.Engine, instance string, command []string) engine.Allocation {
	w.Helper()
	img, ok, err := w.Engine.Image(w.Context(), w.ImageOK)
	if err != nil || !ok {
		w.Fatalf("Image(%q) = ok %v, error %v; the fixture says it is present", w.ImageOK, ok, err)
	}
	job := w.jobs.Add(1)
	a := engine.Allocation{
		Attempt:    attemptID(instance, job, 1),
		Job:        job,
		N:          1,
		Node:       w.Node,
		Instance:   instance,
		Account:    "physics-lab",
		SpecDigest: "sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
		Name:       "conformance",
		Container: engine.Container{
			Image: w.ImageOK, ImageID: img.ID, Command: command,
			Env:     map[string]string{"CROFT_DEVICES": ""},
			Workdir: w.Workdir,
		},
		User:   w.User,
		CPU:    w.CPU,
		Memory: w.Memory,
	}
	if w.host {
		a.Container = w.onHost(a.Container)
	}
	w.Cleanup(func() { w.discard(e, a.Attempt) })
	return a
}

// onHost is what runs on the host what a container does.
func (w *world) onHost(c engine.Container) engine.Container {
	c.Host, c.Image, c.ImageID = true, "", ""
	return c
}

// discard leaves nothing of an attempt. The case's own context has ended by then.
func (w *world) discard(e engine.Engine, id engine.AttemptID) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.Stop(ctx, id); err != nil {
		w.Errorf("clean up: Stop(%s): %v", id, err)
	}
	if err := w.removeWhenEnded(ctx, e, id); err != nil {
		w.Errorf("clean up: Remove(%s): %v", id, err)
	}
}

// removeWhenEnded tries until the engine has seen the end that Stop caused.
func (w *world) removeWhenEnded(ctx context.Context, e engine.Engine, id engine.AttemptID) error {
	for {
		err := e.Remove(ctx, id)
		if err == nil || ctx.Err() != nil {
			return err
		}
		w.pass()
	}
}

// start starts an attempt and fails the case if that isn't possible.
func (w *world) start(command []string) engine.Allocation {
	w.Helper()
	a := w.allocation(command)
	w.must("Start", w.Engine.Start(w.Context(), a))
	return a
}

func (w *world) must(what string, err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// pass lets a little time pass.
func (w *world) pass() {
	if w.Step != nil {
		w.Step()
		return
	}
	<-time.After(10 * time.Millisecond)
}

// await waits until ok returns true.
func (w *world) await(what string, ok func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !ok(); w.pass() {
		if time.Now().After(end) {
			w.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// call runs f beside the clock: f may take (virtual) time.
func call[R any](w *world, what string, f func() (R, error)) (R, error) {
	w.Helper()
	var (
		r    R
		err  error
		done = make(chan struct{})
	)
	go func() {
		defer close(done)
		r, err = f()
	}()
	w.await(what+" to return", func() bool { return isClosed(done) })
	return r, err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// statusAt returns what e lists of a step. Two entries of one step fail the case.
func (w *world) statusAt(e engine.Engine, id engine.StepID) (engine.Status, bool) {
	w.Helper()
	all, err := e.List(w.Context())
	w.must("List", err)
	var (
		found engine.Status
		n     int
	)
	for _, s := range all {
		if s.ID() == id {
			found = s
			n++
		}
	}
	if n > 1 {
		w.Fatalf("List shows step %s %d times", id, n)
	}
	return found, n == 1
}

func (w *world) status(id engine.StepID) engine.Status {
	w.Helper()
	s, ok := w.statusAt(w.Engine, id)
	if !ok {
		w.Fatalf("List doesn't show step %s", id)
	}
	return s
}

func (w *world) awaitPhase(id engine.StepID, phase engine.Phase) engine.Status {
	w.Helper()
	var s engine.Status
	w.await(id.String()+" to be "+string(phase), func() bool {
		s = w.status(id)
		if s.Phase == engine.PhaseExited && phase == engine.PhaseRunning {
			w.Fatalf("%s has ended early: %+v", id, s)
		}
		return s.Phase == phase
	})
	return s
}

func (w *world) awaitExit(id engine.StepID) engine.Status {
	w.Helper()
	return w.awaitPhase(id, engine.PhaseExited)
}

// awaitLine waits until the attempt has printed the line.
func (w *world) awaitLine(id engine.StepID, line string) {
	w.Helper()
	w.await(id.String()+" to print "+line, func() bool {
		for _, l := range w.log(id, engine.LogOptions{Tail: -1}) {
			if l.text == line {
				return true
			}
		}
		return false
	})
}

// log returns the selected part of an attempt's log. A log that the runtime
// hasn't yet made is empty.
func (w *world) log(id engine.StepID, opts engine.LogOptions) []logLine {
	w.Helper()
	r := new(recorder)
	_, err := call(w, "Logs", func() (struct{}, error) {
		return struct{}{}, w.Engine.Logs(w.Context(), id, opts, r)
	})
	var none *engine.NotFoundError
	if err != nil && !errors.As(err, &none) {
		w.Fatalf("Logs(%s): %v", id, err)
	}
	return r.lines()
}

// output returns the lines of an ended attempt.
func (w *world) output(id engine.StepID) []string {
	w.Helper()
	return texts(w.log(id, engine.LogOptions{Tail: -1}))
}

// logLine is a line of a log, without its newline, at the time of its first part.
type logLine struct {
	at     time.Time
	stream engine.Stream
	text   string
}

func texts(lines []logLine) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.text)
	}
	return out
}

// recorder puts the parts that a LogWriter gets together to lines.
type recorder struct {
	mu   sync.Mutex
	open map[engine.Stream]*logLine
	done []logLine
}

// WriteLog implements engine.LogWriter.
func (*recorder) Flush() error { return nil }

func (r *recorder) WriteLog(at time.Time, stream engine.Stream, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = make(map[engine.Stream]*logLine)
	}
	for part := range bytes.Lines(data) {
		l := r.open[stream]
		if l == nil {
			l = &logLine{at: at, stream: stream}
			r.open[stream] = l
		}
		l.text += strings.TrimSuffix(string(part), "\n")
		if bytes.HasSuffix(part, []byte("\n")) {
			r.done = append(r.done, *l)
			r.open[stream] = nil
		}
	}
	return nil
}

// lines returns the lines, an unfinished one of each stream at the end.
func (r *recorder) lines() []logLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := append([]logLine(nil), r.done...)
	for _, stream := range []engine.Stream{engine.Stdout, engine.Stderr} {
		if l := r.open[stream]; l != nil {
			out = append(out, *l)
		}
	}
	return out
}
