package run

import (
	"context"
	"errors"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Images says whether a step's image is on the machine.
type Images interface {
	// HaveStep returns the digest of a step's image if it is there. If it isn't, it
	// begins to look for it; the runner is woken when it has come.
	HaveStep(ctx context.Context, s *workload.Step) (digest string, ok bool)
}

func (r *Runner) stepID(s *workload.Step) engine.StepID {
	return engine.StepID{Attempt: engine.AttemptID(id.Attempt{Job: s.Job, N: s.Attempt}.Engine(r.cfg.Instance)), N: int(s.N)}
}

// reconcileSteps does for further steps what Reconcile does for attempts.
func (r *Runner) reconcileSteps(ctx context.Context, w *world.World) {
	wanted := map[engine.StepID]bool{}
	for _, s := range w.Workload.Steps.All() {
		if j, ok := w.Workload.Jobs.Get(s.Job); ok {
			k := r.stepID(s)
			wanted[k] = true
			r.steerStep(ctx, w, k, j, s)
		}
	}
	var over []*workload.Step
	r.mu.Lock()
	for k, t := range r.stepWork {
		if !wanted[k] && !t.busy {
			over = append(over, t.step)
			delete(r.stepWork, k)
		}
	}
	r.mu.Unlock()
	for _, s := range over {
		r.tell(s)
	}
}

// tell says that nothing needs to be kept for a step any more.
func (r *Runner) tell(s *workload.Step) {
	if r.cfg.OnStep != nil {
		r.cfg.OnStep(s.Job, s.N)
	}
}

// steerStep brings one step nearer to what the world says.
func (r *Runner) steerStep(ctx context.Context, w *world.World, k engine.StepID, j *workload.Job, s *workload.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.stepWork[k]
	if t == nil {
		t = &task{step: s}
		r.stepWork[k] = t
	}
	seen, exists := r.steps[k]
	if t.busy || time.Now().Before(t.retry) {
		return
	}
	switch {
	case s.State == workload.Queued:
		r.offer(ctx, w, k, t, j, s)
	case exists && seen.Phase == engine.PhaseExited:
		r.begin(ctx, k.String(), t, func(ctx context.Context) error { return r.observe(ctx, seen) })
	case s.Kill && !t.kill, s.State == workload.Stopping && !t.started && !exists && s.Started == 0:
		r.word(ctx, k.String(), t, func(ctx context.Context) error { return r.stopStep(ctx, k, s, t) })
	case s.State == workload.Stopping && !t.term:
		r.signal(ctx, k.String(), k, t, "TERM", &t.term)
	case j.State == workload.Stopping && !t.term:
		r.signal(ctx, k.String(), k, t, j.StopSignal(), &t.term)
	case s.State == workload.Starting && !t.started:
		r.begin(ctx, k.String(), t, func(ctx context.Context) error { return r.startStep(ctx, w, j, s, t) })
	}
}

// offer proposes the start of a waiting step whose image is there and that has room.
// r.mu is held.
func (r *Runner) offer(ctx context.Context, w *world.World, k engine.StepID, t *task, j *workload.Job, s *workload.Step) {
	if j.State != workload.Running {
		return
	}
	if _, ok := w.Workload.Room(j, s); !ok {
		return
	}
	if digest, ok := r.cfg.Images.HaveStep(ctx, s); ok {
		r.begin(ctx, k.String(), t, func(ctx context.Context) error {
			return r.command(ctx, command.StepStart{Job: s.Job, N: s.N, Image: digest})
		})
	}
}

func (r *Runner) startStep(ctx context.Context, w *world.World, j *workload.Job, s *workload.Step, t *task) error {
	alloc, step, err := r.stepAllocation(ctx, w, j, s)
	if err == nil {
		err = r.cfg.Engine.StartStep(ctx, alloc, step)
	}
	if never := new(engine.StartError); errors.As(err, &never) {
		return r.command(ctx, command.StepFail{Job: s.Job, N: s.N, Attempt: s.Attempt, Message: never.Message})
	}
	if t.started = err == nil; t.started {
		r.tell(s)
	}
	return err
}

// stopStep kills what is left of a step. If it never began there will be no exit to see,
// so its end is reported here.
func (r *Runner) stopStep(ctx context.Context, k engine.StepID, s *workload.Step, t *task) error {
	if err := r.cfg.Engine.StopStep(ctx, k); err != nil {
		return err
	}
	t.kill, t.term = true, true
	if s.Started != 0 {
		return nil
	}
	all, err := r.cfg.Engine.List(ctx)
	if err != nil {
		return err
	}
	for _, seen := range all {
		if seen.ID() == k {
			return r.observe(ctx, seen)
		}
	}
	return r.command(ctx, command.StepObserved{Job: s.Job, N: s.N, Attempt: s.Attempt, Exited: true, ExitCode: 137})
}

// observeStep notes a step's status and passes on what the world doesn't know yet.
func (r *Runner) observeStep(ctx context.Context, s engine.Status) error {
	r.mu.Lock()
	r.steps[s.ID()] = s
	delete(r.absentSteps, s.ID())
	r.mu.Unlock()
	step, ok := r.cfg.Port.World().Workload.Step(id.Job(s.Job), int32(s.Step))
	if !ok || int(step.Attempt) != s.N {
		r.poke()
		return nil
	}
	cmd := command.StepObserved{Job: step.Job, N: step.N, Attempt: step.Attempt, Started: nanos(s.Started)}
	switch {
	case s.Phase == engine.PhaseExited && s.Lost:
		cmd.Lost = true
	case s.Phase == engine.PhaseExited:
		cmd.Exited, cmd.Finished, cmd.ExitCode, cmd.OOM, cmd.Failure = true, nanos(s.Finished), int32(s.ExitCode), s.OutOfMemory, s.Failure
	case s.Phase == engine.PhaseRunning && step.State == workload.Starting:
		cmd.Running = true
	default:
		return nil
	}
	return r.command(ctx, cmd)
}

// missingSteps reports steps that ran and that complete listings no longer have.
func (r *Runner) missingSteps(ctx context.Context, now map[engine.StepID]bool) {
	for _, s := range r.cfg.Port.World().Workload.Steps.All() {
		k := r.stepID(s)
		r.mu.Lock()
		if now[k] || s.Started == 0 {
			delete(r.absentSteps, k)
			r.mu.Unlock()
			continue
		}
		r.absentSteps[k]++
		gone := r.absentSteps[k] >= lostAfter
		r.mu.Unlock()
		if gone {
			r.command(ctx, command.StepObserved{Job: s.Job, N: s.N, Attempt: s.Attempt, Lost: true})
		} else {
			r.relist(ctx)
		}
	}
}
