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
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
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
	Depth  int // waiting jobs per partition that get a promise
	Budget int // deeper jobs tried for backfill per pass
	// Window is how many jobs of an account's queue, for devices of the same models, may be
	// handed to the engine at a time and not run yet; 0: any number.
	Window int
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
	limited, queues := w.Limits.Copy(), w.Queues.Copy() // count what this pass starts
	view.Limits, view.Queues = &limited, &queues
	handed := newWindow(w, p.cfg.Window)
	in := placement.PlanInput{
		State: &w.Placement, Now: view.Now, Depth: p.cfg.Depth, Budget: p.cfg.Budget, Margin: admission.StartMargin,
		Standing: p.standing,
		Eligible: view.Eligible, Models: view.Models,
		CanStart: func(j *workload.Job, spot placement.Spot) bool {
			if _, ok := p.cfg.Images.Have(ctx, j); !ok || handed.full(j, spot.Models()) {
				return false
			}
			who, ask := world.WhoOf(j), world.AskOf(j)
			ask.Models, ask.Now = spot.Models(), view.Now
			ask.GPU = catalog.Counted(ask.Models)
			limited.Count(who, ask.Demand, +1)
			queues.Count(who.Path, who.Partition, ask.Demand, +1)
			for _, c := range limited.Reserve(who, ask) {
				limited.Fold(c)
			}
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
	lane := func(part catalog.Partition, r id.Reservation) {
		queue := workload.QueueOf(part.Name, r)
		in.Lanes = append(in.Lanes, placement.Lane{
			Partition: part, In: r, Queue: w.Workload.Queue(order, queue), Claims: w.Workload.Claims(queue),
		})
	}
	for _, part := range w.Catalog.Partitions.All() {
		lane(part, 0)
	}
	for _, r := range w.Placement.Reservations.All() {
		if part, ok := w.Catalog.Partition(r.Partition); ok && w.Workload.Length(workload.QueueOf(part.Name, r.ID)) > 0 {
			lane(part, r.ID)
		}
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
	if err := p.recall(ctx, w, view, order); err != nil {
		return err
	}
	return p.promise(ctx, w, planned.Promises)
}

// recall has jobs stopped for one that waits, within its guarantee, for a bound that others
// have reached by borrowing. It is done for one in a pass: the next sees what is left.
func (p *Planner) recall(ctx context.Context, w *world.World, view admission.View, order workload.Order) error {
	for name := range w.Catalog.Partitions.All() {
		if len(w.Queues.Resources(name)) == 0 {
			continue
		}
		looks := 0
		for j := range w.Workload.Queue(order, name) {
			if looks++; looks > p.cfg.Depth {
				break
			}
			victims := view.Recall(j)
			if _, ok := p.cfg.Images.Have(ctx, j); ok && len(victims) > 0 {
				return p.preempt(ctx, placement.Preemption{Job: j.ID, Victims: victims})
			}
		}
	}
	return nil
}

// preempt stops a set of jobs for another, one by one: where only some of it is
// carried out, the next pass looks what else it takes.
func (p *Planner) preempt(ctx context.Context, pre placement.Preemption) error {
	waiting, _, _ := pre.Job.Array()
	for i, k := range pre.Victims {
		with := slices.Delete(slices.Clone(pre.Victims), i, i+1)
		if _, err := p.cfg.Port.Command(ctx, command.JobPreempt{Job: k, For: waiting, Node: pre.Node, With: with}); err != nil {
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
	row, index, _ := j.ID.Array() // one that runs again has a row of its own
	_, err := p.cfg.Port.Command(ctx, command.JobStart{Job: row, Element: index, Image: digest, Node: s.Spot.Node, Devices: s.Spot.UUIDs(), Others: s.Spot.Rest()})
	return err
}

// slack is by how much a promise may move before it is recorded again, in ns.
const slack = int64(time.Second)

// promise records the starts that are new or have moved.
func (p *Planner) promise(ctx context.Context, w *world.World, promises []placement.Promise) error {
	var cmd command.PromisesMade
	seen := map[id.Job]bool{} // of an array only the first element's is kept
	for _, pr := range promises {
		k, _, _ := pr.Job.Array()
		j, ok := w.Workload.Jobs.Get(k)
		if !ok || seen[k] {
			continue
		}
		seen[k] = true
		if d := j.Promise - pr.At; j.Promise == 0 || d > slack || d < -slack {
			cmd.Promises = append(cmd.Promises, command.Promised{Job: k, At: pr.At})
		}
	}
	if len(cmd.Promises) == 0 {
		return nil
	}
	_, err := p.cfg.Port.Command(ctx, cmd)
	return err
}
