package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

// waited is the kind of a decision that tells why a job waited.
const waited = "waits"

// Decisions lists what was decided of a job, the oldest first: the rows of the log that are
// about it, and why it waited. With a time, in ns, it is only what held then.
func (r *Reader) Decisions(ctx context.Context, p access.Principal, name string, t int64) ([]v1.Decision, error) {
	v := r.view(p)
	if k, ok := id.ParseRefusal(name); ok {
		if _, err := r.refusal(ctx, v, k); err != nil {
			return nil, err
		}
		return nil, fault.Invalid("id", "a refused request was decided once, and never waited: croft why %s", name)
	}
	j, err := r.find(ctx, v, name)
	if err != nil {
		return nil, err
	}
	if t > v.now {
		return nil, fault.Invalid("at", "is in the future: croft quote and croft why say what is expected")
	}
	out, err := r.decided(ctx, p, j.ID)
	if err != nil {
		return nil, err
	}
	if array := cmp.Or(j.Of, j.Row()); array != j.ID { // what was decided of it until the element began
		before, err := r.decided(ctx, p, array)
		if err != nil {
			return nil, err
		}
		began := j.FirstAssigned()
		out = append(out, slices.DeleteFunc(before, func(d v1.Decision) bool { return began != 0 && d.At.UnixNano() >= began })...)
	}
	slices.SortStableFunc(out, func(a, b v1.Decision) int { return a.At.Compare(b.At) })
	if t == 0 {
		return out, nil
	}
	held := heldAt(out, time.Unix(0, t))
	if len(held) == 0 {
		return nil, fault.Invalid("at", "job %s was submitted later, at %s", name, at(j.Submitted).Format(time.RFC3339))
	}
	return held, nil
}

// decided lists the rows of the log that are about a job, and why it waited.
func (r *Reader) decided(ctx context.Context, p access.Principal, k id.Job) ([]v1.Decision, error) {
	out := []v1.Decision{}
	if k <= 0 {
		return out, nil // an element that is no job yet
	}
	for q := (EventQuery{Job: decimal(k), Limit: v1.MaxPage}); ; {
		page, err := r.Events(ctx, p, q)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Items {
			out = append(out, v1.Decision{At: e.At, Kind: e.Kind, By: e.By, State: e.State, Message: e.Message, Reasons: e.Reasons})
		}
		if q.After = page.Seq; !page.More {
			break
		}
	}
	rows, err := r.History.Waits(ctx, k)
	for _, row := range rows {
		out = append(out, waitWire(row))
	}
	return out, readErr(err, "", "")
}

func waitWire(row workload.Wait) v1.Decision {
	win := window(placement.Window{Kind: placement.WindowKind(row.Kind), Start: row.Start, Position: row.Position, Queue: row.Queue})
	return v1.Decision{At: at(row.At), Kind: waited, State: string(workload.Queued), Message: summary(row.Position, row.Queue, row.Reasons, ""), Reasons: Reasons(row.Reasons), Window: &win}
}

// heldAt is what of a job's decisions held at a time: the last that gave it a state, and if
// it waited the last that says why.
func heldAt(all []v1.Decision, t time.Time) []v1.Decision {
	var state, wait *v1.Decision
	for i := range all {
		d := &all[i]
		switch {
		case d.At.After(t):
		case d.Kind == waited:
			wait = d
		case d.State != "":
			if state = d; d.State != string(workload.Queued) {
				wait = nil
			}
		}
	}
	var out []v1.Decision
	if state != nil {
		out = append(out, *state)
		if wait != nil && state.State == string(workload.Queued) {
			out = append(out, *wait)
		}
	}
	return out
}
