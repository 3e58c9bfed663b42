// Package presence counts who is in a job right now: connections to its applications, over
// SSH and from terminals. It is lost with the server, as the connections are.
package presence

import (
	"maps"
	"sync"
	"sync/atomic"

	"croft.dev/croft/internal/id"
)

// Kind of a connection.
type Kind string

// The kinds.
const (
	App      Kind = "app" // a request to an application, or a WebSocket
	SSH      Kind = "ssh"
	Terminal Kind = "terminal"
)

// Seen is what is known of a job's connections of one kind.
type Seen struct {
	Open int
	Last int64 // ns; when one was there last: now, if one is open
}

// Registry counts. Make it with New.
type Registry struct {
	now func() int64
	mu  sync.RWMutex
	by  map[key]*count

	listens sync.Mutex
	ears    map[id.Job]map[*ear]bool
}

// ear is somebody who is to be told what concerns a job.
type ear struct{ hear func(line string) }

type key struct {
	job  id.Job
	kind Kind
}

type count struct{ open, last atomic.Int64 }

// New returns a registry that knows of nobody. now is the time in ns.
func New(now func() int64) *Registry { return &Registry{now: now, by: make(map[key]*count)} }

// Listen has hear called with whatever those in a job are told, until stop is.
func (r *Registry) Listen(job id.Job, hear func(line string)) (stop func()) {
	e := &ear{hear}
	r.listens.Lock()
	defer r.listens.Unlock()
	if r.ears == nil {
		r.ears = make(map[id.Job]map[*ear]bool)
	}
	if r.ears[job] == nil {
		r.ears[job] = make(map[*ear]bool)
	}
	r.ears[job][e] = true
	return func() {
		r.listens.Lock()
		defer r.listens.Unlock()
		if delete(r.ears[job], e); len(r.ears[job]) == 0 {
			delete(r.ears, job)
		}
	}
}

// Tell tells all who listen in a job. It waits for none of them.
func (r *Registry) Tell(job id.Job, line string) {
	r.listens.Lock()
	defer r.listens.Unlock()
	for e := range r.ears[job] {
		go e.hear(line)
	}
}

// Enter counts a connection in. What it returns is called once when the connection ends.
func (r *Registry) Enter(job id.Job, kind Kind) (leave func()) {
	c := r.count(key{job, kind})
	c.last.Store(r.now())
	return func() {
		c.last.Store(r.now())
		c.open.Add(-1)
	}
}

// count is the counter of k, with one more open: so it isn't forgotten meanwhile.
func (r *Registry) count(k key) *count {
	r.mu.RLock()
	c := r.by[k]
	if c != nil {
		c.open.Add(1)
	}
	r.mu.RUnlock()
	if c != nil {
		return c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c = r.by[k]; c == nil {
		c = new(count)
		r.by[k] = c
	}
	c.open.Add(1)
	return c
}

// Of returns what is known of a job's connections, by their kind.
func (r *Registry) Of(job id.Job) map[Kind]Seen {
	now := r.now()
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make(map[Kind]Seen)
	for _, kind := range []Kind{App, SSH, Terminal} {
		c := r.by[key{job, kind}]
		if c == nil {
			continue
		}
		s := Seen{Open: int(c.open.Load()), Last: c.last.Load()}
		if s.Open > 0 {
			s.Last = now
		}
		out[kind] = s
	}
	return out
}

// Keep forgets the jobs that stays doesn't want kept and that nobody is in.
func (r *Registry) Keep(stays func(id.Job) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.by, func(k key, c *count) bool { return c.open.Load() == 0 && !stays(k.job) })
}
