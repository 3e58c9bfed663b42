package workload

import (
	"cmp"
	"slices"

	"croft.dev/croft/api/v1/codes"
)

// Due is when the next step of a job's clock is due, in ns; 0: none. The steps are
// the user's signal ahead of the limit, SIGTERM at it, SIGKILL after the grace.
func (j *Job) Due() int64 {
	a := j.Attempt
	switch {
	case j.State == Stopping && !a.Kill:
		return j.KillAt()
	case j.State != Running:
		return 0
	case j.Spec.Signal.Name != "" && !a.Signaled && j.Spec.Signal.Before < j.Spec.Time:
		return a.Until - j.Spec.Signal.Before
	}
	return a.Until
}

// KillAt is when SIGKILL is due for an attempt that is being stopped, in ns.
func (j *Job) KillAt() int64 {
	if a := j.Attempt; a.Preempt.By != 0 {
		return a.StopAt + a.Preempt.Grace
	}
	return j.Attempt.StopAt + j.Spec.Grace
}

// StopSignal is what the program is told to end with, without SIG.
func (j *Job) StopSignal() string { return cmp.Or(j.Attempt.Preempt.Signal, "TERM") }

// Again reports whether the job asked to be queued again after such an end, and
// may be. One that was cancelled is not, whatever else befell it. What others took
// from it doesn't count towards MaxRequeues.
func (j *Job) Again(o codes.Outcome) bool {
	if j.Attempt.Cause == codes.Cancelled {
		return false
	}
	if j.Attempt.Preempt.Requeue && (o == codes.Preempted || o == codes.NodeFailed) {
		return true
	}
	cause := ""
	switch o {
	case codes.NodeFailed:
		cause = "node"
	case codes.TimedOut:
		cause = "timeout"
	}
	return cause != "" && j.Requeues < MaxRequeues && slices.Contains(j.Spec.Requeue, cause)
}
