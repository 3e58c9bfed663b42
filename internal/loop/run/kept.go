package run

import (
	"context"
	"errors"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// kept is an attempt that something keeps from beginning where it was placed. A server that
// starts anew counts anew: that is bounded all the same, and needs no row.
type kept struct {
	wait  engine.Wait
	since time.Time
}

// keep notes what keeps an attempt from beginning, or that nothing does any more. r.mu is held.
func (r *Runner) keep(s engine.Status) {
	if s.Phase != engine.PhaseCreated || s.Waits.For == "" {
		delete(r.kept, s.Attempt)
		return
	}
	r.keepBy(s.Attempt, s.Waits)
}

func (r *Runner) keepBy(a engine.AttemptID, by engine.Wait) {
	k, ok := r.kept[a]
	if !ok {
		k.since = time.Now()
		time.AfterFunc(r.cfg.Patience, r.poke)
	}
	k.wait = by
	r.kept[a] = k
}

// hand has the engine start an attempt, and notes why it doesn't take it now.
func (r *Runner) hand(ctx context.Context, a engine.Allocation) error {
	err := r.cfg.Engine.Start(ctx, a)
	if wait := new(engine.WaitError); errors.As(err, &wait) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.keepBy(a.Attempt, wait.Wait)
	}
	return err
}

// withdraw takes an attempt back of which a rank was kept from beginning for as long as it
// may be. It reports whether there is one. r.mu is held.
func (r *Runner) withdraw(ctx context.Context, j *workload.Job, t *task, ranks []engine.AttemptID) bool {
	for _, a := range ranks {
		k, ok := r.kept[a]
		if !ok || r.cfg.Patience <= 0 || time.Since(k.since) < r.cfg.Patience {
			continue
		}
		if !t.busy && !time.Now().Before(t.retry) {
			r.begin(ctx, string(a), t, func(ctx context.Context) error {
				turn := k.wait.For == engine.WaitForQueue || k.wait.For == engine.WaitForCluster
				return r.command(ctx, command.JobWithdraw{Job: j.ID, N: j.Attempt.N, Why: k.wait.Message, Turn: turn})
			})
		}
		return true
	}
	return false
}

// restart has an attempt started again that a listing, which began after its start, doesn't
// have. r.mu is held.
func (r *Runner) restart(ctx context.Context, a engine.AttemptID, listed time.Time) {
	if t := r.work[a]; t == nil || !t.started || t.busy || !t.since.Before(listed) {
		delete(r.absent, a)
		return
	}
	if r.absent[a]++; r.absent[a] < lostAfter {
		go r.relist(ctx)
		return
	}
	r.work[a].started = false
	delete(r.absent, a)
	r.poke()
}

// Kept is what keeps an attempt from beginning, on any of its machines, if something does.
func (r *Runner) Kept(a id.Attempt) (engine.Wait, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, ok := r.cfg.Port.World().Workload.Active.Get(a.Job)
	if !ok || j.Attempt.N != a.N {
		return engine.Wait{}, false
	}
	for _, rank := range r.ranks(j) {
		if k, ok := r.kept[rank]; ok {
			return k.wait, true
		}
	}
	return engine.Wait{}, false
}
