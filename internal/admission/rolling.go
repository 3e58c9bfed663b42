package admission

import (
	"fmt"
	"math"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

const hour = int64(3600e9)

// DefRolling is a rolling deposit's window where the site says none, in ns.
const DefRolling = hour

// rolling prices the first window of a rolling deposit, and an hour. What is set aside for
// any other job is the whole cost.
func (d *decision) rolling(book catalog.Book) error {
	d.out.Need = d.out.Cost.Total
	if !d.Spec.Rolling() {
		return nil
	}
	for _, p := range []struct {
		span int64
		into *money.Micros
	}{{d.Spec.Ahead(d.Rolling) + d.Spec.Grace, &d.out.Need}, {hour, &d.out.Hour}} {
		cost, err := book.Cost(d.out.Use, d.factor(), d.Now, d.Now+p.span)
		if err == nil {
			cost, err = cost.Times(d.jobs())
		}
		if err != nil {
			return err
		}
		*p.into = cost.Total
	}
	return nil
}

// TopUp is how a running job's rolling deposit is renewed: for a window from now on, or for
// as long as there is money.
type TopUp struct {
	Deposit []ledger.Part // to be set aside
	Paid    int64         // ns; up to then it pays, and the grace after it
	Short   *fault.Reason // what keeps it from a whole window; nil: nothing
}

// leastTopUp is for how long, in ns, there must be money for less than a window to be set aside.
const leastTopUp = int64(1e9)

// TopUp decides on the rolling deposit of a job that runs. It may grow as it may be made:
// by what the account has, and what caps leave its user, all at once. Where money doesn't
// decide it always may, since nothing is stopped there for want of it. An error is money that
// doesn't fit an int64.
func (v View) TopUp(j *workload.Job) (TopUp, error) {
	a := j.Attempt
	out := TopUp{Paid: a.Paid}
	to := min(max(v.Now, a.Started)+v.Rolling, a.Until)
	if to <= a.Paid {
		return out, nil
	}
	need, err := v.lacking(j, to)
	if err != nil {
		return out, err
	}
	if need <= 0 {
		out.Paid = to
		return out, nil
	}
	d := v.decisionOn(Request{Subject: v.SubjectOf(j), Spec: j.Spec, Gate: Start, Job: j})
	sources, unfunded, take := d.going(need, "the next "+span(d.Rolling))
	if take < need {
		out.Short = &d.out.Reasons[0]
		paid := v.lasts(j, a.Posted+aside(j)+take)
		if paid < a.Paid+leastTopUp {
			return out, nil
		}
		out.Paid = min(paid, to)
	} else {
		out.Paid = to
	}
	out.Deposit, _ = ledger.Split(sources, take, unfunded)
	return out, nil
}

// lacking is what a running job's deposit lacks to pay up to a time, and the grace after it.
func (v View) lacking(j *workload.Job, to int64) (money.Micros, error) {
	whole, err := v.untilGrace(j, to)
	return whole - j.Attempt.Posted - aside(j), err
}

// funds are the sources for so much more, with how much of it may be set aside. what is it for,
// in words.
func (d *decision) funds(need money.Micros, what string) (sources []ledger.Source, unfunded ledger.Account, take money.Micros) {
	sources = d.sources()
	if d.billing() == tenancy.BillingShowback {
		return sources, ledger.Unfunded(d.Job.Account), need
	}
	return sources, "", d.within(need, ledger.Available(sources), what)
}

// sources are what pays for the request, in the order in which it does. An overdraft pays for
// the jobs of its own account alone, and only where money decides: else nothing is owed.
func (d *decision) sources() []ledger.Source {
	var over ledger.Overdraft
	if a := d.Subject.Account; d.billing() == tenancy.BillingEnforce {
		over = ledger.Overdraft{Account: a.ID, Bound: a.MayOverdraw()}
	}
	return d.Ledger.Funds(d.path, d.Now, over)
}

// going are the funds for what goes on. Where its account drains, what its grants lack is owed;
// caps hold there too.
func (d *decision) going(need money.Micros, what string) (sources []ledger.Source, unfunded ledger.Account, take money.Micros) {
	if !d.drains() {
		return d.funds(need, what)
	}
	return d.Ledger.Sources(d.path, d.Now), ledger.Unfunded(d.Job.Account), d.within(need, need, what)
}

// drains reports whether a job that runs goes on without credits.
func (d *decision) drains() bool {
	return d.billing() == tenancy.BillingEnforce && d.Subject.Account.Drains()
}

// within is how much of what is needed may be set aside; where that isn't all it says why,
// the tightest first.
func (d *decision) within(need, have money.Micros, what string) money.Micros {
	take := min(need, have)
	if have < need {
		name := d.Subject.Account.Name
		d.refuse(fault.Reason{
			Code: codes.Funds, Observed: need.String(), Bound: have.String(), Scope: "account " + name,
			Message: fmt.Sprintf("account %s has %s left, %s more are to be set aside for %s: %s are missing, which an admin can give: croft grant add %s %s --source NAME",
				name, have, need, what, need-have, name, need-have),
		})
	}
	for _, b := range d.Limits.Caps(d.who(), d.Now) {
		b = d.Charged(b)
		left := money.Micros(max(b.Left(), 0))
		if left >= need {
			continue
		}
		r := d.violation(limits.Violation{Bound: b, Asked: int64(need)})
		if left < take {
			take = left
			d.out.Reasons = append([]fault.Reason{r}, d.out.Reasons...)
		} else {
			d.refuse(r)
		}
	}
	return max(take, 0)
}

// Covered is up to when the deposit of an attempt that has begun pays, and the grace after
// it, in ns; 0: it isn't a rolling one. Prices may have risen since it was set aside.
func (v View) Covered(j *workload.Job) (int64, error) {
	a := j.Attempt
	if a.Paid == 0 {
		return 0, nil
	}
	to := min(a.Started+j.Spec.Ahead(v.Rolling), a.Until)
	cost, err := v.untilGrace(j, to)
	if err != nil || cost <= a.Posted+aside(j) {
		return to, err
	}
	return max(v.lasts(j, a.Posted+aside(j)), a.Started), nil
}

// untilGrace is what an attempt costs from its start to a time and the grace after it.
func (v View) untilGrace(j *workload.Job, to int64) (money.Micros, error) {
	cost, err := v.bookOf(j).Cost(metering.UseOf(j, j.Attempt), j.Factor, j.Attempt.Started, to+j.Spec.Grace)
	return cost.Total, err
}

// lasts is up to when so much in all pays for an attempt, and the grace after it, in ns.
func (v View) lasts(j *workload.Job, funds money.Micros) int64 {
	long := v.bookOf(j).Affordable(metering.UseOf(j, j.Attempt), j.Factor, j.Attempt.Started, funds)
	if long > math.MaxInt64-j.Attempt.Started {
		return j.Attempt.Until
	}
	return min(j.Attempt.Started+long-j.Spec.Grace, j.Attempt.Until)
}

func (v View) bookOf(j *workload.Job) catalog.Book {
	return v.Catalog.Book(j.Spec.Partition, j.Attempt.Book)
}
