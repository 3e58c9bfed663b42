package approval

import (
	"iter"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ approval() }

// RequestSet puts a request.
type RequestSet struct{ Row Request }

func (RequestSet) approval() {}

// State is all requests, those that are decided too: there are few, and what was asked for and
// who decided is asked about later.
type State struct {
	Requests table.Table[id.Request, Request]
	open     table.Table[string, id.Request] // by Pair(expires, id)
}

// Copy returns an independent state in constant time.
func (s *State) Copy() State { return State{Requests: s.Requests.Copy(), open: s.open.Copy()} }

// Fold applies a change.
func (s *State) Fold(c Change) {
	if c, ok := c.(RequestSet); ok {
		if old, ok := s.Requests.Set(c.Row.ID, c.Row); ok {
			s.open.Delete(openKey(old))
		}
		if c.Row.State == Open {
			s.open.Set(openKey(c.Row), c.Row.ID)
		}
	}
}

// Opened yields the requests that nobody has decided, the one that expires first first. Some
// may have expired already.
func (s *State) Opened() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		for _, k := range s.open.All() {
			if r, ok := s.Requests.Get(k); ok && !yield(r) {
				return
			}
		}
	}
}

// Next is the id of the next request.
func (s *State) Next() id.Request { k, _, _ := s.Requests.Last(); return k + 1 }

func openKey(r Request) string { return table.Pair(r.Expires, int64(r.ID)) }
