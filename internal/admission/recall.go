package admission

import (
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

// Recall says which running jobs are to be stopped for a waiting one that nothing keeps
// but the bound of an account above its own, which others below that account have
// reached by what they borrowed: those that lose least, on whatever nodes they are. Of
// several such bounds it is about the tightest. nil: none, or not enough.
func (v View) Recall(j *workload.Job) []id.Job {
	kept, err := v.Kept(j)
	if err != nil || len(kept) == 0 || slices.ContainsFunc(kept, func(r fault.Reason) bool {
		return r.Never || r.Code != codes.ShareLimit && r.Code != codes.ShareBorrow
	}) {
		return nil
	}
	d := v.decisionOn(Request{Subject: v.SubjectOf(j), Spec: j.Spec, Gate: Start, Job: j})
	bounds := d.shares(d.ask())
	if len(bounds) == 0 {
		return nil
	}
	b, by := bounds[0], v.Claimant(j)
	lacks := b.Asked - b.Room
	var of []placement.Victim
	for k, a := range v.Workload.Active.All() {
		has := limits.Ask{Demand: Held(a)}.Of(b.Share.Resource)
		if a.Spec.Partition != j.Spec.Partition || !slices.Contains(a.Path, b.Share.Account) {
			continue
		}
		if a.State == workload.Stopping && a.Attempt.Preempt.By == j.Row() {
			lacks -= has
			continue
		}
		if p, ok := by.Yields(k); ok && p.Loan {
			of = append(of, placement.Victim{Job: k, Frees: placement.Amounts{GPU: has}, Devices: Held(a).GPU, CPU: a.Spec.CPU, Ran: v.Now - a.Attempt.Assigned})
		}
	}
	set, _ := placement.Victims(placement.Amounts{GPU: max(0, lacks)}, of)
	var out []id.Job
	for _, victim := range set {
		out = append(out, victim.Job)
	}
	return out
}
