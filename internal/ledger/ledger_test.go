package ledger_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
)

const day = int64(24 * 3600 * 1e9)

// books is a state and everything that was posted to it.
type books struct {
	ledger.State
	seq  int64
	sums map[ledger.Account]money.Micros
}

// post folds changes; each transfer must be one that may be posted.
func (b *books) post(t *rapid.T, changes []ledger.Change) {
	b.seq++
	for _, c := range changes {
		if p, ok := c.(ledger.Posted); ok {
			if p.Row.ID != b.NextTransfer() || p.Row.Amount <= 0 || p.Row.From == p.Row.To || p.Row.Seq != b.seq {
				t.Fatalf("transfer %+v after %d", p.Row, b.NextTransfer()-1)
			}
			b.sums[p.Row.From] -= p.Row.Amount
			b.sums[p.Row.To] += p.Row.Amount
		}
		b.Fold(c)
	}
	var all money.Micros
	seen := 0
	for a, sum := range b.Balances {
		if sum == 0 || sum != b.sums[a] {
			t.Fatalf("%s has %d, its transfers come to %d", a, sum, b.sums[a])
		}
		if sum < 0 && !a.Open() {
			t.Fatalf("%s has %d", a, sum)
		}
		all += sum
		seen++
	}
	for _, sum := range b.sums {
		if sum != 0 {
			seen--
		}
	}
	if all != 0 || seen != 0 {
		t.Fatalf("all balances come to %d, %d more balances than sums", all, seen)
	}
}

func (b *books) posting(at int64) *ledger.Posting { return b.NewPosting(b.seq+1, at) }

// Whatever is posted: every transfer is balanced and counted on, every balance is
// the sum of its transfers, and nothing but a source goes below zero.
func TestTransfersBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &books{sums: map[ledger.Account]money.Micros{}}
		now, spent := int64(0), map[ledger.Account]money.Micros{}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			now += rapid.Int64Range(0, 20*day).Draw(t, "passes")
			who := ledger.Payer{Job: id.Job(rapid.IntRange(1, 3).Draw(t, "job")), Attempt: 1, Account: 1, User: 2}
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				g := ledger.Grant{ID: b.NextGrant(), Account: 1, Amount: amount(t, 1), Source: "x", Start: now, End: now + rapid.Int64Range(1, 40*day).Draw(t, "life")}
				b.post(t, b.posting(now).Give(&b.State, g))
			case 1:
				parts, short := ledger.Split(b.Sources([]id.Account{1}, now), amount(t, 0), rapid.SampledFrom([]ledger.Account{"", "unfunded:1"}).Draw(t, "unfunded"))
				if short == 0 {
					b.post(t, b.posting(now).Deposit(parts, who))
				}
			case 2:
				ask := amount(t, 0)
				had := total(b.deposits(who.Job))
				out, left, over := b.posting(now).Charge(b.deposits(who.Job), ask, who)
				if over != max(ask-had, 0) || total(left) != had-(ask-over) {
					t.Fatalf("charged %d of %d: left %d over %d", ask, had, total(left), over)
				}
				for i, p := range b.deposits(who.Job) {
					spent[p.Source] += p.Amount - left[i].Amount
				}
				b.post(t, out)
			case 3:
				b.post(t, b.posting(now).Return(&b.State, b.deposits(who.Job), who))
				if left := b.deposits(who.Job); len(left) != 0 {
					t.Fatalf("returned, but %v is left", left)
				}
			case 4:
				var parts []ledger.Part
				for _, s := range slices.Sorted(keys(spent)) {
					parts = append(parts, ledger.Part{Source: s, Amount: spent[s]})
				}
				b.post(t, b.posting(now).Refund(&b.State, parts, ledger.CauseDown, who))
				spent = map[ledger.Account]money.Micros{}
			case 5:
				for _, g := range b.Grants.All() {
					if !g.Expired && now >= g.End+ledger.RefundTail {
						b.post(t, b.posting(now).Expire(&b.State, g))
					}
				}
			}
			for _, g := range b.Grants.All() {
				if left := b.Balance(ledger.OfGrant(g.ID)); g.Expired && left != 0 {
					t.Fatalf("grant %d is over and has %d", g.ID, left)
				}
			}
		}
	})
}

func keys(m map[ledger.Account]money.Micros) func(func(ledger.Account) bool) {
	return func(yield func(ledger.Account) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func amount(t *rapid.T, least int64) money.Micros {
	return money.Micros(rapid.Int64Range(least, 1000).Draw(t, "amount"))
}

func total(parts []ledger.Part) money.Micros {
	var sum money.Micros
	for _, p := range parts {
		sum += p.Amount
	}
	return sum
}

// deposits is what a job has set aside, in the order of names.
func (b *books) deposits(j id.Job) []ledger.Part {
	var out []ledger.Part
	sources := []ledger.Account{ledger.Unfunded(1)}
	for _, g := range b.Grants.All() {
		sources = append(sources, ledger.OfGrant(g.ID))
	}
	for _, s := range sources {
		if sum := b.Balance(ledger.Deposit(j, s)); sum != 0 {
			out = append(out, ledger.Part{Source: s, Amount: sum})
		}
	}
	return out
}

// Sources are the grants that may be spent, the first to end first, and Split
// empties each before it touches the next.
func TestSplitSpendsInOrderOfEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &books{sums: map[ledger.Account]money.Micros{}}
		for range rapid.IntRange(0, 8).Draw(t, "grants") {
			b.post(t, b.posting(0).Give(&b.State, ledger.Grant{
				ID: b.NextGrant(), Account: id.Account(rapid.IntRange(1, 4).Draw(t, "account")), Amount: amount(t, 1), Source: "x",
				Start: rapid.Int64Range(0, 3).Draw(t, "start"), End: rapid.Int64Range(0, 6).Draw(t, "end"), Subtree: rapid.Bool().Draw(t, "subtree"),
			}))
		}
		path, now := []id.Account{3, 2}, rapid.Int64Range(0, 5).Draw(t, "now")
		sources := b.Sources(path, now)
		var want []id.Grant
		for end := int64(1); end <= 7; end++ { // 7: never ends
			for _, g := range b.Grants.All() {
				mine := g.Account == 3 || g.Account == 2 && g.Subtree
				if mine && g.Start <= now && (g.End == end && now < end || g.End == 0 && end == 7) {
					want = append(want, g.ID)
				}
			}
		}
		var got []id.Grant
		for _, s := range sources {
			got = append(got, s.Grant.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("sources (-want +got)\n%s", diff)
		}
		need := money.Micros(rapid.Int64Range(0, 4000).Draw(t, "need"))
		parts, short := ledger.Split(sources, need, "")
		if total(parts)+short != need || short > 0 && total(parts) != ledger.Available(sources) {
			t.Fatalf("need %d of %d: parts %v short %d", need, ledger.Available(sources), parts, short)
		}
		for i, p := range parts {
			if p.Source != sources[i].Account || p.Amount <= 0 || p.Amount != sources[i].Available && i != len(parts)-1 {
				t.Fatalf("part %d of %v doesn't follow %v", i, parts, sources)
			}
		}
		shown, none := ledger.Split(sources, need, ledger.Unfunded(3))
		if none != 0 || total(shown) != need || short > 0 && shown[len(shown)-1] != (ledger.Part{Source: ledger.Unfunded(3), Amount: short}) {
			t.Fatalf("showback: %v short %d", shown, none)
		}
	})
}

// A charge that turns out too high is taken back from the last to pay, and never
// more than each paid.
func TestCorrectUndoesCharge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts []ledger.Part
		for i := range rapid.IntRange(1, 4).Draw(t, "parts") {
			parts = append(parts, ledger.Part{Source: ledger.OfGrant(id.Grant(i + 1)), Amount: amount(t, 0)})
		}
		high := money.Micros(rapid.Int64Range(0, int64(total(parts))).Draw(t, "high"))
		low := money.Micros(rapid.Int64Range(0, int64(high)).Draw(t, "low"))
		var s ledger.State
		_, left, _ := s.NewPosting(1, 0).Charge(parts, high, ledger.Payer{})
		_, want, _ := s.NewPosting(1, 0).Charge(parts, low, ledger.Payer{})
		paid := slices.Clone(parts)
		for i := range paid {
			paid[i].Amount -= left[i].Amount
		}
		_, back := s.NewPosting(1, 0).Correct(paid, high-low, ledger.Payer{})
		for i := range left {
			left[i].Amount += back[i].Amount
		}
		if diff := cmp.Diff(want, left); diff != "" {
			t.Fatalf("charging %d and taking back %d isn't charging %d (-want +got)\n%s", high, high-low, low, diff)
		}
	})
}

// Money comes back to its grant until 30 days after the grant's end; what comes
// later has expired, whether it was set aside or charged.
func TestRefundTail(t *testing.T) {
	end := 100 * day
	tests := map[string]struct {
		at   int64
		want ledger.Account
	}{
		"before the end":        {end - 1, ledger.OfGrant(1)},
		"in the tail":           {end + ledger.RefundTail - 1, ledger.OfGrant(1)},
		"when the tail is over": {end + ledger.RefundTail, ledger.Expired},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var s ledger.State
			for _, c := range s.NewPosting(1, 0).Give(&s, ledger.Grant{ID: 1, Account: 1, Amount: 10, Source: "x", End: end}) {
				s.Fold(c)
			}
			who, parts := ledger.Payer{Job: 1, Account: 1}, []ledger.Part{{Source: ledger.OfGrant(1), Amount: 4}}
			p := s.NewPosting(2, tt.at)
			returned := p.Return(&s, parts, who)[0].(ledger.Posted).Row
			refunded := p.Refund(&s, parts, ledger.CauseDown, who)[0].(ledger.Posted).Row
			if returned.To != tt.want || refunded.To != tt.want {
				t.Errorf("returned to %s, refunded to %s, want %s", returned.To, refunded.To, tt.want)
			}
		})
	}
}
