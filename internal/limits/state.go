package limits

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
	"croft.dev/croft/internal/tenancy"
)

// Change is a row that this package's decisions put.
type Change interface{ limits() }

// The changes. A removed limit and a period that is over are forgotten.
type (
	LimitSet  struct{ Row Limit }
	PeriodSet struct{ Row Period }
)

func (LimitSet) limits()  {}
func (PeriodSet) limits() {}

// State is the limits, and the use that they bound. Use at once is derived from the jobs
// that haven't ended: it is kept by whom it belongs to, and once more for each scope
// that has a limit, so that counting costs as much as there is to be compared. Use
// per period is in rows.
type State struct {
	Limits    table.Table[id.Limit, Limit]
	UserJobs  int64 // submitted jobs of a user who has no limit of his own; 0: any number
	Zone      Zone
	periods   table.Table[string, Period] // by limit and start
	cells     table.Table[string, cell]
	byScope   table.Table[string, scoped]
	tokens    table.Table[id.Token, Demand] // what is in use by tokens that have caps
	kinds     [1 << kindBits]int32          // scopes that have a limit, by kind
	lastLimit id.Limit
}

// cell is the use of one Who.
type cell struct {
	who Who
	use Demand
}

// scoped is the limits of one scope, by resource, and their use. What each user has
// is in the cells alone.
type scoped struct {
	limits []Limit
	use    Demand
}

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{
		Limits: s.Limits.Copy(), UserJobs: s.UserJobs, Zone: s.Zone, periods: s.periods.Copy(), cells: s.cells.Copy(), byScope: s.byScope.Copy(), tokens: s.tokens.Copy(), kinds: s.kinds, lastLimit: s.lastLimit,
	}
}

// Fold puts a change's row.
func (s *State) Fold(c Change) {
	switch c := c.(type) {
	case LimitSet:
		s.put(c.Row)
	case PeriodSet:
		s.putPeriod(c.Row)
	}
}

func (s *State) put(row Limit) {
	s.lastLimit = max(s.lastLimit, row.ID)
	if old, ok := s.Limits.Delete(row.ID); ok {
		s.drop(old)
	}
	if row.Removed {
		return
	}
	s.Limits.Set(row.ID, row)
	k := row.Scope.key()
	sc, ok := s.byScope.Get(k)
	if !ok {
		s.kinds[row.Scope.kind()]++
		if row.Scope.User != Each {
			sc.use = s.sum(row.Scope)
		}
	}
	i, _ := slices.BinarySearchFunc(sc.limits, row.key(), byKey)
	sc.limits = slices.Insert(slices.Clone(sc.limits), i, row)
	s.byScope.Set(k, sc)
}

func byKey(l Limit, k key) int {
	return cmp.Or(cmp.Compare(l.Resource, k.resource), cmp.Compare(l.Per.Unit, k.per.Unit), cmp.Compare(l.Per.Span, k.per.Span))
}

// drop takes a limit out of its scope.
func (s *State) drop(l Limit) {
	k := l.Scope.key()
	sc, _ := s.byScope.Get(k)
	sc.limits = slices.DeleteFunc(slices.Clone(sc.limits), func(o Limit) bool { return o.ID == l.ID })
	if len(sc.limits) > 0 {
		s.byScope.Set(k, sc)
		return
	}
	s.byScope.Delete(k)
	s.kinds[l.Scope.kind()]--
}

// Next is the id of the next limit.
func (s *State) Next() id.Limit { return s.lastLimit + 1 }

// Find returns the limit on a resource, per such a period, of exactly this scope.
func (s *State) Find(sc Scope, r Resource, per Per) (Limit, bool) {
	row, _ := s.byScope.Get(sc.key())
	if i, ok := slices.BinarySearchFunc(row.limits, key{r, per}, byKey); ok {
		return row.limits[i], true
	}
	return Limit{}, false
}

// Who is whom a job counts for: the account with its ancestors (itself first),
// the user, the partition, the QoS.
type Who struct {
	Path      []id.Account
	User      id.User
	Partition string
	QoS       string
	Token     tenancy.ByToken // by which it was submitted
}

// Within reports whether what w uses counts in sc.
func (w Who) Within(sc Scope) bool {
	return (sc.Account == 0 || slices.Contains(w.Path, sc.Account)) && (sc.User == 0 || sc.User == w.User || sc.User == Each && w.User != 0) &&
		(sc.Partition == "" || sc.Partition == w.Partition) && (sc.QoS == "" || sc.QoS == w.QoS)
}

// key is the cell's: those of a user lie side by side.
func (w Who) key() string {
	k := make([]byte, 0, 8+len(w.Partition)+len(w.QoS)+2+8*len(w.Path))
	k = binary.BigEndian.AppendUint64(k, uint64(w.User))
	k = append(append(k, w.Partition...), 0)
	k = append(append(k, w.QoS...), 0)
	for _, a := range w.Path {
		k = binary.BigEndian.AppendUint64(k, uint64(a))
	}
	return string(k)
}

// bounding yields the scopes that have limits and that the use of w counts in.
func (s *State) bounding(w Who, yield func(key string, sc scoped)) {
	if s.byScope.Len() == 0 {
		return
	}
	visit := func(sc Scope) {
		k := sc.key()
		if row, ok := s.byScope.Get(k); ok {
			yield(k, row)
		}
	}
	for kind, n := range s.kinds {
		sc, ok := w.scope(kind)
		switch {
		case n == 0 || !ok:
		case kind&ofAccount == 0:
			visit(sc)
		default:
			for _, sc.Account = range w.Path {
				visit(sc)
			}
		}
	}
}

// Count adds d, or with sign -1 takes it away, in every scope of w.
func (s *State) Count(w Who, d Demand, sign int64) {
	if d.Zero() {
		return
	}
	s.countToken(w.Token, d, sign)
	k := w.key()
	c, ok := s.cells.Get(k)
	if !ok {
		c.who = w
		c.who.Token = tenancy.ByToken{} // a cell has the jobs of all
	}
	if c.use = c.use.Plus(d, sign); c.use.Zero() {
		s.cells.Delete(k)
	} else {
		s.cells.Set(k, c)
	}
	s.bounding(w, func(k string, sc scoped) {
		if sc.limits[0].Scope.User != Each {
			sc.use = sc.use.Plus(d, sign)
			s.byScope.Set(k, sc)
		}
	})
}

// sum adds up the use of a scope.
func (s *State) sum(sc Scope) Demand {
	var d Demand
	for _, c := range s.cells.All() {
		if c.who.Within(sc) {
			d = d.Plus(c.use, +1)
		}
	}
	return d
}

// Used returns what a scope has in use of a resource that is counted at once.
func (s *State) Used(sc Scope, r Resource) int64 {
	if row, ok := s.byScope.Get(sc.key()); ok {
		return row.use.of(r)
	}
	return s.sum(sc).of(r)
}

// Users lists what each user has in use of a resource within a scope, by id.
func (s *State) Users(sc Scope, r Resource) []UserUse {
	var out []UserUse
	for _, c := range s.cells.All() {
		n := c.use.of(r)
		if n == 0 || !c.who.Within(sc) {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].User == c.who.User {
			out[last].Used += n
		} else {
			out = append(out, UserUse{c.who.User, n})
		}
	}
	return out
}

// UserUse is what a user has in use.
type UserUse struct {
	User id.User
	Used int64
}

// Check returns every bound that a would pass, the tightest first: those that no
// waiting cures, then by the smallest part of what is asked that would still fit.
func (s *State) Check(w Who, a Ask) []Violation {
	var out []Violation
	check := func(b Bound, n int64) {
		if n > b.Max || b.Used > b.Max-n {
			out = append(out, Violation{Bound: b, Asked: n, Never: n > b.Most()})
		}
	}
	s.bounding(w, func(_ string, sc scoped) {
		for _, l := range sc.limits {
			n := a.Of(l.Resource)
			if b, binds := s.bound(sc, l, w.User, a.Now); n > 0 && binds {
				check(b, n)
			}
		}
	})
	if b, ok := s.devicesOf(w); ok && a.GPU > 0 {
		check(b, a.GPU)
	}
	if a.Submitted > 0 {
		if b, ok := s.Preset(w.User); ok {
			check(b, a.Submitted)
		}
	}
	slices.SortStableFunc(out, tighter)
	return out
}

// bound is a limit of a scope with what is used of it. Of one for each user it is what
// u uses, and not ok if u has a limit of his own.
func (s *State) bound(sc scoped, l Limit, u id.User, now int64) (b Bound, ok bool) {
	if l.Scope.User == Each {
		l.Scope.User = u
		if _, own := s.Find(l.Scope, l.Resource, l.Per); own || u == 0 {
			return Bound{}, false
		}
		sc.use = s.ofUser(u, l.Scope)
	}
	switch {
	case l.Resource.Hours():
		return s.hoursOf(l, now), true
	case l.Resource.PerJob():
		return Bound{Limit: l, Max: l.Max}, true
	}
	return Bound{Limit: l, Max: l.Max, Used: sc.use.of(l.Resource)}, true
}

// ofUser adds up what a user has in use in a scope.
func (s *State) ofUser(u id.User, sc Scope) Demand {
	var d Demand
	for _, c := range s.cells.From(Who{User: u}.prefix()) {
		if c.who.User != u {
			break
		}
		if c.who.Within(sc) {
			d = d.Plus(c.use, +1)
		}
	}
	return d
}

// BoundOf is a limit with what is used of it now; of one for each user, by whoever
// uses most.
func (s *State) BoundOf(l Limit, now int64) Bound {
	if l.Scope.User == Each {
		b := Bound{Limit: l, Max: l.Max}
		for _, u := range s.Users(l.Scope, l.Resource) {
			b.Used = max(b.Used, u.Used)
		}
		return b
	}
	b, _ := s.BoundFor(l, 0, now)
	return b
}

// BoundFor is a limit as it binds a user; not ok if he has one of his own instead.
func (s *State) BoundFor(l Limit, u id.User, now int64) (b Bound, ok bool) {
	sc, _ := s.byScope.Get(l.Scope.key())
	return s.bound(sc, l, u, now)
}

// Preset is the bound on a user's submitted jobs where no limit says otherwise.
func (s *State) Preset(u id.User) (Bound, bool) {
	sc := Scope{User: u}
	_, own := s.Find(sc, Submitted, Per{})
	_, each := s.Find(Scope{User: Each}, Submitted, Per{})
	if own || each || s.UserJobs == 0 || u == 0 {
		return Bound{}, false
	}
	l := Limit{Scope: sc, Resource: Submitted, Max: s.UserJobs}
	return Bound{Limit: l, Max: l.Max, Used: s.ofUser(u, sc).Submitted}, true
}

// prefix is what the keys of all cells of a user begin with.
func (w Who) prefix() string { return w.key()[:8] }

func tighter(a, b Violation) int {
	if a.Never != b.Never {
		if a.Never {
			return -1
		}
		return 1
	}
	// headroom a / asked a  against  headroom b / asked b, without division
	return cmp.Or(cmpRatio(a.Left(), a.Asked, b.Left(), b.Asked), cmp.Compare(a.Limit.ID, b.Limit.ID))
}

func cmpRatio(n1, d1, n2, d2 int64) int {
	h1, l1 := bits.Mul64(uint64(n1), uint64(d2))
	h2, l2 := bits.Mul64(uint64(n2), uint64(d1))
	return cmp.Or(cmp.Compare(h1, h2), cmp.Compare(l1, l2))
}

// Effective returns every limit that bounds w, with its use now, by scope.
func (s *State) Effective(w Who, now int64) []Bound {
	var out []Bound
	s.bounding(w, func(_ string, sc scoped) {
		for _, l := range sc.limits {
			if b, ok := s.bound(sc, l, w.User, now); ok {
				out = append(out, b)
			}
		}
	})
	if b, ok := s.Preset(w.User); ok {
		out = append(out, b)
	}
	return out
}

// What a scope names: its kind.
const (
	ofAccount = 1 << iota
	ofUser
	ofEach
	ofPartition
	ofQoS
	kindBits = iota
)

func (sc Scope) kind() int {
	k := 0
	if sc.Account != 0 {
		k |= ofAccount
	}
	switch {
	case sc.User == Each:
		k |= ofEach
	case sc.User != 0:
		k |= ofUser
	}
	if sc.Partition != "" {
		k |= ofPartition
	}
	if sc.QoS != "" {
		k |= ofQoS
	}
	return k
}

// scope is the scope of w of some kind, but for its account; not ok if w doesn't
// say enough to be in one.
func (w Who) scope(kind int) (sc Scope, ok bool) {
	if kind&ofUser != 0 {
		sc.User = w.User
	}
	if kind&ofEach != 0 {
		sc.User = Each
	}
	if kind&ofPartition != 0 {
		sc.Partition = w.Partition
	}
	if kind&ofQoS != 0 {
		sc.QoS = w.QoS
	}
	return sc, sc.kind() == kind&^ofAccount
}

// key is fixed-width ids, then the names, each with a separator that no name holds.
func (sc Scope) key() string {
	k := make([]byte, 0, 18+len(sc.Partition)+len(sc.QoS))
	k = binary.BigEndian.AppendUint64(k, uint64(sc.Account))
	k = binary.BigEndian.AppendUint64(k, uint64(sc.User))
	k = append(append(k, sc.Partition...), 0)
	return string(append(k, sc.QoS...))
}
