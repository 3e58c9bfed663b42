package command

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// JobHold keeps a waiting job from starting until it is released.
type JobHold struct{ Job id.Job }

// Kind is job.hold.
func (JobHold) Kind() string { return "job.hold" }

// Decide takes the job out of the queue. An operator's hold on somebody else's job is
// one that only operators release.
func (c JobHold) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := controlled(w, at, c.Job, "hold")
	if err != nil {
		return world.Outcome{}, err
	}
	switch {
	case old.State == workload.Stopped:
		return world.Outcome{}, restsAlready(old)
	case workload.RulesOf(old.State).Running:
		return world.Outcome{}, fault.New(codes.Conflict, "job %d has started: croft requeue --hold %d stops it and holds it", c.Job, c.Job)
	}
	hold := holdOf(w, at, old)
	if old.Hold == hold || old.Hold == workload.HeldByOperator || old.Hold == workload.HeldToAsk {
		return world.Outcome{Result: old, Event: world.Event{Skip: true}}, nil
	}
	j := edit(old, at)
	j.Hold, j.Message = hold, "held by "+at.Principal.Signature()
	j.LineUp(at.Now, at.Now)
	return put(w, j, j.Message), nil
}

// holdOf is the kind of hold that the caller puts on a job.
func holdOf(w *world.World, at world.Context, j *workload.Job) workload.Hold {
	if id.User(at.Principal.User) != j.User && operates(w, at) {
		return workload.HeldByOperator
	}
	return workload.HeldByUser
}

// operates reports whether the caller runs the queues of this machine.
func operates(w *world.World, at world.Context) bool {
	return w.Can(at.Principal, access.JobRaise, 0, 0)
}

// JobRelease takes a hold off a job.
type JobRelease struct {
	Job id.Job

	approved *approval.Job // that its user lets run
}

// Kind is job.release.
func (JobRelease) Kind() string { return "job.release" }

// Decide lets the job join the queue, unless something else keeps it.
func (c JobRelease) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if c.approved != nil {
		return c.approvedFor(w, at)
	}
	old, err := controlled(w, at, c.Job, "release")
	if err != nil {
		return world.Outcome{}, err
	}
	switch {
	case old.Hold == workload.HeldToAsk:
		return world.Outcome{}, fault.New(codes.Denied, "job %d is %s: that alone releases it", c.Job, old.Message)
	case old.Hold == workload.HeldByOperator && !operates(w, at):
		return world.Outcome{}, fault.New(codes.Denied, "job %d is held by an operator, who alone can release it", c.Job)
	case old.Hold == workload.NoHold && old.State == workload.Held:
		return world.Outcome{}, fault.New(codes.Conflict, "nobody holds job %d: it waits for what it was told to wait for (croft why %d)", c.Job, c.Job)
	case old.Hold == workload.NoHold:
		return world.Outcome{Result: old, Event: world.Event{Skip: true}}, nil
	}
	j := edit(old, at)
	j.Hold, j.Message = workload.NoHold, "released by "+at.Principal.Signature()
	if !workload.RulesOf(j.State).Running {
		j.LineUp(at.Now, at.Now)
	}
	return put(w, j, j.Message), nil
}

// JobRequeue stops a running job, with its grace, and has it wait again. With Hold it
// then waits for its release.
type JobRequeue struct {
	Job  id.Job
	Hold bool
}

// Kind is job.requeue.
func (JobRequeue) Kind() string { return "job.requeue" }

// Decide stops the current attempt. What an operator takes from somebody else is given
// back, and doesn't count towards the number of times.
func (c JobRequeue) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := controlled(w, at, c.Job, "queue again")
	if err != nil {
		return world.Outcome{}, err
	}
	staff := holdOf(w, at, old) == workload.HeldByOperator
	switch {
	case old.Array != nil:
		return world.Outcome{}, fault.New(codes.Conflict, "job %d is an array: name one of its elements, as %d_0", c.Job, c.Job)
	case old.State == workload.Stopped:
		return world.Outcome{}, restsAlready(old)
	case !workload.RulesOf(old.State).Running:
		return world.Outcome{}, fault.New(codes.Conflict, "job %d hasn't started: it waits already", c.Job)
	case old.State == workload.Stopping:
		return world.Outcome{}, fault.New(codes.Conflict, "job %d is being stopped already", c.Job)
	case old.Spec.NeverAgain():
		return world.Outcome{}, fault.New(codes.Conflict, "job %d was submitted never to be queued again: croft clone %d submits it anew", c.Job, c.Job)
	case !staff && !old.MayAgain():
		return world.Outcome{}, fault.New(codes.Conflict, "job %d was queued again %d times, as often as it may be: croft clone %d submits it anew", c.Job, old.Requeues, c.Job)
	}
	if err := againAsks(w, at, old, old.Spec); err != nil {
		return world.Outcome{}, err
	}
	j := edit(old, at)
	j.State, j.Message = workload.Stopping, "to be queued again, by "+at.Principal.Signature()
	j.Attempt.StopAt, j.Attempt.Cause = at.Now, codes.Requeued
	j.Attempt.Preempt = workload.Preemption{Refund: staff}
	if c.Hold {
		j.Hold = holdOf(w, at, old)
	}
	return put(w, j, j.Message), nil
}
