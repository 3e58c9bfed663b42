package limits

import (
	"cmp"
	"math/bits"
	"slices"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ limits() }

// LimitSet puts a limit's row; a removed one is forgotten.
type LimitSet struct{ Row Limit }

func (LimitSet) limits() {}

// State is the limits, and the use that they bound. Use is derived from the jobs
// that haven't ended.
type State struct {
	Limits  table.Table[id.Limit, Limit]
	byScope table.Table[string, Limit] // scopeKey + resource
	use     table.Table[string, Use]   // by scopeKey
	models  table.Table[string, int64] // scopeKey + model
	last    id.Limit
}

// Use is what a scope has in use.
type Use struct{ CPU, Mem, GPU, Running, Submitted int64 }

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{Limits: s.Limits.Copy(), byScope: s.byScope.Copy(), use: s.use.Copy(), models: s.models.Copy(), last: s.last}
}

// Fold puts a change's row.
func (s *State) Fold(c Change) {
	row := c.(LimitSet).Row
	s.last = max(s.last, row.ID)
	if old, ok := s.Limits.Get(row.ID); ok {
		s.byScope.Delete(scopeKey(old.Scope) + string(old.Resource))
	}
	if row.Removed {
		s.Limits.Delete(row.ID)
		return
	}
	s.Limits.Set(row.ID, row)
	s.byScope.Set(scopeKey(row.Scope)+string(row.Resource), row)
}

// Next is the id of the next limit.
func (s *State) Next() id.Limit { return s.last + 1 }

// Find returns the limit on a resource of exactly this scope.
func (s *State) Find(sc Scope, r Resource) (Limit, bool) {
	return s.byScope.Get(scopeKey(sc) + string(r))
}

// Who is whom a job counts for: the account with its ancestors (itself first),
// the user, the partition.
type Who struct {
	Path      []id.Account
	User      id.User
	Partition string
}

// scopes yields every scope that the use of w counts in.
func (w Who) scopes(yield func(Scope)) {
	for _, p := range [2]string{"", w.Partition} {
		yield(Scope{Partition: p})
		if w.User != 0 {
			yield(Scope{User: w.User, Partition: p})
		}
		for _, a := range w.Path {
			yield(Scope{Account: a, Partition: p})
			if w.User != 0 {
				yield(Scope{Account: a, User: w.User, Partition: p})
			}
		}
		if w.Partition == "" {
			return
		}
	}
}

// Count adds d, or with sign -1 takes it away, in every scope of w.
func (s *State) Count(w Who, d Demand, sign int64) {
	if d.zero() {
		return
	}
	w.scopes(func(sc Scope) {
		k := scopeKey(sc)
		u, _ := s.use.Get(k)
		u = Use{u.CPU + sign*d.CPU, u.Mem + sign*d.Mem, u.GPU + sign*d.GPU, u.Running + sign*d.Running, u.Submitted + sign*d.Submitted}
		if u == (Use{}) {
			s.use.Delete(k)
		} else {
			s.use.Set(k, u)
		}
		for _, m := range d.Models {
			n, _ := s.models.Get(k + m.Model)
			if n += sign * m.Count; n == 0 {
				s.models.Delete(k + m.Model)
			} else {
				s.models.Set(k+m.Model, n)
			}
		}
	})
}

func (d Demand) zero() bool {
	return d.CPU == 0 && d.Mem == 0 && d.GPU == 0 && d.Running == 0 && d.Submitted == 0
}

// Used returns what a scope has in use of a resource.
func (s *State) Used(sc Scope, r Resource) int64 {
	u, _ := s.use.Get(scopeKey(sc))
	switch r {
	case CPU:
		return u.CPU
	case Mem:
		return u.Mem
	case GPU:
		return u.GPU
	case Running:
		return u.Running
	case Submitted:
		return u.Submitted
	}
	if m, ok := r.Model(); ok {
		n, _ := s.models.Get(scopeKey(sc) + m)
		return n
	}
	return 0
}

// asked lists what a demand asks of each bounded resource; wall is per job.
func (d Demand) asked(wall int64) []ask {
	all := []ask{{CPU, d.CPU}, {Mem, d.Mem}, {GPU, d.GPU}, {Running, d.Running}, {Submitted, d.Submitted}, {Time, wall}}
	for _, m := range d.Models {
		all = append(all, ask{Devices(m.Model), m.Count})
	}
	return slices.DeleteFunc(all, func(a ask) bool { return a.amount == 0 })
}

type ask struct {
	resource Resource
	amount   int64
}

// Check returns every bound that d (and wall, in ns, for the job itself) would
// pass, the tightest first: those that no waiting cures, then by the smallest
// part of what is asked that would still fit.
func (s *State) Check(w Who, d Demand, wall int64) []Violation {
	if s.byScope.Len() == 0 {
		return nil
	}
	var out []Violation
	asks := d.asked(wall)
	w.scopes(func(sc Scope) {
		for _, a := range asks {
			l, ok := s.Find(sc, a.resource)
			if !ok {
				continue
			}
			used := s.Used(sc, a.resource)
			if a.amount > l.Max || used > l.Max-a.amount {
				out = append(out, Violation{Limit: l, Used: used, Asked: a.amount, Never: a.amount > l.Max})
			}
		}
	})
	slices.SortStableFunc(out, tighter)
	return out
}

func tighter(a, b Violation) int {
	if a.Never != b.Never {
		if a.Never {
			return -1
		}
		return 1
	}
	// headroom a / asked a  against  headroom b / asked b, without division
	return cmp.Or(cmpRatio(a.headroom(), a.Asked, b.headroom(), b.Asked), cmp.Compare(a.Limit.ID, b.Limit.ID))
}

func (v Violation) headroom() int64 { return max(v.Limit.Max-v.Used, 0) }

func cmpRatio(n1, d1, n2, d2 int64) int {
	h1, l1 := bits.Mul64(uint64(n1), uint64(d2))
	h2, l2 := bits.Mul64(uint64(n2), uint64(d1))
	return cmp.Or(cmp.Compare(h1, h2), cmp.Compare(l1, l2))
}

// Bound is a limit with what is used of it.
type Bound struct {
	Limit Limit
	Used  int64
}

// Effective returns every limit that bounds w, with its use, in the order in which
// scopes widen.
func (s *State) Effective(w Who) []Bound {
	var out []Bound
	w.scopes(func(sc Scope) {
		k := scopeKey(sc)
		for key, l := range s.byScope.From(k) {
			if len(key) < len(k) || key[:len(k)] != k {
				break
			}
			out = append(out, Bound{l, s.Used(sc, l.Resource)})
		}
	})
	return out
}

// scopeKey is fixed-width ids, then the partition and a separator that no
// partition's name holds.
func scopeKey(s Scope) string {
	k := make([]byte, 0, 17+len(s.Partition))
	for i := 7; i >= 0; i-- {
		k = append(k, byte(s.Account>>(8*i)))
	}
	for i := 7; i >= 0; i-- {
		k = append(k, byte(s.User>>(8*i)))
	}
	return string(append(append(k, s.Partition...), 0))
}
