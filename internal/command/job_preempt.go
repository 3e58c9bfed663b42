package command

import (
	"fmt"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// JobPreempt stops a running job so that a waiting one can start on its node. The
// planner proposes it, once for each of a set of jobs that only suffice together;
// each is decided again with the whole set.
type JobPreempt struct {
	Job  id.Job   // is stopped
	For  id.Job   // waits
	Node string   // "": it isn't about room, but about a bound that others have reached
	With []id.Job // the rest of the set
}

// Kind is job.preempt.
func (JobPreempt) Kind() string { return "job.preempt" }

// Decide stops the job, if that and the rest of the set still make the room that is
// wanted. The waiting job then comes before all others until it has started.
func (c JobPreempt) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	waiting, ok := w.Workload.Jobs.Get(c.For)
	view := w.View(at.Now)
	if !ok || waiting.State != workload.Queued {
		return skip, nil
	}
	by := view.Claimant(waiting)
	terms, ok := by.Yields(c.Job)
	if !ok || c.Node == "" && !slices.Contains(view.Recall(waiting), c.Job) || c.Node != "" && !c.makesRoom(w, view, waiting, by) {
		return skip, nil
	}
	old, _ := w.Workload.Active.Get(c.Job)
	terms.By = c.For
	j := edit(old, at)
	j.State, j.Attempt.StopAt, j.Attempt.Cause, j.Attempt.Preempt = workload.Stopping, at.Now, codes.Preempted, terms
	j.Message = yielding(terms)
	out := put(w, j, j.Message)
	first := edit(waiting, at)
	first.Claim = at.Now
	first.Message = fmt.Sprintf("job %d is being stopped to make room for it", c.Job)
	if n := len(c.With); n > 0 {
		first.Message = fmt.Sprintf("%d jobs are being stopped to make room for it", n+1)
	}
	out.Changes = append(out.Changes, workload.JobSet{Row: first})
	return out, nil
}

// makesRoom reports whether the waiting job fits on the node without the set, all of which
// still gives way.
func (c JobPreempt) makesRoom(w *world.World, view admission.View, waiting *workload.Job, by admission.Claimant) bool {
	if !view.Eligible(waiting) {
		return false
	}
	places := w.Placement.Copy()
	places.Release(c.Job)
	for _, k := range c.With {
		other, live := w.Workload.Active.Get(k)
		if !live {
			continue // it has ended meanwhile: what it had is free
		}
		if _, yields := by.Yields(k); !yields && other.Attempt.Preempt.By != c.For {
			return false
		}
		places.Release(k)
	}
	sh, ok := places.Sized(placement.ShapeOf(waiting.Demand()))
	return ok && places.FitsOn(sh, c.Node, view.Now)
}

// yielding tells the user of a job that is preempted what happens to it.
func yielding(p workload.Preemption) string {
	then, money := "then it ends", "what it cost is kept"
	if p.Requeue {
		then = "then it is queued again"
	}
	if p.Refund {
		money = "what it cost is given back"
	}
	return fmt.Sprintf("preempted by %s: SIG%s now, SIGKILL after %s, %s, %s",
		taker(p), p.Signal, quantity.FormatDuration(p.Grace), then, money)
}
