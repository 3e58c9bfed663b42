package kube

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"croft.dev/croft/internal/engine"
)

// What an image runs by itself, with nobody of Croft's between, sees signals, has terminals and
// is stopped: a further step whatever it ignores.
func TestOwnCommand(t *testing.T) {
	for name, shared := range map[string]bool{"apart": false, "all see each other": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := knowing(t)
			a := own(e, 1)
			a.Pod.SharePID = shared
			run(t, e, a)
			await(t, e, a, "running", phase(engine.PhaseRunning))
			stubborn := engine.Step{N: 2, Container: engine.Container{Image: a.Image}, CPU: 10, Memory: 16 << 20}
			must(t, e.StartStep(t.Context(), a, stubborn))
			id := engine.StepID{Attempt: a.Attempt, N: 2}
			awaitStep(t, e, id, engine.PhaseRunning)
			for _, id := range []engine.StepID{a.Attempt.Primary(), id} {
				conn, err := e.Terminals(t.Context(), id, true)
				must(t, err)
				must(t, conn.Close())
			}
			must(t, e.Signal(t.Context(), id, "TERM")) // ignored
			must(t, e.Signal(t.Context(), id, "USR1"))
			heard(t, e, id, "USR1")
			must(t, e.StopStep(t.Context(), id))
			awaitStep(t, e, id, engine.PhaseExited)
			must(t, e.Signal(t.Context(), a.Attempt.Primary(), "USR1"))
			heard(t, e, a.Attempt.Primary(), "USR1")
			await(t, e, a, "running still", phase(engine.PhaseRunning))
		})
	}
}

// What only waits has terminals, too.
func TestTerminalsWhileNothingRuns(t *testing.T) {
	t.Parallel()
	e := knowing(t)
	a := job(e, 1)
	a.Container.Pause = true
	run(t, e, a)
	await(t, e, a, "running", phase(engine.PhaseRunning))
	conn, err := e.Terminals(t.Context(), a.Attempt.Primary(), true)
	must(t, err)
	must(t, conn.Close())
}

// Programs find the user's name by his number.
func TestUserHasAName(t *testing.T) {
	t.Parallel()
	e := knowing(t)
	a := job(e, 1, "sh", "-c", sleep)
	a.User.Groups = []engine.Group{{Name: "lab", GID: 7001}}
	run(t, e, a)
	await(t, e, a, "running", phase(engine.PhaseRunning))
	var out bytes.Buffer
	code, err := e.Exec(t.Context(), a.Attempt.Primary(), engine.ExecRequest{
		Command: []string{"sh", "-c", "whoami; grep ^lab: /etc/group; grep -c . /etc/passwd; echo x >>/etc/passwd"}, Stdout: &out,
	})
	must(t, err)
	if lines := strings.Split(out.String(), "\n"); len(lines) < 3 || lines[0] != "alice" || lines[1] != "lab:x:7001:alice" || code == 0 {
		t.Errorf("%q, %d", out.String(), code)
	}
}

// own is an attempt of the image that has a command of its own.
func own(e *Engine, n int64) engine.Allocation {
	a := job(e, n)
	a.Image = strings.Replace(a.Image, "/tiny:", "/own:", 1)
	return a
}

// ownCommand is what that image runs.
var ownCommand = []string{"sh", "-c", "trap '' TERM; trap 'echo USR1' USR1; while :; do sleep 0.1; done"}

// awaitStep asks for a step until it is in a phase.
func awaitStep(t *testing.T, e *Engine, id engine.StepID, want engine.Phase) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last any
	for ; ctx.Err() == nil; pause(ctx) {
		p, s, err := e.find(ctx, id)
		if err == nil && s.Phase == want {
			return
		}
		last = []any{s, err, stateOf(p)}
	}
	t.Fatalf("waited for %s to be %s; last: %+v", id, want, last)
}

func stateOf(p *corev1.Pod) any {
	if p == nil {
		return nil
	}
	return p.Status.EphemeralContainerStatuses
}

// heard waits until a step has said a line.
func heard(t *testing.T, e *Engine, id engine.StepID, line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var log logText
	for ; ctx.Err() == nil; pause(ctx) {
		log.Reset()
		must(t, e.Logs(ctx, id, engine.LogOptions{Tail: -1}, &log))
		if strings.Contains(log.String(), line+"\n") {
			return
		}
	}
	t.Fatalf("waited for %s to say %q; it says %q", id, line, log.String())
}
