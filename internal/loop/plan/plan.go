// Package plan starts waiting jobs: it plans on a snapshot, in the order of the
// queues and without delaying a promised start, and proposes what it found as
// commands, which are decided again.
package plan

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Images says whether a job's image is on the machine.
type Images interface {
	Have(ctx context.Context, j *workload.Job) (digest string, ok bool)
	Still(ctx context.Context, j *workload.Job) bool
	Ready() <-chan struct{}
}

// Config of a planner.
type Config struct {
	Port   loop.Port
	Images Images
	Depth  int                      // waiting jobs per partition that get a promise
	Budget int                      // deeper jobs tried for backfill per pass
	Passed func(took time.Duration) // told how long each plan took to make; nil: nobody
	Log    *slog.Logger
}

// Planner is the loop.
type Planner struct {
	cfg      Config
	standing []placement.Promise
}

// New returns a planner.
func New(cfg Config) *Planner { return &Planner{cfg: cfg} }

// rest is how much longer than a pass took the planner waits before the next, so
// that planning a long queue leaves the machine to others.
const rest = 19

// Run plans whenever something has changed, until ctx ends.
func (p *Planner) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		changed := p.cfg.Port.Changed()
		begun := time.Now()
		if err := p.Pass(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.Warn("planning failed, will try again", "error", err)
		}
		pause := time.After(min(rest*time.Since(begun), 5*time.Second))
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-p.cfg.Images.Ready():
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-pause:
		}
	}
}

// Pass plans once.
func (p *Planner) Pass(ctx context.Context) error {
	w := p.cfg.Port.World()
	now, ok := p.cfg.Port.Now()
	if !ok || w.Workload.Waiting() == 0 {
		return nil
	}
	view := w.View(now)
	limited := w.Limits.Copy() // counts what this pass starts
	view.Limits = &limited
	in := placement.PlanInput{
		State: &w.Placement, Now: view.Now, Depth: p.cfg.Depth, Budget: p.cfg.Budget, Margin: admission.StartMargin,
		Standing: p.standing,
		Eligible: view.Eligible, Models: view.Models,
		CanStart: func(j *workload.Job, spot placement.Spot) bool {
			if _, ok := p.cfg.Images.Have(ctx, j); !ok {
				return false
			}
			limited.Count(limits.Who{Path: j.Path, User: j.User, Partition: j.Spec.Partition},
				limits.Demand{CPU: j.Spec.CPU, Mem: j.Spec.Mem, GPU: j.Spec.GPU, Models: spot.Models(), Running: 1}, +1)
			return true
		},
		Yields: func(j *workload.Job) placement.Yields {
			if _, ok := p.cfg.Images.Have(ctx, j); !ok {
				return nil // nobody is stopped for a job that couldn't start
			}
			return view.YieldTo(j)
		},
	}
	order := view.Order()
	for name, part := range w.Catalog.Partitions.All() {
		in.Lanes = append(in.Lanes, placement.Lane{
			Partition: part, Queue: w.Workload.Queue(order, name), Claims: w.Workload.Claims(name),
		})
	}
	begun := time.Now()
	planned := placement.Plan(in)
	if p.cfg.Passed != nil {
		p.cfg.Passed(time.Since(begun))
	}
	p.standing = planned.Promises
	for _, s := range planned.Starts {
		if err := p.start(ctx, s); err != nil {
			return err
		}
	}
	for _, pre := range planned.Preemptions {
		if err := p.preempt(ctx, pre); err != nil {
			return err
		}
	}
	return p.promise(ctx, w, planned.Promises)
}

// preempt stops a set of jobs for another, one by one: where only some of it is
// carried out, the next pass looks what else it takes.
func (p *Planner) preempt(ctx context.Context, pre placement.Preemption) error {
	for i, k := range pre.Victims {
		with := slices.Delete(slices.Clone(pre.Victims), i, i+1)
		if _, err := p.cfg.Port.Command(ctx, command.JobPreempt{Job: k, For: pre.Job, Node: pre.Node, With: with}); err != nil {
			return err
		}
	}
	return nil
}

func (p *Planner) start(ctx context.Context, s placement.Start) error {
	j := s.Job
	digest, ok := p.cfg.Images.Have(ctx, j)
	if !ok || !p.cfg.Images.Still(ctx, j) {
		return nil
	}
	_, err := p.cfg.Port.Command(ctx, command.JobStart{Job: j.ID, Image: digest, Node: s.Spot.Node, Devices: s.Spot.UUIDs()})
	return err
}

// slack is by how much a promise may move before it is recorded again, in ns.
const slack = int64(time.Second)

// promise records the starts that are new or have moved.
func (p *Planner) promise(ctx context.Context, w *world.World, promises []placement.Promise) error {
	var cmd command.PromisesMade
	for _, pr := range promises {
		j, ok := w.Workload.Jobs.Get(pr.Job)
		if !ok {
			continue
		}
		if d := j.Promise - pr.At; j.Promise == 0 || d > slack || d < -slack {
			cmd.Promises = append(cmd.Promises, command.Promised{Job: pr.Job, At: pr.At})
		}
	}
	if len(cmd.Promises) == 0 {
		return nil
	}
	_, err := p.cfg.Port.Command(ctx, cmd)
	return err
}
