package command

import (
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// JobTopUp renews the rolling deposit of a running job, or warns its user that it can't be
// renewed.
type JobTopUp struct {
	Job id.Job
	N   int32
}

// Kind is job.top_up.
func (JobTopUp) Kind() string { return "job.top_up" }

// Decide charges what has accrued, and sets aside what pays for a window from now on or, if
// there isn't as much, what there is. One whose user was told waits for money, which may come
// before the deposit is used up.
func (c JobTopUp) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	old, ok := w.Workload.Active.Get(c.Job)
	if !ok || old.Attempt.N != c.N {
		return skip, nil
	}
	view := w.View(at.Now)
	t, due, err := topUpDue(view, old)
	if err != nil || !due {
		return skip, err
	}
	return toppedUp(w, at, edit(old, at), t)
}

// TopUpDue reports whether there is something to renew or to warn of for a running job: what
// JobTopUp would do.
func TopUpDue(view admission.View, j *workload.Job) bool {
	_, due, err := topUpDue(view, j)
	return due && err == nil
}

func topUpDue(view admission.View, j *workload.Job) (admission.TopUp, bool, error) {
	a := j.Attempt
	if j.State != workload.Running || a.Started == 0 || !a.Rolls() || view.Now < j.RenewAt(view.Rolling) {
		return admission.TopUp{}, false, nil
	}
	t, err := view.TopUp(j)
	return t, t.Paid > a.Paid || t.Short != nil && a.Short == 0, err
}

// toppedUp is a job whose deposit grows by t, or whose user is told that it doesn't. j is the
// command's own copy.
func toppedUp(w *world.World, at world.Context, j *workload.Job, t admission.TopUp) (world.Outcome, error) {
	p := w.Ledger.NewPosting(at.Seq, at.Now)
	var charges []ledger.Change
	if j.Attempt.Lost == 0 {
		var err error
		if charges, err = metering.Post(p, &w.Catalog, j, at.Now); err != nil {
			return world.Outcome{}, err
		}
		j.Attempt.Seen = at.Now
	}
	changes := wrap(append(charges, metering.SetAside(p, j, t.Deposit)...))
	a := &j.Attempt
	a.Paid = t.Paid
	var sum string
	for _, part := range t.Deposit {
		sum = fmt.Sprintf("%s%s of %s", before(sum, ", "), part.Amount, part.Source)
	}
	text := fmt.Sprintf("its deposit is renewed up to %s: %s", moment(a.Paid), or(sum, "nothing is to be set aside"))
	var reasons []fault.Reason
	switch {
	case t.Short == nil && a.Short != 0:
		a.Short, a.Signaled, j.Message = 0, false, "" // it goes on
	case t.Short != nil:
		if a.Short == 0 {
			a.Short = at.Now
		}
		j.Message = fmt.Sprintf("its money ends: it is stopped in %s, at %s, unless some comes: %s", quantity.FormatDuration(max(a.Paid-at.Now, 0)/second*second), moment(a.Paid), t.Short.Message)
		text, reasons = j.Message, []fault.Reason{*t.Short}
	}
	out := put(w, j, text)
	out.Changes = append(out.Changes, changes...)
	out.Event.Reasons = reasons
	return out, nil
}

// before is s with what parts it from what follows; nothing has nothing.
func before(s, sep string) string {
	if s == "" {
		return ""
	}
	return s + sep
}

// usedUp stops a job whose rolling deposit is used up, unless it can be renewed at the last
// moment. What is left is its grace. j is the command's own copy.
func usedUp(w *world.World, at world.Context, j *workload.Job) (world.Outcome, error) {
	t, err := w.View(at.Now).TopUp(j)
	if err != nil {
		return world.Outcome{}, err
	}
	if t.Short == nil || t.Paid > at.Now {
		return toppedUp(w, at, j, t)
	}
	a := &j.Attempt
	j.State, a.StopAt, a.Cause = workload.Stopping, at.Now, codes.OutOfCredit
	j.Message = t.Short.Message
	out := put(w, j, "its deposit is used up: SIGTERM: "+j.Message)
	out.Event.Reasons = []fault.Reason{*t.Short}
	return out, nil
}
