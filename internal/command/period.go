package command

import (
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/world"
)

// PeriodClose closes the books of a span of whole days, [From, To), for good. What is known
// of it is kept in the step that closes it.
type PeriodClose struct{ From, To int64 }

// Kind is period.close.
func (PeriodClose) Kind() string { return "period.close" }

const day = int64(24 * time.Hour)

// Decide closes the period if nothing of it can change any more.
func (c PeriodClose) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.PeriodClose, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only operators may close periods")
	}
	if c.From < 0 || c.From >= c.To || c.From%day != 0 || c.To%day != 0 {
		return world.Outcome{}, fault.Invalid("period", "must be of whole days, UTC")
	}
	if at.Now < c.To {
		return world.Outcome{}, fault.New(codes.Conflict, "it isn't over before %s", stampOf(c.To))
	}
	if closed := w.Ledger.ClosedIn(c.From, c.To); len(closed) > 0 {
		p := closed[0]
		return world.Outcome{}, fault.New(codes.Conflict, "%s to %s is closed already, since %s", dayOf(p.From), dayOf(p.To-1), stampOf(p.Closed))
	}
	if open := metering.UnsettledBy(&w.Catalog, &w.Workload, c.To); len(open) > 0 {
		return world.Outcome{}, fault.New(codes.Conflict, "%s", open[0])
	}
	p := ledger.Period{From: c.From, To: c.To, Closed: at.Now, By: id.User(at.Principal.User)}
	return world.Outcome{
		Changes: wrap([]ledger.Change{ledger.PeriodSet{Row: p}}), Result: p,
		Event: world.Event{Message: "closed the books of " + dayOf(p.From) + " to " + dayOf(p.To-1)},
	}, nil
}

func dayOf(t int64) string { return time.Unix(0, t).UTC().Format(time.DateOnly) }

func stampOf(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }
