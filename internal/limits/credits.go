package limits

// Caps are the limits on credits that bind w, with what is set aside of them. What was
// charged is in the books: Span says of which time it counts.
func (s *State) Caps(w Who, now int64) []Bound {
	var out []Bound
	s.bounding(w, func(_ string, sc scoped) {
		for _, l := range sc.limits {
			if l.Resource != Credits {
				continue
			}
			if b, ok := s.bound(sc, l, w.User, now); ok {
				out = append(out, b)
			}
		}
	})
	if b, ok := s.spendOf(w); ok {
		out = append(out, b)
	}
	return out
}

// Span is the period of a limit on credits that a moment is in, in ns; to is 0 for one on
// what is spent in all.
func (l Limit) Span(now int64) (from, to int64) {
	if l.Per.Unit == "" {
		return 0, 0
	}
	return l.Per.Unit.OfMoney(now)
}

// OfMoney is the calendar's period that a moment is in, in ns, where money is counted: by
// days of UTC, as in statements.
func (u Unit) OfMoney(now int64) (from, to int64) { return Zone(nil).period(u, now) }
