package admission

import (
	"slices"

	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Eligible reports whether nothing but resources keeps a waiting job from
// starting: limits and funds have room for it.
func (v View) Eligible(j *workload.Job) bool {
	kept, err := v.Kept(j)
	return err == nil && len(kept) == 0
}

// Kept is what other than resources keeps a waiting job from starting.
func (v View) Kept(j *workload.Job) ([]fault.Reason, error) {
	d := v.keeping(j)
	d.standing()
	d.offer()
	d.own()
	d.memory()
	d.bounds()
	if len(d.out.Reasons) > 0 {
		return d.out.Reasons, nil
	}
	err := d.price()
	return d.out.Reasons, err
}

// keeping is a decision about whether a waiting job may start, as far as resources have
// no say in it.
func (v View) keeping(j *workload.Job) decision {
	return v.decisionOn(Request{Subject: v.SubjectOf(j), Spec: j.Spec, Gate: Start, Job: j})
}

// own is what is to be said of a job by itself, and not of all of its kind.
func (d *decision) own() {
	d.inTime()
	d.inLine()
}

// Keeper says what Kept says, of many jobs of one view that stays as it is. What is the
// same for all jobs of a kind is decided once for each kind.
type Keeper struct {
	view  View
	kinds map[kind]keep
}

// Keeper returns a Keeper for v.
func (v View) Keeper() *Keeper { return &Keeper{v, map[kind]keep{}} }

// kind is all that Kept looks at of a job, but for its path, for what own is about, and
// for the money that is set aside for it.
type kind struct {
	user           id.User
	account        id.Account
	in             id.Reservation
	partition, qos string
	reservation    string
	shape          placement.Shape
	billing        string
	factor         int64
	deposit        string
	token          tenancy.ByToken
}

func kindOf(j *workload.Job) kind {
	return kind{
		user: j.User, account: j.Account, in: j.In, partition: j.Spec.Partition, qos: j.Spec.QoS, reservation: j.Spec.Reservation,
		shape: placement.ShapeOf(j.Demand()), billing: j.Billing, factor: j.Factor, deposit: j.Spec.Deposit, token: j.Token,
	}
}

// keep is what keeps the jobs of a kind whose account has this path.
type keep struct {
	path   []id.Account
	before []fault.Reason // what is said before what a job's own is
	bounds []fault.Reason // and after that
	cost   money.Micros   // the deposit of one that isn't kept by those
	priced bool           // that is all there is to say: the deposit is known, or nothing is charged
}

// Kept is what other than resources keeps a waiting job from starting.
func (k *Keeper) Kept(j *workload.Job) ([]fault.Reason, error) {
	name := kindOf(j)
	of, known := k.kinds[name]
	if !known {
		of = k.view.keep(j)
		k.kinds[name] = of
	}
	// The account was moved while jobs waited, or a deposit has to be found.
	if !slices.Equal(of.path, j.Path) || !of.priced || of.cost > aside(j) {
		return k.view.Kept(j)
	}
	d := decision{View: k.view, Request: Request{Spec: j.Spec, Gate: Start, Job: j}}
	d.own()
	return slices.Concat(of.before, d.out.Reasons, of.bounds), nil
}

// keep decides what is the same for all jobs of j's kind.
func (v View) keep(j *workload.Job) keep {
	d := v.keeping(j)
	d.standing()
	d.offer()
	before := len(d.out.Reasons)
	d.memory()
	d.bounds()
	of := keep{path: j.Path, before: d.out.Reasons[:before], bounds: d.out.Reasons[before:], priced: true}
	if len(d.out.Reasons) == 0 && d.billing() != tenancy.BillingOff {
		err := d.price()
		of.cost, of.priced = d.out.Need, err == nil && len(d.out.Reasons) == 0
	}
	return of
}
