package command

import (
	"fmt"
	"slices"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// ended closes the current attempt: charges it, counts its hours, and either queues the job again
// or ends it. j is the command's own copy; b says what is known of its start.
func ended(w *world.World, at world.Context, j *workload.Job, b metering.Boundary, outcome codes.Outcome, message string, finished int64, exit int32) (world.Outcome, error) {
	if finished == 0 {
		finished = at.Now // it never began: no engine knows when it ended
	}
	p := w.Ledger.NewPosting(at.Seq, at.Now)
	j.Attempt.Ended, j.Attempt.Outcome, j.Attempt.ExitCode, j.Attempt.Seen = finished, outcome, exit, at.Now
	b.At, b.Limit = finished, j.Attempt.Until+j.Spec.Grace
	var money []ledger.Change
	var err error
	if cause, forgiven := metering.Forgiven(j.Attempt); forgiven {
		b.As = cause
		money = metering.Refund(p, &w.Ledger, j, cause)
	} else if money, err = metering.Post(p, &w.Catalog, j, at.Now); err != nil {
		return world.Outcome{}, err
	}
	use := append(append(used(w, at, j), spent(w, at, j)...), stepsEnd(w, at, j)...)
	if j.Again(outcome) {
		if j.Attempt.Preempt == (workload.Preemption{}) {
			j.Requeues++
		}
		j.OwnTime()
		j.LineUp(at.Now, j.Since())
		j.Message = fmt.Sprintf("attempt %d %s: %s again", j.Attempt.N, how(j.Attempt), j.State)
		if outcome == codes.Withdrawn && j.State == workload.Held {
			j.Message = fmt.Sprintf("%s: it couldn't begin %d times in a row", j.Attempt.Why, j.Withdrawn())
		}
		return moved(w, at, p, j, append(use, wrap(money)...), b, j.Message)
	}
	switch {
	case outcome == codes.Preempted:
		message = "by " + taker(j.Attempt.Preempt)
	case outcome == codes.OutOfCredit:
		message = j.Message
	case outcome == codes.Cancelled && message == "":
		message = j.Attempt.Idle.Why
	}
	if outlives(j) {
		if outcome == codes.Stopped {
			message = j.Message
		}
		return rests(w, at, p, j, append(use, wrap(money)...), b, outcome, exit, message)
	}
	j.State, j.Outcome, j.ExitCode, j.Ended = workload.Ended, outcome, exit, finished
	j.Message = message
	money = append(money, metering.Close(p, &w.Ledger, j)...)
	changes := append(append(use, wrap(money)...), over(w, at, p, j)...)
	return moved(w, at, p, j, changes, b, endMessage(outcome, message))
}

// finish ends a job that holds no allocation.
func finish(w *world.World, at world.Context, j *workload.Job, outcome codes.Outcome, message string) (world.Outcome, error) {
	switch {
	case j.Array != nil:
		return drop(w, at, j, nil, outcome, message)
	case j.Spec.Workspace() && outcome != codes.Cancelled:
		return rest(w, at, j, outcome, message), nil
	}
	p, withdrawn := w.Ledger.NewPosting(at.Seq, at.Now), unasked(w, at, j)
	j.State, j.Outcome, j.Message, j.Ended, j.ExitCode = workload.Ended, outcome, message, at.Now, 125
	if outcome == codes.Cancelled {
		j.ExitCode = 130
	}
	changes := append([]world.Change{workload.JobSet{Row: j}}, wrap(metering.Close(p, &w.Ledger, j))...)
	changes = append(append(changes, withdrawn...), over(w, at, p, j)...)
	return world.Outcome{Changes: changes, Result: j, Event: world.Event{Job: j.ID, Account: j.Account, State: string(j.State), Message: endMessage(outcome, message)}}, nil
}

// how says how an attempt ended.
func how(a workload.Attempt) string {
	switch {
	case a.Outcome == codes.Preempted:
		return "preempted by " + taker(a.Preempt)
	case a.Cause == codes.Withdrawn:
		return "couldn't begin, " + a.Why
	case a.Cause == codes.Requeued:
		return words(a.Cause)
	}
	return words(a.Outcome)
}

func taker(p workload.Preemption) string {
	if p.Loan {
		return fmt.Sprintf("job %d, whose account is guaranteed what it has borrowed", p.By)
	}
	return fmt.Sprintf("job %d of QoS %s", p.By, p.QoS)
}

func words(o codes.Outcome) string { return strings.ReplaceAll(string(o), "_", " ") }

func endMessage(o codes.Outcome, message string) string {
	if message == "" {
		return words(o)
	}
	return words(o) + ": " + message
}

// JobDue moves a job along its clock: a waiting one into the queue, or to its end when
// it can't start any more; a running one by the user's signal, SIGTERM at the limit or when
// a rolling deposit is used up, SIGKILL after the grace.
type JobDue struct{ Job id.Job }

// Kind is job.due.
func (JobDue) Kind() string { return "job.due" }

// Decide takes whatever step is due now.
func (c JobDue) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	old, ok := w.Workload.Jobs.Get(c.Job)
	if !ok || old.Due() == 0 || old.Due() > at.Now {
		return world.Outcome{Event: world.Event{Skip: true}}, nil
	}
	j := edit(old, at)
	a := &j.Attempt
	switch {
	case !workload.RulesOf(j.State).Running:
		return dueWaiting(w, at, j)
	case j.State == workload.Stopping:
		a.Kill = true
		return put(w, j, "grace is over: SIGKILL"), nil
	case at.Now >= a.Until:
		j.State, a.StopAt, a.Cause = workload.Stopping, at.Now, j.OutOfTime()
		j.Message = "its time is up"
		return put(w, j, "time is up: SIGTERM"), nil
	case a.Rolls() && at.Now >= a.Paid:
		return usedUp(w, at, j)
	}
	a.Signaled = true
	return put(w, j, "SIG"+j.Spec.Signal.Name+" before "+endOf(j)), nil
}

// endOf says what a job ends by as things stand.
func endOf(j *workload.Job) string {
	if j.End() < j.Attempt.Until {
		return "its deposit is used up"
	}
	return "the time is up"
}

// dueWaiting ends a waiting job that can't start any more, or puts it in line.
func dueWaiting(w *world.World, at world.Context, j *workload.Job) (world.Outcome, error) {
	if r, never := admission.NeverMet(j); never {
		out, err := finish(w, at, j, codes.Cancelled, r.Message)
		out.Event.Reasons = []fault.Reason{r}
		return out, err
	}
	if j.Array != nil && len(j.Array.Lost) > 0 {
		return drop(w, at, j, j.Array.Lost, codes.Cancelled, admission.Unfollowed(j))
	}
	if j.Expired(at.Now) {
		return finish(w, at, j, codes.Deadline, "it couldn't end by its deadline any more")
	}
	if j.LineUp(at.Now, j.Submitted); j.State == workload.Held {
		return world.Outcome{Event: world.Event{Skip: true}}, nil
	}
	j.Message = ""
	return put(w, j, "joined the queue"), nil
}

// Meter posts what running jobs have accrued so far.
type Meter struct{ Jobs []id.Job }

// Kind is meter.post.
func (Meter) Kind() string { return "meter.post" }

// Decide posts each job's accrual.
func (c Meter) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	p := w.Ledger.NewPosting(at.Seq, at.Now)
	var out []world.Change
	for _, k := range slices.Compact(slices.Sorted(slices.Values(c.Jobs))) {
		old, ok := w.Workload.Jobs.Get(k)
		if !ok || !workload.RulesOf(old.State).Charges || old.Attempt.Lost != 0 {
			continue
		}
		j := edit(old, at)
		money, err := metering.Post(p, &w.Catalog, j, at.Now)
		if err != nil {
			return world.Outcome{}, err
		}
		if len(money) > 0 {
			j.Attempt.Seen = at.Now
			out = append(append(out, workload.JobSet{Row: j}), wrap(money)...)
		}
	}
	return world.Outcome{Changes: out, Event: world.Event{Skip: len(out) == 0, Message: "accrued charges"}}, nil
}

// PromisesMade records the starts that the planner reserved.
type PromisesMade struct {
	Promises []Promised
}

// Promised is one job's reserved start; At 0 takes a promise back.
type Promised struct {
	Job id.Job
	At  int64
}

// Kind is plan.promises.
func (PromisesMade) Kind() string { return "plan.promises" }

// Decide puts what differs.
func (c PromisesMade) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	var out []world.Change
	for _, p := range c.Promises {
		old, ok := w.Workload.Jobs.Get(p.Job)
		if !ok || old.State != workload.Queued || old.Promise == p.At {
			continue
		}
		j := edit(old, at)
		j.Seq, j.Promise = old.Seq, p.At
		out = append(out, workload.JobSet{Row: j})
	}
	return world.Outcome{Changes: out, Event: world.Event{Skip: len(out) == 0, Message: "starts promised"}}, nil
}
