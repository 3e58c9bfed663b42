package run_test

import (
	"slices"
	"testing"
	"time"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/workload"
)

// An attempt that isn't taken where it was placed says why, is taken back after a while, and
// its job is queued again; where it goes on so the job is held.
func TestWithdrawn(t *testing.T) {
	inBench(t, func(b *bench) {
		wait := engine.Wait{For: engine.WaitForPlace, Message: "node1 has the taint a=b:NoSchedule"}
		b.engine.mu.Lock()
		b.engine.keeps = wait
		b.engine.mu.Unlock()
		k := b.begin(looptest.Spec())
		b.pass(time.Minute)
		b.state(k, "starting")
		if got, ok := b.runner.Kept(id.Attempt{Job: k, N: 1}); !ok || got != wait {
			t.Errorf("kept by %+v, %t", got, ok)
		}
		b.pass(2 * time.Minute)
		b.state(k, "queued")
		if got := b.port.Job(k).Message; got != "attempt 1 couldn't begin, node1 has the taint a=b:NoSchedule: queued again" {
			t.Error(got)
		}
		if _, _, stopped, removed, _ := b.engine.asked(); len(stopped) == 0 || len(removed) != 1 {
			t.Errorf("stopped %v, removed %v", stopped, removed)
		}
		if _, ok := b.runner.Kept(id.Attempt{Job: k, N: 1}); ok {
			t.Error("what is over is kept by nothing")
		}
	})
}

// What somebody else takes away before it has begun is started again.
func TestStartedAgain(t *testing.T) {
	inBench(t, func(b *bench) {
		b.engine.mu.Lock()
		b.engine.keeps = engine.Wait{For: engine.WaitForImage, Message: "the registry is away"}
		b.engine.mu.Unlock()
		k := b.begin(looptest.Spec())
		b.pass(40 * time.Second)
		b.engine.mu.Lock()
		b.engine.extra, b.engine.keeps = nil, engine.Wait{}
		b.engine.mu.Unlock()
		b.pass(time.Minute)
		if _, starts, _, _, _ := b.engine.asked(); len(starts) != 2 || starts[0].Attempt != starts[1].Attempt {
			t.Errorf("%d starts", len(starts))
		}
		if j := b.port.Job(k); j.Attempt.N != 1 || j.State == workload.Starting {
			t.Errorf("%s, attempt %d", j.State, j.Attempt.N)
		}
	})
}

// Where one of several machines doesn't take its part, all of it is taken back.
func TestGangIsWithdrawn(t *testing.T) {
	inClusterOf(t, 3, func(b *bench) {
		b.engine.mu.Lock()
		b.engine.keeps = engine.Wait{For: engine.WaitForQueue, Message: "a queue of the cluster hasn't let it in yet"}
		b.engine.mu.Unlock()
		k := b.begin(gangSpec("", "run=90s"))
		b.pass(time.Minute)
		if _, ok := b.runner.Kept(id.Attempt{Job: k, N: 1}); !ok {
			t.Error("nothing keeps it")
		}
		b.pass(3 * time.Minute)
		b.state(k, "queued")
		_, _, stopped, removed, _ := b.engine.asked()
		slices.Sort(removed) // one may be seen, and removed, twice
		if len(stopped) < 3 || len(slices.Compact(removed)) != 3 {
			t.Errorf("stopped %v, removed %v", stopped, removed)
		}
	})
}

// What the engine doesn't take for now is told as that, and tried again. It is taken back
// after a while, and never held for it: somebody else's doing ends it.
func TestRefusedForNow(t *testing.T) {
	refuses := func(b *bench, w engine.Wait) {
		b.engine.mu.Lock()
		defer b.engine.mu.Unlock()
		b.engine.refuses = w
	}
	full := engine.Wait{For: engine.WaitForCluster, Message: "exceeded quota: jobs"}
	t.Run("until it is over", func(t *testing.T) {
		inBench(t, func(b *bench) {
			refuses(b, full)
			k := b.begin(looptest.Spec())
			b.pass(time.Minute)
			b.state(k, "starting")
			if got, ok := b.runner.Kept(id.Attempt{Job: k, N: 1}); !ok || got != full {
				t.Errorf("kept by %+v, %t", got, ok)
			}
			refuses(b, engine.Wait{})
			b.pass(30 * time.Second)
			if j := b.port.Job(k); j.Attempt.N != 1 || j.State == workload.Starting {
				t.Errorf("%s, attempt %d", j.State, j.Attempt.N)
			}
		})
	})
	t.Run("too long", func(t *testing.T) {
		inBench(t, func(b *bench) {
			refuses(b, full)
			k := b.begin(looptest.Spec())
			b.pass(3 * time.Minute)
			b.state(k, "queued")
			if got := b.port.Job(k).Message; got != "attempt 1 couldn't begin, exceeded quota: jobs: queued again" {
				t.Error(got)
			}
		})
	})
	t.Run("one of several machines", func(t *testing.T) {
		inClusterOf(t, 3, func(b *bench) {
			refuses(b, full)
			k := b.begin(gangSpec("", "run=90s"))
			b.pass(time.Minute)
			if got, ok := b.runner.Kept(id.Attempt{Job: k, N: 1}); !ok || got != full {
				t.Errorf("kept by %+v, %t", got, ok)
			}
			b.pass(2 * time.Minute)
			b.state(k, "queued")
		})
	})
}
