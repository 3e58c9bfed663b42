package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// rank is what is known of an attempt on one of its machines.
type rank struct {
	id     engine.AttemptID
	task   *task
	status engine.Status
	exists bool
}

// exited reports that its program has ended, or can't ever start.
func (k rank) exited() bool {
	return k.exists && k.status.Phase == engine.PhaseExited || k.task.never != ""
}

// begun reports that its program runs or has run.
func (k rank) begun() bool {
	return k.exists && !k.status.Started.IsZero() && (k.status.Phase == engine.PhaseRunning || k.exited())
}

// failed reports that it has ended, and not well.
func (k rank) failed() bool {
	return k.exited() && (k.task.never != "" || k.status.ExitCode != 0 || k.status.OutOfMemory || k.status.Failure != "")
}

// over reports that nothing of it runs, nor will by what was asked of the engine.
func (k rank) over() bool {
	return k.exited() || !k.exists && !k.task.started && !k.task.busy
}

// gang is an attempt on several machines, by rank. What becomes of it follows from what the
// engine has of all ranks, so that a server that comes back comes to the same.
type gang []rank

// steerGang brings an attempt on several machines a step nearer to what the world says.
func (r *Runner) steerGang(ctx context.Context, w *world.World, ids []engine.AttemptID, j *workload.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var g gang
	for _, a := range ids {
		s, exists := r.seen[a]
		g = append(g, rank{id: a, task: r.task(a), status: s, exists: exists})
	}
	end := g.verdict(j.Spec.Success)
	stopping := j.State == workload.Stopping && j.Attempt.Started == 0
	if (end != nil || stopping) && g.all(rank.over) {
		r.report(ctx, j, g, end)
		return
	}
	if end == nil && g.all(rank.begun) && (j.Attempt.Started == 0 || j.Attempt.Lost != 0) {
		r.report(ctx, j, g, &command.JobObserved{Running: true, Started: g.began()})
	}
	if end == nil && j.State == workload.Starting && r.withdraw(ctx, j, g[0].task, ids) {
		return
	}
	for i, k := range g {
		r.steerRank(ctx, w, j, i, k, end != nil)
	}
}

// report tells the world of a gang, by the task of its first rank. r.mu is held.
func (r *Runner) report(ctx context.Context, j *workload.Job, g gang, what *command.JobObserved) {
	t := g[0].task
	if t.busy || time.Now().Before(t.retry) {
		return
	}
	cmd := command.JobObserved{Exited: true, ExitCode: exitKilled} // it was stopped before it began
	if what != nil {
		cmd = *what
	}
	cmd.Job, cmd.N, cmd.Given = j.ID, j.Attempt.N, g.given()
	r.begin(ctx, string(g[0].id), t, func(ctx context.Context) error { return r.command(ctx, cmd) })
}

// given are the devices of all ranks, as far as their nodes have chosen them.
func (g gang) given() []string {
	var out []string
	for _, k := range g {
		out = append(out, givenOf(k.status)...)
	}
	return out
}

// exitKilled is the exit code of a program that was killed.
const exitKilled = 137

// steerRank does for one rank what steer does for an attempt. Once the whole has come to an
// end what is left of it is killed. r.mu is held.
func (r *Runner) steerRank(ctx context.Context, w *world.World, j *workload.Job, n int, k rank, ending bool) {
	t := k.task
	if (ending || j.Attempt.Kill) && !t.kill {
		t.giveWay()
	}
	if t.busy || time.Now().Before(t.retry) || k.exited() {
		return
	}
	stopping := j.State == workload.Stopping
	t.signaled = t.signaled && j.Attempt.Signaled // it goes on: it may be told once more
	switch {
	case (ending || j.Attempt.Kill || stopping && j.Attempt.Started == 0) && !t.kill:
		r.begin(ctx, string(k.id), t, func(ctx context.Context) error { return r.stopRank(ctx, k) })
	case ending:
	case stopping && !t.term:
		r.signal(ctx, string(k.id), k.id.Primary(), t, j.StopSignal(), &t.term)
	case j.Attempt.Signaled && !t.signaled && j.State == workload.Running:
		r.signal(ctx, string(k.id), k.id.Primary(), t, j.Spec.Signal.Name, &t.signaled)
	case j.State == workload.Starting && !t.started:
		r.begin(ctx, string(k.id), t, func(ctx context.Context) error { return r.startRank(ctx, w, j, n, t) })
	}
}

// startRank makes a rank run. That it never will is known once and for all.
func (r *Runner) startRank(ctx context.Context, w *world.World, j *workload.Job, n int, t *task) error {
	alloc, err := r.allocation(ctx, w, j, n)
	if err == nil {
		err = r.hand(ctx, alloc)
	}
	var never *engine.StartError
	if errors.As(err, &never) {
		r.mu.Lock()
		t.never = fmt.Sprintf("on %s: %s", alloc.Node, never.Message)
		r.mu.Unlock()
		return nil
	}
	if err != nil {
		return err
	}
	r.started(t)
	if n == 0 && r.cfg.OnEnd != nil {
		r.cfg.OnEnd(j.ID)
	}
	return nil
}

// stopRank kills what is left of a rank. What was never there is over by that.
func (r *Runner) stopRank(ctx context.Context, k rank) error {
	if err := r.cfg.Engine.Stop(ctx, k.id); err != nil {
		return err
	}
	all, err := r.cfg.Engine.List(ctx)
	if err != nil {
		return err
	}
	there := false
	for _, s := range all {
		if s.Attempt == k.id && s.Step == engine.PrimaryStep {
			there = true
			r.mu.Lock()
			r.seen[k.id] = s
			r.mu.Unlock()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k.task.kill, k.task.term = true, true
	k.task.started = k.task.started && there
	return nil
}

func (g gang) all(is func(rank) bool) bool {
	for _, k := range g {
		if !is(k) {
			return false
		}
	}
	return true
}

// began is when the last rank began: before that nobody can work. 0: one hasn't.
func (g gang) began() int64 {
	var last int64
	for _, k := range g {
		if k.status.Started.IsZero() {
			return 0
		}
		last = max(last, nanos(k.status.Started))
	}
	return last
}

// verdict is how the whole has ended, nil while that is open.
func (g gang) verdict(success string) *command.JobObserved {
	for _, k := range g {
		if k.exited() && k.status.Lost {
			return &command.JobObserved{Lost: true, Started: g.began()}
		}
	}
	if i := g.first(func(k rank) bool { return k.task.never != "" }); i >= 0 {
		return g.endBy(i) // all start, or none does
	}
	switch success {
	case workload.SuccessPrimary:
		if g[0].exited() {
			return g.endBy(0)
		}
	case workload.SuccessAny:
		if i := g.first(func(k rank) bool { return k.exited() && !k.failed() }); i >= 0 {
			return g.endBy(i)
		}
		if g.all(rank.exited) {
			return g.endBy(0)
		}
	default:
		if i := g.first(rank.failed); i >= 0 {
			return g.endBy(i)
		}
		if g.all(rank.exited) {
			return g.endBy(0)
		}
	}
	return nil
}

// first is the rank that ended first of those that are so, -1 if there is none.
func (g gang) first(is func(rank) bool) int {
	best := -1
	for i, k := range g {
		if is(k) && (best < 0 || k.before(g[best])) {
			best = i
		}
	}
	return best
}

// before reports that a rank ended before another: by its time, of which an engine may know
// the second; within one, those were killed for others that look like that.
func (k rank) before(o rank) bool {
	a, b := k.status.Finished.Truncate(time.Second), o.status.Finished.Truncate(time.Second)
	if !a.Equal(b) {
		return a.Before(b)
	}
	return !k.killed() && o.killed()
}

// killed reports that a rank's end is that of one that was killed.
func (k rank) killed() bool {
	return k.task.never == "" && k.status.ExitCode == exitKilled && !k.status.OutOfMemory
}

// endBy is the end of the whole by that of a rank; it has lasted as long as its last program.
func (g gang) endBy(i int) *command.JobObserved {
	k := g[i]
	out := &command.JobObserved{Exited: true, Started: g.began(), ExitCode: int32(k.status.ExitCode), OOM: k.status.OutOfMemory, Failure: k.status.Failure, Taken: k.status.Taken}
	for _, of := range g {
		out.Finished = max(out.Finished, nanos(of.status.Finished))
	}
	if k.task.never != "" {
		out.ExitCode, out.Failure = exitNever, k.task.never
	}
	if out.Failure == "" && k.failed() && i > 0 {
		out.Failure = fmt.Sprintf("rank %d ended with exit code %d", i, k.status.ExitCode)
	}
	return out
}

// exitNever is the exit code of a program that couldn't be started.
const exitNever = 125
