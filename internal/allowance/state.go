package allowance

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ allowance() }

// Set puts a rule. A removed one stays.
type Set struct{ Row Allowance }

func (Set) allowance() {}

// State is the rules.
type State struct {
	Rules  table.Table[id.Allowance, Allowance]
	byName table.Table[string, id.Allowance]
}

// Copy returns an independent state in constant time.
func (s *State) Copy() State { return State{Rules: s.Rules.Copy(), byName: s.byName.Copy()} }

// Fold applies a change.
func (s *State) Fold(c Change) {
	if c, ok := c.(Set); ok {
		s.Rules.Set(c.Row.ID, c.Row)
		s.byName.Set(nameKey(c.Row.Account, c.Row.Name), c.Row.ID)
	}
}

// Named is the rule of an account's that has a name, removed or not.
func (s *State) Named(a id.Account, name string) (Allowance, bool) {
	k, _ := s.byName.Get(nameKey(a, name))
	return s.Rules.Get(k)
}

// Of lists an account's rules by name, without the removed ones.
func (s *State) Of(a id.Account) []Allowance {
	var out []Allowance
	for key, k := range s.byName.From(nameKey(a, "")) {
		if key >= nameKey(a+1, "") {
			break
		}
		if r, _ := s.Rules.Get(k); !r.Removed {
			out = append(out, r)
		}
	}
	return out
}

// NextID is the id of the next rule.
func (s *State) NextID() id.Allowance { k, _, _ := s.Rules.Last(); return k + 1 }

func nameKey(a id.Account, name string) string { return table.Pair(int64(a), 0) + name }
