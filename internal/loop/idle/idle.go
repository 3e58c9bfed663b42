// Package idle watches running jobs for signs of work, tells the users of those that show
// none, and has them stopped, all as the site's policies say.
package idle

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/usage"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Config is what a Loop is made of.
type Config struct {
	Port   loop.Port
	Book   *usage.Book // what jobs use
	Period time.Duration
	Log    *slog.Logger

	// Connections counts who is connected to a job, by kind: how many are open, and when
	// the last one was, in ns. nil: there are none.
	Connections func(job id.Job, kind idle.Signal) (open, last int64)
	// Forget lets go of what is known of the connections of jobs that don't stay; nil: nothing is.
	Forget func(stays func(id.Job) bool)
	// Activities is what the web programs of a job say of themselves, see Prober; nil: nothing.
	Activities func(ctx context.Context, j *workload.Job) []idle.Activity
	// Tell writes a line to the terminals that are open in a job; nil: there are none.
	Tell func(job id.Job, line string)
}

// Loop is the loop. What it has seen of jobs is lost with the server, but for what was
// noted of them: the time until the first look of the next server isn't counted as idle.
type Loop struct {
	cfg Config

	mu   sync.Mutex
	seen map[id.Attempt]idle.Verdict
}

// New returns a loop that has seen nothing.
func New(cfg Config) *Loop { return &Loop{cfg: cfg, seen: make(map[id.Attempt]idle.Verdict)} }

// fresh is how old a sample may be in order to say something of now, in ns.
const fresh = int64(30 * time.Second)

// parallel is how many jobs' programs are asked at a time.
const parallel = 32

// Run watches until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	loop.Every(ctx, l.cfg.Log, "idle", l.cfg.Period, func(ctx context.Context) error { l.Once(ctx); return nil })
}

// Verdict is what the last look at an attempt came to.
func (l *Loop) Verdict(a id.Attempt) (idle.Verdict, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.seen[a]
	return v, ok
}

// look is a look at one job.
type look struct {
	job      *workload.Job
	attempt  id.Attempt
	policy   idle.Policy
	count    idle.Watch
	readings []idle.Reading
}

// Once looks at every running job. While the wall clock has jumped nothing is concluded,
// nor from the time meanwhile.
func (l *Loop) Once(ctx context.Context) {
	now, ok := l.cfg.Port.Now()
	if !ok {
		return
	}
	w := l.cfg.Port.World()
	var looks []*look
	for _, j := range w.Workload.Active.All() {
		if j.State != workload.Running || j.Attempt.Started == 0 {
			continue
		}
		a := id.Attempt{Job: j.ID, N: j.Attempt.N}
		before, _ := l.Verdict(a)
		k := &look{job: j, attempt: a, policy: w.IdlePolicy(j), count: countOf(j, before.Count)}
		k.readings = l.read(w, j, k.policy, now)
		looks = append(looks, k)
	}
	if l.cfg.Forget != nil {
		l.cfg.Forget(func(k id.Job) bool { _, runs := w.Workload.Active.Get(k); return runs })
	}
	l.ask(ctx, looks, now)
	seen := make(map[id.Attempt]idle.Verdict)
	for _, k := range looks {
		if ctx.Err() != nil {
			return // what was asked last may not have been answered
		}
		v := k.policy.Look(k.count, now, k.readings)
		seen[k.attempt] = v
		l.act(ctx, k.job, v)
	}
	l.mu.Lock()
	l.seen = seen
	l.mu.Unlock()
}

// countOf is the count of the look before, or the one that was noted if there is none.
// What was decided since then counts: a declaration, and that its user was told.
func countOf(j *workload.Job, before idle.Watch) idle.Watch {
	noted := j.Attempt.Idle
	c := before
	if c.At == 0 || noted.Since > c.Since {
		c = idle.Watch{Count: noted}
	}
	c.Keep, c.Told = noted.Keep, noted.Told
	if c.Since == 0 {
		c.Since = j.Attempt.Started
	}
	return c
}

// read looks at all signals that a job can give.
func (l *Loop) read(w *world.World, j *workload.Job, p idle.Policy, now int64) []idle.Reading {
	sample, ok := l.cfg.Book.Last(id.Attempt{Job: j.ID, N: j.Attempt.N})
	known := ok && now-sample.At <= fresh && j.Attempt.Lost == 0
	var out []idle.Reading
	if len(j.Attempt.AllDevices()) > 0 {
		out = append(out, p.ReadDevices(busy(w, j, sample, known)))
	}
	out = append(out, p.ReadCPU(sample.CPU, known && sample.Known, j.Spec.Ranks()*j.Spec.CPU))
	if l.cfg.Connections != nil {
		for _, kind := range []idle.Signal{idle.SSH, idle.Terminal, idle.Browser} {
			open, last := l.cfg.Connections(j.ID, kind)
			out = append(out, idle.ReadConnections(kind, open, last))
		}
	}
	return out
}

// busy is how busy each device of a job is.
func busy(w *world.World, j *workload.Job, sample usage.Sample, known bool) []idle.Busy {
	var out []idle.Busy
	for _, uuid := range j.Attempt.AllDevices() {
		b := idle.Busy{Name: uuid}
		if d, ok := w.Placement.Devices.Get(uuid); ok && d.Name != "" {
			b.Name = d.Name
		}
		for _, d := range sample.Devices {
			if d.UUID == uuid && d.Known && known {
				b.Known, b.Value = true, d.Busy
			}
		}
		out = append(out, b)
	}
	return out
}

// act does what a verdict asks for, or notes how far it is. What fails is tried again at
// the next look.
func (l *Loop) act(ctx context.Context, j *workload.Job, v idle.Verdict) {
	noted, c := j.Attempt.Idle, v.Count
	n := j.Attempt.N
	var cmd world.Command
	switch trial := v.Policy.Mode == idle.DryRun; {
	case v.Stop && !trial:
		cmd = command.JobIdleStop{Job: j.ID, N: n, Idle: c.Idle, Text: v.Text(), Reasons: v.Reasons()}
	case v.Notice, v.Stop && noted.Told == 0:
		cmd = command.JobNotice{Job: j.ID, N: n, Since: c.Since, Idle: c.Idle, StopAt: v.StopAt, Text: v.Text(), Reasons: v.Reasons()}
	case c.Idle < noted.Idle, noted.Told != 0 && c.Told == 0:
		cmd = command.JobIdle{Job: j.ID, N: n, Since: c.Since} // it works again, or did
	case v.Policy.Milestone(c.Idle) > v.Policy.Milestone(noted.Idle) && c.Idle < v.Policy.After:
		cmd = command.JobIdle{Job: j.ID, N: n, Since: c.Since, Idle: c.Idle}
	default:
		return
	}
	if _, err := l.cfg.Port.Command(ctx, cmd); err != nil {
		if ctx.Err() == nil {
			l.cfg.Log.Warn("could not note that a job is idle, will try again", "job", int64(j.ID), "error", err)
		}
		return
	}
	if v.Notice && l.cfg.Tell != nil {
		l.cfg.Tell(j.ID, v.Warning(j.Name()))
	}
}

// ask asks the web programs of the jobs that nothing else shows to be at work, beside each
// other.
func (l *Loop) ask(ctx context.Context, looks []*look, now int64) {
	if l.cfg.Activities == nil {
		return
	}
	var wg sync.WaitGroup
	turns := make(chan struct{}, parallel)
	for _, k := range looks {
		if v := k.policy.Look(k.count, now, k.readings); v.Standing != idle.Idle && v.Standing != idle.Unknown {
			continue
		}
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if said := l.cfg.Activities(ctx, k.job); len(said) > 0 {
				k.readings = append(k.readings, idle.ReadApps(said))
			}
		})
	}
	wg.Wait()
}
