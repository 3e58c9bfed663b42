package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/table"
)

// OfOverdraft is what an account's jobs have taken beyond its grants, up to a bound: it is
// below 0 by all of that, repaid or not.
func OfOverdraft(a id.Account) Account { return Account(fmt.Sprintf("overdraft:%d", a)) }

// Repaid is what a grant has repaid of an account's overdraft.
func Repaid(a id.Account, g id.Grant) Account {
	return Account(fmt.Sprintf("%s%s", repaidBy(a), OfGrant(g)))
}

func repaidBy(a id.Account) string { return fmt.Sprintf("repaid:%d:", a) }

// Overdraft is how far an account's jobs may go beyond its grants: not at all unless it is set.
type Overdraft struct {
	Account id.Account
	Bound   money.Micros
}

// Funds are the sources of a path and then, if anything is left of it, the overdraft.
func (s *State) Funds(path []id.Account, t int64, o Overdraft) []Source {
	out := s.Sources(path, t)
	if left := o.Bound - s.Overdrawn(o.Account); o.Bound > 0 && left > 0 {
		out = append(out, Source{Account: OfOverdraft(o.Account), Available: left})
	}
	return out
}

// Overdrawn is how much of its overdraft an account uses: what was spent of it or is set
// aside, less what was repaid.
func (s *State) Overdrawn(a id.Account) money.Micros { return tab{s, &sums{}}.overdrawn(a) }

// Owed is what was spent of an account's overdraft and isn't repaid; below zero: more was
// repaid than is owed by now, and covers what is set aside.
func (s *State) Owed(a id.Account) money.Micros { return tab{s, &sums{}}.owed(a) }

// RepaidBy is what a grant has repaid of its own account's overdraft.
func (s *State) RepaidBy(g Grant) money.Micros { return s.Balance(Repaid(g.Account, g.ID)) }

type sums = table.Table[Account, money.Micros]

// tab is what is owed by the books and by postings that aren't folded into them yet.
type tab struct {
	*State
	moved *sums
}

// balance is Balance once the postings are folded.
func (t tab) balance(a Account) money.Micros {
	moved, _ := t.moved.Get(a)
	return t.Balance(a) + moved
}

// each yields the balances of the ledger accounts whose names begin so, by name.
func (t tab) each(prefix string, yield func(Account, money.Micros)) {
	of := func(all *sums) {
		for name := range all.From(Account(prefix)) {
			if !strings.HasPrefix(string(name), prefix) {
				return
			}
			if _, both := t.balances.Get(name); all == &t.balances || !both {
				yield(name, t.balance(name))
			}
		}
	}
	of(&t.balances)
	of(t.moved)
}

func (t tab) overdrawn(a id.Account) money.Micros {
	used := -t.balance(OfOverdraft(a))
	t.each(repaidBy(a), func(_ Account, n money.Micros) { used -= n })
	return used
}

func (t tab) owed(a id.Account) money.Micros {
	n, of := t.overdrawn(a), string(OfOverdraft(a))
	t.each("deposit:", func(name Account, aside money.Micros) {
		if _, source, _ := strings.Cut(strings.TrimPrefix(string(name), "deposit:"), ":"); source == of {
			n -= aside
		}
	})
	return n
}

// repayers are the grants that have repaid something of an account's overdraft, by id.
func (t tab) repayers(a id.Account) []Source {
	var out []Source
	t.each(repaidBy(a), func(name Account, n money.Micros) {
		g, ok := t.Grants.Get(grantOf(Account(strings.TrimPrefix(string(name), repaidBy(a)))))
		if ok && n > 0 {
			out = append(out, Source{name, g, n})
		}
	})
	slices.SortFunc(out, func(x, y Source) int { return cmp.Compare(x.Grant.ID, y.Grant.ID) })
	return out
}

// settle has an account's grants repay what it owes, that which ends first before the others.
// back is how much has just come back into its overdraft: so much at most of what was repaid
// and isn't owed after all is given back, such that never more than before is overdrawn. made
// is a grant of the account that is given by the same postings: it repays though its time
// hasn't come.
func (p *Posting) settle(s *State, a id.Account, back money.Micros, made ...Grant) []Change {
	t := tab{s, &p.moved}
	if back == 0 && t.overdrawn(a) == 0 {
		return nil
	}
	debt := t.owed(a)
	if debt <= 0 {
		return p.unpay(s, a, min(-debt, back))
	}
	who := Payer{Account: a}
	payers := slices.DeleteFunc(s.GrantsOf(a), func(g Grant) bool { return !g.Usable(p.At) })
	payers = append(payers, made...)
	slices.SortFunc(payers, func(x, y Grant) int {
		return cmp.Or(cmp.Compare(endOf(x), endOf(y)), cmp.Compare(x.ID, y.ID))
	})
	var out []Change
	for _, g := range payers {
		from := OfGrant(g.ID)
		take := min(debt, t.balance(from))
		out = append(out, p.transfer(from, Repaid(a, g.ID), take, KindRepay, who)...)
		debt -= max(take, 0)
	}
	return out
}

// unpay gives back what grants have repaid too much. One that is closed by now loses it.
func (p *Posting) unpay(s *State, a id.Account, over money.Micros) []Change {
	var out []Change
	for _, r := range slices.Backward(tab{s, &p.moved}.repayers(a)) {
		take := min(over, r.Available)
		out = append(out, p.transfer(r.Account, s.home(OfGrant(r.Grant.ID), p.At), take, KindUnpay, Payer{Account: a})...)
		over -= take
	}
	return out
}

// settled settles what the account of a job owes once parts of its deposit, or of what it was
// charged, came back.
func (p *Posting) settled(s *State, parts []Part, who Payer) []Change {
	of, back := OfOverdraft(who.Account), money.Micros(0)
	for _, part := range parts {
		if part.Source == of {
			back += part.Amount
		}
	}
	return p.settle(s, who.Account, back)
}
