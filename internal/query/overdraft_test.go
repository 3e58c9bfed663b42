package query_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// owing is an account whose jobs go beyond its grant: of 1 credit that ends with the month,
// one has cost 2.288.
func owing(b *bench) {
	enforce, over, bound := "enforce", "overdraft", 5*money.Credit
	b.do(1, command.AccountPut{Create: true, Name: "lab", Billing: &enforce, OutOfCredit: &over, Overdraft: &bound})
	b.do(1, command.MemberPut{Account: "lab", User: "ada", Role: "member"})
	b.do(1, command.GrantGive{Account: "lab", Amount: money.Credit, Source: "autumn", End: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UnixNano()})
	spec := workload.Spec{Name: "x", Account: "lab", Kind: workload.KindContainer, Image: "a:1", GPU: 1000, CPU: 8000, Mem: 64 << 30, Time: 2 * hour}
	k := b.do(2, command.Submit{Spec: spec}).Result.(admission.Accepted).Job.ID
	b.do(0, command.JobStart{Job: k})
	b.do(0, command.JobObserved{Job: k, N: 1, Running: true, Started: b.now.Load()})
	b.pass(2 * time.Hour)
	b.do(0, command.JobObserved{Job: k, N: 1, Exited: true, Finished: b.now.Load()})
}

// What is owed outlives its month, its grant and the server; the next grant repays it; and
// the books agree all the way, closed or open, on both databases.
func TestOverdraftInTheBooks(t *testing.T) {
	for name, config := range map[string]func(t *testing.T) store.Config{
		"sqlite":   func(t *testing.T) store.Config { return store.Config{Path: filepath.Join(t.TempDir(), "croft.db")} },
		"postgres": func(t *testing.T) store.Config { return store.Config{DSN: postgres.DSN(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBenchOn(t, config(t))
			owing(b)
			lab, err := b.reader(b.db).Account(root, "lab")
			if err != nil {
				t.Fatal(err)
			}
			if m := lab.Balance; lab.Overdraft != "5.000" || m.Available != "0.000" || m.Overdrawn != "1.288" || m.Owed != "1.288" || m.Spent != "2.288" {
				t.Errorf("%+v %+v", lab, m)
			}
			b.sees(t, b.statement(query.StatementQuery{Account: "lab", Period: "2026-11"}), "autumn 1.000", " 1.288")

			b.now.Store(time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC).UnixNano())
			b.do(0, command.TilesDue{})
			b.do(1, command.PeriodClose{From: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixNano(), To: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UnixNano()})
			b.halt()
			b.begin()
			b.do(1, command.GrantGive{Account: "lab", Amount: 10 * money.Credit, Source: "winter"})
			b.now.Store(time.Date(2027, 1, 15, 0, 0, 0, 0, time.UTC).UnixNano())
			b.do(0, command.GrantExpire{Grant: 2})
			b.halt()
			b.begin()
			a, _ := b.seq.World().Tenancy.Account("lab")
			if w := b.seq.World(); w.Ledger.Overdrawn(a.ID) != 0 || w.Ledger.Balance(ledger.OfGrant(3)) != 10*money.Credit-1_288_000 || a.OutOfCredit != tenancy.Overdraft || a.Overdraft != 5*money.Credit {
				t.Errorf("after a restart: %+v, %s used", a, w.Ledger.Overdrawn(a.ID))
			}
			b.sees(t, b.statement(query.StatementQuery{Account: "lab", Period: "2026-11"}), "autumn 1.000", " 1.288")
			b.sees(t, b.statement(query.StatementQuery{Account: "lab", Period: "2026-12"}), "winter 1.288", " -1.288")
			for period, want := range map[string]string{"2026-11": "2.288", "2026-12": "0.000"} { // what bills are made of: each charge once
				var sum money.Micros
				for _, l := range b.statement(query.StatementQuery{Account: "lab", Period: period, By: "day"}).Lines {
					n, err := money.Parse(l.Credits)
					if err != nil {
						t.Fatal(err)
					}
					sum += n
				}
				if sum.String() != want {
					t.Errorf("the lines of %s come to %s, want %s", period, sum, want)
				}
			}
			grants, err := b.reader(b.db).Grants(t.Context(), root, "lab")
			if err != nil || len(grants) != 2 || grants[1].Repaid != "1.288" || grants[1].Spent != "1.288" || grants[1].Available != "8.712" {
				t.Errorf("%+v, %v", grants, err)
			}
			for _, ledger := range []string{"overdraft:3", "repaid:3:grant:3"} {
				if _, err := b.reader(b.db).Transfers(t.Context(), b.seq.World().Principal(2, 0, b.now.Load()), query.TransferQuery{Ledger: strings.Replace(ledger, "3", fmt.Sprint(a.ID), 1)}); err != nil {
					t.Errorf("%s: %v", ledger, err)
				}
			}
			got, err := b.reader(b.db).Verify(t.Context(), root)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range got.Checks {
				if !c.OK {
					t.Errorf("%s: %s", c.Name, c.First)
				}
			}
		})
	}
}

// Who is asked for credits sees what is left of them once they have repaid what is owed.
func TestRequestForWhatIsOwed(t *testing.T) {
	b := newBench(t)
	owing(b)
	r := b.do(2, command.RequestMake{Wish: approval.Wish{Credits: &approval.Credits{Account: "lab", Amount: 2 * money.Credit}}}).Result.(approval.Request)
	got, err := b.reader(b.db).Request(root, r.ID)
	if err != nil || len(got.Changes) != 1 || got.Changes[0].Before != "0.000" || got.Changes[0].After != "0.712" {
		t.Errorf("%+v, %v", got, err)
	}
}

// An account that has gone further than it may is found.
func TestVerifyFindsOverdraft(t *testing.T) {
	b := newBench(t)
	owing(b)
	row, _ := b.seq.World().Tenancy.Account("lab")
	row.Overdraft = 1_287_999
	b.seq.World().Tenancy.Fold(tenancy.AccountSet{Row: row})
	got, err := b.reader(b.db).Verify(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range got.Checks {
		found = found || !c.OK && strings.Contains(c.First, "account lab has overdrawn 1.288, it may 1.287999")
	}
	if !found {
		t.Errorf("%+v", got.Checks)
	}
}

// sees checks what a statement says was spent, by the source of the grants.
func (b *bench) sees(t *testing.T, s v1.Statement, want ...string) {
	t.Helper()
	var got []string
	for _, g := range s.Grants {
		if g.Spent != "0.000" {
			got = append(got, g.Source+" "+g.Spent)
		}
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") && strings.Join(got, ", ") != strings.Join([]string{want[1], want[0]}, ", ") {
		t.Errorf("spent of %q, want %q", got, want)
	}
}
