package workload

import (
	"slices"

	"croft.dev/croft/api/v1/codes"
)

// Due is when the next step of a job's clock is due, in ns; 0: none. The steps are
// the user's signal ahead of the limit, SIGTERM at it, SIGKILL after the grace.
func (j *Job) Due() int64 {
	a := j.Attempt
	switch {
	case j.State == Stopping && !a.Kill:
		return a.StopAt + j.Spec.Grace
	case j.State != Running:
		return 0
	case j.Spec.Signal.Name != "" && !a.Signaled && j.Spec.Signal.Before < j.Spec.Time:
		return a.Until - j.Spec.Signal.Before
	}
	return a.Until
}

// Again reports whether the job asked to be queued again after such an end, and
// may be. One that was cancelled is not, whatever else befell it.
func (j *Job) Again(o codes.Outcome) bool {
	if j.Attempt.Cause == codes.Cancelled {
		return false
	}
	cause := ""
	switch o {
	case codes.NodeFailed:
		cause = "node"
	case codes.Preempted:
		cause = "preempt"
	case codes.TimedOut:
		cause = "timeout"
	}
	return cause != "" && j.Requeues < MaxRequeues && slices.Contains(j.Spec.Requeue, cause)
}
