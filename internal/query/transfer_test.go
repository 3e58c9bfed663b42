package query_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/world"
)

// pot is what the oracle knows of a grant: of whom, how much is left, and its end; 0: none.
type pot struct {
	account string
	left    int64
	end     int64
	source  string
}

// transferLife is a random one of accounts that give each other credits, asked or not.
type transferLife struct {
	*bench
	*rand.Rand
	pots    []pot // by grant
	minted  int64
	pending map[id.Request][3]any // from, to, amount
}

var labs = []string{"nlp", "a", "b", "c"}

// take is what a transfer takes out of which pots, in the order of their ends; nil: there
// isn't as much.
func (l *transferLife) take(from string, amount int64) (out map[int]int64, order []int) {
	out = map[int]int64{}
	for amount > 0 {
		best := -1
		for i, p := range l.pots {
			if _, used := out[i]; used || p.account != from || p.left == 0 || p.end != 0 && p.end <= l.now.Load() {
				continue
			}
			if best < 0 || p.end != 0 && (l.pots[best].end == 0 || p.end < l.pots[best].end) {
				best = i
			}
		}
		if best < 0 {
			return nil, nil
		}
		out[best] = min(amount, l.pots[best].left)
		amount -= out[best]
		order = append(order, best)
	}
	return out, order
}

// moved does to the pots what a transfer should.
func (l *transferLife) moved(from, to string, amount int64) {
	taken, order := l.take(from, amount)
	for _, i := range order {
		l.pots[i].left -= taken[i]
		l.pots = append(l.pots, pot{to, taken[i], l.pots[i].end, l.pots[i].source})
	}
}

func (l *transferLife) try(user id.User, cmd world.Command) (sequencer.Answer, error) {
	return l.seq.Do(context.Background(), sequencer.Actor{User: user}, cmd, sequencer.Key{})
}

func (l *transferLife) step() {
	l.now.Add(1e9 + l.Int64N(3*24*hour))
	from, to := labs[l.IntN(4)], labs[l.IntN(4)]
	amount := 1 + l.Int64N(40_000_000)
	switch l.IntN(8) {
	case 0, 1:
		g := command.GrantGive{Account: to, Amount: money.Micros(amount), Source: []string{"DFG", "gift"}[l.IntN(2)]}
		if l.IntN(2) == 0 {
			g.End = l.now.Load() + 1 + l.Int64N(60*24*hour)
		}
		l.do(1, g)
		l.minted += amount
		l.pots = append(l.pots, pot{to, amount, g.End, g.Source})
	case 2, 3:
		taken, _ := l.take(from, amount)
		_, err := l.try(1, command.GrantTransfer{From: from, To: to, Amount: money.Micros(amount)})
		if want := from != to && taken != nil; (err == nil) != want {
			l.t.Fatalf("%d of %s to %s: %v, want %v of %+v", amount, from, to, err, want, l.pots)
		}
		if err == nil {
			l.moved(from, to, amount)
		}
	case 4:
		got, err := l.try(2, command.RequestMake{Wish: approval.Wish{Transfer: &approval.Transfer{From: from, To: to, Amount: money.Micros(amount)}}})
		if r, ok := got.Result.(approval.Request); err == nil && ok {
			l.pending[r.ID] = [3]any{from, to, amount}
		}
	case 5, 6:
		for k, x := range l.pending {
			from, to, amount := x[0].(string), x[1].(string), x[2].(int64)
			r, _ := l.seq.World().Approvals.Requests.Get(k)
			taken, _ := l.take(from, amount)
			_, err := l.try(1, command.RequestApprove{Request: k})
			if want := taken != nil && l.now.Load() < r.Expires; (err == nil) != want {
				l.t.Fatalf("request %d: %v, want %v", k, err, want)
			}
			if err == nil {
				l.moved(from, to, amount)
			}
			if err == nil || l.now.Load() >= r.Expires {
				delete(l.pending, k)
			}
			break
		}
	case 7:
		l.halt()
		l.begin()
	}
}

// compare looks at every grant: whose it is, what it has, when it ends and where it came from.
func (l *transferLife) compare() {
	l.t.Helper()
	w := l.seq.World()
	var there int64
	for i, p := range l.pots {
		k := id.Grant(i + 1)
		g, ok := w.Ledger.Grants.Get(k)
		a, _ := w.Tenancy.Accounts.Get(g.Account)
		left := int64(w.Ledger.Balance(ledger.OfGrant(k)))
		there += left
		if !ok || a.Name != p.account || left != p.left || g.End != p.end || g.Source != p.source {
			l.t.Fatalf("grant %d of %s is %+v with %d, want %+v", k, a.Name, g, left, p)
		}
	}
	if w.Ledger.Grants.Len() != len(l.pots) || there != l.minted {
		l.t.Fatalf("%d grants of %d, want %d of %d", w.Ledger.Grants.Len(), there, len(l.pots), l.minted)
	}
}

// Whatever is given to whom, asked or not, no credit is made or lost, none gains time, each has
// the source that it had, and the books agree.
func TestTransfersWhateverHappen(t *testing.T) {
	live := func(t *testing.T, config store.Config, seed uint64) {
		l := &transferLife{bench: newBenchOn(t, config), Rand: rand.New(rand.NewPCG(seed, 66)), pending: map[id.Request][3]any{}, minted: int64(500 * money.Credit)}
		l.pots = []pot{{"nlp", int64(500 * money.Credit), 0, "DFG-123"}}
		for _, name := range labs[1:] {
			l.do(1, command.AccountPut{Create: true, Name: name})
			l.do(1, command.MemberPut{Account: name, User: "ada", Role: "member"})
		}
		for range 200 {
			l.step()
			l.compare()
		}
		if len(l.pots) < 60 {
			t.Errorf("only %d grants: the test shows little", len(l.pots))
		}
		l.expire()
		got, err := l.reader(l.db).Verify(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got.Checks {
			if !c.OK {
				t.Errorf("%s: %s", c.Name, c.First)
			}
		}
		for _, name := range labs {
			if _, err := l.reader(l.db).Statement(t.Context(), root, query.StatementQuery{Account: name, Period: "2026-12"}); err != nil {
				t.Errorf("statement of %s: %v", name, err)
			}
		}
	}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("sqlite ", seed), func(t *testing.T) {
			t.Parallel()
			live(t, store.Config{Path: filepath.Join(t.TempDir(), "croft.db")}, seed)
		})
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		live(t, store.Config{DSN: postgres.DSN(t)}, 100)
	})
}

// expire ends what is over.
func (l *transferLife) expire() {
	l.now.Add(40 * 24 * hour)
	for k := range l.seq.World().Ledger.Grants.All() {
		l.do(0, command.GrantExpire{Grant: k})
	}
}
