package cri

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/runtimed"
)

func (e *testEngine) stopSandbox(id string) {
	e.t.Helper()
	if _, err := e.rt.runtime.StopPodSandbox(e.t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		e.t.Fatal(err)
	}
}

// TestRuntimeKilled kills the runtime while a container runs. The container goes
// on; while the runtime is away everything is unavailable, nothing has ended;
// afterwards the end is seen by those who watched all the time.
func TestRuntimeKilled(t *testing.T) {
	e := newEngine(t)
	cut := make(chan struct{}, 1)
	e.cfg.Cut = func() {
		select {
		case cut <- struct{}{}:
		default:
		}
	}
	events, err := e.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := e.script(1, `trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.1; done`)
	a.Stdin = true
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	before := e.await(events, a.Attempt, engine.PhaseRunning)
	entered := e.enter(func(in io.Reader) error {
		return e.Attach(t.Context(), a.Attempt.Primary(), engine.AttachRequest{Stdin: in, Stdout: io.Discard})
	}, func(in io.Reader) error {
		_, err := e.Exec(t.Context(), a.Attempt.Primary(), engine.ExecRequest{Command: []string{"sleep", "3600"}, Stdin: in})
		return err
	})

	pid := shared.runtime.PID()
	if pid == 0 {
		t.Fatal("no process of the runtime")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e.awaitUnavailable()
	for range 2 {
		if err := <-entered; !engine.IsUnavailable(err) {
			t.Errorf("one who was in the container while the runtime died is told %v", err)
		}
	}
	select {
	case <-cut:
	case <-time.After(time.Minute):
		t.Error("nobody was told that the events were cut off")
	}
	if err := shared.runtime.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := shared.runtime.PID(); now == pid || now == 0 {
		t.Fatalf("the runtime's process is %d, was %d", now, pid)
	}
	again := e.await(events, a.Attempt, engine.PhaseRunning)
	if !again.Started.Equal(before.Started) {
		t.Errorf("started %v, before the outage %v", again.Started, before.Started)
	}
	entered = e.enter(func(in io.Reader) error { // the input is nobody's again
		return e.Attach(t.Context(), a.Attempt.Primary(), engine.AttachRequest{Stdin: in, Stdout: io.Discard})
	})
	if err := e.Signal(t.Context(), a.Attempt.Primary(), "TERM"); err != nil {
		t.Fatal(err)
	}
	if err := <-entered; err != nil {
		t.Errorf("one who was attached when it ended is told %v", err)
	}
	if st := e.await(events, a.Attempt, engine.PhaseExited); st.ExitCode != 5 {
		t.Errorf("status %+v, want exit code 5", st)
	}
	if got := e.wait(t.Context(), a.Attempt.Primary()); got.stdout != "ready\ntold\n" {
		t.Errorf("stdout %q", got.stdout)
	}
}

// enter lets some give an input, and returns what they end with. All have begun then.
func (e *testEngine) enter(ways ...func(io.Reader) error) <-chan error {
	e.t.Helper()
	ended := make(chan error, len(ways))
	began := make(chan struct{}, len(ways))
	for _, way := range ways {
		go func() { ended <- way(asked{began}) }()
	}
	for range ways {
		select {
		case <-began:
		case err := <-ended:
			e.t.Fatalf("one doesn't get in: %v", err)
		}
	}
	return ended
}

// asked tells when it is first read, and gives nothing.
type asked struct{ began chan<- struct{} }

func (a asked) Read([]byte) (int, error) {
	a.began <- struct{}{}
	select {}
}

// TestEnsure finds the runtime again, and restarts it under a running container
// when its configuration changes.
func TestEnsure(t *testing.T) {
	e := newEngine(t)
	a := e.script(1, `trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done`)
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	pid := shared.runtime.PID()
	if err := shared.runtime.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := shared.runtime.PID(); now != pid {
		t.Errorf("an unchanged runtime was restarted: process %d, was %d", now, pid)
	}
	changed, err := newRuntime(shared.dir, func(c *runtimed.Config) {
		c.Registry.Mirrors = map[string][]string{"docker.io": {"http://127.0.0.1:9"}}
		c.Registry.NoProxy = "lab"
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*testRuntime{changed, shared} { // and back
		if err := r.runtime.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := r.runtime.PID()
		if now == pid {
			t.Error("a changed runtime wasn't restarted")
		}
		pid = now
		if st := e.status(a.Attempt.Primary()); st.Phase != engine.PhaseRunning {
			t.Errorf("after a restart: %+v", st)
		}
	}
}

// TestForeground runs the runtime as a service manager does: the server finds
// it, and leaves it alone when the configuration differs.
func TestForeground(t *testing.T) {
	if err := shared.runtime.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	service := exec.Command(os.Args[0])
	service.Env = append(os.Environ(), foregroundDir+"="+shared.dir)
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.runtime.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		_ = service.Wait() // ended by a signal
		if err := shared.runtime.Ensure(context.Background()); err != nil {
			t.Error(err)
		}
	})
	deadline := time.Now().Add(20 * time.Second)
	for shared.runtime.PID() != service.Process.Pid {
		if time.Now().After(deadline) {
			t.Fatal("the service didn't become the runtime")
		}
	}
	changed, err := newRuntime(shared.dir, func(c *runtimed.Config) { c.Registry.NoProxy = "lab" })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*testRuntime{shared, changed} {
		if err := r.runtime.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if pid := r.runtime.PID(); pid != service.Process.Pid {
			t.Errorf("the runtime's process is %d, the service's %d", pid, service.Process.Pid)
		}
	}
	e := newEngine(t)
	if got := e.run(e.script(1, "echo by a service")); got.stdout != "by a service\n" {
		t.Errorf("status %+v, stdout %q", got.status, got.stdout)
	}
	e.discardAll() // before the service is stopped
}

// awaitUnavailable waits until List says that it can't ask. Until the connection
// is found broken, an answer that was under way may still come.
func (e *testEngine) awaitUnavailable() {
	e.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := e.List(e.t.Context())
		if engine.IsUnavailable(err) {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("List with the runtime killed: error %v", err)
		}
	}
}

func (e *testEngine) await(events <-chan engine.Status, id engine.AttemptID, phase engine.Phase) engine.Status {
	e.t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case st, ok := <-events:
			if !ok {
				e.t.Fatal("Watch ended")
			}
			if st.Attempt == id && st.Phase == phase {
				return st
			}
		case <-timeout:
			e.t.Fatalf("no event that %s is %s", id, phase)
		}
	}
}

// TestExec runs commands beside a primary.
func TestExec(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.allocation(1, "sleep", "3600")
	a.Env = map[string]string{"GREETING": "hello"}
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		req    engine.ExecRequest
		stdin  string
		code   int
		stdout string
		stderr string
	}{
		"identity and environment": {req: engine.ExecRequest{Command: []string{"sh", "-c", "id -u; echo $GREETING"}}, stdout: "5001\nhello\n"},
		"streams and code":         {req: engine.ExecRequest{Command: []string{"sh", "-c", "echo out; echo err >&2; exit 9"}}, code: 9, stdout: "out\n", stderr: "err\n"},
		"input to its end":         {req: engine.ExecRequest{Command: []string{"cat"}}, stdin: "typed\n", stdout: "typed\n"},
		"terminal":                 {req: engine.ExecRequest{Command: []string{"sh", "-c", "test -t 1 && stty size"}, TTY: true}, stdout: "30 90\r\n"},
		"not found":                {req: engine.ExecRequest{Command: []string{"nope"}}, code: 127, stderr: "croft: nope: command not found in the image\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			req := tc.req
			req.Stdout, req.Stderr = &out, &errs
			if tc.stdin != "" {
				req.Stdin = strings.NewReader(tc.stdin)
			}
			if req.TTY {
				// The size arrives by a channel of its own, so the program waits for it.
				req.Command = []string{"sh", "-c", "test -t 1 && until [ \"$(stty size 2>/dev/null)\" = '30 90' ]; do sleep 0.05; done; stty size"}
				resize := make(chan engine.Size, 1)
				resize <- engine.Size{Cols: 90, Rows: 30}
				req.Resize = resize
			}
			code, err := e.Exec(t.Context(), a.Attempt.Primary(), req)
			if err != nil || code != tc.code || out.String() != tc.stdout || errs.String() != tc.stderr {
				t.Errorf("code %d, error %v, stdout %q, stderr %q; want %d, %q, %q",
					code, err, out.String(), errs.String(), tc.code, tc.stdout, tc.stderr)
			}
		})
	}
	if err := e.Stop(t.Context(), a.Attempt); err != nil {
		t.Fatal(err)
	}
	var none *engine.NotFoundError
	if _, err := e.Exec(t.Context(), a.Attempt.Primary(), engine.ExecRequest{Command: []string{"true"}}); !errors.As(err, &none) {
		t.Errorf("Exec in an ended attempt: %v", err)
	}
}

// TestRotation rotates the log of a container that writes, and reads all of it.
func TestRotation(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(c *Config) { c.Logs = LogPolicy{MaxSize: 1, Keep: 9} })
	a := e.script(1, `i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.02; done`)
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	done := make(chan result, 1)
	go func() { done <- e.wait(t.Context(), a.Attempt.Primary()) }()
	rotations := 0
	var got result
	for ended := false; !ended; {
		select {
		case got = <-done:
			ended = true
		case <-time.After(200 * time.Millisecond):
			if err := e.Maintain(t.Context()); err != nil {
				t.Fatal(err)
			}
			rotations++
		}
	}
	var want strings.Builder
	for i := range 40 {
		want.WriteString("line " + strconv.Itoa(i) + "\n")
	}
	if got.stdout != want.String() {
		t.Errorf("followed over %d rotations: %q", rotations, got.stdout)
	}
	files, err := filepath.Glob(e.logPath(a.Attempt.Primary()) + ".*")
	if err != nil || len(files) == 0 {
		t.Errorf("rotated files %v, %v", files, err)
	}
}

// TestLogRetention deletes the log of a removed attempt after its time, and not
// that of one that is there.
func TestLogRetention(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(c *Config) { c.Logs.Retention = time.Hour })
	gone, kept := e.script(1, "echo a"), e.script(2, "echo b")
	e.run(gone)
	e.run(kept)
	if err := e.Remove(t.Context(), gone.Attempt); err != nil {
		t.Fatal(err)
	}
	if err := e.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(e.logPath(gone.Attempt.Primary())); err != nil {
		t.Fatalf("deleted too early: %v", err)
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, id := range []engine.AttemptID{gone.Attempt, kept.Attempt} {
		for _, path := range []string{e.logPath(id.Primary()), e.logDir(id)} {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := e.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(e.logDir(gone.Attempt)); !os.IsNotExist(err) {
		t.Errorf("the log of a removed attempt: %v", err)
	}
	if _, err := os.Stat(e.logPath(kept.Attempt.Primary())); err != nil {
		t.Errorf("the log of an attempt that is there: %v", err)
	}
}
