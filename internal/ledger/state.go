package ledger

import (
	"cmp"
	"slices"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ ledger() }

// The changes. Posted rows are appended, never replaced.
type (
	GrantSet struct{ Row Grant }
	Posted   struct{ Row Transfer }
	TileSet  struct{ Row Tile } // keyed by (Device, From, Job); To set closes it
	// BalanceSet loads a balance summed by the store, and Counted the greatest
	// transfer id; neither is ever the outcome of a decision.
	BalanceSet struct {
		Account Account
		Sum     money.Micros
	}
	Counted struct{ Transfer id.Transfer }
)

func (GrantSet) ledger()   {}
func (Posted) ledger()     {}
func (TileSet) ledger()    {}
func (BalanceSet) ledger() {}
func (Counted) ledger()    {}

// State is grants, balances and each device's open tiles.
type State struct {
	Grants   table.Table[id.Grant, Grant]
	Tiles    table.Table[string, Tile]  // the open ones by device, then job
	Closed   table.Table[int64, Period] // by From
	balances table.Table[Account, money.Micros]
	spending table.Table[string, Spending]      // by user, account and day
	byToken  table.Table[string, TokenSpending] // by token and day
	byOwner  table.Table[string, id.Grant]
	last     id.Transfer
}

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{Grants: s.Grants.Copy(), Tiles: s.Tiles.Copy(), Closed: s.Closed.Copy(), balances: s.balances.Copy(), spending: s.spending.Copy(), byToken: s.byToken.Copy(), byOwner: s.byOwner.Copy(), last: s.last}
}

// Fold applies a change.
func (s *State) Fold(c Change) {
	switch c := c.(type) {
	case GrantSet:
		s.Grants.Set(c.Row.ID, c.Row)
		s.byOwner.Set(ownerKey(c.Row.Account, c.Row.ID), c.Row.ID)
	case Posted:
		s.add(c.Row.From, -c.Row.Amount)
		s.add(c.Row.To, c.Row.Amount)
		s.spend(c.Row)
		s.last = max(s.last, c.Row.ID)
	case BalanceSet:
		s.add(c.Account, c.Sum)
	case SpendingSet:
		s.addSpending(c.Row)
	case TokenSpendingSet:
		s.addTokenSpending(c.Row)
	case Counted:
		s.last = max(s.last, c.Transfer)
	case PeriodSet:
		s.Closed.Set(c.Row.From, c.Row)
	case TileSet:
		if c.Row.To != 0 {
			s.Tiles.Delete(tileKey(c.Row.Device, c.Row.Job))
		} else {
			s.Tiles.Set(tileKey(c.Row.Device, c.Row.Job), c.Row)
		}
	}
}

func (s *State) add(a Account, d money.Micros) { add(&s.balances, a, d) }

// add keeps only sums that aren't zero, so that closed deposits cost nothing.
func add(sums *table.Table[Account, money.Micros], a Account, d money.Micros) {
	b, _ := sums.Get(a)
	if b += d; b == 0 {
		sums.Delete(a)
	} else {
		sums.Set(a, b)
	}
}

// OpenTiles lists a device's open tiles: what no job has of it, then the jobs' by id.
func (s *State) OpenTiles(device string) []Tile {
	var out []Tile
	for _, t := range s.Tiles.From(tileKey(device, 0)) {
		if t.Device != device {
			break
		}
		out = append(out, t)
	}
	return out
}

func tileKey(device string, j id.Job) string { return device + "\x00" + table.Pair(int64(j), 0) }

// NextTransfer is the id of the next transfer.
func (s *State) NextTransfer() id.Transfer { return s.last + 1 }

// Balance is the sum of all transfers into a less those out of it.
func (s *State) Balance(a Account) money.Micros {
	b, _ := s.balances.Get(a)
	return b
}

// Balances yields every balance that isn't zero, by name.
func (s *State) Balances(yield func(Account, money.Micros) bool) {
	for a, b := range s.balances.All() {
		if !yield(a, b) {
			return
		}
	}
}

// Source is a ledger account that can pay, with what it has.
type Source struct {
	Account   Account
	Grant     Grant // zero for Unfunded
	Available money.Micros
}

// Sources returns what an account with the given path (itself first, then its
// ancestors) may spend at t, in the order in which it is spent: the grant that
// ends first pays first, ties by id. Ancestors' grants count only if marked
// Subtree.
func (s *State) Sources(path []id.Account, t int64) []Source {
	var out []Source
	for i, a := range path {
		for k, gid := range s.byOwner.From(ownerKey(a, 0)) {
			if k >= ownerKey(a+1, 0) {
				break
			}
			g, _ := s.Grants.Get(gid)
			if (i > 0 && !g.Subtree) || !g.Usable(t) {
				continue
			}
			if b := s.Balance(OfGrant(gid)); b > 0 {
				out = append(out, Source{OfGrant(gid), g, b})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Source) int {
		return cmp.Or(cmp.Compare(endOf(a.Grant), endOf(b.Grant)), cmp.Compare(a.Grant.ID, b.Grant.ID))
	})
	return out
}

// GrantsOf lists an account's own grants by id.
func (s *State) GrantsOf(a id.Account) []Grant {
	var out []Grant
	for k, gid := range s.byOwner.From(ownerKey(a, 0)) {
		if k >= ownerKey(a+1, 0) {
			break
		}
		g, _ := s.Grants.Get(gid)
		out = append(out, g)
	}
	return out
}

func endOf(g Grant) int64 {
	if g.End == 0 {
		return 1<<63 - 1
	}
	return g.End
}

func ownerKey(a id.Account, g id.Grant) string { return table.Pair(int64(a), int64(g)) }

// NextGrant is the id of the next grant.
func (s *State) NextGrant() id.Grant { k, _, _ := s.Grants.Last(); return k + 1 }
