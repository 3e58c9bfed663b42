package ledger_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
)

// tab is what jobs have set aside and paid, by job and source.
type tab struct {
	left, paid map[id.Job]map[ledger.Account]money.Micros
}

func newTab() *tab {
	t := &tab{map[id.Job]map[ledger.Account]money.Micros{}, map[id.Job]map[ledger.Account]money.Micros{}}
	for j := id.Job(1); j <= 3; j++ {
		t.left[j], t.paid[j] = map[ledger.Account]money.Micros{}, map[ledger.Account]money.Micros{}
	}
	return t
}

func partsOf(m map[ledger.Account]money.Micros) (out []ledger.Part) {
	// Grants first, as a job's sources are: the overdraft pays last.
	for _, s := range []bool{false, true} {
		for _, a := range slices.Sorted(keys(m)) {
			if (a == ledger.OfOverdraft(1)) == s && m[a] > 0 {
				out = append(out, ledger.Part{Source: a, Amount: m[a]})
			}
		}
	}
	return out
}

// Whatever is set aside, charged, corrected, returned, refunded and given: what an account
// uses of its overdraft is never below zero or beyond its bound, no credits lie idle beside a
// debt that was settled, and once all is given back nothing is owed or was kept from a grant.
func TestOverdraft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, now, bound := &books{sums: map[ledger.Account]money.Micros{}}, int64(0), money.Micros(500)
		jobs := newTab()
		back := func(j id.Job, refund bool) {
			who := ledger.Payer{Job: j, Attempt: 1, Account: 1, User: 2}
			p := b.posting(now)
			var out []ledger.Change
			if refund {
				out = p.Refund(&b.State, partsOf(jobs.paid[j]), ledger.CauseDown, who)
			}
			b.post(t, append(out, p.Return(&b.State, partsOf(jobs.left[j]), who)...))
			clear(jobs.left[j])
			clear(jobs.paid[j])
		}
		var given money.Micros
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.Int64Range(0, day).Draw(t, "passes")
			j := id.Job(rapid.IntRange(1, 3).Draw(t, "job"))
			who := ledger.Payer{Job: j, Attempt: 1, Account: 1, User: 2}
			settled := true
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				start := now + rapid.SampledFrom([]int64{0, 0, day}).Draw(t, "starts")
				g := ledger.Grant{ID: b.NextGrant(), Account: 1, Amount: amount(t, 1), Source: "x", Start: start, End: rapid.SampledFrom([]int64{0, start + 100*day}).Draw(t, "ends")}
				given += g.Amount
				b.post(t, b.posting(now).Give(&b.State, g))
			case 1, 2:
				sources := b.Funds([]id.Account{1}, now, ledger.Overdraft{Account: 1, Bound: bound})
				parts, _ := ledger.Split(sources, min(amount(t, 0), ledger.Available(sources)), "")
				b.post(t, b.posting(now).Deposit(parts, who))
				for _, x := range parts {
					jobs.left[j][x.Source] += x.Amount
				}
				settled = false
			case 3:
				parts := partsOf(jobs.left[j])
				out, left, _ := b.posting(now).Charge(parts, amount(t, 0), who)
				b.post(t, out)
				for i, x := range parts {
					jobs.left[j][x.Source] = left[i].Amount
					jobs.paid[j][x.Source] += x.Amount - left[i].Amount
				}
				settled = false
			case 4:
				paid := partsOf(jobs.paid[j])
				out, undone := b.posting(now).Correct(paid, min(amount(t, 0), total(paid)), who)
				b.post(t, out)
				for _, x := range undone {
					jobs.left[j][x.Source] += x.Amount
					jobs.paid[j][x.Source] -= x.Amount
				}
				settled = false
			case 5:
				back(j, false)
			case 6:
				back(j, true)
			}
			if used := b.Overdrawn(1); used < 0 || used > bound {
				t.Fatalf("%d of an overdraft of %d are used", used, bound)
			}
			if have := b.Sources([]id.Account{1}, now); settled && b.Owed(1) > 0 && ledger.Available(have) > 0 {
				t.Fatalf("%d are owed beside %d in grants", b.Owed(1), ledger.Available(have))
			}
		}
		charged := b.Balance(ledger.Spent(1))
		for j := id.Job(1); j <= 3; j++ {
			charged -= total(partsOf(jobs.paid[j])) // what is refunded now
			back(j, true)
		}
		var rest money.Micros
		for _, g := range b.Grants.All() {
			rest += b.Balance(ledger.OfGrant(g.ID))
		}
		if owes := b.Overdrawn(1); rest-owes != given-charged || b.Balance(ledger.Spent(1)) != charged {
			t.Fatalf("of %d given and %d charged %d are left in grants and %d are owed", given, charged, rest, owes)
		}
	})
}

// What a grant repaid comes back to it, also when its time is nearly over, and is lost when
// it no longer takes money back.
func TestUnpay(t *testing.T) {
	end := 10 * day
	for name, tt := range map[string]struct {
		at   int64
		want ledger.Account
	}{
		"in its time":           {end - 1, ledger.OfGrant(1)},
		"in its tail":           {end + ledger.RefundTail - 1, ledger.OfGrant(1)},
		"when that is over too": {end + ledger.RefundTail, ledger.Expired},
	} {
		t.Run(name, func(t *testing.T) {
			var s ledger.State
			fold := func(changes []ledger.Change) {
				for _, c := range changes {
					s.Fold(c)
				}
			}
			who, parts := ledger.Payer{Job: 1, Account: 1, User: 2}, []ledger.Part{{Source: ledger.OfOverdraft(1), Amount: 40}}
			fold(s.NewPosting(1, 0).Deposit(parts, who))
			charge, _, _ := s.NewPosting(2, 0).Charge(parts, 40, who)
			fold(charge)
			fold(s.NewPosting(3, 0).Give(&s, ledger.Grant{ID: 1, Account: 1, Amount: 100, Source: "x", End: end}))
			if s.Owed(1) != 0 || s.Balance(ledger.OfGrant(1)) != 60 {
				t.Fatalf("%d are owed, %d left", s.Owed(1), s.Balance(ledger.OfGrant(1)))
			}
			before := s.Balance(tt.want)
			fold(s.NewPosting(4, tt.at).Refund(&s, parts, ledger.CauseDown, who))
			if got := s.Balance(tt.want) - before; got != 40 || s.Overdrawn(1) != 0 {
				t.Errorf("%s got %d, %d are overdrawn", tt.want, got, s.Overdrawn(1))
			}
		})
	}
}

// Of two grants that end at the same instant the one that was given first repays first, and
// a grant repays before its time has come.
func TestRepays(t *testing.T) {
	var s ledger.State
	fold := func(changes []ledger.Change) {
		for _, c := range changes {
			s.Fold(c)
		}
	}
	who, most := ledger.Payer{Job: 1, Account: 1, User: 2}, money.Micros(math.MaxInt64/2)
	sources := s.Funds([]id.Account{1}, 0, ledger.Overdraft{Account: 1, Bound: most})
	parts, short := ledger.Split(sources, most, "")
	if short != 0 || len(parts) != 1 {
		t.Fatalf("%v, %d are missing", parts, short)
	}
	fold(s.NewPosting(1, 0).Deposit(parts, who))
	if s.Owed(1) != 0 || s.Overdrawn(1) != most {
		t.Fatalf("%d are owed, %d overdrawn", s.Owed(1), s.Overdrawn(1))
	}
	fold(s.NewPosting(2, 0).Give(&s, ledger.Grant{ID: 1, Account: 1, Amount: 30, Source: "x", End: day}))
	fold(s.NewPosting(2, 0).Give(&s, ledger.Grant{ID: 2, Account: 1, Amount: 30, Source: "x", End: day}))
	if s.Balance(ledger.OfGrant(1)) != 30 {
		t.Fatal("what is only set aside was repaid")
	}
	out, _, _ := s.NewPosting(3, 0).Charge(parts, 40, who)
	fold(out)
	fold(s.NewPosting(4, 0).Return(&s, []ledger.Part{{Source: parts[0].Source, Amount: most - 40}}, who))
	for g, want := range map[id.Grant]money.Micros{1: 0, 2: 20} {
		if got := s.Balance(ledger.OfGrant(g)); got != want {
			t.Errorf("grant %d has %d, want %d", g, got, want)
		}
	}
	if s.Owed(1) != 0 || s.Balance(ledger.Repaid(1, 1)) != 30 || s.Balance(ledger.Repaid(1, 2)) != 10 {
		t.Errorf("%d are owed", s.Owed(1))
	}
	fold(s.NewPosting(5, 0).Deposit([]ledger.Part{{Source: ledger.OfOverdraft(1), Amount: 5}}, who))
	out, _, _ = s.NewPosting(6, 0).Charge([]ledger.Part{{Source: ledger.OfOverdraft(1), Amount: 5}}, 5, who)
	fold(out)
	fold(s.NewPosting(7, 0).Expire(&s, ledger.Grant{ID: 2, Account: 1, End: day})) // the debt outlives it
	fold(s.NewPosting(8, 0).Give(&s, ledger.Grant{ID: 3, Account: 1, Amount: 30, Source: "y", Start: 400 * day}))
	if s.Owed(1) != 0 || s.Balance(ledger.OfGrant(3)) != 25 {
		t.Errorf("%d are owed, %d left", s.Owed(1), s.Balance(ledger.OfGrant(3)))
	}
}
