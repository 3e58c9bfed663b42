package query_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
)

// rule is what the oracle knows of an allowance.
type rule struct {
	amount, most int64
	percent      int64
	per          string
	from, until  time.Time
	on           bool
	through      time.Time
	last         int // of grants, from 1; 0: none
}

// given is a grant that should be there: what came from outside and what was carried over.
type given struct {
	start, end       time.Time
	own, in, carried int64
}

// allowanceLife is a random one of an account that lives on allowances.
type allowanceLife struct {
	*bench
	*rand.Rand
	rules  map[string]*rule
	grants map[id.Grant]*given
	jobs   []id.Job
}

// span is the calendar's period by the calendar, day by day.
func span(per string, now time.Time) (begin, end time.Time) {
	first := func(d time.Time) bool {
		switch per {
		case "week":
			return d.Weekday() == time.Monday
		case "month":
			return d.Day() == 1
		case "quarter":
			return d.Day() == 1 && (d.Month() == 1 || d.Month() == 4 || d.Month() == 7 || d.Month() == 10)
		}
		return d.YearDay() == 1
	}
	begin = now.UTC().Truncate(24 * time.Hour)
	for !first(begin) {
		begin = begin.Add(-24 * time.Hour)
	}
	for end = begin.Add(24 * time.Hour); !first(end); {
		end = end.Add(24 * time.Hour)
	}
	return begin, end
}

func latest(a time.Time, more ...time.Time) time.Time {
	for _, b := range more {
		if b.After(a) {
			a = b
		}
	}
	return a
}

func (l *allowanceLife) clock() time.Time { return time.Unix(0, l.now.Load()).UTC() }

// expect is what the oracle makes of a rule now: the grant that has to come next, if one has.
func (l *allowanceLife) expect(name string) {
	r, now := l.rules[name], l.clock()
	if r == nil || !r.on || now.Before(r.through) || now.Before(r.from) {
		return
	}
	begin, end := span(r.per, now)
	start := latest(begin, r.from, r.through)
	if !r.until.IsZero() && !start.Before(r.until) {
		return
	}
	g := &given{start: start, end: end, own: r.amount}
	if before := l.grants[id.Grant(r.last)]; before != nil {
		rest := int64(l.seq.World().Ledger.Balance(ledger.OfGrant(id.Grant(r.last))))
		if next := latest(r.from, r.through); next.Before(before.end.Add(30 * 24 * time.Hour)) {
			if g.in = min(rest, r.most); r.percent > 0 {
				g.in = rest * r.percent / 100
			}
			before.carried = g.in
		}
	}
	l.grants[id.Grant(len(l.grants)+2)] = g // the first grant is another account's
	r.through, r.last = end, len(l.grants)+1
}

func (l *allowanceLife) set(name string) {
	day := func(n int64) time.Time { return l.clock().Truncate(24*time.Hour).AddDate(0, 0, int(n)) }
	r := &rule{amount: 1 + l.Int64N(3_000_000), per: []string{"week", "month", "quarter", "year"}[l.IntN(4)], from: l.clock(), on: true}
	cmd := command.AllowancePut{Account: "lab", Name: name, Amount: money.Micros(r.amount), Per: limits.Unit(r.per)}
	switch l.IntN(4) {
	case 0:
		r.percent = 1 + l.Int64N(100)
		cmd.Carry.Milli = r.percent * 10
	case 1, 2:
		r.most = l.Int64N(5_000_000)
		cmd.Carry.Amount = r.most
	}
	if l.IntN(3) == 0 {
		r.from = day(l.Int64N(60) - 20)
		cmd.From = r.from.UnixNano()
	}
	if l.IntN(3) == 0 {
		r.until = latest(r.from, day(0)).AddDate(0, 0, 1+l.IntN(200))
		cmd.Until = r.until.UnixNano()
	}
	if old := l.rules[name]; old != nil {
		r.through, r.last = old.through, old.last
	}
	l.rules[name] = r
	l.expect(name)
	l.do(1, cmd)
}

// due is what the loop does, twice as after a crash: an expiry may come before it.
func (l *allowanceLife) due() {
	found, next := command.AllowancesDue(l.seq.World(), l.now.Load())
	if next != 0 && next <= l.now.Load() {
		l.t.Errorf("the next is due at %d, which is over", next)
	}
	for _, k := range found {
		a, _ := l.seq.World().Allowances.Rules.Get(k)
		l.expect(a.Name)
	}
	for k := range l.seq.World().Ledger.Grants.All() {
		l.do(0, command.GrantExpire{Grant: k})
	}
	for _, k := range append(found, found...) {
		l.do(0, command.AllowanceDue{Allowance: k})
	}
	for name := range l.rules { // whose oracle finds nothing more
		before := len(l.grants)
		if l.expect(name); len(l.grants) != before {
			l.t.Fatalf("nothing was given by %s, which is due", name)
		}
	}
}

func (l *allowanceLife) spend() {
	spec := workload.Spec{Name: "x", Account: "lab", Kind: workload.KindContainer, Image: "a:1", CPU: 1000 * (1 + l.Int64N(60)), Mem: 1 << 30, Time: hour * (1 + l.Int64N(3))}
	got, err := l.seq.Do(context.Background(), sequencer.Actor{User: 2}, command.Submit{Spec: spec}, sequencer.Key{})
	if err != nil {
		return // for want of credits
	}
	if a, ok := got.Result.(admission.Accepted); ok {
		l.jobs = append(l.jobs, a.Job.ID)
		l.do(0, command.JobStart{Job: a.Job.ID})
		l.do(0, command.JobObserved{Job: a.Job.ID, N: 1, Running: true, Started: l.now.Load()})
	}
}

// end has the oldest job end, perhaps long after the grant that it has its deposit of.
func (l *allowanceLife) end() {
	if len(l.jobs) == 0 {
		return
	}
	j, ok := l.seq.World().Workload.Jobs.Get(l.jobs[0])
	if l.jobs = l.jobs[1:]; !ok {
		return
	}
	l.do(0, command.JobObserved{Job: j.ID, N: 1, Exited: true, Finished: min(l.now.Load(), j.Attempt.Started+l.Int64N(hour))})
}

func (l *allowanceLife) step() {
	l.now.Add(1e9 + l.Int64N([]int64{hour, 24 * hour, 20 * 24 * hour, 20 * 24 * hour, 150 * 24 * hour}[l.IntN(5)]))
	if l.IntN(3) > 0 { // else the server is down, or its clock isn't trusted
		l.due()
	}
	name := []string{"a", "b"}[l.IntN(2)]
	switch l.IntN(9) {
	case 0:
		l.set(name)
	case 1:
		if r := l.rules[name]; r != nil && r.on {
			l.do(1, command.AllowanceRemove{Account: "lab", Name: name})
			r.on = false
		}
	case 2, 3, 4:
		l.spend()
	case 5, 6:
		l.end()
	case 7:
		l.halt()
		l.begin()
	}
}

// compare looks at every grant, and at all the money: what came from outside is in grants, set
// aside, spent or expired.
func (l *allowanceLife) compare() {
	l.t.Helper()
	w := l.seq.World()
	n := 0
	minted, there := 500*money.Credit, money.Micros(0) // which another account was given
	for k, g := range w.Ledger.Grants.All() {
		if g.Allowance == 0 {
			continue
		}
		n++
		want := l.grants[k]
		if want == nil {
			l.t.Fatalf("grant %d shouldn't be there: %+v", k, g)
		}
		minted += money.Micros(want.own)
		if g.Start != want.start.UnixNano() || g.End != want.end.UnixNano() || int64(g.Amount) != want.own+want.in || int64(g.Carried) != want.carried {
			l.t.Errorf("grant %d is %+v, want %+v", k, g, want)
		}
	}
	for acc, b := range w.Ledger.Balances {
		if b > 0 && !strings.HasPrefix(string(acc), "waste:") {
			there += b
		}
		if b < 0 && !acc.Open() {
			l.t.Errorf("%s has %s", acc, b)
		}
	}
	if n != len(l.grants) || minted != there {
		l.t.Errorf("%d grants of %s, want %d of %s", n, there, len(l.grants), minted)
	}
}

// Whatever happens, there are exactly the grants that should be, each once, and no credit is
// lost or made by carrying over.
func TestAllowancesWhateverHappens(t *testing.T) {
	live := func(t *testing.T, config store.Config, seed uint64) {
		l := &allowanceLife{bench: newBenchOn(t, config), Rand: rand.New(rand.NewPCG(seed, 61)), rules: map[string]*rule{}, grants: map[id.Grant]*given{}}
		enforce := "enforce"
		l.do(1, command.AccountPut{Create: true, Name: "lab", Billing: &enforce})
		l.do(1, command.MemberPut{Account: "lab", User: "ada", Role: "member"})
		for n := range 150 {
			l.step()
			l.compare()
			if t.Failed() {
				t.Fatalf("after step %d", n)
			}
		}
		got, err := l.reader(l.db).Verify(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got.Checks {
			if !c.OK {
				t.Errorf("%s: %s", c.Name, c.First)
			}
		}
		if len(l.grants) < 10 {
			t.Errorf("only %d grants: the test shows little", len(l.grants))
		}
	}
	for seed := range uint64(6) {
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
