package command

import (
	"cmp"
	"fmt"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// wholeCost is what a job may come to by its own wish: all of its time, for all elements, and
// that again for each time that it is queued again when its time is up.
func wholeCost(v admission.Verdict, spec workload.Spec) (money.Micros, error) {
	runs := int64(1)
	if slices.Contains(spec.Requeue, "timeout") {
		runs += int64(cmp.Or(spec.Requeues, workload.MaxRequeues))
	}
	cost, err := v.Cost.Times(runs)
	if err != nil {
		return 0, fault.New(codes.Invalid, "the price of this request is too large to compute: ask for less")
	}
	return cost.Total, nil
}

// asks accepts a job that waits for its user's approval, and makes the request for it. Nothing
// is set aside before.
func asks(w *world.World, at world.Context, req admission.Request, v admission.Verdict, cost money.Micros, err error) (world.Outcome, error) {
	if err != nil {
		return world.Outcome{}, err
	}
	j := accepted(w, at, req, v)
	r := approval.Request{
		ID: w.Approvals.Next(), User: j.User, Token: tenancy.ByToken{ID: j.Token.ID, Name: j.Token.Name}, Kind: approval.KindJob, Account: j.Account,
		Wish:  approval.Wish{Job: &approval.Job{Job: j.ID, Title: j.Spec.Name, Cost: cost, Above: max(j.Token.Caps.Ask, 0)}},
		State: approval.Open, Created: at.Now, Expires: at.Now + approval.DefaultLife,
	}
	if err := another(w, at, r); err != nil {
		return world.Outcome{}, err
	}
	j.Hold = workload.HeldToAsk
	j.Message = fmt.Sprintf("held until %s approves request %d: it may cost %s, and token %s asks above %s", req.Subject.User.Name, r.ID, cost, j.Token, r.Wish.Job.Above)
	j.LineUp(at.Now, at.Now)
	v.Deposit, v.Demand.Job = nil, j.ID
	out := submitted(at, j, v, []world.Change{approval.RequestSet{Row: r}})
	out.Event.Message = j.Message
	return out, nil
}

// againAsks refuses a token to have a job run once more for which it would have to ask: that is
// for its user himself.
func againAsks(w *world.World, at world.Context, j *workload.Job, spec workload.Spec) error {
	t, _ := w.Tenancy.Tokens.Get(id.Token(at.Principal.Narrow.Token))
	if t.Caps.Ask == 0 {
		return nil
	}
	next := *j
	next.Spec = spec
	v, err := w.View(at.Now).Deposit(&next)
	if err != nil {
		return err
	}
	cost, err := wholeCost(v, spec)
	if err != nil || !t.Caps.Asks(cost) {
		return err
	}
	return fault.New(codes.Denied, "job %s may cost %s once more, and token %s asks above %s: its user has it run again himself", j.Name(), cost, t.By(), max(t.Caps.Ask, 0))
}

// approvedFor sets aside what a job needs today that waits for approval, and lets it join the queue.
func (c JobRelease) approvedFor(w *world.World, at world.Context) (world.Outcome, error) {
	old, ok := w.Workload.Jobs.Get(c.Job)
	if !ok || old.Hold != workload.HeldToAsk {
		return world.Outcome{}, fault.New(codes.Conflict, "job %d doesn't wait for it any more", c.Job)
	}
	v, err := w.View(at.Now).Deposit(old)
	if err != nil {
		return world.Outcome{}, err
	}
	switch cost, err := wholeCost(v, old.Spec); {
	case err != nil:
		return world.Outcome{}, err
	case cost > c.approved.Cost:
		return world.Outcome{}, fault.New(codes.Conflict, "job %d may cost %s by now, the request says %s: have it submitted again", c.Job, cost, c.approved.Cost)
	case len(v.Reasons) > 0:
		f := fault.New(codes.Conflict, "job %d can't be run: %s", c.Job, v.Reasons[0].Message)
		f.Reasons = v.Reasons
		return world.Outcome{}, f
	}
	j := edit(old, at)
	j.Hold, j.Message = workload.NoHold, "approved by "+at.Principal.Signature()
	if j.Spec.Hold {
		j.Hold = workload.HeldByUser
	}
	j.LineUp(at.Now, at.Now)
	money := metering.SetAside(w.Ledger.NewPosting(at.Seq, at.Now), j, v.Deposit)
	out := put(w, j, j.Message)
	out.Changes = append(out.Changes, wrap(money)...)
	return out, nil
}

// refused ends a job whose request is closed without an approval, and has out as the outcome of
// that.
func refused(w *world.World, at world.Context, r approval.Request, out world.Outcome) (world.Outcome, error) {
	if r.Kind != approval.KindJob {
		return out, nil
	}
	old, ok := w.Workload.Jobs.Get(r.Wish.Job.Job)
	if !ok || old.Hold != workload.HeldToAsk {
		return out, nil
	}
	end, err := finish(w, at, edit(old, at), codes.Cancelled, fmt.Sprintf("request %d is %s", r.ID, r.State))
	if err != nil {
		return world.Outcome{}, err
	}
	end.Changes = slices.DeleteFunc(end.Changes, func(c world.Change) bool { _, its := c.(approval.RequestSet); return its })
	out.Changes, out.Event.Job = append(end.Changes, out.Changes...), old.ID
	return out, nil
}

// unasked withdraws the request of a job that ends or rests before it is approved. j is the
// command's own copy.
func unasked(w *world.World, at world.Context, j *workload.Job) []world.Change {
	if j.Hold != workload.HeldToAsk {
		return nil
	}
	j.Hold = workload.NoHold
	for r := range w.Approvals.Opened() {
		if r.Kind == approval.KindJob && r.Wish.Job.Job == j.ID {
			return []world.Change{approval.RequestSet{Row: r.Close(approval.Withdrawn, id.User(at.Principal.User), "", at.Now)}}
		}
	}
	return nil
}
