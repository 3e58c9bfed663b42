package admission

import (
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Extension is what more time for a running job takes.
type Extension struct {
	Deposit []ledger.Part  // to be set aside
	Reasons []fault.Reason // against it; none: it may be
}

// Extend decides on more time for a job that runs: was is the job as it is, and j as it is to
// be. It keeps its place only where nobody has booked it and no maintenance is planned, and its
// hours and credits count as if it asked for them anew. A rolling deposit is renewed as before.
// An error is money that doesn't fit an int64.
func (v View) Extend(was, j *workload.Job) (Extension, error) {
	var out Extension
	d := v.decisionOn(Request{Subject: v.SubjectOf(j), Spec: j.Spec, Gate: Start, Job: j})
	beside := v.Placement.Copy()
	beside.Release(j.ID)
	sh := d.shape
	sh.Wall = j.Attempt.Until - v.Now
	for _, m := range beside.Check(sh, spotOf(&beside, sh, j.Attempt), v.Now) {
		d.refuse(d.misfit(m))
	}
	more := d.ask()
	more.Wall, more.Grace = j.Attempt.Until-was.Attempt.Until, 0
	for _, b := range d.Limits.Check(d.who(), more) {
		if b.Limit.Resource.Hours() {
			d.refuse(d.violation(b))
		}
	}
	if j.Attempt.Paid == 0 && d.billing() != tenancy.BillingOff {
		need, err := v.lacking(j, j.Attempt.Until)
		if err != nil {
			return out, fault.Invalid("time", "the price of so long is too large to compute")
		}
		sources, unfunded, take := d.funds(max(need, 0), "the longer time")
		out.Deposit, _ = ledger.Split(sources, take, unfunded)
	}
	if have := ledger.Available(d.Ledger.Sources(d.path, d.Now)); j.Attempt.Paid != 0 && d.drains() && have <= 0 {
		name := d.Subject.Account.Name
		d.refuse(fault.Reason{
			Code: codes.Funds, Field: "time", Bound: have.String(), Scope: "account " + name,
			Message: "account " + name + " has no credits left: what runs in it goes on to its time limit, and gets no more time",
		})
	}
	out.Reasons = d.out.Reasons
	return out, nil
}

// Deposit prices a job that was accepted before nothing was set aside for it, and says what is to
// be, and what is against that. Whatever else is checked is checked when it starts.
func (v View) Deposit(j *workload.Job) (Verdict, error) {
	d := v.decisionOn(Request{Subject: v.SubjectOf(j), Spec: j.Spec, Array: j.Array, Gate: Accept, Job: j})
	d.standing()
	d.memory()
	d.narrow()
	err := d.price()
	return d.out, err
}

// spotOf is the place that an attempt has.
func spotOf(s *placement.State, sh placement.Shape, a workload.Attempt) placement.Spot {
	var spots []placement.Spot
	for _, r := range a.Ranks() {
		on := placement.Spot{Node: r.Node}
		for _, uuid := range r.Devices {
			if d, ok := s.Devices.Get(uuid); ok {
				on.Devices, on.Part = append(on.Devices, d), sh.PartOn(d.Model)
			}
		}
		spots = append(spots, on)
	}
	out := spots[0]
	out.Others = slices.Clone(spots[1:])
	return out
}
