package kube

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

// job is an attempt of the tiny image.
func job(e *Engine, n int64, command ...string) engine.Allocation {
	return engine.Allocation{
		Attempt: engine.AttemptID(fmt.Sprintf("%.8s-%d-1", e.cfg.Instance, n)), Job: n, N: 1, Node: "node1",
		Instance: e.cfg.Instance, Account: "lab", SpecDigest: "sha256:0", Name: "test",
		Container: engine.Container{Image: shared.registry + "/tiny:1", Command: command},
		User:      engine.User{Name: "alice", UID: 5001, GID: 6001, Home: "/tmp", Shell: "/bin/sh"},
		CPU:       50, Memory: 32 << 20,
	}
}

const sleep = onTerm + loop

const (
	onTerm = "trap 'exit 0' TERM; "
	loop   = "while :; do sleep 0.1; done"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pause is the time between two looks.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
}

// await asks for an attempt's primary until ok.
func await(t *testing.T, e *Engine, a engine.Allocation, what string, ok func(engine.Status) bool) engine.Status {
	t.Helper()
	var last any
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for ; ctx.Err() == nil; pause(ctx) {
		all, err := e.List(t.Context())
		last = err
		for _, s := range all {
			if s.ID() == a.Attempt.Primary() {
				if last = s; ok(s) {
					return s
				}
			}
		}
	}
	t.Fatalf("waited for it to be %s; last: %+v", what, last)
	return engine.Status{}
}

func phase(p engine.Phase) func(engine.Status) bool {
	return func(s engine.Status) bool { return s.Phase == p }
}

// start starts an engine and an attempt that runs, and ends with 0 on TERM.
func start(t *testing.T) (*Engine, engine.Allocation, engine.Status) {
	t.Helper()
	e := open(t, uuid.NewString(), t.TempDir())
	a := job(e, 1, "sh", "-c", onTerm+"echo ready; "+loop)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := e.Stop(ctx, a.Attempt); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		for e.Remove(ctx, a.Attempt) != nil && ctx.Err() == nil {
			pause(ctx)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, e.Start(t.Context(), a))
	runs := await(t, e, a, "running", phase(engine.PhaseRunning))
	heard(t, e, a.Attempt.Primary(), "ready")
	return e, a, runs
}

// The API server goes, and comes back: nothing has ended, and what is asked meanwhile isn't
// answered.
func TestAPIServerIsAway(t *testing.T) {
	e, a, was := start(t)
	must(t, shared.StopAPI())
	if _, err := e.List(t.Context()); !engine.IsUnavailable(err) {
		t.Errorf("List while it is away: %v", err)
	}
	if err := e.Start(t.Context(), job(e, 2, "true")); !engine.IsUnavailable(err) {
		t.Errorf("Start while it is away: %v", err)
	}
	if err := e.Stop(t.Context(), a.Attempt); !engine.IsUnavailable(err) {
		t.Errorf("Stop while it is away: %v", err)
	}
	must(t, shared.StartAPI(t.Context()))
	if got := await(t, e, a, "running", phase(engine.PhaseRunning)); got != was {
		t.Errorf("after: %+v, before %+v", got, was)
	}
	events, err := e.Watch(t.Context())
	must(t, err)
	must(t, e.Signal(t.Context(), a.Attempt.Primary(), "TERM"))
	for s := range events {
		if s.Phase == engine.PhaseExited && s.ID() == a.Attempt.Primary() {
			break
		}
	}
}

// Somebody deletes a Pod: how it ended is known all the same.
func TestPodIsDeleted(t *testing.T) {
	e, a, _ := start(t)
	err := e.api.CoreV1().Pods(e.cfg.Namespace).Delete(t.Context(), podName(a.Attempt), metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(5))})
	must(t, err)
	if got := await(t, e, a, "ended", phase(engine.PhaseExited)); got.ExitCode != 0 {
		t.Errorf("%+v; the program ends with 0 on TERM", got)
	}
}

// execUntilCut runs a command that doesn't end by itself, and returns once it runs.
func execUntilCut(t *testing.T, e *Engine, a engine.Allocation) <-chan error {
	t.Helper()
	runs, said := io.Pipe()
	cut := make(chan error, 1)
	go func() {
		code, err := e.Exec(t.Context(), a.Attempt.Primary(), engine.ExecRequest{Command: []string{"sh", "-c", "echo; " + sleep}, Stdout: said})
		if err == nil {
			err = fmt.Errorf("it ended with %d", code)
		}
		cut <- err
		_ = said.Close()
	}()
	_, err := io.ReadFull(runs, make([]byte, 1))
	must(t, err)
	go func() { _, _ = io.Copy(io.Discard, runs) }()
	return cut
}

// Nothing is heard of a node: what ran there is unknown, not ended, until it is back.
func TestNodeIsLost(t *testing.T) {
	e, a, was := start(t)
	cut := execUntilCut(t, e, a)
	must(t, node.Kill())
	if err := <-cut; !engine.IsUnavailable(err) {
		t.Errorf("a command's end that nobody saw: %v", err)
	}
	await(t, e, a, "unknown", phase(engine.PhaseUnknown))
	if _, err := e.Exec(t.Context(), a.Attempt.Primary(), engine.ExecRequest{Command: []string{"true"}}); !engine.IsUnavailable(err) {
		t.Errorf("Exec: %v", err)
	}
	if err := e.Remove(t.Context(), a.Attempt); err == nil {
		t.Error("what may run was removed")
	}
	must(t, node.Start(t.Context()))
	if got := await(t, e, a, "running", phase(engine.PhaseRunning)); got != was {
		t.Errorf("after: %+v, before %+v", got, was)
	}
}
