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

// Reconcile compares the world's active attempts with what the engine has, and
// starts, signals, stops or removes what differs. It doesn't wait for the engine.
func (r *Runner) Reconcile(ctx context.Context) {
	w := r.cfg.Port.World()
	wanted := map[engine.AttemptID]bool{}
	for _, j := range w.Workload.Active.All() {
		ranks := r.ranks(j)
		for _, a := range ranks {
			wanted[a] = true
		}
		if len(ranks) > 1 {
			r.steerGang(ctx, w, ranks, j)
		} else {
			r.steer(ctx, w, ranks[0], j)
		}
	}
	r.mu.Lock()
	var left []engine.Status
	for a, s := range r.seen {
		if !wanted[a] {
			left = append(left, s)
		}
	}
	for a := range r.kept {
		if !wanted[a] {
			delete(r.kept, a)
		}
	}
	for a, t := range r.work {
		if _, exists := r.seen[a]; !wanted[a] && !exists && !t.busy {
			delete(r.work, a)
		}
	}
	r.mu.Unlock()
	for _, s := range left {
		r.clean(ctx, w, s)
	}
	r.reconcileSteps(ctx, w)
}

// steer brings one wanted attempt a step nearer to what the world says.
func (r *Runner) steer(ctx context.Context, w *world.World, a engine.AttemptID, j *workload.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.task(a)
	s, exists := r.seen[a]
	if j.Attempt.Kill && !t.kill {
		t.giveWay()
	}
	if t.busy || time.Now().Before(t.retry) {
		return
	}
	t.signaled = t.signaled && j.Attempt.Signaled // it goes on: it may be told once more
	switch {
	case exists && s.Phase == engine.PhaseExited:
		// observed already, or about to be again
		r.begin(ctx, string(a), t, func(ctx context.Context) error { return r.observe(ctx, s) })
	case j.Attempt.Kill && !t.kill:
		r.begin(ctx, string(a), t, func(ctx context.Context) error { return r.stop(ctx, j, a, t) })
	case j.State == workload.Stopping && !t.started && !exists && j.Attempt.Started == 0:
		// stopped before it began: nothing is there, or Stop finds what is
		r.begin(ctx, string(a), t, func(ctx context.Context) error { return r.stop(ctx, j, a, t) })
	case j.State == workload.Stopping && !t.term:
		r.signal(ctx, string(a), a.Primary(), t, j.StopSignal(), &t.term)
	case j.Attempt.Signaled && !t.signaled && j.State == workload.Running:
		r.signal(ctx, string(a), a.Primary(), t, j.Spec.Signal.Name, &t.signaled)
	case j.State == workload.Starting && r.withdraw(ctx, j, t, []engine.AttemptID{a}):
	case j.State == workload.Starting && !t.started:
		r.begin(ctx, string(a), t, func(ctx context.Context) error { return r.start(ctx, w, j, a, t) })
	}
}

func (r *Runner) task(a engine.AttemptID) *task {
	t := r.work[a]
	if t == nil {
		t = &task{}
		r.work[a] = t
	}
	return t
}

// begin runs one engine call for an attempt or a step in the background; one that fails is
// tried again after a growing pause. r.mu is held.
func (r *Runner) begin(ctx context.Context, of string, t *task, call func(context.Context) error) {
	r.beginIn(ctx, r.slots, of, t, call)
	t.leave = nil
}

// beginIn is begin with the slots that the call takes one of. What it returns ends the call.
func (r *Runner) beginIn(ctx context.Context, slots chan struct{}, of string, t *task, call func(context.Context) error) context.CancelFunc {
	t.busy = true
	ctx, leave := context.WithCancel(ctx)
	go func() {
		defer leave()
		var err error
		select {
		case slots <- struct{}{}:
			err = call(ctx)
			<-slots
		case <-ctx.Done():
			err = ctx.Err()
		}
		r.mu.Lock()
		t.busy = false
		if err != nil {
			t.delay = min(max(2*t.delay, 100*time.Millisecond), 15*time.Second)
			t.retry = time.Now().Add(t.delay)
			time.AfterFunc(t.delay, r.poke)
		} else {
			t.delay = 0
		}
		r.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("engine call failed, will try again", "of", of, "error", err)
		}
		r.poke()
	}()
	return leave
}

// start makes the attempt run. An error that says it never will ends the job.
func (r *Runner) start(ctx context.Context, w *world.World, j *workload.Job, a engine.AttemptID, t *task) error {
	alloc, err := r.allocation(ctx, w, j, 0)
	if err == nil {
		err = r.hand(ctx, alloc)
	}
	var never *engine.StartError
	switch {
	case err == nil:
		r.started(t)
		if r.cfg.OnEnd != nil {
			r.cfg.OnEnd(j.ID)
		}
		return nil
	case errors.As(err, &never):
		return r.command(ctx, command.JobFail{Job: j.ID, N: j.Attempt.N, Message: never.Message})
	}
	return err
}

// started notes that the engine has taken an attempt.
func (r *Runner) started(t *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.started, t.since = true, time.Now()
}

// stop kills what is left of an attempt. If it never began there will be no exit
// to see, so its end is reported here.
func (r *Runner) stop(ctx context.Context, j *workload.Job, a engine.AttemptID, t *task) error {
	if err := r.cfg.Engine.Stop(ctx, a); err != nil {
		return err
	}
	r.mu.Lock()
	t.kill, t.term = true, true
	r.mu.Unlock()
	if j.Attempt.Started == 0 {
		all, err := r.cfg.Engine.List(ctx)
		if err != nil {
			return err
		}
		for _, s := range all {
			if s.Attempt == a {
				return r.observe(ctx, s)
			}
		}
		return r.command(ctx, command.JobObserved{Job: j.ID, N: j.Attempt.N, Exited: true, ExitCode: 137})
	}
	return nil
}

// clean deals with an attempt that should not run: the world ended it by a
// command, or has never heard of it.
func (r *Runner) clean(ctx context.Context, w *world.World, s engine.Status) {
	if !r.ended(w, s) {
		r.mu.Lock()
		known := r.strange[s.Attempt]
		r.strange[s.Attempt] = true
		r.mu.Unlock()
		if !known {
			r.cfg.Log.Error("quarantined: a container of this instance that no record knows; it is left alone", "attempt", string(s.Attempt), "job", s.Job, "account", s.Account)
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.task(s.Attempt)
	t.giveWay()
	if t.busy || time.Now().Before(t.retry) {
		return
	}
	r.begin(ctx, string(s.Attempt), t, func(ctx context.Context) error {
		if s.Phase != engine.PhaseExited || r.hasSteps(s.Attempt) {
			if err := r.cfg.Engine.Stop(ctx, s.Attempt); err != nil {
				return err
			}
		}
		if err := r.cfg.Engine.Remove(ctx, s.Attempt); err != nil {
			return err
		}
		r.mu.Lock()
		delete(r.seen, s.Attempt)
		r.mu.Unlock()
		if r.cfg.OnEnd != nil {
			r.cfg.OnEnd(id.Job(s.Job))
		}
		return nil
	})
}

// hasSteps reports whether a step of the attempt is still there.
func (r *Runner) hasSteps(a engine.AttemptID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, s := range r.steps {
		if k.Attempt == a && s.Phase != engine.PhaseExited {
			return true
		}
	}
	return false
}

// ended reports that the world knows the attempt and that it is over: its job was
// handed out and is gone, or has a later attempt, or waits again. Labels that
// aren't those of an attempt of ours say nothing.
func (r *Runner) ended(w *world.World, s engine.Status) bool {
	a := id.Attempt{Job: id.Job(s.Job), N: int32(s.N)}
	if s.Job < 1 || s.N < 1 || !a.Names(r.cfg.Instance, string(s.Attempt)) || id.Job(s.Job) >= w.Workload.NextJob() {
		return false
	}
	j, ok := w.Workload.Jobs.Get(id.Job(s.Job))
	return !ok || s.N <= int(j.Attempt.N)
}
