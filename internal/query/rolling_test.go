package query_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"croft.dev/croft/api/v1/codes"
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

// rollingLife is a random one of an account whose jobs have rolling deposits, on a server
// that is always there: what they use is always paid.
type rollingLife struct {
	*bench
	*rand.Rand
	outcomes map[codes.Outcome]int
	given    money.Micros
}

const rate = 20_000 // micro-credits an hour, of two cores

func (l *rollingLife) gives() {
	g := command.GrantGive{Account: "lab", Amount: money.Micros(1 + l.Int64N(40_000)), Source: "s", Subtree: true}
	if l.IntN(2) == 0 { // some at the same instant
		g.End = (l.now.Load()/hour + 1 + l.Int64N(4)) * hour
	}
	l.do(1, g)
	l.given += g.Amount
}

func (l *rollingLife) submits() {
	spec := workload.Spec{
		Name: "x", Account: []string{"lab", "sub"}[l.IntN(2)], Kind: workload.KindContainer, Image: "a:1", CPU: 2000, Mem: 1 << 20, Time: hour * (1 + l.Int64N(30)), Grace: 60e9 * l.Int64N(5),
		Deposit: workload.DepositRolling,
	}
	if l.IntN(4) == 0 {
		spec.Signal = workload.Signal{Name: "USR1", Before: 60e9 * (1 + l.Int64N(20))}
	}
	got, err := l.seq.Do(context.Background(), sequencer.Actor{User: 2}, command.Submit{Spec: spec}, sequencer.Key{})
	if err != nil {
		return // for want of credits
	}
	if a, ok := got.Result.(admission.Accepted); ok {
		l.do(0, command.JobStart{Job: a.Job.ID})
		l.do(0, command.JobObserved{Job: a.Job.ID, N: 1, Running: true, Started: l.now.Load()})
	}
}

// passes lets time go by, with the loops in it: a job that gets SIGKILL is gone at once.
func (l *rollingLife) passes(span int64) {
	for end := l.now.Load() + span; l.now.Load() < end; {
		l.now.Store(l.next(end))
		view := l.seq.World().View(l.now.Load())
		for k, j := range l.seq.World().Workload.Active.All() {
			if command.TopUpDue(view, j) {
				l.do(0, command.JobTopUp{Job: k, N: 1})
			}
			for range 3 { // of no grace the end is due at once
				l.do(0, command.JobDue{Job: k})
			}
			if j, ok := l.seq.World().Workload.Active.Get(k); ok && j.Attempt.Kill {
				l.ends(j)
			}
		}
		l.compare()
	}
}

// next is in a minute, or sooner where something is due.
func (l *rollingLife) next(end int64) int64 {
	at := min(l.now.Load()+60e9, end)
	for j := range l.seq.World().Workload.Timed() {
		if due := j.Due(); due > l.now.Load() {
			return min(at, due)
		}
	}
	return at
}

func (l *rollingLife) ends(j *workload.Job) {
	l.do(0, command.JobObserved{Job: j.ID, N: 1, Exited: true, Finished: l.now.Load()})
	switch cause := j.Attempt.Cause; {
	case cause != "":
		l.outcomes[cause]++
	default:
		l.outcomes[codes.Completed]++
	}
}

// compare looks at the money from the outside: what was given is there, no job has less than
// it will have used by its end as things stand, and nothing is aside that no job has.
func (l *rollingLife) compare() {
	l.t.Helper()
	w := l.seq.World()
	there, aside := money.Micros(0), money.Micros(0)
	for acc, b := range w.Ledger.Balances {
		switch {
		case b < 0 && !acc.Open():
			l.t.Fatalf("%s has %s", acc, b)
		case strings.HasPrefix(string(acc), "waste:ending"):
			l.t.Fatalf("%s was used and not paid", b)
		case acc.Deposit():
			aside += b
			there += b
		case b > 0 && !strings.HasPrefix(string(acc), "waste:"):
			there += b
		}
	}
	if there != l.given+500*money.Credit { // which another account was given
		l.t.Fatalf("%s are there, %s were given", there, l.given)
	}
	for _, j := range w.Workload.Active.All() {
		a := j.Attempt
		end := a.Until
		if a.Paid != 0 {
			end = min(end, a.Paid)
		}
		if j.State == workload.Stopping {
			end = j.KillAt() - j.Spec.Grace
		}
		has := a.Posted
		for _, s := range j.Sources {
			has += s.Left
			aside -= s.Left
		}
		// each of two lines is rounded down, of what is exact here
		if costs := money.Micros((end + j.Spec.Grace - a.Started) / 1e9 * rate / 3600); costs > has+2 {
			l.t.Fatalf("job %d costs %s and has %s: %+v", j.ID, costs, has, a)
		}
		if j.State == workload.Running && l.now.Load() >= min(a.Until, end) {
			l.t.Fatalf("job %d runs on at the end of its money: %+v", j.ID, a)
		}
	}
	if aside != 0 {
		l.t.Fatalf("%s more are set aside than open jobs have", aside)
	}
}

func (l *rollingLife) step() {
	l.passes(60e9 * (1 + l.Int64N(60)))
	switch l.IntN(11) {
	case 0, 1:
		l.gives()
	case 2, 3, 4, 5:
		l.submits()
	case 6, 10:
		for _, j := range l.seq.World().Workload.Active.All() {
			l.ends(j)
			break
		}
	case 7:
		for k := range l.seq.World().Workload.Active.All() {
			l.do(2, command.JobStop{Job: k, Grace: 60e9 * (1 + l.Int64N(30))})
			break
		}
	case 8:
		l.do(1, command.LimitPut{Account: "lab", User: "ada", Resource: limits.Credits, Per: limits.Per{Unit: limits.Day}, Max: l.Int64N(200_000)})
		l.do(0, command.Meter{Jobs: []id.Job{1, 2, 3, 4, 5, 6, 7, 8, 9}})
	case 9:
		l.halt()
		l.begin()
	}
}

// Whatever happens, what jobs with rolling deposits use is paid up to their end, grace
// included, out of money that was there; the books are right to the micro-credit.
func TestRollingDepositsWhateverHappen(t *testing.T) {
	live := func(t *testing.T, config store.Config, seed uint64, steps int) {
		l := &rollingLife{bench: newBenchOn(t, config), Rand: rand.New(rand.NewPCG(seed, 57)), outcomes: map[codes.Outcome]int{}}
		enforce := "enforce"
		l.do(1, command.AccountPut{Create: true, Name: "lab", Billing: &enforce})
		l.do(1, command.AccountPut{Create: true, Name: "sub", Parent: "lab", Billing: &enforce})
		l.do(1, command.MemberPut{Account: "lab", User: "ada", Role: "member"})
		for range steps {
			l.step()
		}
		for _, j := range l.seq.World().Workload.Active.All() {
			l.ends(j)
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
		renewal := func(r *ledger.Transfer) {
			r.Amount += when[money.Micros](r.Kind == ledger.KindDeposit && r.Attempt == 1)
		}
		got, err = l.reader(tampered{History: l.db, transfer: renewal}).Verify(t.Context(), root)
		if err != nil || got.OK {
			t.Errorf("renewals that aren't what they were aren't found: %v", err)
		}
		if l.outcomes[codes.OutOfCredit] == 0 || l.outcomes[codes.Completed] == 0 {
			t.Errorf("%v: the test shows little", l.outcomes)
		}
	}
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("sqlite ", seed), func(t *testing.T) {
			t.Parallel()
			live(t, store.Config{Path: filepath.Join(t.TempDir(), "croft.db")}, seed, 80)
		})
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		live(t, store.Config{DSN: postgres.DSN(t)}, 100, 60)
	})
}
