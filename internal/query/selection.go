package query

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
)

// selection is a question about jobs: those of any of its parts that also have one
// of the names and so on.
type selection struct {
	parts []store.JobFilter
	live  bool // only what hasn't ended: the snapshot has it all

	names, qos, nodes []string // the database has no columns for these
}

// selection splits what is asked for into what the caller may read: all of it, or
// what is the caller's own and what is in accounts that the caller manages.
func (v view) selection(q JobQuery) (selection, error) {
	f := store.JobFilter{Partitions: list(q.Partition), From: q.From, To: q.To, Elements: q.Elements}
	sel := selection{names: list(q.Name), qos: list(q.QoS), nodes: list(q.Node)}
	var err error
	if f.States, sel.live, err = states(q.State); err != nil {
		return sel, err
	}
	for _, name := range list(q.ID) {
		k, ok := v.numbered(name)
		if !ok {
			return sel, fault.Invalid("id", "%q isn't a job's number", clip(name))
		}
		f.IDs = append(f.IDs, k)
	}
	for _, name := range list(q.Account) {
		found := v.accountsNamed(name)
		if len(found) == 0 {
			return sel, fault.NotFound("account", clip(name))
		}
		for _, a := range found {
			f.Accounts = append(f.Accounts, a.ID)
		}
	}
	if f.Users, err = v.people(q.User); err != nil {
		return sel, err
	}
	sel.parts = v.readableParts(f)
	return sel, nil
}

// nobody is no user's id.
const nobody = id.User(-1)

// numbered is the number of a job, or of an element that has it already: one that
// waits, or has ended, has none here.
func (v view) numbered(name string) (id.Job, bool) {
	array, index, ok := id.ParseElement(name)
	if !ok {
		return id.ParseJob(name)
	}
	if e, started := v.w.Workload.Element(array, index); started {
		return e.ID, true
	}
	return array, true
}

// people are the users of a list of names; none is everybody.
func (v view) people(names string) ([]id.User, error) {
	switch names {
	case "":
		return []id.User{v.self()}, nil
	case "*":
		return nil, nil
	}
	var out []id.User
	for _, name := range list(names) {
		found := v.w.Tenancy.UsersNamed(name)
		if len(found) == 0 {
			if v.may(access.UserSee, 0, 0) {
				return nil, fault.NotFound("user", clip(name))
			}
			out = append(out, nobody) // whoever may not know who exists is told of no jobs
		}
		for _, u := range found {
			out = append(out, u.ID)
		}
	}
	return out, nil
}

// readableParts confines f to what the caller may read, and to the account that the
// caller's token is narrowed to.
func (v view) readableParts(f store.JobFilter) []store.JobFilter {
	if v.may(access.JobRead, 0, 0) {
		return []store.JobFilter{f}
	}
	var parts []store.JobFilter
	self := []id.User{v.self()}
	if len(f.Users) == 0 || slices.Contains(f.Users, self[0]) {
		own := f
		own.Users = self
		if v.p.Narrow.Account != 0 {
			own.Accounts = v.own(f.Accounts)
		}
		if len(own.Accounts) > 0 || v.p.Narrow.Account == 0 {
			parts = append(parts, own)
		}
		if slices.Equal(f.Users, self) {
			return parts
		}
	}
	if f.Accounts = v.readable(f.Accounts); len(f.Accounts) > 0 {
		parts = append(parts, f)
	}
	return parts
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

// list splits a list that is separated by commas.
func list(s string) []string {
	var out []string
	for word := range strings.SplitSeq(s, ",") {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
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

var liveStates = []workload.JobState{workload.Held, workload.Queued, workload.Starting, workload.Running, workload.Stopping, workload.Stopped}

func states(s string) (in []workload.JobState, live bool, err error) {
	switch s {
	case "", "live":
		return nil, true, nil
	case "all", refusedState:
		return nil, false, nil
	}
	live = true
	for _, word := range list(s) {
		state := workload.JobState(word)
		if state == workload.Ended {
			live = false
		} else if !slices.Contains(liveStates, state) {
			return nil, false, fault.Invalid("state", "%q isn't live, all, ended, held, queued, starting, running, stopping, stopped or, alone, refused", clip(word))
		}
		in = append(in, state)
	}
	return in, live, nil
}

// maxScan bounds the rows that one page looks through. A page that looked through
// so many and isn't full yet says where to go on.
const maxScan = 20_000

// selected returns up to limit of the selected jobs with ids below before (0: all
// of them), the newest first, and where to go on; 0 is the end.
func (r *Reader) selected(ctx context.Context, v view, sel selection, before id.Job, limit int) (out []*workload.Job, next id.Job, err error) {
	if sel.live {
		out = v.live(sel, before, limit+1)
		if len(out) > limit {
			out = out[:limit]
			next = out[limit-1].ID
		}
		return out, next, nil
	}
	for scanned := 0; scanned < maxScan; {
		rows, err := r.ended(ctx, sel, before, limit+1)
		if err != nil {
			return nil, 0, err
		}
		for _, j := range rows {
			if len(out) == limit {
				return out, before, nil
			}
			before = j.ID
			if sel.fits(j) {
				out = append(out, j)
			}
		}
		if len(rows) <= limit {
			return out, 0, nil
		}
		scanned += len(rows)
	}
	return out, before, nil
}

// ended is the newest limit jobs below before that the database can tell by its
// columns.
func (r *Reader) ended(ctx context.Context, sel selection, before id.Job, limit int) ([]*workload.Job, error) {
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

// live finds the same in the snapshot.
func (v view) live(sel selection, before id.Job, limit int) (out []*workload.Job) {
	if before == 0 {
		before = v.w.Workload.NextJob()
	}
	for j := range v.newest(sel, before) {
		if sel.has(j) {
			out = append(out, j)
		}
		if len(out) == limit {
			break
		}
	}
	return out
}

// newest yields the live jobs among which the selected ones are, those with ids below
// before.
func (v view) newest(sel selection, before id.Job) iter.Seq[*workload.Job] {
	if len(sel.parts) == 1 && len(sel.parts[0].Users) == 1 {
		return v.w.Workload.OfUser(sel.parts[0].Users[0], before)
	}
	return func(yield func(*workload.Job) bool) {
		for _, j := range v.w.Workload.Jobs.Back(before) {
			if !yield(j) {
				return
			}
		}
	}
}

func (s selection) has(j *workload.Job) bool {
	return slices.ContainsFunc(s.parts, func(f store.JobFilter) bool { return matches(f, j) }) && s.fits(j)
}

// fits is the part of the question that the database has no columns for.
func (s selection) fits(j *workload.Job) bool {
	return among(s.names, j.Spec.Name) && among(s.qos, j.Spec.QoS) && s.ranOn(j.Attempt)
}

// ranOn reports whether an attempt was on one of the nodes that are asked for.
func (s selection) ranOn(a workload.Attempt) bool {
	return len(a.Others) == 0 && among(s.nodes, a.Node) || slices.ContainsFunc(a.Nodes(), func(n string) bool { return among(s.nodes, n) })
}

func matches(f store.JobFilter, j *workload.Job) bool {
	return chosen(f, j) && among(f.Users, j.User) && among(f.Accounts, j.Account) && among(f.States, j.State) &&
		among(f.Partitions, j.Spec.Partition) && (f.From == 0 || j.Ended == 0 || j.Ended >= f.From) && (f.To == 0 || j.Submitted < f.To)
}

// chosen reports whether a job is one of those asked for by their numbers, or where none
// is, of those that are listed.
func chosen(f store.JobFilter, j *workload.Job) bool {
	switch {
	case len(f.IDs) == 0:
		return f.Elements || j.Of == 0
	case slices.Contains(f.IDs, j.ID):
		return true
	}
	return f.Elements && j.Of != 0 && slices.Contains(f.IDs, j.Of)
}

// among reports whether v is in a list; an empty list has everything.
func among[T comparable](in []T, v T) bool { return len(in) == 0 || slices.Contains(in, v) }
