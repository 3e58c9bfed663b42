package fairshare

import (
	"encoding/binary"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/table"
)

// Use is what a user has used in an account by work that is over: so much was left
// of it at a time. It counts the list price, in micro-credits.
type Use struct {
	Account id.Account
	User    id.User
	Left    money.Micros
	At      int64 // ns
}

// Run is an attempt that runs, and counts while it does.
type Run struct {
	Rate  money.Rate // see RateOf
	From  int64      // ns; when it began
	Until int64      // ns; longer it doesn't count
}

// Change is a row that this package's decisions put.
type Change interface{ fairshare() }

// UseSet puts a user's use.
type UseSet struct{ Row Use }

func (UseSet) fairshare() {}

// State is everybody's use.
type State struct {
	uses    table.Table[string, Use] // by Pair(account, user)
	runs    table.Table[string, Run] // by runKey
	edition *Edition
}

// Edition is what a state and its copies have in common until one of them changes:
// the same standings follow from them then, at the same time.
type Edition struct{ _ byte }

// NewState returns an empty state.
func NewState() State { return State{edition: new(Edition)} }

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{uses: s.uses.Copy(), runs: s.runs.Copy(), edition: s.edition}
}

// Edition is the state's.
func (s *State) Edition() *Edition { return s.edition }

// Renew gives the state another edition, since something else that standings follow
// from has changed.
func (s *State) Renew() { s.edition = new(Edition) }

// Fold puts a change's row.
func (s *State) Fold(c Change) {
	row := c.(UseSet).Row
	s.uses.Set(table.Pair(int64(row.Account), int64(row.User)), row)
	s.Renew()
}

// Track counts an attempt of a job from now on; Untrack doesn't any more.
func (s *State) Track(a id.Account, u id.User, j id.Job, r Run) {
	if old, ok := s.runs.Set(runKey(a, u, j), r); !ok || old != r {
		s.Renew()
	}
}

// Untrack forgets what Track counts.
func (s *State) Untrack(a id.Account, u id.User, j id.Job) {
	if _, ok := s.runs.Delete(runKey(a, u, j)); ok {
		s.Renew()
	}
}

func runKey(a id.Account, u id.User, j id.Job) string {
	k := make([]byte, 0, 24)
	k = binary.BigEndian.AppendUint64(k, uint64(a))
	k = binary.BigEndian.AppendUint64(k, uint64(u))
	return string(binary.BigEndian.AppendUint64(k, uint64(j)))
}

func ofRun(key string) (id.Account, id.User) {
	return id.Account(binary.BigEndian.Uint64([]byte(key[:8]))), id.User(binary.BigEndian.Uint64([]byte(key[8:16])))
}

// Settle adds an attempt that is over, from its start to its end, to what a user
// has used, as of now. It reports false where that changes nothing.
//
// What there was is brought to now only when a half-life has passed, so that the
// rounding of many short jobs doesn't add up; until then it is what is added that
// is brought to the time of the rest.
func (s *State) Settle(a id.Account, u id.User, r Run, now, half int64) (UseSet, bool) {
	add := priced(r.Rate, lasting(r.From, r.Until, now, half))
	if add == 0 {
		return UseSet{}, false
	}
	row, ok := s.uses.Get(table.Pair(int64(a), int64(u)))
	switch age := now - row.At; {
	case !ok || half <= 0 || age > half:
		row = Use{a, u, plus(faded(row.Left, age, half), add), now}
	default:
		row.Left = plus(row.Left, unfaded(add, age, half))
	}
	return UseSet{row}, true
}
