package workload

// What is set aside for a job ahead of its use.
const (
	DepositFull    = "full"    // the price of all of its time, and its grace
	DepositRolling = "rolling" // that of a window, renewed while it runs, and its grace
)

// Rolling reports whether the job's deposit is a rolling one.
func (s Spec) Rolling() bool { return s.Deposit == DepositRolling }

// Ahead is for how much of a run the deposit pays at once, in ns, without the grace: all of
// it, or of a rolling one a window.
func (s Spec) Ahead(window int64) int64 {
	if !s.Rolling() {
		return s.Time
	}
	return min(s.Time, window)
}

// Rolls reports whether the attempt has a deposit that doesn't pay for all of its time yet.
func (a Attempt) Rolls() bool { return a.Paid != 0 && a.Paid < a.Until }

// RenewAt is when a rolling deposit is first tried to be renewed, in ns: a quarter of a
// window before it is used up, and earlier by as much as the job wants to be told ahead.
func (j *Job) RenewAt(window int64) int64 {
	return j.Attempt.Paid - min(window, window/4+j.Spec.Signal.Before)
}

// End is when the attempt is told to end as things stand, in ns: at its limit, or where its
// deposit couldn't be renewed, when that is used up.
func (j *Job) End() int64 {
	if a := j.Attempt; a.Rolls() && a.Short != 0 {
		return a.Paid
	}
	return j.Attempt.Until
}

// paidEnd is until when there is money for the attempt before its grace, in ns.
func (a Attempt) paidEnd() int64 {
	if a.Rolls() {
		return a.Paid
	}
	return a.Until
}
