package gateway

import (
	"context"
	"maps"
	"sync"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/world"
)

// group is what requests are open by: those of one group end together.
type group struct {
	user   id.User
	token  id.Token
	job    id.Job
	action access.Action
}

// may reports whether it still may.
func (g group) may(w *world.World, now int64) bool {
	j, ok := w.Workload.Jobs.Get(g.job)
	return ok && w.CanApp(principal(w, g.user, g.token, now), g.action, j)
}

// principal is a user as of a world; of nobody's id, nobody.
func principal(w *world.World, user id.User, token id.Token, now int64) access.Principal {
	now = max(now, w.Now)
	if user == 0 {
		return access.Principal{Now: now}
	}
	return w.Principal(user, token, now)
}

// live are the requests that are open, so many of a job and of a user at most.
type live struct {
	limits Limits
	mu     sync.Mutex
	open   map[group]map[*request]struct{}
	byJob  map[id.Job]int
	byUser map[id.User]int
}

type request struct{ cancel context.CancelFunc }

func newLive(l Limits) *live {
	return &live{limits: l, open: map[group]map[*request]struct{}{}, byJob: map[id.Job]int{}, byUser: map[id.User]int{}}
}

// enter counts a request in; its context ends with its right. leave is called once.
func (l *live) enter(ctx context.Context, g group) (_ context.Context, leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.byJob[g.job] >= l.limits.PerJob:
		return nil, nil, fault.New(codes.TooMany, "this job has %d open connections already: close some", l.limits.PerJob)
	case g.user != 0 && l.byUser[g.user] >= l.limits.PerUser:
		return nil, nil, fault.New(codes.TooMany, "you have %d open connections to applications already: close some", l.limits.PerUser)
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &request{cancel}
	if l.open[g] == nil {
		l.open[g] = map[*request]struct{}{}
	}
	l.open[g][r] = struct{}{}
	l.byJob[g.job]++
	l.byUser[g.user]++
	return ctx, func() { cancel(); l.leave(g, r) }, nil
}

func (l *live) leave(g group, r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.open[g], r); len(l.open[g]) == 0 {
		delete(l.open, g)
	}
	if l.byJob[g.job]--; l.byJob[g.job] == 0 {
		delete(l.byJob, g.job)
	}
	if l.byUser[g.user]--; l.byUser[g.user] == 0 {
		delete(l.byUser, g.user)
	}
}

// end ends the requests of the groups that over names.
func (l *live) end(over func(group) bool) {
	for _, g := range l.groups() {
		if !over(g) {
			continue
		}
		l.mu.Lock()
		for r := range l.open[g] {
			r.cancel()
		}
		l.mu.Unlock()
	}
}

func (l *live) groups() []group {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]group, 0, len(l.open))
	for g := range l.open {
		out = append(out, g)
	}
	return out
}

// entries remembers who has come to what lately, so that the log has a row for each and not
// for every request.
type entries struct {
	mu   sync.Mutex
	last map[entry]int64 // ns
	// visits counts those of jobs who haven't logged in, since a time.
	visits map[id.Job]visits
}

type visits struct {
	since int64 // ns
	n     int
}

type entry struct {
	group
	app  string
	from string // of who hasn't logged in
}

const (
	entryLife  = int64(12 * time.Hour)
	visitLife  = int64(time.Hour) // of who hasn't logged in
	maxEntries = 10_000
	// maxVisits is how many rows of those there are for a job in visitLife.
	maxVisits = 100
)

func newEntries() *entries { return &entries{last: map[entry]int64{}, visits: map[id.Job]visits{}} }

// known reports whether e has come lately.
func (n *entries) known(e entry, now, life int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.last[e]
	return ok && now-at < life
}

// room counts one more visit to a job; false: there were enough lately.
func (n *entries) room(job id.Job, now int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, ok := n.visits[job]
	if !ok || now-v.since >= visitLife {
		maps.DeleteFunc(n.visits, func(_ id.Job, v visits) bool { return now-v.since >= visitLife })
		v = visits{since: now}
	}
	v.n++
	n.visits[job] = v
	return v.n <= maxVisits
}

// note remembers e. When there are too many, those that are over go, or else any.
func (n *entries) note(e entry, now int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.last) >= maxEntries {
		for old, at := range n.last {
			if now-at >= entryLife {
				delete(n.last, old)
			}
		}
		for old := range n.last {
			if len(n.last) < maxEntries {
				break
			}
			delete(n.last, old) // it costs a row more
		}
	}
	n.last[e] = now
}
