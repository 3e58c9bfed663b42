package query

import (
	"context"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/world"
)

// EventQuery selects rows of the log, the oldest first.
type EventQuery struct {
	After int64 // seq
	Job   string
	Limit int // items per page; 0: the default
}

// scanRows is the most log rows that are looked at for one page: a caller who may
// see few of them gets a short page and goes on from its Seq.
const scanRows = 5000

// Events is a page of the log with the place up to which it was looked through.
type Events struct {
	Items []v1.Event
	Seq   int64 // go on after it
	More  bool  // the log may have more already
}

// Events lists what happened, as far as the caller may see it. The error is Gone
// when rows after q.After are no longer kept.
func (r *Reader) Events(ctx context.Context, p access.Principal, q EventQuery) (Events, error) {
	out := Events{Items: []v1.Event{}, Seq: q.After}
	v := r.view(p)
	size, err := pageSize(q.Limit)
	if err != nil {
		return out, err
	}
	if q.After < 0 {
		return out, fault.Invalid("after", "must not be negative")
	}
	f := store.LogFilter{After: q.After}
	if q.Job != "" {
		j, err := r.find(ctx, v, q.Job)
		if err != nil {
			return out, err
		}
		f.Job = j.ID
	}
	if err := r.kept(ctx, q.After); err != nil {
		return out, err
	}
	seen := sight{reader: r, view: v, owners: map[id.Job]owner{}}
	for scanned := 0; scanned < scanRows; {
		rows, err := r.History.Log(ctx, f, size)
		if err != nil {
			return out, readErr(err, "", "")
		}
		for _, e := range rows {
			ok, err := seen.event(ctx, e)
			if err != nil {
				return out, err
			}
			if f.After, out.Seq = e.Seq, e.Seq; ok {
				out.Items = append(out.Items, v.eventWire(e))
			}
			if len(out.Items) == size {
				out.More = true
				return out, nil
			}
		}
		if len(rows) < size {
			return out, nil
		}
		scanned += len(rows)
	}
	out.More = true
	return out, nil
}

// kept reports Gone when the log no longer begins where the caller left off.
func (r *Reader) kept(ctx context.Context, after int64) error {
	rows, err := r.History.Log(ctx, store.LogFilter{After: after}, 1)
	if err != nil {
		return readErr(err, "", "")
	}
	if len(rows) > 0 && after > 0 && rows[0].Seq > after+1 {
		return fault.New(codes.Gone, "events up to %d are no longer kept: start again from the present", rows[0].Seq-1)
	}
	return nil
}

// sight decides which rows of the log a caller may see. It remembers whose a job
// is while it goes through a page.
type sight struct {
	reader *Reader
	view   view
	owners map[id.Job]owner
}

type owner struct {
	user    id.User
	account id.Account
}

// event: what concerns a job is for its readers; the rest for its author, for the
// account's managers and for those who see everything.
func (s sight) event(ctx context.Context, e world.Entry) (bool, error) {
	v := s.view
	switch {
	case v.may(access.EventsAll, 0, 0):
		return true, nil
	case e.Event.Job != 0:
		o, err := s.owner(ctx, e.Event.Job)
		return v.may(access.JobRead, o.user, o.account), err
	case e.User != 0 && e.User == v.self():
		return v.may(access.JobRead, e.User, e.Event.Account), nil
	case e.Event.Refusal != 0:
		return v.may(access.JobRead, e.User, e.Event.Account), nil
	}
	return e.Event.Account != 0 && v.may(access.AccountRun, 0, e.Event.Account), nil
}

func (s sight) owner(ctx context.Context, k id.Job) (owner, error) {
	if o, ok := s.owners[k]; ok {
		return o, nil
	}
	j, ok := s.view.w.Workload.Jobs.Get(k)
	if !ok {
		var err error
		if j, err = s.reader.History.Job(ctx, k); err != nil {
			return owner{}, readErr(err, "job", decimal(k))
		}
	}
	o := owner{j.User, j.Account}
	s.owners[k] = o
	return o, nil
}

func (v view) eventWire(e world.Entry) v1.Event {
	out := v1.Event{
		Seq: e.Seq, At: at(e.At), Kind: e.Kind, By: e.Principal, Account: v.account(e.Event.Account), State: e.Event.State,
		Message: e.Event.Message, Reasons: Reasons(e.Event.Reasons),
	}
	switch {
	case e.Event.Job != 0:
		out.Job = decimal(e.Event.Job)
	case e.Event.Refusal != 0:
		out.Job = e.Event.Refusal.String()
	}
	return out
}
