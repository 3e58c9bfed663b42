package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
)

// JobQuery selects jobs. The zero value is the caller's own that haven't ended.
type JobQuery struct {
	Account string
	User    string // "*": everybody's that the caller may read
	State   string // states separated by commas, "live", "all" or, alone, "refused"
	Limit   int    // items per page; 0: the default
	Cursor  string
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
	filter := filterHash("jobs", decimal(p.User), q.Account, q.User, q.State)
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
	rows, err := r.selected(ctx, v, sel, id.Job(from.ID), size+1)
	if err != nil {
		return out, readErr(err, "", "")
	}
	if len(rows) > size {
		rows = rows[:size]
		out.Next = cursor{Filter: filter, ID: int64(rows[size-1].ID)}.encode()
	}
	for _, j := range rows {
		wire, err := r.jobWire(v, j, false)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, wire)
	}
	return out, nil
}

// selection is a question about jobs: those of any of its parts.
type selection struct {
	parts []store.JobFilter
	live  bool // only what hasn't ended: the snapshot has it all
}

// selection splits what is asked for into what the caller may read: all of it, or
// what is the caller's own and what is in accounts that the caller manages.
func (v view) selection(q JobQuery) (selection, error) {
	var f store.JobFilter
	var sel selection
	var err error
	if f.States, sel.live, err = states(q.State); err != nil {
		return sel, err
	}
	if q.Account != "" {
		a, ok := v.w.Tenancy.Account(q.Account)
		if !ok || !v.may(access.AccountSee, 0, a.ID) {
			return sel, fault.NotFound("account", clip(q.Account))
		}
		f.Accounts = []id.Account{a.ID}
	}
	switch q.User {
	case "":
		f.User = v.self()
	case "*":
	default:
		u, ok := v.w.Tenancy.User(q.User)
		if !ok {
			return sel, fault.NotFound("user", clip(q.User))
		}
		f.User = u.ID
	}
	if v.may(access.JobRead, 0, 0) {
		sel.parts = []store.JobFilter{f}
		return sel, nil
	}
	if own := f; f.User == 0 || f.User == v.self() {
		own.User = v.self()
		if v.p.Narrow.Account != 0 {
			own.Accounts = v.own(f.Accounts)
		}
		if len(own.Accounts) > 0 || v.p.Narrow.Account == 0 {
			sel.parts = append(sel.parts, own)
		}
		if f.User != 0 {
			return sel, nil
		}
	}
	if f.Accounts = v.readable(f.Accounts); len(f.Accounts) > 0 {
		sel.parts = append(sel.parts, f)
	}
	return sel, nil
}

// own is those accounts, or of all, in which the caller may read his own jobs.
func (v view) own(among []id.Account) []id.Account {
	var out []id.Account
	for a := range v.w.Tenancy.Accounts.All() {
		if (len(among) == 0 || slices.Contains(among, a)) && v.may(access.JobRead, v.self(), a) {
			out = append(out, a)
		}
	}
	return out
}

// readable is those accounts, or of all, in which the caller may read every job.
func (v view) readable(among []id.Account) []id.Account {
	var out []id.Account
	for a := range v.w.Tenancy.Accounts.All() {
		if (len(among) == 0 || slices.Contains(among, a)) && v.may(access.JobRead, 0, a) {
			out = append(out, a)
		}
	}
	return out
}

var liveStates = []workload.JobState{workload.Held, workload.Queued, workload.Starting, workload.Running, workload.Stopping}

func states(s string) (in []workload.JobState, live bool, err error) {
	switch s {
	case "", "live":
		return nil, true, nil
	case "all", refusedState:
		return nil, false, nil
	}
	live = true
	for _, word := range strings.Split(s, ",") {
		state := workload.JobState(strings.TrimSpace(word))
		if state == workload.Ended {
			live = false
		} else if !slices.Contains(liveStates, state) {
			return nil, false, fault.Invalid("state", "%q isn't live, all, ended, held, queued, starting, running, stopping or, alone, refused", clip(word))
		}
		in = append(in, state)
	}
	return in, live, nil
}

// selected returns up to limit of the selected jobs with ids below before (0: all
// of them), the newest first.
func (r *Reader) selected(ctx context.Context, v view, sel selection, before id.Job, limit int) ([]*workload.Job, error) {
	if sel.live {
		return v.live(sel, before, limit), nil
	}
	found := map[id.Job]*workload.Job{}
	for _, f := range sel.parts {
		f.Before = before
		rows, err := r.History.Jobs(ctx, f, limit)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			found[rows[i].ID] = &rows[i]
		}
	}
	out := make([]*workload.Job, 0, len(found))
	for _, j := range found {
		out = append(out, j)
	}
	slices.SortFunc(out, func(a, b *workload.Job) int { return cmp.Compare(b.ID, a.ID) })
	return out[:min(limit, len(out))], nil
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

// live finds the same in the snapshot.
func (v view) live(sel selection, before id.Job, limit int) []*workload.Job {
	if len(sel.parts) == 1 && sel.parts[0].User != 0 {
		return v.liveOf(sel.parts[0], before, limit)
	}
	jobs := &v.w.Workload.Jobs
	end := jobs.Len()
	if before != 0 {
		end = sort.Search(end, func(i int) bool { k, _, _ := jobs.At(i); return k >= before })
	}
	var out []*workload.Job
	for i := end - 1; i >= 0 && len(out) < limit; i-- {
		if _, j, ok := jobs.At(i); ok && sel.has(j) {
			out = append(out, j)
		}
	}
	return out
}

// liveOf is the live jobs of one user.
func (v view) liveOf(f store.JobFilter, before id.Job, limit int) []*workload.Job {
	var out []*workload.Job
	for j := range v.w.Workload.OfUser(f.User) {
		if before != 0 && j.ID >= before {
			break
		}
		if matches(f, j) {
			out = append(out, j)
		}
	}
	slices.Reverse(out)
	return out[:min(limit, len(out))]
}

func (s selection) has(j *workload.Job) bool {
	return slices.ContainsFunc(s.parts, func(f store.JobFilter) bool { return matches(f, j) })
}

func matches(f store.JobFilter, j *workload.Job) bool {
	return (f.User == 0 || f.User == j.User) &&
		(len(f.Accounts) == 0 || slices.Contains(f.Accounts, j.Account)) &&
		(len(f.States) == 0 || slices.Contains(f.States, j.State))
}
