package cri

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/internal/engine"
)

// add starts a step of an attempt that runs a script.
func (e *testEngine) add(a engine.Allocation, n int, code string) engine.StepID {
	e.t.Helper()
	s := a.Primary()
	s.N, s.Command = n, []string{"sh", "-c", code}
	if err := e.StartStep(e.t.Context(), a, s); err != nil {
		e.t.Fatal(err)
	}
	return engine.StepID{Attempt: a.Attempt, N: n}
}

// TestStepsShare lets a step see what the steps of a job have in common, and not what
// each has for itself.
func TestStepsShare(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.script(1, `echo shared > /dev/shm/note; hostname; echo mine > /tmp/own; httpd -p 127.0.0.1:8080 -h /dev/shm; sleep 600`)
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	id := e.add(a, 2, `until test -s /dev/shm/note; do sleep 0.05; done
		cat /dev/shm/note; until wget -q -O - http://127.0.0.1:8080/note; do sleep 0.05; done
		hostname; ls /tmp/own 2>/dev/null || echo apart; ls /proc | grep -c '^[0-9]*$'; id -u`)
	got := e.wait(t.Context(), id)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if len(lines) != 6 || lines[0] != "shared" || lines[1] != "shared" || lines[2] != "test-job" || lines[3] != "apart" || lines[5] != "5001" {
		t.Errorf("the step saw %q, stderr %q", lines, got.stderr)
	}
	if lines[4] != "3" && lines[4] != "4" && lines[4] != "5" {
		t.Errorf("the step sees %s processes, more than its own", lines[4])
	}
}

// TestStepMemory gives a step a part of the job's memory: it is ended when it takes
// more, and the primary goes on.
func TestStepMemory(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.script(1, "sleep 600")
	a.Memory = 256 << 20
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s := a.Primary()
	s.N, s.Memory, s.Command = 2, 16<<20, []string{"sh", "-c", "x=0123456789abcdef; while :; do x=$x$x; done"}
	if err := e.StartStep(t.Context(), a, s); err != nil {
		t.Fatal(err)
	}
	id := engine.StepID{Attempt: a.Attempt, N: 2}
	if got := e.wait(t.Context(), id); got.status.ExitCode != 137 || !got.status.OutOfMemory {
		t.Errorf("the step ended as %+v", got.status)
	}
	if got := e.status(a.Attempt.Primary()); got.Phase != engine.PhaseRunning {
		t.Errorf("the primary is %+v", got)
	}
	var bound string
	for _, file := range []string{"/sys/fs/cgroup/cpu/%s/cpu.cfs_quota_us", "/sys/fs/cgroup/%s/cpu.max"} {
		if text, err := os.ReadFile(fmt.Sprintf(file, e.cgroupOf(a.Attempt))); err == nil {
			bound = string(text)
		}
	}
	if !strings.HasPrefix(bound, "50000") {
		t.Errorf("together they may use %q of 100000 µs, want half a CPU", bound)
	}
	killed := e.add(a, 3, "sleep 600")
	if err := e.StopStep(t.Context(), killed); err != nil {
		t.Fatal(err)
	}
	if got := e.wait(t.Context(), killed); got.status.ExitCode != 137 || got.status.OutOfMemory {
		t.Errorf("after another step's end by memory, one that was stopped ended as %+v", got.status)
	}
}

// TestStepsTogether has two steps that each may take all of the job's memory, and can't
// both.
func TestStepsTogether(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.script(1, "sleep 600")
	a.Memory = 96 << 20
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	// dd holds its buffer while nobody reads.
	const hold = `mkfifo /tmp/f; sleep 600 </tmp/f & dd bs=70M count=1 if=/dev/zero of=/tmp/f`
	first, second := e.add(a, 2, hold), e.add(a, 3, hold)
	for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		if e.status(first).Phase == engine.PhaseExited || e.status(second).Phase == engine.PhaseExited {
			break
		}
		if time.Now().After(end) {
			t.Fatal("two steps had more memory together than their job")
		}
	}
	if got := e.status(a.Attempt.Primary()); got.Phase != engine.PhaseRunning {
		t.Errorf("the primary is %+v", got)
	}
}
