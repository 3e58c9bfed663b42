package query

import (
	"context"
	"maps"
	"slices"
	"strconv"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// JobQuery selects jobs. The zero value is the caller's own that haven't ended. Its
// texts are lists separated by commas, of which a job is in one place.
type JobQuery struct {
	ID        string
	Account   string
	User      string // "*": everybody's that the caller may read
	State     string // states, "live", "all" or, alone, "refused"
	Name      string
	Partition string
	QoS       string
	Node      string
	From, To  int64 // ns: jobs that existed at some time in [From, To); 0: no bound
	Elements  bool  // of arrays, too
	Brief     bool  // only what a list shows
	Limit     int   // items per page; 0: the default
	Cursor    string
}

// filter names the question for a cursor.
func (q JobQuery) filter(p access.Principal) string {
	return filterHash("jobs", decimal(p.User), q.ID, q.Account, q.User, q.State, q.Name, q.Partition, q.QoS, q.Node, decimal(q.From), decimal(q.To), strconv.FormatBool(q.Elements))
}

// refusedState asks for requests that were refused: they never became jobs and
// are numbered by themselves, so they are listed by themselves.
const refusedState = "refused"

// Jobs lists jobs that the caller may read, the newest first.
func (r *Reader) Jobs(ctx context.Context, p access.Principal, q JobQuery) (v1.Page[v1.Job], error) {
	out := v1.Page[v1.Job]{Items: []v1.Job{}}
	v := r.view(p)
	size, err := pageSize(q.Limit)
	if err != nil {
		return out, err
	}
	filter := q.filter(p)
	from, err := parseCursor(q.Cursor, filter)
	if err != nil {
		return out, err
	}
	sel, err := v.selection(q)
	if err != nil {
		return out, err
	}
	if q.State == refusedState {
		return r.refusals(ctx, v, sel, cursor{Filter: filter, ID: from.ID}, size)
	}
	rows, next, err := r.selected(ctx, v, sel, id.Job(from.ID), size)
	if err != nil {
		return out, readErr(err, "", "")
	}
	if next != 0 {
		out.Next = cursor{Filter: filter, ID: int64(next)}.encode()
	}
	show := func(j *workload.Job) (v1.Job, error) { return r.jobWire(v, j, false) }
	if q.Brief {
		show = func(j *workload.Job) (v1.Job, error) { return r.brief(v, j) }
	}
	out.Items = make([]v1.Job, len(rows))
	for i, j := range rows {
		if out.Items[i], err = show(j); err != nil {
			return out, err
		}
	}
	return out, nil
}

// refusals is a page of the refused requests that sel is about, those before from.
func (r *Reader) refusals(ctx context.Context, v view, sel selection, from cursor, size int) (v1.Page[v1.Job], error) {
	out := v1.Page[v1.Job]{Items: []v1.Job{}}
	found := map[id.Refusal]*workload.Refusal{}
	for _, f := range sel.parts {
		f.Before = id.Job(from.ID)
		rows, err := r.History.Refusals(ctx, f, size+1)
		if err != nil {
			return out, readErr(err, "", "")
		}
		for i := range rows {
			found[rows[i].ID] = &rows[i]
		}
	}
	for _, k := range slices.Backward(slices.Sorted(maps.Keys(found))) {
		if len(out.Items) == size {
			out.Next = cursor{Filter: from.Filter, ID: int64(k) + 1}.encode()
			break
		}
		wire, err := r.refusedWire(v, found[k])
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, wire)
	}
	return out, nil
}
