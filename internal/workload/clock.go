package workload

import (
	"cmp"
	"slices"

	"croft.dev/croft/api/v1/codes"
)

// Due is when the next step of a job's clock is due, in ns; 0: none. The steps are,
// of a waiting job, to join the queue, or to end because that can't be any more or
// its deadline can't be kept; of a running one, the user's signal ahead of the limit,
// SIGTERM at it or when a rolling deposit is used up, SIGKILL after the grace.
func (j *Job) Due() int64 {
	a := j.Attempt
	switch {
	case j.State == Held || j.State == Queued:
		return j.dueWaiting()
	case j.State == Stopping && !a.Kill:
		return j.KillAt()
	case j.State != Running:
		return 0
	case j.Spec.Signal.Name != "" && !a.Signaled && j.Spec.Signal.Before < j.Spec.Time:
		return min(j.End()-j.Spec.Signal.Before, a.paidEnd())
	}
	return a.paidEnd()
}

// KillAt is when SIGKILL is due for an attempt that is being stopped, in ns. However long
// a grace somebody gave it, that is no later than at the end of its time, nor than a rolling
// deposit pays for.
func (j *Job) KillAt() int64 {
	a := j.Attempt
	last := max(a.paidEnd(), a.StopAt) + j.Spec.Grace
	switch {
	case a.Grace != 0:
		return min(a.StopAt+a.Grace, last)
	case a.Preempt.By != 0 && a.Rolls():
		return min(a.StopAt+a.Preempt.Grace, last)
	case a.Preempt.By != 0:
		return a.StopAt + a.Preempt.Grace
	}
	return a.StopAt + j.Spec.Grace
}

// StopSignal is what the program is told to end with, without SIG.
func (j *Job) StopSignal() string { return cmp.Or(j.Attempt.Preempt.Signal, "TERM") }

// Begun notes the start of the primary, in ns, from which the wall clock runs. What
// the start was late doesn't put off the deadline.
func (j *Job) Begun(at int64) {
	j.Attempt.Started, j.Attempt.Until = at, at+j.Spec.Time
	if d := j.Spec.Deadline; d != 0 && d < j.Attempt.Until {
		j.Attempt.Until = max(d, at)
	}
}

// Prolong gives a job that runs another time limit, in ns from its start. The user's signal
// ahead of the limit is sent once more, if that comes later.
func (j *Job) Prolong(time, now int64) {
	j.Spec.Own = cmp.Or(j.Spec.Own, j.Spec.Time)
	j.Spec.Time = time
	j.Begun(j.Attempt.Started)
	if j.End()-j.Spec.Signal.Before > now {
		j.Attempt.Signaled = false
	}
}

// OwnTime gives a job that is to have another run the time limit that it asked for itself: a
// longer one was for the run.
func (j *Job) OwnTime() {
	if j.Spec.Own != 0 {
		j.Spec.Time, j.Spec.Own = j.Spec.Own, 0
	}
}

// OutOfTime is what the job ends as when its clock has run out.
func (j *Job) OutOfTime() codes.Outcome {
	if j.Spec.Deadline != 0 && j.Attempt.Until < j.Attempt.Started+j.Spec.Time {
		return codes.Deadline
	}
	return codes.TimedOut
}

// Again reports whether the job asked to be queued again after such an end, and
// may be. One that was cancelled is not, whatever else befell it. What others took
// from it doesn't count towards the number of times.
func (j *Job) Again(o codes.Outcome) bool {
	switch {
	case j.Attempt.Cause == codes.Withdrawn && o == codes.Withdrawn:
		return true // it hasn't run
	case j.Attempt.Cause == codes.Cancelled || j.Attempt.Cause == codes.Stopped || j.Spec.NeverAgain():
		return false
	case j.Attempt.Cause == codes.Requeued:
		return true
	case j.Attempt.Preempt.Requeue && (o == codes.Preempted || o == codes.NodeFailed):
		return true
	}
	cause := ""
	switch o {
	case codes.NodeFailed:
		cause = "node"
	case codes.TimedOut:
		cause = "timeout"
	}
	return cause != "" && j.MayAgain() && slices.Contains(j.Spec.Requeue, cause)
}

// MayAgain reports whether the job has been queued again less often than it may be.
func (j *Job) MayAgain() bool { return j.Requeues < cmp.Or(j.Spec.Requeues, MaxRequeues) }

// NeverAgain reports whether the job doesn't want to be queued again whatever happens.
func (s Spec) NeverAgain() bool { return slices.Contains(s.Requeue, "never") }
