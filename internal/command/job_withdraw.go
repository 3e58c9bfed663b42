package command

import (
	"cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// JobWithdraw takes an attempt back that doesn't begin: where it was placed somebody else
// decides as well, and hasn't taken it. Nothing is billed, and its job is queued again.
type JobWithdraw struct {
	Job id.Job
	N   int32
	Why string
	// Turn is set where it only wasn't its turn. Else a job that can't begin several times
	// in a row is held: somebody has to see to it.
	Turn bool
}

// Kind is job.withdraw.
func (JobWithdraw) Kind() string { return "job.withdraw" }

// Decide stops the attempt, unless it has begun meanwhile.
func (c JobWithdraw) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	old, ok := w.Workload.Active.Get(c.Job)
	if !ok || old.Attempt.N != c.N || old.State != workload.Starting || old.Attempt.Started != 0 {
		return skip, nil
	}
	j := edit(old, at)
	j.State, j.Message = workload.Stopping, "it can't begin: "+c.Why
	a := &j.Attempt
	a.StopAt, a.Kill, a.Cause, a.Why = at.Now, true, codes.Withdrawn, cmp.Or(c.Why, "no reason is known")
	a.Preempt = workload.Preemption{Refund: true}
	if !c.Turn && j.Withdrawn() >= workload.MaxWithdrawals {
		j.Hold = cmp.Or(j.Hold, workload.HeldByUser)
	}
	return put(w, j, j.Message), nil
}
