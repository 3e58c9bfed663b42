package kube

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"croft.dev/croft/internal/engine"
)

// logged is what was written of a log: errors begin with "E:".
type logged struct {
	strings.Builder
	longest int
	open    bool
}

// WriteLog implements engine.LogWriter.
func (l *logged) WriteLog(_ time.Time, stream engine.Stream, data []byte) error {
	if stream == engine.Stderr && !l.open {
		l.WriteString("E:")
	}
	l.open = !strings.HasSuffix(string(data), "\n")
	l.longest = max(l.longest, len(data))
	l.Write(data)
	return nil
}

// Flush implements engine.LogWriter.
func (l *logged) Flush() error { return nil }

// stamped is a line of a log as the API server gives it, written so many seconds after another.
func stamped(seconds int, text string) string {
	return time.Date(2026, 1, 2, 3, 4, 5+seconds, 0, time.UTC).Format(time.RFC3339Nano) + " " + text
}

// ofLogs is an engine, and an attempt on node1 that has ended, of which the API server has a log.
func ofLogs(t *testing.T, give func(stream string, w io.Writer)) (*Engine, engine.Allocation, *corev1.Pod) {
	t.Helper()
	var p *corev1.Pod
	e := stubbed(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/log"):
			give(r.URL.Query().Get("stream"), w)
		case p == nil:
			w.WriteHeader(http.StatusNotFound)
			answer(t, w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound})
		default:
			answer(t, w, p)
		}
	})
	e.split = true
	a := job(e, 1, "true")
	ended := attemptPod(t, e, a, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.Now(), FinishedAt: metav1.Now()}})
	ended.Status.ContainerStatuses[0].ContainerID = "containerd://x"
	p = ended
	t.Cleanup(func() { p = nil })
	return e, a, ended
}

func readLog(t *testing.T, read func(engine.LogWriter) error) *logged {
	t.Helper()
	l := new(logged)
	must(t, read(l))
	return l
}

// Streams come in order, long lines in pieces and at one go, whether from the cluster or from
// what was kept.
func TestLogs(t *testing.T) {
	long := strings.Repeat("x", 3*maxPiece)
	e, a, p := ofLogs(t, func(stream string, w io.Writer) {
		if stream == corev1.LogStreamStdout {
			fmt.Fprint(w, stamped(0, "one\n"), stamped(2, long+"\n"), stamped(4, "no end"))
		} else {
			fmt.Fprint(w, stamped(1, "two\n"), stamped(3, "four\n"))
		}
	})
	all := "one\nE:two\n" + long + "\nE:four\nno end"
	must(t, e.archive(t.Context(), p))
	for name, c := range map[string]struct {
		opts engine.LogOptions
		want string
	}{
		"all":       {engine.LogOptions{Tail: -1}, all},
		"none":      {engine.LogOptions{}, ""},
		"last":      {engine.LogOptions{Tail: 1}, "no end"},
		"last long": {engine.LogOptions{Tail: 3}, long + "\nE:four\nno end"},
		"more":      {engine.LogOptions{Tail: 99}, all},
		"since":     {engine.LogOptions{Tail: -1, Since: time.Date(2026, 1, 2, 3, 4, 8, 0, time.UTC)}, "E:four\nno end"},
	} {
		t.Run(name, func(t *testing.T) {
			for from, got := range map[string]*logged{
				"the cluster": readLog(t, func(w engine.LogWriter) error { return e.read(t.Context(), p, engine.PrimaryStep, c.opts, w) }),
				"files":       readLog(t, func(w engine.LogWriter) error { return e.kept(t.Context(), a.Attempt.Primary(), c.opts, w) }),
			} {
				if got.String() != c.want || got.longest > maxPiece {
					t.Errorf("from %s: %d bytes, want %d; pieces up to %d", from, got.Len(), len(c.want), got.longest)
				}
			}
		})
	}
}

// Of a log that is too long the last part is kept, and that it is one is said.
func TestLogIsCut(t *testing.T) {
	e, a, p := ofLogs(t, func(stream string, w io.Writer) {
		if stream == corev1.LogStreamStdout {
			for i := range 100_000 {
				fmt.Fprint(w, stamped(i/10_000, fmt.Sprintf("line %d\n", i)))
			}
		}
	})
	must(t, e.archive(t.Context(), p))
	got := readLog(t, func(w engine.LogWriter) error {
		return e.kept(t.Context(), a.Attempt.Primary(), engine.LogOptions{Tail: -1}, w)
	}).String()
	first, rest, _ := strings.Cut(got, "\n")
	if first != "E:croft: what was before this isn't kept: the log is too long" || strings.Contains(rest, "croft: ") {
		t.Errorf("begins with %q", first)
	}
	if !strings.HasSuffix(rest, "\nline 99999\n") || strings.Contains(rest, "line 0\n") || int64(len(rest)) < e.cfg.LogMax/10 {
		t.Errorf("%d bytes are kept", len(rest))
	}
	files, err := filepath.Glob(e.logPath(a.Attempt.Primary()) + "*")
	must(t, err)
	size := int64(0)
	for _, f := range files {
		info, err := os.Stat(f)
		must(t, err)
		size += info.Size()
	}
	if size > e.cfg.LogMax+e.cfg.LogMax/10 {
		t.Errorf("%v have %d bytes", files, size)
	}
}

// A log that can't be had is tried again while its node may come back, and else said to be lost.
func TestLogIsLost(t *testing.T) {
	const lost = "one\nE:croft: what follows of this log is lost: its node doesn't give it any more\n"
	for name, c := range map[string]struct {
		set  func(t *testing.T, e *Engine, p *corev1.Pod)
		want string // empty: it is to be tried again
	}{
		"breaks off":   {func(*testing.T, *Engine, *corev1.Pod) {}, ""},
		"silent node":  {func(t *testing.T, e *Engine, _ *corev1.Pod) { setNode(t, e, corev1.ConditionUnknown) }, ""},
		"for too long": {func(_ *testing.T, _ *Engine, p *corev1.Pod) { agoBy(p, 2*logPatience) }, lost},
		"node is gone": {func(t *testing.T, e *Engine, p *corev1.Pod) { must(t, e.nodes.GetStore().Delete(node1())) }, strings.TrimPrefix(lost, "one\n")},
		"nothing ran": {func(t *testing.T, e *Engine, p *corev1.Pod) {
			setNode(t, e, corev1.ConditionUnknown)
			p.Status.ContainerStatuses[0].ContainerID = ""
		}, "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			e, a, p := ofLogs(t, func(stream string, w io.Writer) {
				if stream == corev1.LogStreamStdout {
					fmt.Fprint(w, stamped(0, "one\n"))
					_ = http.NewResponseController(w.(http.ResponseWriter)).Flush() // it is the test's own
					panic(http.ErrAbortHandler)
				}
			})
			c.set(t, e, p)
			err := e.archive(t.Context(), p)
			if c.want == "" {
				if !engine.IsUnavailable(err) {
					t.Errorf("%v", err)
				}
				var none *engine.NotFoundError
				if err := e.kept(t.Context(), a.Attempt.Primary(), engine.LogOptions{Tail: -1}, new(logged)); !errors.As(err, &none) {
					t.Errorf("it is kept: %v", err)
				}
				return
			}
			must(t, err)
			got := readLog(t, func(w engine.LogWriter) error {
				return e.kept(t.Context(), a.Attempt.Primary(), engine.LogOptions{Tail: -1}, w)
			})
			if got.String() != strings.TrimPrefix(c.want, "nothing") {
				t.Errorf("%q, want %q", got.String(), c.want)
			}
		})
	}
}

// agoBy has a Pod's primary have ended so long ago.
func agoBy(p *corev1.Pod, d time.Duration) {
	at := metav1.NewTime(time.Now().Add(-d))
	p.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{StartedAt: at, FinishedAt: at}
}
