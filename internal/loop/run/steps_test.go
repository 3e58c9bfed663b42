package run_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/workload"
)

// pulls has every image but those that are said to be missing.
type pulls struct {
	mu      sync.Mutex
	missing map[string]bool
	forgot  map[int32]bool
}

func (p *pulls) HaveStep(_ context.Context, s *workload.Step) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "sha256:2", !p.missing[s.Spec.Image]
}

// lack says which images are missing from now on.
func (p *pulls) lack(refs ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = map[string]bool{}
	for _, ref := range refs {
		p.missing[ref] = true
	}
}

func (p *pulls) forget(_ id.Job, n int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgot[n] = true
}

func (p *pulls) hasForgotten(n int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.forgot[n]
}

// add gives a job a step that does what words say.
func (b *bench) add(k id.Job, spec workload.StepSpec, words ...string) int32 {
	b.Helper()
	spec.Image, spec.Command, spec.Args = "train:1", []string{"sim"}, words
	n := b.port.Do(b.T, command.StepAdd{Job: k, Spec: spec}).(*workload.Step).N
	b.pass(time.Second)
	return n
}

// step is where a step stands, with what became of it.
func (b *bench) step(k id.Job, n int32, want string) {
	b.Helper()
	s, ok := b.port.World().Workload.Step(k, n)
	if !ok {
		s = b.port.Step(k, n)
	}
	if got := strings.TrimSpace(string(s.State) + " " + string(s.Outcome)); got != want {
		b.Errorf("step %d.%d is %s (%s), want %s", k, n, got, s.Message, want)
	}
}

func TestStepsAreRun(t *testing.T) {
	inBench(t, func(b *bench) {
		k := b.begin(looptest.Spec("forever"))
		one, two := b.add(k, workload.StepSpec{}, "run=20s", "exit=3"), b.add(k, workload.StepSpec{CPU: 500, Env: map[string]string{"X": "1"}}, "forever")
		b.step(k, one, "running")
		b.step(k, two, "running")
		if got := b.engine.steps[1]; got.N != 3 || got.CPU != 500 || got.Memory != looptest.Spec().Mem || got.Env["CROFT_STEP_ID"] != "3" || got.Env["X"] != "1" || got.Env["CROFT_CPUS"] != "0.5" {
			t.Errorf("the engine was given %+v", got)
		}
		b.pass(30 * time.Second)
		b.step(k, one, "ended failed")
		b.port.Do(t, command.StepStop{Job: k, N: two, Grace: 5e9})
		b.pass(time.Second)
		b.step(k, two, "ended cancelled")
		b.state(k, "running")

		stubborn, last := b.add(k, workload.StepSpec{}, "forever", "ignore-term"), b.add(k, workload.StepSpec{}, "forever")
		b.port.Do(t, command.StepStop{Job: k, N: stubborn, Now: true})
		b.pass(time.Second)
		b.step(k, stubborn, "ended cancelled")
		b.port.Do(t, command.JobStop{Job: k, Now: true})
		b.pass(time.Second)
		b.state(k, "endedcancelled")
		b.step(k, last, "ended cancelled")
		b.pass(time.Minute)
		all, err := b.engine.List(t.Context())
		if err != nil || len(all) != 0 {
			t.Errorf("left: %+v, %v", all, err)
		}
	})
}

// A program on the machine is told the machine's own paths, and has no mounts.
func TestHostPrograms(t *testing.T) {
	inBench(t, func(b *bench) {
		spec := looptest.Spec()
		spec.Kind, spec.Image, spec.Command = workload.KindBatch, "", []string{siteMount.Target, "forever"}
		k := b.begin(spec)
		b.port.Do(t, command.StepAdd{Job: k, Spec: workload.StepSpec{Host: true, Command: []string{"sim", "forever"}, Env: map[string]string{"X": siteMount.Target}}})
		b.pass(time.Second)
		b.port.Do(t, command.StepAdd{Job: k, Spec: workload.StepSpec{Image: "train:1", Command: []string{"sim", "forever"}}})
		b.pass(time.Second)
		_, starts, _, _, _ := b.engine.asked()
		b.engine.mu.Lock()
		defer b.engine.mu.Unlock()
		a, host, container := starts[0], b.engine.steps[0], b.engine.steps[1]
		if !a.Host || a.Command[0] != siteMount.Source || len(a.Mounts) != 0 || a.Env["CROFT_SOCKET"] != "/run/croft.sock" {
			t.Errorf("the primary is %+v", a.Container)
		}
		if !host.Host || len(host.Mounts) != 0 || host.Env["CROFT_SOCKET"] == "" || host.Env["X"] != siteMount.Target {
			t.Errorf("the host step is %+v", host.Container)
		}
		if container.Host || len(container.Mounts) != 1 || container.Env["CROFT_SOCKET"] != "" {
			t.Errorf("the container is %+v", container.Container)
		}
	})
}

// A step waits for its image and for what others have, whoever came first; one that can't
// be started ends.
func TestStepsWait(t *testing.T) {
	inBench(t, func(b *bench) {
		k := b.begin(looptest.Spec("forever"))
		all := workload.StepSpec{CPU: looptest.Spec().CPU}
		first, second, small := b.add(k, all, "run=20s"), b.add(k, all, "run=20s"), b.add(k, workload.StepSpec{}, "refuse=the disk is full")
		b.step(k, first, "running")
		b.step(k, second, "queued")
		b.step(k, small, "ended failed")
		b.images.lack("train:1")
		b.pass(30 * time.Second)
		b.step(k, second, "queued")
		b.images.lack()
		b.runner.Wake()
		b.pass(time.Second)
		b.step(k, second, "running")
		b.images.lack("train:1")
		never := b.add(k, workload.StepSpec{}, "run=20s")
		b.port.Do(t, command.StepStop{Job: k, N: never})
		b.pass(time.Second)
		if !b.images.hasForgotten(never) {
			t.Error("what was kept for a step that ended before it began isn't forgotten")
		}
	})
}

// A server that is killed finds its steps again; what ended meanwhile is seen, and one
// whose container is gone is lost.
func TestStepsAfterARestart(t *testing.T) {
	inBench(t, func(b *bench) {
		k := b.begin(looptest.Spec("forever"))
		short, long, gone := b.add(k, workload.StepSpec{}, "run=20s"), b.add(k, workload.StepSpec{}, "forever"), b.add(k, workload.StepSpec{}, "forever")
		b.kill()
		b.pass(time.Minute)
		b.boot()
		b.engine.mu.Lock()
		b.engine.hideStep = engine.StepID{Attempt: b.attempt(k, 1), N: int(gone)}
		b.engine.mu.Unlock()
		b.pass(2 * time.Minute)
		b.step(k, short, "ended completed")
		b.step(k, long, "running")
		b.step(k, gone, "ended node_failed")
		if n := len(b.engine.steps); n != 0 {
			t.Errorf("%d steps were started again", n)
		}
		b.state(k, "running")
	})
}
