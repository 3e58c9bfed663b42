package images_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/sim"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/images"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/workload"
)

// counting notes the pulls and lets images be collected.
type counting struct {
	engine.Engine
	mu        sync.Mutex
	pulls     []string
	most, now int // pulls at a time
	collected map[string]bool
}

func (c *counting) Pull(ctx context.Context, req engine.PullRequest, progress func(engine.Progress)) (engine.Image, error) {
	c.mu.Lock()
	c.pulls = append(c.pulls, req.Ref)
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	img, err := c.Engine.Pull(ctx, req, progress)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
	delete(c.collected, req.Ref)
	return img, err
}

func (c *counting) Image(ctx context.Context, ref string) (engine.Image, bool, error) {
	img, ok, err := c.Engine.Image(ctx, ref)
	c.mu.Lock()
	defer c.mu.Unlock()
	return img, ok && !c.collected[ref], err
}

// bench is a store, its engine and a world with jobs that wait.
type bench struct {
	*testing.T
	fleet  *sim.Fleet
	engine *counting
	port   *looptest.Port
	store  *images.Store
}

func inBench(t *testing.T, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, fleet: looptest.NewFleet(t)}
		b.engine = &counting{Engine: b.fleet.Connect(), collected: map[string]bool{}}
		b.port = looptest.New(t, b.fleet)
		b.store = images.New(images.Config{Engine: b.engine, Port: b.port, Parallel: 2, Retry: 10 * time.Second, Patience: time.Hour, Log: looptest.Log()})
		f(b)
	})
}

func (b *bench) wait(ref, pull string) id.Job {
	spec := looptest.Spec()
	spec.Image, spec.Pull = ref, pull
	return b.port.Submit(b.T, spec)
}

// have asks for a job's image as the planner does.
func (b *bench) have(k id.Job) bool {
	b.Helper()
	digest, ok := b.store.Have(context.Background(), b.port.Job(k))
	synctest.Wait()
	if ok == (digest == "") {
		b.Errorf("ok %v with digest %q", ok, digest)
	}
	return ok
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Jobs that want the same image share one pull, see how far it is, and are told
// when it is there.
func TestSharedPull(t *testing.T) {
	inBench(t, func(b *bench) {
		one, two := b.wait("far:1", "missing"), b.wait("far:1", "missing")
		if b.have(one) || b.have(two) {
			t.Fatal("an image that isn't there")
		}
		pass(5500 * time.Millisecond)
		if got := b.store.Progress(b.port.Job(two)); got != "pulling 50%" {
			t.Errorf("progress %q", got)
		}
		pass(5 * time.Second)
		<-b.store.Ready()
		if !b.have(one) || !b.have(two) {
			t.Error("it was pulled and isn't there")
		}
		if diff := cmp.Diff([]string{"far:1"}, b.engine.pulls); diff != "" {
			t.Errorf("pulls (-want +got)\n%s", diff)
		}
		if got := b.store.Progress(b.port.Job(one)); got != "" {
			t.Errorf("progress %q of what is there", got)
		}
	})
}

// A pull that was refused ends every job that waits for it, and no other.
func TestFailedPullFailsAllThatWait(t *testing.T) {
	inBench(t, func(b *bench) {
		one, two, other := b.wait("none:1", "missing"), b.wait("none:1", "missing"), b.wait("train:1", "missing")
		for _, k := range []id.Job{one, two, other} {
			b.have(k)
		}
		pass(time.Second)
		b.have(two) // joined later, or again
		pass(time.Second)
		for k, want := range map[id.Job]string{one: "endedfailed", two: "endedfailed", other: "queued"} {
			j := b.port.Job(k)
			if got := string(j.State) + string(j.Outcome); got != want {
				t.Errorf("job %d: %s, want %s", k, got, want)
			}
		}
		if m := b.port.Job(one).Message; m != "image none:1: no such image" {
			t.Errorf("says %q", m)
		}
	})
}

// An image may be wanted before a job asks for it. One that can't be had ends the jobs
// that ask for it and is looked for again, as it may be pushed in time.
func TestWanted(t *testing.T) {
	inBench(t, func(b *bench) {
		want := func(ref, coming string) {
			b.Helper()
			b.store.Want(context.Background(), ref)
			synctest.Wait()
			if got := b.store.Coming(ref); got != coming {
				b.Errorf("%s is %q, want %q", ref, got, coming)
			}
		}
		if got := b.store.Coming("far:1"); got != "" {
			t.Errorf("nobody wanted it: %q", got)
		}
		want("far:1", "pulling")
		pass(5500 * time.Millisecond)
		want("far:1", "pulling 50%")
		pass(5 * time.Second)
		want("far:1", "ready")
		if !b.have(b.wait("far:1", "missing")) {
			t.Error("it is ready and a job has to wait")
		}
		want("none:1", "no such image")
		j := b.wait("none:1", "missing")
		b.have(j)
		pass(10 * time.Second)
		b.have(j)
		pass(time.Second)
		if got := b.port.Job(j).State; got != workload.Ended {
			t.Errorf("a job that asks for it is %s", got)
		}
		want("none:1", "no such image")
		if diff := cmp.Diff([]string{"far:1", "none:1", "none:1"}, b.engine.pulls); diff != "" {
			t.Errorf("pulls (-want +got)\n%s", diff)
		}
	})
}

func TestPolicies(t *testing.T) {
	tests := map[string]struct {
		ref, pull string
		state     string // of the job, once the pull would be over
		pulls     int
	}{
		"missing and there":  {"train:1", "missing", "queued", 0},
		"missing and not":    {"far:1", "missing", "queued", 1},
		"never and there":    {"train:1", "never", "queued", 0},
		"never and not":      {"far:1", "never", "ended", 0},
		"always, also there": {"train:1", "always", "queued", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBench(t, func(b *bench) {
				k := b.wait(tt.ref, tt.pull)
				b.have(k)
				pass(time.Minute)
				if tt.state == "queued" && !b.have(k) {
					t.Error("the image isn't there")
				}
				if got := string(b.port.Job(k).State); got != tt.state || len(b.engine.pulls) != tt.pulls {
					t.Errorf("%s after %d pulls, want %s after %d", got, len(b.engine.pulls), tt.state, tt.pulls)
				}
			})
		})
	}
}

// Programs on the machine wait for no image.
func TestNoneNeeded(t *testing.T) {
	inBench(t, func(b *bench) {
		spec := looptest.Spec()
		spec.Kind, spec.Image, spec.Pull = workload.KindBatch, "far:1", "always"
		j := b.port.Job(b.port.Submit(t, spec))
		if digest, ok := b.store.Have(t.Context(), j); digest != "" || !ok || !b.store.Still(t.Context(), j) {
			t.Errorf("a batch job's image is %q, %v", digest, ok)
		}
		if digest, ok := b.store.HaveStep(t.Context(), &workload.Step{Spec: workload.StepSpec{Host: true}}); digest != "" || !ok {
			t.Errorf("a host step's image is %q, %v", digest, ok)
		}
		if pass(time.Minute); len(b.engine.pulls) != 0 {
			t.Errorf("pulled %v", b.engine.pulls)
		}
	})
}

// One job's "never" fails no other's wait for the same image.
func TestNeverFailsNobodyElse(t *testing.T) {
	inBench(t, func(b *bench) {
		b.fleet.SetLatency(time.Second)
		never, missing := b.wait("far:1", "never"), b.wait("far:1", "missing")
		b.have(never)
		b.have(missing)
		pass(time.Minute)
		if a, c := b.port.Job(never).State, b.port.Job(missing).State; a != "ended" || c != "queued" || !b.have(missing) {
			t.Errorf("never: %s, missing: %s", a, c)
		}
	})
}

// Pull=always pulls for each job, once.
func TestAlwaysIsOncePerJob(t *testing.T) {
	inBench(t, func(b *bench) {
		one, two := b.wait("train:1", "always"), b.wait("train:1", "always")
		for range 3 {
			b.have(one)
			b.have(two)
			pass(20 * time.Second)
		}
		if len(b.engine.pulls) != 2 {
			t.Errorf("%d pulls", len(b.engine.pulls))
		}
		b.store.Forget(one) // it started; queued again, it asks again
		b.have(one)
		pass(20 * time.Second)
		if len(b.engine.pulls) != 3 {
			t.Errorf("%d pulls after it was queued again", len(b.engine.pulls))
		}
	})
}

// Few pulls run at a time.
func TestPullsAreBounded(t *testing.T) {
	inBench(t, func(b *bench) {
		for range 5 {
			b.have(b.wait("train:1", "always"))
		}
		k := b.wait("far:1", "always")
		b.have(k)
		pass(5 * time.Minute)
		if b.engine.most > 2 || len(b.engine.pulls) != 6 || !b.have(k) {
			t.Errorf("%d at a time, %d in all", b.engine.most, len(b.engine.pulls))
		}
	})
}

// An image that was collected between its pull and the start is fetched again.
func TestCollectedImageIsNoticed(t *testing.T) {
	inBench(t, func(b *bench) {
		k := b.wait("train:1", "missing")
		b.have(k)
		if !b.have(k) || !b.store.Still(context.Background(), b.port.Job(k)) {
			t.Fatal("it is there")
		}
		b.engine.mu.Lock()
		b.engine.collected["train:1"] = true
		b.engine.mu.Unlock()
		if b.store.Still(context.Background(), b.port.Job(k)) {
			t.Error("it was collected")
		}
		if b.have(k) {
			t.Error("it is still taken to be there")
		}
		pass(time.Minute)
		if !b.have(k) || len(b.engine.pulls) != 1 {
			t.Errorf("pulled %v", b.engine.pulls)
		}
	})
}

// A runtime that doesn't answer fails nobody: it is asked again after a while, and
// so is whether an image is still there.
func TestUnavailableIsTriedAgain(t *testing.T) {
	inBench(t, func(b *bench) {
		k := b.wait("far:1", "missing")
		b.fleet.SetDown(true)
		b.have(k)
		if got := b.store.Progress(b.port.Job(k)); got == "" {
			t.Error("nobody is told why it waits")
		}
		pass(9 * time.Second)
		b.have(k)
		b.fleet.SetDown(false)
		pass(time.Second)
		<-b.store.Ready()
		b.have(k)
		pass(time.Minute)
		if !b.have(k) || len(b.engine.pulls) != 1 {
			t.Errorf("pulled %v", b.engine.pulls)
		}
		b.fleet.SetDown(true)
		if b.store.Still(context.Background(), b.port.Job(k)) {
			t.Error("nobody can say that it is there")
		}
		b.fleet.SetDown(false)
		if !b.have(k) {
			t.Error("it was forgotten because the runtime didn't answer")
		}
	})
}
