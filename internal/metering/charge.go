// Package metering turns time into money: it says which span of an attempt its
// user pays for, posts what has accrued, and tiles every device's timeline so that
// each device-second has exactly one payer.
package metering

import (
	"math"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Billable is the span of an attempt that its user pays for, up to now: from the
// primary's start to its end, at most limit and grace. It is empty for an attempt
// that never started or that the platform pays for.
func Billable(a workload.Attempt, grace, now int64) (from, to int64) {
	if _, forgiven := Forgiven(a); a.Started == 0 || forgiven {
		return a.Started, a.Started
	}
	to = now
	if a.Ended != 0 {
		to = a.Ended
	}
	to = min(to, a.Until+grace)
	return a.Started, max(to, a.Started)
}

// PlatformFault reports whether the attempt's time was lost by the platform.
func PlatformFault(a workload.Attempt) bool { return a.Outcome == codes.NodeFailed }

// Forgiven reports whether the platform pays for all of an attempt that is over,
// and as what waste: it lost the attempt, or took it away on terms that give back
// what it cost.
func Forgiven(a workload.Attempt) (ledger.Cause, bool) {
	switch {
	case PlatformFault(a):
		return ledger.CauseDown, true
	case a.Outcome != "" && a.Preempt.Refund:
		return ledger.CausePreempted, true
	}
	return "", false
}

// Counted is what the current attempt of j counts for fair share: the time that its
// user pays for, whatever he pays.
func Counted(j *workload.Job) fairshare.Run {
	from, to := Billable(j.Attempt, j.Spec.Grace, math.MaxInt64)
	return fairshare.Run{Rate: j.Attempt.Rate, From: from, Until: to}
}

// UseOf is what an attempt is charged for.
func UseOf(j *workload.Job, a workload.Attempt) catalog.Use {
	t := j.TermsOf(a)
	return catalog.Use{CPU: t.CPU, Mem: t.Mem, Devices: a.Models}
}

// Accrued is what attempt a of j has cost its user up to now.
func Accrued(cat *catalog.State, j *workload.Job, a workload.Attempt, now int64) (catalog.Cost, error) {
	t := j.TermsOf(a)
	from, to := Billable(a, t.Grace, now)
	if t.Billing == string(tenancy.BillingOff) {
		return catalog.Cost{}, nil
	}
	return cat.Book(t.Partition, a.Book).Cost(UseOf(j, a), t.Factor, from, to)
}

// Receipt sums what all attempts of j have cost up to now, by line.
func Receipt(cat *catalog.State, j *workload.Job, now int64) (catalog.Cost, error) {
	var sum catalog.Cost
	for _, a := range append(slices.Clone(j.Past), j.Attempt) {
		c, err := Accrued(cat, j, a, now)
		if err != nil {
			return sum, err
		}
		for _, l := range c.Lines {
			i := slices.IndexFunc(sum.Lines, func(k catalog.CostLine) bool { return k.Resource == l.Resource && k.Model == l.Model })
			if i < 0 {
				sum.Lines = append(sum.Lines, l)
			} else {
				sum.Lines[i].Micros += l.Micros
			}
		}
		if sum.Total, err = sum.Total.Add(c.Total); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func payer(j *workload.Job) ledger.Payer {
	return ledger.Payer{Job: j.ID, Attempt: j.Attempt.N, Account: j.Account, User: j.User, Token: j.Token.ID}
}

func parts(j *workload.Job) []ledger.Part {
	var out []ledger.Part
	for _, s := range j.Sources {
		out = append(out, ledger.Part{Source: ledger.Account(s.Source), Amount: s.Left})
	}
	return out
}

// SetAside adds parts to j's deposit. j is the caller's own copy.
func SetAside(p *ledger.Posting, j *workload.Job, add []ledger.Part) []ledger.Change {
	j.Sources = slices.Clone(j.Sources)
	for _, part := range add {
		j.Deposit += part.Amount
		i := slices.IndexFunc(j.Sources, func(s workload.Part) bool { return s.Source == string(part.Source) })
		if i < 0 {
			j.Sources = append(j.Sources, workload.Part{Source: string(part.Source), Left: part.Amount})
		} else {
			j.Sources[i].Left += part.Amount
		}
	}
	return p.Deposit(add, payer(j))
}

// Left is what is still set aside for j.
func Left(j *workload.Job) money.Micros {
	var sum money.Micros
	for _, s := range j.Sources {
		sum += s.Left
	}
	return sum
}

// Post charges what the current attempt of j has accrued up to now and isn't
// posted yet. What the deposit lacks is posted as the platform's loss, once: when
// the attempt has ended. j is the caller's own copy.
func Post(p *ledger.Posting, cat *catalog.State, j *workload.Job, now int64) ([]ledger.Change, error) {
	cost, err := Accrued(cat, j, j.Attempt, now)
	if err != nil {
		return nil, err
	}
	due := cost.Total - j.Attempt.Posted
	if due < 0 {
		return correct(p, j, -due), nil
	}
	if due == 0 {
		return nil, nil
	}
	out, left, over := p.Charge(parts(j), due, payer(j))
	j.Sources = slices.Clone(j.Sources)
	for i := range j.Sources {
		j.Sources[i].Paid += j.Sources[i].Left - left[i].Amount
		j.Sources[i].Left = left[i].Amount
	}
	j.Attempt.Posted += due - over
	j.Charged += due - over
	if j.Attempt.Ended != 0 {
		out = append(out, p.Lost(ledger.CauseEnding, over, payer(j))...)
	}
	return out, nil
}

// correct takes back what was posted beyond the attempt's real end.
func correct(p *ledger.Posting, j *workload.Job, amount money.Micros) []ledger.Change {
	var paid []ledger.Part
	for _, s := range j.Sources {
		paid = append(paid, ledger.Part{Source: ledger.Account(s.Source), Amount: s.Paid})
	}
	out, back := p.Correct(paid, amount, payer(j))
	j.Sources = slices.Clone(j.Sources)
	for i, b := range back {
		j.Sources[i].Paid -= b.Amount
		j.Sources[i].Left += b.Amount
	}
	j.Attempt.Posted -= amount
	j.Charged -= amount
	return out
}

// Refund gives back what the current attempt was charged.
func Refund(p *ledger.Posting, led *ledger.State, j *workload.Job, cause ledger.Cause) []ledger.Change {
	var back []ledger.Part
	j.Sources = slices.Clone(j.Sources)
	for i, s := range j.Sources {
		back = append(back, ledger.Part{Source: ledger.Account(s.Source), Amount: s.Paid})
		j.Sources[i].Paid = 0
	}
	j.Refunded += j.Attempt.Posted
	j.Charged -= j.Attempt.Posted
	j.Attempt.Posted = 0
	return p.Refund(led, back, cause, payer(j))
}

// Hand gives an element that starts its share of its array's deposit. Both are the
// caller's own copies.
func Hand(p *ledger.Posting, array, e *workload.Job) []ledger.Change {
	array.Take(e.Sources)
	moved := *array.Array
	moved.Moved += Left(e)
	array.Array = &moved
	return p.Hand(parts(e), payer(array), payer(e))
}

// GiveBack returns a share of j's deposit.
func GiveBack(p *ledger.Posting, led *ledger.State, j *workload.Job, share []workload.Part) []ledger.Change {
	part := *j
	part.Sources = share
	out := p.Return(led, parts(&part), payer(j))
	j.Take(share)
	j.Returned += Left(&part)
	return out
}

// Close returns what is left of j's deposit.
func Close(p *ledger.Posting, led *ledger.State, j *workload.Job) []ledger.Change {
	out := p.Return(led, parts(j), payer(j))
	j.Returned += Left(j)
	j.Sources = slices.Clone(j.Sources)
	for i := range j.Sources {
		j.Sources[i].Left = 0
	}
	return out
}

// NewAttempt forgets what the parts paid for the attempt before.
func NewAttempt(j *workload.Job) {
	j.Sources = slices.Clone(j.Sources)
	for i := range j.Sources {
		j.Sources[i].Paid = 0
	}
}
