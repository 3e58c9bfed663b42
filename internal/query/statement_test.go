package query_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/store"
)

// exec changes a SQLite database behind its server's back.
func exec(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}

// Every difference between what was posted and what was metered is found, with its place.
func TestStatementFindsWhatIsWrong(t *testing.T) {
	tests := map[string]struct{ tamper, says string }{
		"a charge":             {"UPDATE transfer SET amount = amount + 1 WHERE id = (SELECT MIN(id) FROM transfer WHERE kind = 'charge')", "the postings of the period come to"},
		"a sum of a day":       {"UPDATE spent_day SET spent = spent + 1 WHERE job = 1", "attempt 1.1"},
		"an account's day":     {"UPDATE money_day SET spent = spent + 1, aside = aside - 1", "days"},
		"a grant's day":        {"UPDATE money_day SET given = given + 1", "grant 1 has"},
		"no charge":            {"UPDATE spent_day SET job = 77 WHERE job = 1", "attempt 1.1"},
		"shorter device time":  {"UPDATE tile SET ends = ends - 1 WHERE job = 1 AND cause = 'used'", "1.1 pays for 1 devices"},
		"half a device":        {"UPDATE tile SET milli = 500 WHERE job = 1 AND cause = 'used'", "1.1: 0.5 of SIM-0"},
		"longer device time":   {"UPDATE tile SET starts = starts - 1 WHERE job = 1 AND cause = 'used'", "1.1 pays for"},
		"another's time":       {"UPDATE tile SET person = 1 WHERE job = 1 AND cause = 'used'", "1.1"},
		"a live job's charge":  {"UPDATE spent_day SET spent = spent + 1 WHERE job = 3", "attempt 3.1"},
		"a live job's time":    {"UPDATE tile SET starts = starts + 1 WHERE job = 3 AND cause = 'used'", "3.1 pays for"},
		"a gap in idle time":   {"UPDATE tile SET ends = ends - 1 WHERE cause = 'drained' AND device = 'SIM-1'", "nothing is recorded of SIM-1"},
		"time of two":          {"UPDATE tile SET ends = ends + 1 WHERE cause = 'drained' AND device = 'SIM-1'", "2 of SIM-1 is recorded"},
		"a device without any": {"DELETE FROM tile WHERE device = 'SIM-1'", "SIM-1 is in the inventory"},
		"a removed charge":     {"DELETE FROM transfer WHERE id = (SELECT MIN(id) FROM transfer WHERE kind = 'charge')", "the postings of the period come to"},
		"a removed refund":     {"DELETE FROM transfer WHERE kind = 'refund'", "the postings of the period come to"},
		"a posting's account":  {"UPDATE transfer SET account = 0 WHERE kind = 'charge' AND job = 3", "the postings of the period come to"},
		"a posting's day":      {"UPDATE transfer SET at = at + 40 * 86400000000000 WHERE kind = 'charge' AND job = 1", "the postings of the period come to"},
		"a removed sum":        {"DELETE FROM spent_day WHERE job = 1", "attempt 1.1"},
		"removed days":         {"DELETE FROM money_day WHERE spent <> 0", "days"},
		"removed device time":  {"DELETE FROM tile WHERE job = 1 AND cause = 'used'", "1.1 pays for"},
		"a removed job":        {"DELETE FROM job WHERE id = 1", "job 1, of which nothing is recorded"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "croft.db")
			b := newBenchOn(t, store.Config{Path: path})
			b.history()
			ask := func() v1.Statement {
				t.Helper()
				s, err := b.reader(b.db).Statement(t.Context(), root, query.StatementQuery{Account: "nlp", Period: "2026-11"})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			if s := ask(); !s.Verified || s.Difference != "" {
				t.Fatalf("as it is: %s", s.Difference)
			}
			exec(t, path, tt.tamper)
			if s := ask(); s.Verified || !strings.Contains(s.Difference, tt.says) {
				t.Errorf("verified %v: %q, want %q", s.Verified, s.Difference, tt.says)
			}
		})
	}
}

// A member sees the account's sums and his own lines, a manager all of them; a viewer
// learns no names, and nobody from elsewhere that there is an account.
func TestStatementShowsWhatIsYours(t *testing.T) {
	l := newLife(t, store.Config{Path: filepath.Join(t.TempDir(), "croft.db")}, 3)
	for range 120 {
		l.step()
	}
	l.do(1, userNamed("mia"))
	l.do(1, userNamed("vic"))
	l.do(1, memberOf("seminar", "mia", "manager"))
	l.do(1, memberOf("nlp", "vic", "viewer"))
	l.do(1, userNamed("zoe"))
	r := l.reader(l.db)
	ask := func(user, account string) (v1.Statement, error) {
		u, _ := l.seq.World().Tenancy.User(user)
		return r.Statement(t.Context(), access.Principal{User: int64(u.ID), Name: user, Platform: access.PlatformUser}, query.StatementQuery{Account: account, By: "device", Period: "2026-11..2027-03"})
	}
	whole, err := r.Statement(t.Context(), root, query.StatementQuery{Account: "nlp", Period: "2026-11..2027-03"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ user, account, sees string }{
		{"ada", "nlp", "(others) ada"},
		{"vic", "nlp", "(others)"},
		{"ben", "seminar", "ben"},
		{"mia", "seminar", "ben"},
	} {
		s, err := ask(tt.user, tt.account)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, u := range s.Users {
			names[u.User] = true
		}
		for _, x := range s.Lines {
			names[x.User] = true
			if x.User == "(others)" && (x.Job != "" || x.Step != "" || x.Device != "" || x.From != nil) {
				t.Errorf("%s sees of others %+v", tt.user, x)
			}
		}
		delete(names, "(reserved, unused)")
		var got []string
		for _, n := range []string{"(others)", "ada", "ben", "root"} {
			if names[n] {
				got = append(got, n)
			}
		}
		if strings.Join(got, " ") != tt.sees || s.Devices != nil {
			t.Errorf("%s sees %v and devices %v, want %s", tt.user, got, s.Devices, tt.sees)
		}
		if tt.account == "nlp" {
			if diff := cmp.Diff(whole.Total, s.Total); diff != "" {
				t.Errorf("%s: %s", tt.user, diff)
			}
			if diff := cmp.Diff(whole.Accounts, s.Accounts); diff != "" {
				t.Errorf("%s: %s", tt.user, diff)
			}
		}
	}
	for _, tt := range [][2]string{{"zoe", "nlp"}, {"mia", "nlp"}, {"ben", "nlp"}, {"ada", "guests"}} {
		if _, err := ask(tt[0], tt[1]); fault.Of(err) != codes.NotFound {
			t.Errorf("%s asks about %s: %v", tt[0], tt[1], err)
		}
	}
	if _, err := r.MachineStatement(t.Context(), access.Principal{User: 2, Name: "ada"}, "", ""); fault.Of(err) != codes.Denied {
		t.Errorf("a user asks for the machine's balance: %v", err)
	}
	for of, want := range map[string]string{"gpu1": "", "main": "", "nowhere": string(codes.NotFound)} {
		if _, err := r.MachineStatement(t.Context(), root, of, "2026-11"); string(fault.Of(err)) != want && (err != nil || want != "") {
			t.Errorf("of %s: %v", of, err)
		}
	}
}

// What is left of a grant is said to last as long as it does at the period's pace.
func TestStatementPace(t *testing.T) {
	b := newBench(t)
	b.exit(b.run(100 * time.Minute))
	s, err := b.reader(b.db).Statement(t.Context(), root, query.StatementQuery{Account: "nlp"})
	if err != nil {
		t.Fatal(err)
	}
	g := s.Grants[0]
	left, spent := rat(g.Left), rat(g.Spent)
	lasts, _ := left.Quo(left, spent).Float64()
	begun := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	now := time.Unix(0, b.now.Load())
	want := now.Add(time.Duration(lasts * float64(now.Sub(begun))))
	if g.Until == nil || g.Until.Sub(want).Abs() > time.Second {
		t.Errorf("until %v, want %v", g.Until, want)
	}
}
