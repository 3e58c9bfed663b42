package command

import (
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// reserve counts an attempt that begins now against limits per period, with all that
// it may come to. j is the command's own copy.
func reserve(w *world.World, at world.Context, j *workload.Job) []world.Change {
	a := world.AskOf(j)
	a.Now = at.Now
	j.Attempt.Reserved = a.Seconds()
	return wrap(w.Limits.Reserve(world.WhoOf(j), a))
}

// spent replaces what an attempt reserved by what its user is charged for: nothing,
// if the platform pays for it.
func spent(w *world.World, at world.Context, j *workload.Job) []world.Change {
	from, to := metering.Billable(j.Attempt, j.Spec.Grace, at.Now)
	return wrap(w.Limits.Settle(world.WhoOf(j), world.AskOf(j).Demand, j.Attempt.Assigned, j.Attempt.Reserved, limits.Seconds(to-from)))
}

// used keeps what an attempt that is over counts for fair share.
func used(w *world.World, at world.Context, j *workload.Job) []world.Change {
	set, ok := w.Shares.Settle(j.Account, j.User, metering.Counted(j), at.Now, w.Site.Weights.HalfLife)
	if !ok {
		return nil
	}
	return []world.Change{set}
}

// begin is the first rows of a new limit per period.
func begin(w *world.World, at world.Context, l limits.Limit) []world.Change {
	var live []limits.Live
	for _, j := range w.Workload.Active.All() {
		live = append(live, limits.Live{Who: world.WhoOf(j), Demand: world.AskOf(j).Demand, Began: j.Attempt.Assigned, Seconds: j.Attempt.Reserved})
	}
	return wrap(w.Limits.Begin(l, at.Now, live))
}

// PeriodsDue opens the periods of limits that have begun. Nothing waits for it: what
// is decided meanwhile looks at the calendar itself.
type PeriodsDue struct{}

// Kind is limit.periods.
func (PeriodsDue) Kind() string { return "limit.periods" }

// Decide opens what is due.
func (PeriodsDue) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	out := wrap(w.Limits.Open(at.Now))
	return world.Outcome{Changes: out, Event: world.Event{Skip: len(out) == 0, Message: "periods of limits begin"}}, nil
}
