package admission

import (
	"cmp"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/workload"
)

// Claimant is a waiting job, or one that would wait, for which others may be stopped.
type Claimant struct {
	view  View
	qos   catalog.QoS
	claim share.Claim
}

// Claimant returns what a waiting job may ask of those that run.
func (v View) Claimant(j *workload.Job) Claimant {
	return v.claimant(Request{Subject: v.SubjectOf(j), Spec: j.Spec, Gate: Start, Job: j})
}

func (v View) claimant(r Request) Claimant {
	c := Claimant{view: v, qos: r.Subject.QoS}
	partition := r.Subject.Partition.Name
	if len(v.Queues.Resources(partition)) == 0 {
		return c
	}
	runs := func() (out []share.Run) {
		for k, j := range v.Workload.Active.All() {
			if j.Spec.Partition == partition {
				out = append(out, share.Run{Job: k, Path: j.Path, Use: Held(j), Since: j.Attempt.Assigned})
			}
		}
		return out
	}
	var claims []share.Run
	for _, j := range v.Workload.Claims(partition) {
		if r.Job == nil || j.Row() != r.Job.Row() {
			d := v.decisionOn(Request{Subject: v.SubjectOf(j), Spec: j.Spec, Gate: Start, Job: j})
			claims = append(claims, share.Run{Path: j.Path, Use: d.ask().Demand})
		}
	}
	d := v.decisionOn(r)
	c.claim = share.Claim{
		Loans: v.Queues.Loans(v.Trees, v.Tenancy, partition, runs, claims, v.offeredOf(partition)), Path: d.path, Ask: d.ask().Demand,
	}
	return c
}

// Held is what a job that runs has in use.
func Held(j *workload.Job) limits.Demand {
	n := j.Spec.Ranks()
	return limits.Demand{Running: 1, CPU: n * j.Spec.CPU, Mem: n * j.Spec.Mem, GPU: catalog.Counted(j.Attempt.Models), Models: j.Attempt.Models}
}

// Yields says on what terms a running job gives way to the claimant, if it does: because
// the claimant's QoS may preempt its own; or because it is on loan of what the claimant's
// account is guaranteed, whatever its QoS. What an account is guaranteed isn't taken by
// others' priority. It must have had its least time. One that starts, or is being stopped
// already, isn't touched, nor is one that can't be reached now.
func (c Claimant) Yields(holder id.Job) (workload.Preemption, bool) {
	j, ok := c.view.Workload.Active.Get(holder)
	if !ok || j.State != workload.Running || j.Attempt.Lost != 0 {
		return workload.Preemption{}, false
	}
	if _, kept := c.view.Placement.Reservations.Get(j.In); kept {
		return workload.Preemption{}, false // what it frees is its reservation's
	}
	q, ok := c.view.Catalog.QoSNamed(j.Spec.QoS)
	if !ok || c.view.Now-j.Attempt.Started < q.Contract.MinRun {
		return workload.Preemption{}, false
	}
	due, covered := c.claim.On(holder)
	if !due && (covered || !c.qos.MayPreempt(q)) {
		return workload.Preemption{}, false
	}
	return workload.Preemption{
		QoS: c.qos.Name, Loan: due, Signal: cmp.Or(q.Contract.Signal, "TERM"), Grace: cmp.Or(q.Contract.Grace, j.Spec.Grace),
		Requeue: !j.Spec.NeverAgain() && (!q.Contract.Cancel || slices.Contains(j.Spec.Requeue, "preempt")), Refund: !q.Contract.Keep && !j.Spec.Workspace(), // what was done in one is there still
	}, true
}

// YieldTo says which running jobs give way to a waiting one, nil if none does: it has no
// claim on any, or others are being stopped for it already.
func (v View) YieldTo(j *workload.Job) placement.Yields {
	if j.In != 0 {
		return nil // what is freed outside is none of its reservation's
	}
	if j.Claim != 0 {
		for _, a := range v.Workload.Active.All() {
			if a.State == workload.Stopping && a.Attempt.Preempt.By == j.Row() {
				return nil
			}
		}
	}
	return v.Claimant(j).yields()
}

func (c Claimant) yields() placement.Yields {
	if len(c.qos.Preempts) == 0 && !c.claim.Any() {
		return nil
	}
	return func(holder id.Job) (int64, bool) {
		p, ok := c.Yields(holder)
		return p.Grace, ok
	}
}
