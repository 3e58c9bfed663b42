package run_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/sim"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/run"
	"croft.dev/croft/internal/workload"
)

// counting notes what is asked of an engine.
type counting struct {
	engine.Engine
	mu               sync.Mutex
	lists            int
	starts           []engine.Allocation
	steps            []engine.Step
	stopped, removed []engine.AttemptID
	signals          []string
	hide             map[engine.AttemptID]bool // left out of listings
	hideStep         engine.StepID             // likewise
	extra            []engine.Status           // put into them
	hangs            map[engine.AttemptID]bool // can't be stopped
	deaf             bool                      // signals don't come to anything
	keeps            engine.Wait               // starts come to nothing but this
	refuses          engine.Wait               // starts are answered so
}

// asked returns what was asked so far.
func (c *counting) asked() (lists int, starts []engine.Allocation, stopped, removed []engine.AttemptID, signals []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists, slices.Clone(c.starts), slices.Clone(c.stopped), slices.Clone(c.removed), slices.Clone(c.signals)
}

func (c *counting) List(ctx context.Context) ([]engine.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	all, err := c.Engine.List(ctx)
	var out []engine.Status
	for _, s := range all {
		if !c.hide[s.Attempt] && s.ID() != c.hideStep {
			out = append(out, s)
		}
	}
	if err == nil {
		out = append(out, c.extra...)
	}
	return out, err
}

func (c *counting) Start(ctx context.Context, a engine.Allocation) error {
	c.mu.Lock()
	c.starts = append(c.starts, a)
	if c.refuses.For != "" {
		defer c.mu.Unlock()
		return &engine.WaitError{Wait: c.refuses}
	}
	keeps := c.keeps
	if keeps.For != "" {
		c.extra = append(c.extra, engine.Status{
			Attempt: a.Attempt, Step: engine.PrimaryStep, Instance: a.Instance, Job: a.Job, N: a.N, Phase: engine.PhaseCreated, Waits: keeps,
		})
	}
	c.mu.Unlock()
	if keeps.For != "" {
		return nil
	}
	return c.Engine.Start(ctx, a)
}

func (c *counting) StartStep(ctx context.Context, a engine.Allocation, s engine.Step) error {
	c.mu.Lock()
	c.steps = append(c.steps, s)
	c.mu.Unlock()
	return c.Engine.StartStep(ctx, a, s)
}

func (c *counting) Signal(ctx context.Context, a engine.StepID, sig string) error {
	c.mu.Lock()
	deaf := c.deaf
	c.mu.Unlock()
	if deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	err := c.Engine.Signal(ctx, a, sig)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.signals = append(c.signals, sig)
	}
	return err
}

func (c *counting) Stop(ctx context.Context, a engine.AttemptID) error {
	c.mu.Lock()
	c.stopped = append(c.stopped, a)
	hangs := c.hangs[a]
	for i := range c.extra {
		if s := &c.extra[i]; s.Attempt == a {
			s.Phase, s.Waits, s.ExitCode, s.Finished = engine.PhaseExited, engine.Wait{}, 137, time.Now()
			s.Started = s.Finished
		}
	}
	c.mu.Unlock()
	if hangs {
		return &engine.UnavailableError{Cause: errors.New("it doesn't end")}
	}
	return c.Engine.Stop(ctx, a)
}

func (c *counting) Remove(ctx context.Context, a engine.AttemptID) error {
	c.mu.Lock()
	c.removed = append(c.removed, a)
	c.extra = slices.DeleteFunc(c.extra, func(s engine.Status) bool { return s.Attempt == a && s.Phase == engine.PhaseExited })
	c.mu.Unlock()
	return c.Engine.Remove(ctx, a)
}

// people knows everybody.
type people struct{}

func (people) Resolve(_ context.Context, name string, uid int64) (engine.User, error) {
	return engine.User{Name: name, UID: 1000, GID: 1000, Home: "/home/" + name, Shell: "/bin/sh"}, nil
}

// bench is a fleet, a world, and one life of a server's runner.
type bench struct {
	*testing.T
	fleet  *sim.Fleet
	port   *looptest.Port
	engine *counting
	images *pulls
	runner *run.Runner
	kill   func()
}

// inBench runs f in a bubble with a runner at work.
func inBench(t *testing.T, f func(b *bench)) { inClusterOf(t, 1, f) }

// inClusterOf is inBench with so many nodes.
func inClusterOf(t *testing.T, nodes int, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, fleet: looptest.NewCluster(t, nodes), images: &pulls{forgot: map[int32]bool{}}}
		b.port = looptest.New(t, b.fleet)
		b.boot()
		f(b)
		b.kill()
	})
}

// boot starts a runner, as a server that starts does.
func (b *bench) boot() {
	b.engine = &counting{Engine: b.fleet.Connect(), hide: map[engine.AttemptID]bool{}, hangs: map[engine.AttemptID]bool{}}
	b.runner = run.New(run.Config{
		Site: run.Site{Mounts: []engine.Mount{siteMount}, Socket: "/run/croft.sock"},
		Port: b.port, Engine: b.engine, Images: b.images, OnStep: b.images.forget, People: people{}, Instance: looptest.Instance, Resync: 30 * time.Second, Parallel: 4, Patience: 2 * time.Minute, Log: looptest.Log(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { b.runner.Run(ctx) })
	b.kill = func() {
		cancel()
		wg.Wait()
		synctest.Wait()
	}
	synctest.Wait()
}

// pass lets time go by and everything that is due happen.
func (b *bench) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// begin submits a job and gives it its allocation.
func (b *bench) begin(spec workload.Spec) id.Job {
	b.Helper()
	k := b.port.Submit(b.T, spec)
	b.port.Do(b.T, command.JobStart{Job: k, Image: "sha256:1"})
	b.pass(time.Second)
	return k
}

func (b *bench) attempt(k id.Job, n int32) engine.AttemptID {
	return engine.AttemptID(id.Attempt{Job: k, N: n}.Engine(looptest.Instance))
}

// state is where a job stands, as text: state and outcome.
func (b *bench) state(k id.Job, want string) {
	b.Helper()
	j := b.port.Job(k)
	if got := string(j.State) + string(j.Outcome); got != want {
		b.Errorf("job %d is %s (%s), want %s", k, got, j.Message, want)
	}
}

// siteMount is what the site gives every job.
var siteMount = engine.Mount{Source: "/usr/local/bin/croft", Target: "/opt/croft/croft", ReadOnly: true, Site: true}
