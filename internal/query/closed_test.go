package query_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
)

// archive is what statements of closed periods said when they were closed.
type archive struct {
	*life
	end   int64 // of the last closed period
	said  map[string]string
	count int
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// ask collects every statement of a span of days, whoever asks.
func (a *archive) ask(period string) map[string]string {
	a.t.Helper()
	out := map[string]string{}
	r := a.reader(a.db)
	for _, who := range []string{"root", "ada", "ben"} {
		u, _ := a.seq.World().Tenancy.User(who)
		p := access.Principal{User: int64(u.ID), Name: who, Platform: u.Platform}
		for _, account := range []string{"nlp", "seminar", "guests"} {
			for _, by := range []string{"", "member", "token", "job", "step", "device", "day"} {
				s, err := r.Statement(a.t.Context(), p, query.StatementQuery{Account: account, Period: period, By: by})
				if err == nil && (!s.Verified || s.Closed == nil) {
					a.t.Errorf("%s of %s by %q: closed %v, %s", account, period, by, s.Closed, s.Difference)
				}
				out[strings.Join([]string{period, account, by, who}, " ")] = text(s) + fmt.Sprint(err)
			}
		}
	}
	for _, of := range []string{"", "gpu1"} {
		s, err := r.MachineStatement(a.t.Context(), root, of, period)
		if err != nil || !s.Verified || s.Closed == nil {
			a.t.Errorf("machine %s: %v, %s", period, err, s.Difference)
		}
		out[period+" machine "+of] = text(s)
	}
	return out
}

// unsettled is the oracle: a job that had devices before t of which it isn't known what it
// cost up to then.
func (a *archive) unsettled(t int64) bool {
	for _, j := range a.seq.World().Workload.Active.All() {
		at := j.Attempt
		if at.Assigned < t && (at.Started == 0 || at.Started < t && at.Lost != 0 && at.Lost < t) {
			return true
		}
	}
	return false
}

// close closes what is over, up to the last midnight.
func (a *archive) close() {
	a.t.Helper()
	now := a.now.Load()
	to := now / store.Day * store.Day
	if to <= a.end || a.IntN(3) == 0 {
		return
	}
	a.try(0, command.Meter{Jobs: a.running()})
	name := time.Unix(0, a.end).UTC().Format(time.DateOnly) + ".." + time.Unix(0, to-1).UTC().Format(time.DateOnly)
	from, end, err := a.reader(a.db).MayClose(a.t.Context(), root, name)
	if err != nil || from != a.end || end != to {
		a.t.Fatalf("%s: %d to %d, %v", name, from, end, err)
	}
	before := map[string]string{} // who had spent what
	for _, account := range []string{"nlp", "seminar", "guests"} {
		before[account] = a.statement(query.StatementQuery{Account: account, Period: name}).Total.Charged
	}
	if _, ok := a.try(1, command.PeriodClose{From: from, To: to}); ok == a.unsettled(to) {
		a.t.Errorf("closed %s: %v", name, ok)
	} else if !ok {
		return
	}
	a.count++
	a.end = to
	for account, spent := range before {
		if got := a.statement(query.StatementQuery{Account: account, Period: name}).Total.Charged; got != spent {
			a.t.Errorf("closing %s made %s of %s's %s", name, got, account, spent)
		}
	}
	maps.Copy(a.said, a.ask(name))
	day := time.Unix(0, from+a.Int64N(to-from)).UTC().Format(time.DateOnly) // a part of it, or all of all
	maps.Copy(a.said, a.ask(day))
}

// Whatever comes to be known after a period was closed, its statements are the same to the
// byte: refunds, late ends, lost nodes and new names are the open period's.
func TestClosedPeriodsNeverChange(t *testing.T) {
	seeds := 4
	if testing.Short() {
		seeds = 1
	}
	run := func(t *testing.T, config store.Config, seed uint64) {
		a := &archive{life: newLife(t, config, seed), said: map[string]string{}}
		a.end = a.began / store.Day * store.Day
		for n := range 150 {
			if a.step(); n%10 == 9 {
				a.close()
			}
			if n%50 == 49 {
				a.same(t)
			}
			if t.Failed() {
				t.Fatalf("after step %d", n)
			}
		}
		got, err := a.reader(a.db).Verify(t.Context(), root)
		for _, c := range got.Checks {
			if !c.OK || strings.HasPrefix(c.Name, "closed") && c.Checked == 0 {
				t.Errorf("%s: %d looked at, %s", c.Name, c.Checked, c.First)
			}
		}
		if err != nil || a.count < 2 {
			t.Errorf("%d periods were closed, %v", a.count, err)
		}
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("sqlite ", seed), func(t *testing.T) {
			t.Parallel()
			run(t, store.Config{Path: filepath.Join(t.TempDir(), "croft.db")}, uint64(seed)+40)
		})
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		run(t, store.Config{DSN: postgres.DSN(t)}, 140)
	})
}

func (a *archive) same(t *testing.T) {
	t.Helper()
	var periods []string
	for k := range a.said {
		if p, _, _ := strings.Cut(k, " "); !slices.Contains(periods, p) {
			periods = append(periods, p)
		}
	}
	for _, p := range periods {
		for k, now := range a.ask(p) {
			if was := a.said[k]; was != now {
				t.Errorf("%s said\n%s\nand says\n%s", k, was, now)
			}
		}
	}
}

// overMidnight is a job that began on the 1st and runs on the 2nd, charged up to then.
func (b *bench) overMidnight() id.Job {
	b.now.Store(time.Date(2026, 11, 1, 22, 30, 0, 0, time.UTC).UnixNano())
	spec := workload.Spec{Name: "x", Kind: workload.KindContainer, Image: "a:1", GPU: 1000, CPU: 8000, Mem: 64 << 30, Time: 10 * hour}
	k := b.do(2, command.Submit{Spec: spec}).Result.(admission.Accepted).Job.ID
	b.do(0, command.JobStart{Job: k})
	b.do(0, command.JobObserved{Job: k, N: 1, Running: true, Started: b.now.Load()})
	b.pass(time.Hour)
	b.do(0, command.Meter{Jobs: []id.Job{k}})
	b.pass(time.Hour)
	b.do(0, command.Meter{Jobs: []id.Job{k}})
	return k
}

var firstDay = command.PeriodClose{From: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixNano(), To: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC).UnixNano()}

// What a node's loss gives back of a closed day is posted when it becomes known, and names
// what it corrects.
func TestCorrectionsNameClosedPeriods(t *testing.T) {
	b := newBench(t)
	k := b.overMidnight()
	b.do(1, firstDay)
	q := query.StatementQuery{Account: "nlp", Period: "2026-11-01", By: "device"}
	was := b.statement(q)
	b.do(0, command.JobObserved{Job: k, N: 1, Gone: true})
	if diff := cmp.Diff(was, b.statement(q)); diff != "" {
		t.Errorf("the closed day changed: %s", diff)
	}
	if len(was.Closed) != 1 || was.Closed[0].Period != "2026-11-01" || was.Closed[0].By != "root" || len(was.Closed[0].Hash) != 64 || was.Total.Charged != "1.144" {
		t.Errorf("closed: %+v, %+v", was.Closed, was.Total)
	}
	next := b.statement(query.StatementQuery{Account: "nlp", Period: "2026-11-02"})
	want := []v1.StatementCorrection{{Period: "2026-11-01", Job: fmt.Sprint(k), Attempt: 1, Credits: "-1.144"}}
	if diff := cmp.Diff(want, next.Corrections); diff != "" || next.Total.Charged != "-1.144" || next.Closed != nil {
		t.Errorf("the next day: %+v: %s", next.Total, diff)
	}
	b.do(1, userNamed("bob"))
	b.do(1, memberOf("nlp", "bob", "member"))
	bob, _ := b.seq.World().Tenancy.User("bob")
	s, err := b.reader(b.db).Statement(t.Context(), access.Principal{User: int64(bob.ID), Name: "bob"}, query.StatementQuery{Account: "nlp", Period: "2026-11-02"})
	if want[0].Job, want[0].Attempt = "", 0; err != nil || !cmp.Equal(s.Corrections, want) {
		t.Errorf("another member sees %+v, %v", s.Corrections, err)
	}
	all, err := b.reader(b.db).Verify(t.Context(), root)
	if err != nil || !all.OK {
		t.Errorf("%+v, %v", all, err)
	}
}

// A period isn't closed before it is over, twice, in part, or while something of it isn't
// settled; each says what to do.
func TestClosingIsRefused(t *testing.T) {
	day := store.Day
	tests := map[string]struct {
		prepare func(b *bench)
		close   command.PeriodClose
		says    string
	}{
		"it runs still":      {func(b *bench) {}, firstDay, "it isn't over before 2026-11-02T00:00:00Z"},
		"no whole day":       {func(b *bench) { b.pass(72 * time.Hour) }, command.PeriodClose{From: firstDay.From + 1, To: firstDay.To}, "whole days"},
		"nothing":            {func(b *bench) { b.pass(72 * time.Hour) }, command.PeriodClose{From: firstDay.To, To: firstDay.To}, "whole days"},
		"twice":              {func(b *bench) { b.pass(72 * time.Hour); b.do(1, firstDay) }, firstDay, "2026-11-01 to 2026-11-01 is closed already, since 2026-11-04T09:00:00Z"},
		"a part of it twice": {func(b *bench) { b.pass(72 * time.Hour); b.do(1, firstDay) }, command.PeriodClose{From: firstDay.From - 5*day, To: firstDay.To + day}, "is closed already"},
		"not charged": {func(b *bench) {
			b.run(time.Minute)
			b.now.Store(firstDay.To + hour)
		}, firstDay, "job 1 isn't charged up to the end: the server does that within minutes; try again"},
		"not begun": {func(b *bench) {
			spec := workload.Spec{Name: "x", Kind: workload.KindContainer, Image: "a:1", GPU: 1000, CPU: 8000, Mem: 64 << 30, Time: hour}
			k := b.do(2, command.Submit{Spec: spec}).Result.(admission.Accepted).Job.ID
			b.do(0, command.JobStart{Job: k})
			b.now.Store(firstDay.To + hour)
		}, firstDay, "job 1 has its devices and hasn't begun: wait until it runs, or stop it"},
		"out of contact": {func(b *bench) {
			b.run(time.Minute)
			b.do(0, command.Contact{Lost: true})
			b.now.Store(firstDay.To + hour)
		}, firstDay, "job 1 is out of contact: wait until its node answers again"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			tt.prepare(b)
			had := len(b.seq.World().Ledger.ClosedIn(0, 1<<62))
			l := &life{bench: b}
			if _, ok := l.try(1, tt.close); ok {
				t.Fatal("closed")
			}
			_, err := b.seq.Do(t.Context(), sequencer.Actor{User: 1}, tt.close, sequencer.Key{})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %s", err, tt.says)
			}
			if got := len(b.seq.World().Ledger.ClosedIn(0, 1<<62)); got != had {
				t.Errorf("%d are closed", got)
			}
		})
	}
}

// What is changed of a closed period in the database is found by its statements, by
// croft period show and by croft ledger verify.
func TestClosedPeriodsAreChecked(t *testing.T) {
	tests := map[string]struct{ tamper, says string }{
		"a name":             {"UPDATE closed_book SET body = REPLACE(body, 'ada', 'eve')", "account nlp isn't what it was"},
		"a sum":              {"UPDATE closed_book SET body = REPLACE(body, '\"Given\":\"500.000\"', '\"Given\":\"500.001\"')", "account nlp isn't what it was"},
		"a hash":             {"UPDATE closed_book SET hash = 'x' WHERE account <> 0", "account nlp isn't what it was"},
		"device time":        {"UPDATE closed_tile SET ends = ends - 1 WHERE job = 1", "account nlp isn't what it was"},
		"removed time":       {"DELETE FROM closed_tile WHERE job = 1", "account nlp isn't what it was"},
		"a removed book":     {"DELETE FROM closed_book WHERE account = 1", "whose book isn't there"},
		"a day":              {"UPDATE spent_day SET spent = spent + 1 WHERE job = 1 AND day = 20758", "account nlp isn't what it was"},
		"an account's day":   {"UPDATE money_day SET given = given + 1 WHERE day = 20758", "account nlp isn't what it was"},
		"a posting":          {"UPDATE transfer SET amount = amount + 1 WHERE id = (SELECT MIN(id) FROM transfer WHERE kind = 'charge')", "the postings of account nlp come to 1.144001"},
		"a posting too many": {"UPDATE transfer SET at = at - 3600000000000 WHERE id = (SELECT MAX(id) FROM transfer WHERE kind = 'charge')", "the postings of account nlp come to"},
		"a removed posting":  {"DELETE FROM transfer WHERE kind = 'charge'", "the postings of account nlp come to 0.000"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "croft.db")
			b := newBenchOn(t, store.Config{Path: path})
			b.overMidnight()
			b.do(1, firstDay)
			b.statement(query.StatementQuery{Account: "nlp", Period: "2026-11-01"})
			exec(t, path, tt.tamper)
			r := b.reader(b.db)
			s, err := r.Statement(t.Context(), root, query.StatementQuery{Account: "nlp", Period: "2026-11-01"})
			if err != nil || s.Verified || !strings.Contains(s.Difference, tt.says) {
				t.Errorf("statement: %v, %q, want %q", err, s.Difference, tt.says)
			}
			p, err := r.Period(t.Context(), root, "2026-11-01")
			if err != nil || p.Verified || !strings.Contains(p.Difference, tt.says) {
				t.Errorf("period: %v, %q, want %q", err, p.Difference, tt.says)
			}
			v, err := r.Verify(t.Context(), root)
			if err != nil {
				t.Fatal(err)
			}
			found := slices.ContainsFunc(v.Checks, func(c v1.CheckLine) bool {
				return strings.HasPrefix(c.Name, "closed periods") && !c.OK && strings.Contains(c.First, tt.says)
			})
			if !found {
				t.Errorf("verify: %+v, want %q", v.Checks, tt.says)
			}
		})
	}
}

// Periods are listed since the first grant; one says what keeps it open, or its sums.
func TestPeriods(t *testing.T) {
	b := newBench(t)
	b.overMidnight()
	r := b.reader(b.db)
	names := func() (out []string) {
		all, err := r.Periods(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			out = append(out, p.Period+" "+p.State)
		}
		return out
	}
	if got := names(); !cmp.Equal(got, []string{"2026-11 current"}) {
		t.Errorf("%v", got)
	}
	p, err := r.Period(t.Context(), root, "2026-11")
	if err != nil || p.State != "current" || !cmp.Equal(p.Open, []string{"it isn't over: wait until 2026-12-01T00:00:00Z"}) {
		t.Errorf("%+v, %v", p, err)
	}
	b.now.Store(time.Date(2026, 12, 1, 1, 0, 0, 0, time.UTC).UnixNano())
	if p, err = r.Period(t.Context(), root, "2026-11"); err != nil || p.State != "open" || len(p.Open) != 1 {
		t.Errorf("a job runs: %+v, %v", p, err)
	}
	b.do(0, command.Meter{Jobs: []id.Job{1}})
	if p, err = r.Period(t.Context(), root, "2026-11"); err != nil || p.Open != nil {
		t.Errorf("charged: %+v, %v", p, err)
	}
	from, to, err := r.MayClose(t.Context(), root, "2026-11")
	if err != nil {
		t.Fatal(err)
	}
	b.do(1, command.PeriodClose{From: from, To: to})
	p, err = r.Period(t.Context(), root, "2026-11")
	if err != nil || p.State != "closed" || !p.Verified || p.By != "root" || len(p.Accounts) != 1 || p.Accounts[0].Account != "nlp" || p.Accounts[0].Given != "500.000" {
		t.Errorf("%+v, %v", p, err)
	}
	if got := names(); !cmp.Equal(got, []string{"2026-12 current", "2026-11 closed"}) {
		t.Errorf("%v", got)
	}
	if p, err = r.Period(t.Context(), root, "2026-11-05"); err != nil || p.State != "open" || len(p.Open) != 1 {
		t.Errorf("a part: %+v, %v", p, err)
	}
	for _, who := range []access.Principal{{User: 2, Name: "ada"}, {}} {
		if _, err := r.Periods(t.Context(), who); fault.Of(err) != codes.Denied {
			t.Errorf("%s lists periods: %v", who.Name, err)
		}
		if _, _, err := r.MayClose(t.Context(), who, "2026-11"); fault.Of(err) != codes.Denied {
			t.Errorf("%s closes: %v", who.Name, err)
		}
	}
}

// The same books have the same hash on both databases.
func TestClosedHashIsTheSame(t *testing.T) {
	var hashes []string
	for _, config := range []store.Config{{Path: filepath.Join(t.TempDir(), "croft.db")}, {DSN: postgres.DSN(t)}} {
		l := newLife(t, config, 9)
		for l.now.Load() < firstDay.To+hour {
			l.step()
		}
		for _, k := range l.running() {
			j, _ := l.seq.World().Workload.Active.Get(k)
			l.try(0, command.JobObserved{Job: k, N: j.Attempt.N, Exited: true, Started: max(j.Attempt.Started, j.Attempt.Assigned), Finished: l.now.Load()})
		}
		l.do(1, firstDay)
		p, err := l.reader(l.db).Period(t.Context(), root, "2026-11-01")
		if err != nil || !p.Verified {
			t.Fatalf("%+v, %v", p, err)
		}
		hashes = append(hashes, p.Hash)
	}
	if hashes[0] != hashes[1] {
		t.Errorf("SQLite %s, PostgreSQL %s", hashes[0], hashes[1])
	}
}
