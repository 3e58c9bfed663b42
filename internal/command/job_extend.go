package command

import (
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// JobExtend gives a running job a longer time limit.
type JobExtend struct {
	Job  id.Job
	Time int64 // ns; the limit from its start on, more than it has
}

// Kind is job.extend.
func (JobExtend) Kind() string { return "job.extend" }

// Decide moves the limit, and sets aside what the longer time costs. It is for operators: it may
// be longer than partition and QoS allow, and others wait for it. What is reserved, windows of
// maintenance, and bounds on hours and credits hold.
func (c JobExtend) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := readable(w, at, c.Job)
	switch {
	case err != nil:
		return world.Outcome{}, err
	case !w.Can(at.Principal, access.JobRaise, old.User, old.Account):
		return world.Outcome{}, fault.New(codes.Denied, "only an operator may extend a job's time limit: croft request wall asks for it")
	}
	if err := extensible(old, c.Time); err != nil {
		return world.Outcome{}, err
	}
	j := edit(old, at)
	if j.Prolong(c.Time, at.Now); j.Attempt.Until <= old.Attempt.Until {
		return world.Outcome{}, fault.New(codes.Conflict, "job %s has a deadline, %s: a longer limit changes nothing", j.Name(), moment(j.Spec.Deadline))
	}
	v, err := w.View(at.Now).Extend(old, j)
	if err != nil {
		return world.Outcome{}, err
	}
	if len(v.Reasons) > 0 {
		f := fault.New(codes.Conflict, "job %s can't have so long: %s", j.Name(), v.Reasons[0].Message)
		f.Reasons = v.Reasons
		return world.Outcome{}, f
	}
	p := w.Ledger.NewPosting(at.Seq, at.Now)
	changes := wrap(metering.SetAside(p, j, v.Deposit))
	j.Attempt.Reserved = limits.Seconds(j.Spec.Time + j.Spec.Grace)
	changes = append(changes, wrap(w.Limits.Settle(world.WhoOf(j), world.AskOf(j).Demand, j.Attempt.Assigned, old.Attempt.Reserved, j.Attempt.Reserved))...)
	text := fmt.Sprintf("time limit of %s instead of %s, by %s", quantity.FormatDuration(j.Spec.Time), quantity.FormatDuration(old.Spec.Time), at.Principal.Signature())
	out := put(w, j, text)
	out.Changes = append(out.Changes, changes...)
	return out, nil
}

// readable is a job that the caller may read. One that has ended may be known no more.
func readable(w *world.World, at world.Context, k id.Job) (*workload.Job, error) {
	j, ok := w.Workload.Jobs.Get(k)
	if !ok || !w.Can(at.Principal, access.JobRead, j.User, j.Account) {
		return nil, fault.New(codes.NotFound, "no such job: %s", k.Name())
	}
	return j, nil
}

// extensible refuses another time limit for a job that doesn't run, and what is no longer limit.
func extensible(j *workload.Job, time int64) error {
	switch a := j.Attempt; {
	case j.State == workload.Ended:
		return fault.New(codes.Conflict, "job %s has ended", j.Name())
	case j.Array != nil:
		return fault.New(codes.Conflict, "job %s is an array: name one of its elements, as %s_0", j.Name(), j.Name())
	case j.State == workload.Stopping:
		return fault.New(codes.Conflict, "job %s is being stopped already", j.Name())
	case j.State != workload.Running || a.Started == 0:
		return fault.New(codes.Conflict, "job %s is %s: only the time limit of one that runs is extended", j.Name(), j.State)
	case time <= j.Spec.Time:
		return fault.Invalid("time", "must be more than the %s that job %s has", quantity.FormatDuration(j.Spec.Time), j.Name())
	case time > workload.MaxTime:
		return fault.Invalid("time", "must be at most %s", quantity.FormatDuration(workload.MaxTime))
	}
	return nil
}
