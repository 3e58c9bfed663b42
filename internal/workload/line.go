package workload

import "math"

// Hold says who keeps a job from starting.
type Hold string

// The holds. A user's is released by whoever controls the job, an operator's by
// operators alone; one for approval only by that.
const (
	NoHold         Hold = ""
	HeldByUser     Hold = "user"
	HeldByOperator Hold = "operator"
	HeldToAsk      Hold = "approval" // nothing is set aside for it
)

// Opens is when the job may join the queue, as far as begin time and dependencies go:
// see Spec.Opens.
func (j *Job) Opens() (at int64, known, never bool) { return j.Spec.Opens(j.Met) }

// LineUp puts a job that holds no allocation where it belongs at now: in the queue,
// once neither a hold nor its begin time nor a dependency keeps it out, else among
// the held. Its age is what it has spent in the queue: out of it, it gets no older.
// When its begin time or dependency was met doesn't depend on when somebody looks;
// from, in ns, is since when there is no hold.
func (j *Job) LineUp(now, from int64) {
	if j.State == Stopped {
		return // until it is started again
	}
	at, known, _ := j.Opens()
	switch open := j.Hold == NoHold && known && at <= now && j.Room(); {
	case open && j.State != Queued:
		j.State, j.Eligible, j.Aged = Queued, max(at, from)-j.Aged, 0
	case !open && j.State != Held:
		if j.State == Queued {
			j.Aged = max(0, now-j.Since())
		}
		j.State, j.Promise, j.Claim = Held, 0, 0
	}
}

// Since is when the job came to wait, in ns, moved on by the time that it was held:
// what it has waited from then on is its age.
func (j *Job) Since() int64 { return max(j.Submitted, j.Eligible) }

// LastStart is the latest start, in ns, that lets the job run its whole time before
// its deadline.
func (s Spec) LastStart() int64 {
	if s.Deadline == 0 {
		return math.MaxInt64
	}
	return s.Deadline - s.Time
}

// Expired reports whether a waiting job can't end by its deadline any more.
func (j *Job) Expired(now int64) bool { return now > j.Spec.LastStart() }

// dueWaiting is when a waiting job has to be looked at, in ns; 0: never.
func (j *Job) dueWaiting() int64 {
	if j.Array != nil && len(j.Array.Pending) == 0 {
		return 0
	}
	var due int64
	if last := j.Spec.LastStart(); last < math.MaxInt64 {
		due = max(1, last+1)
	}
	at, known, never := j.Opens()
	switch {
	case never, j.Array != nil && len(j.Array.Lost) > 0:
		return 1
	case j.State == Held && j.Hold == NoHold && j.Room() && known && (due == 0 || at < due):
		return max(1, at)
	}
	return due
}
