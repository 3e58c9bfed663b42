// Package run makes the engine run what the world says should run, and tells the
// world what the engine saw. It only repeats idempotent calls: a server killed
// between any two of them finds the difference again when it starts.
//
// Unknown is never ended: nothing is concluded while the engine can't be asked,
// and an attempt that nobody knows is left alone and reported.
package run

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Config of a Runner.
type Config struct {
	Port   loop.Port
	Engine engine.Engine
	Images Images
	People People
	// Instance is the installation's UUID: containers of another are not ours.
	Instance string
	Resync   time.Duration // between full listings
	Parallel int           // starts at a time
	Patience time.Duration // with an attempt that is kept from beginning where it was placed; 0: any
	// Subids are the ids that users have in user namespaces.
	Subids Subids
	// Address is where browsers find an app of a job: a URL, or the path alone where the
	// site's name isn't known. Nil: PathOf.
	Address func(job id.Job, app string, first bool) string
	// Site is what every job's environment has besides its own.
	Site Site
	// OnEnd is told of a job that left the world or started, to forget what is
	// kept for it.
	OnEnd func(id.Job)
	// OnStep is told likewise of a further step.
	OnStep func(job id.Job, n int32)
	Log    *slog.Logger
}

// Runner is the loop.
type Runner struct {
	cfg   Config
	slots chan struct{}
	words chan struct{}
	wake  chan struct{}

	listing sync.Mutex // held by the one listing in progress; taken before mu

	mu      sync.Mutex
	again   bool // another listing is on its way
	seen    map[engine.AttemptID]engine.Status
	absent  map[engine.AttemptID]int // full listings without it, in a row
	work    map[engine.AttemptID]*task
	strange map[engine.AttemptID]bool // known to nobody: quarantined
	kept    map[engine.AttemptID]kept // kept from beginning

	steps       map[engine.StepID]engine.Status // seen, of further steps
	absentSteps map[engine.StepID]int
	stepWork    map[engine.StepID]*task

	lost  error // why the engine can't be asked
	fails int
}

// task is what was asked of the engine for one attempt in this life of the server.
type task struct {
	busy     bool
	started  bool
	since    time.Time // of started
	signaled bool
	term     bool
	kill     bool
	never    string // why it can't start, of a rank
	retry    time.Time
	delay    time.Duration
	leave    context.CancelFunc // ends the call in progress, if it is to give way
	step     *workload.Step     // of a further step
}

// New returns a runner.
func New(cfg Config) *Runner {
	parallel := max(cfg.Parallel, 1)
	return &Runner{
		cfg: cfg, slots: make(chan struct{}, parallel), words: make(chan struct{}, wordsPerSlot*parallel), wake: make(chan struct{}, 1),
		seen: map[engine.AttemptID]engine.Status{}, absent: map[engine.AttemptID]int{},
		work: map[engine.AttemptID]*task{}, strange: map[engine.AttemptID]bool{}, kept: map[engine.AttemptID]kept{},
		steps: map[engine.StepID]engine.Status{}, absentSteps: map[engine.StepID]int{}, stepWork: map[engine.StepID]*task{},
	}
}

// Run reconciles until ctx ends.
func (r *Runner) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { r.watch(ctx) })
	resync := time.NewTicker(r.cfg.Resync)
	defer resync.Stop()
	r.list(ctx)
	for {
		changed := r.cfg.Port.Changed()
		r.Reconcile(ctx)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-r.wake:
		case <-resync.C:
			r.list(ctx)
		}
	}
}

// Wake asks for another reconciliation.
func (r *Runner) Wake() { r.poke() }

func (r *Runner) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Lost says why the engine can't be asked, nil when it can.
func (r *Runner) Lost() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Strange counts attempts of this instance that the world has no record of.
func (r *Runner) Strange() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.strange)
}

// watch follows the engine's events; where it breaks off, a full listing repairs.
func (r *Runner) watch(ctx context.Context) {
	for ctx.Err() == nil {
		events, err := r.cfg.Engine.Watch(ctx)
		// what changed before the watch began, or all if there is none
		r.list(ctx)
		if err == nil {
			for s := range events {
				r.observe(ctx, s)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// lostAfter is how many full listings in a row must fail, or lack an attempt,
// before anything is said about it.
const lostAfter = 2

// list asks for everything that exists.
func (r *Runner) list(ctx context.Context) {
	r.listing.Lock()
	defer r.listing.Unlock()
	listed := time.Now()
	all, err := r.cfg.Engine.List(ctx)
	if ctx.Err() != nil {
		return
	}
	r.contact(ctx, err)
	if err != nil {
		return
	}
	now, steps := map[engine.AttemptID]bool{}, map[engine.StepID]bool{}
	for _, s := range all {
		if s.Instance == r.cfg.Instance {
			now[s.Attempt] = now[s.Attempt] || s.Step == engine.PrimaryStep
			steps[s.ID()] = true
			r.observe(ctx, s)
		}
	}
	r.mu.Lock()
	for a := range r.seen {
		if !now[a] {
			delete(r.seen, a)
		}
	}
	for a := range r.strange {
		if !now[a] {
			delete(r.strange, a)
		}
	}
	for k := range r.steps {
		if !steps[k] {
			delete(r.steps, k)
		}
	}
	r.mu.Unlock()
	r.missing(ctx, now, listed)
	r.missingSteps(ctx, steps)
}

// relist asks for another listing in a second. However many ask, there is one: a
// long outage must not make the calls more and more.
func (r *Runner) relist(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again {
		return
	}
	r.again = true
	time.AfterFunc(time.Second, func() {
		r.mu.Lock()
		r.again = false
		r.mu.Unlock()
		r.list(ctx)
	})
}

// contact records when the engine stops or begins to answer.
func (r *Runner) contact(ctx context.Context, err error) {
	r.mu.Lock()
	var tell *bool
	lost := err != nil
	if lost {
		// said each time: attempts may have begun since, or the command have failed
		if r.fails++; r.fails >= lostAfter {
			r.lost, tell = err, &lost
		}
	} else {
		if r.lost != nil || r.fails > 0 {
			tell = &lost
		}
		r.fails, r.lost = 0, nil
	}
	r.mu.Unlock()
	if err != nil {
		r.cfg.Log.Warn("the runtime can't be asked", "error", err)
		r.relist(ctx)
	}
	if tell != nil {
		r.command(ctx, command.Contact{Lost: *tell})
	}
}

// missing reports attempts that ran and that a complete listing no longer has,
// twice in a row. Those that were started and haven't begun are started again: somebody
// else has taken them away. listed is when the listing began.
func (r *Runner) missing(ctx context.Context, now map[engine.AttemptID]bool, listed time.Time) {
	for _, j := range r.cfg.Port.World().Workload.Active.All() {
		for _, a := range r.ranks(j) {
			r.mu.Lock()
			if now[a] {
				delete(r.absent, a)
				r.mu.Unlock()
				continue
			}
			if j.Attempt.Started == 0 {
				r.restart(ctx, a, listed)
				r.mu.Unlock()
				continue
			}
			r.absent[a]++
			gone := r.absent[a] >= lostAfter
			r.mu.Unlock()
			if gone {
				r.command(ctx, command.JobObserved{Job: j.ID, N: j.Attempt.N, Gone: true})
				break
			}
			r.relist(ctx)
		}
	}
}

// ranks are what the job's current attempt is at engines, on each of its machines.
func (r *Runner) ranks(j *workload.Job) []engine.AttemptID {
	var out []engine.AttemptID
	for _, name := range (id.Attempt{Job: j.ID, N: j.Attempt.N}).Ranks(r.cfg.Instance, len(j.Attempt.Others)) {
		out = append(out, engine.AttemptID(name))
	}
	return out
}

// observe notes a status and passes on what the world doesn't know yet.
func (r *Runner) observe(ctx context.Context, s engine.Status) error {
	switch {
	case s.Instance != r.cfg.Instance:
		return nil
	case s.Step != engine.PrimaryStep:
		return r.observeStep(ctx, s)
	}
	r.mu.Lock()
	r.seen[s.Attempt] = s
	delete(r.absent, s.Attempt)
	r.keep(s)
	r.mu.Unlock()
	j, ok := r.cfg.Port.World().Workload.Jobs.Get(id.Job(s.Job))
	if !ok || int(j.Attempt.N) != s.N || !workload.RulesOf(j.State).Running {
		r.poke()
		return nil
	}
	if len(j.Attempt.Others) > 0 {
		r.poke() // the others count, too
		return nil
	}
	cmd := command.JobObserved{Job: j.ID, N: j.Attempt.N, Started: nanos(s.Started)}
	cmd.Given = givenOf(s)
	switch {
	case s.Phase == engine.PhaseExited && s.Lost:
		cmd.Lost = true
	case s.Phase == engine.PhaseExited:
		cmd.Exited, cmd.Finished, cmd.ExitCode, cmd.OOM, cmd.Failure = true, nanos(s.Finished), int32(s.ExitCode), s.OutOfMemory, s.Failure
		cmd.Taken = s.Taken
	case s.Phase == engine.PhaseRunning && (j.Attempt.Started == 0 || j.Attempt.Lost != 0 || cmd.Given != nil && !slices.Equal(cmd.Given, j.Attempt.Given)):
		cmd.Running = true
	default:
		return nil
	}
	return r.command(ctx, cmd)
}

// givenOf are the devices that a node has chosen.
func givenOf(s engine.Status) []string {
	if s.Given == "" {
		return nil
	}
	return strings.Split(s.Given, ",")
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// command carries out a command and logs what it can't: the state that asked for
// it is still there, so it is asked again.
func (r *Runner) command(ctx context.Context, cmd world.Command) error {
	_, err := r.cfg.Port.Command(ctx, cmd)
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("command failed, will try again", "command", cmd.Kind(), "error", err)
		time.AfterFunc(time.Second, r.poke)
	}
	return err
}
