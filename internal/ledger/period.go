package ledger

import "croft.dev/croft/internal/id"

// Period is a span of whole days whose books are closed: [From, To), ns since the epoch.
// Nothing is posted into it any more, since postings are of the moment at which they are
// made; what was known of its device time when it was closed is kept.
type Period struct {
	From, To int64
	Closed   int64 // ns
	By       id.User
}

// Holds reports whether the period has time of [from, to).
func (p Period) Holds(from, to int64) bool { return p.From < to && from < p.To }

// PeriodSet closes a period. There is no change that opens one.
type PeriodSet struct{ Row Period }

func (PeriodSet) ledger() {}

// ClosedIn lists the closed periods that have time of [from, to), in order. They don't
// overlap.
func (s *State) ClosedIn(from, to int64) []Period {
	var out []Period
	for _, p := range s.Closed.All() {
		if p.Holds(from, to) {
			out = append(out, p)
		}
	}
	return out
}

// AllClosed lists the closed periods that cover [from, to); ok is false if some of it is
// open.
func (s *State) AllClosed(from, to int64) (covers []Period, ok bool) {
	covers = s.ClosedIn(from, to)
	for _, p := range covers {
		if p.From > from {
			return nil, false
		}
		from = p.To
	}
	return covers, from >= to
}
