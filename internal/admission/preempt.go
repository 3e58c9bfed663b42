package admission

import (
	"cmp"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

// Yields says on what terms a running job gives way to a job of the QoS by, if it
// does: by's row allows it, and the running job has had its least time. One that
// starts, or is being stopped already, isn't touched, nor is one that can't be
// reached now.
func (v View) Yields(by catalog.QoS, holder id.Job) (workload.Preemption, bool) {
	j, ok := v.Workload.Active.Get(holder)
	if !ok || j.State != workload.Running || j.Attempt.Lost != 0 {
		return workload.Preemption{}, false
	}
	q, ok := v.Catalog.QoSNamed(j.Spec.QoS)
	if !ok || !by.MayPreempt(q) || v.Now-j.Attempt.Started < q.Contract.MinRun {
		return workload.Preemption{}, false
	}
	return workload.Preemption{
		QoS: by.Name, Signal: cmp.Or(q.Contract.Signal, "TERM"), Grace: cmp.Or(q.Contract.Grace, j.Spec.Grace),
		Requeue: !q.Contract.Cancel || slices.Contains(j.Spec.Requeue, "preempt"), Refund: !q.Contract.Keep,
	}, true
}

// YieldTo says which running jobs give way to a waiting one, nil if none does: its
// QoS preempts nobody, or others are being stopped for it already.
func (v View) YieldTo(j *workload.Job) placement.Yields {
	if j.Claim != 0 {
		for _, a := range v.Workload.Active.All() {
			if a.State == workload.Stopping && a.Attempt.Preempt.By == j.ID {
				return nil
			}
		}
	}
	q, _ := v.Catalog.QoSNamed(j.Spec.QoS)
	return v.yieldTo(q)
}

func (v View) yieldTo(q catalog.QoS) placement.Yields {
	if len(q.Preempts) == 0 {
		return nil
	}
	return func(holder id.Job) (int64, bool) {
		p, ok := v.Yields(q, holder)
		return p.Grace, ok
	}
}
