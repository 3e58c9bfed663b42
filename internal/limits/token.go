package limits

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
)

// A token's caps are limits on what was submitted by it. They are no rows: each job carries
// those that it was submitted under, so that they hold as long as it lives, whatever
// becomes of the token.

// countToken counts what the jobs of a token that has caps use.
func (s *State) countToken(t tenancy.ByToken, d Demand, sign int64) {
	if t.Caps == (tenancy.Caps{}) {
		return
	}
	use, _ := s.tokens.Get(t.ID)
	if use = use.Plus(d, sign); use.Zero() {
		s.tokens.Delete(t.ID)
	} else {
		s.tokens.Set(t.ID, use)
	}
}

// UsedBy is what the jobs of a token that has caps use now.
func (s *State) UsedBy(t id.Token) Demand {
	d, _ := s.tokens.Get(t)
	return d
}

// devicesOf is the cap on devices of the token that w was submitted by.
func (s *State) devicesOf(w Who) (b Bound, capped bool) {
	most, capped := w.Token.Caps.MostDevices()
	return s.ofToken(w, Limit{Resource: GPU, Max: most}), capped
}

// spendOf is the cap on credits of the token that w was submitted by, with what is set
// aside of it.
func (s *State) spendOf(w Who) (b Bound, capped bool) {
	c := w.Token.Caps
	return s.ofToken(w, Limit{Resource: Credits, Per: Per{Unit: Unit(c.Per)}, Max: int64(c.Spend)}), c.Spend != 0
}

func (s *State) ofToken(w Who, l Limit) Bound {
	l.Scope = Scope{User: w.User}
	return Bound{Token: w.Token, Limit: l, Max: l.Max, Used: s.UsedBy(w.Token.ID).of(l.Resource)}
}

// TokenCaps are the caps of a token as they stand, devices before credits; what was charged
// is in the books, as of other limits on credits.
func (s *State) TokenCaps(u id.User, t tenancy.ByToken) []Bound {
	w := Who{User: u, Token: t}
	var out []Bound
	if b, ok := s.devicesOf(w); ok {
		out = append(out, b)
	}
	if b, ok := s.spendOf(w); ok {
		out = append(out, b)
	}
	return out
}
