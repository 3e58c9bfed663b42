package query_test

import (
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
	"croft.dev/croft/internal/workload"
)

func (b *bench) statement(q query.StatementQuery) v1.Statement {
	b.t.Helper()
	s, err := b.reader(b.db).Statement(b.t.Context(), root, q)
	if err != nil {
		b.t.Fatal(err)
	}
	if !s.Verified {
		b.t.Errorf("%s %s: %s", q.Account, q.Period, s.Difference)
	}
	return s
}

// An account of which there is nothing has a statement that says so: lists are empty, not
// left out, and it is verified.
func TestStatementOfNothing(t *testing.T) {
	b := newBench(t)
	b.do(1, command.AccountPut{Create: true, Name: "new"})
	for _, period := range []string{"", "2026-10", "2027-05", "1970-01", "2199-12-31"} {
		for _, by := range []string{"", "member", "token", "job", "step", "device", "day"} {
			s := b.statement(query.StatementQuery{Account: "new", Period: period, By: by})
			none := "0.000"
			want := v1.Statement{
				Account: "new", From: s.From, To: s.To, By: by, Verified: true, Devices: s.Devices,
				Total:    v1.StatementTotal{Opening: none, Given: none, Spent: none, Expired: none, Left: none, Charged: none},
				Grants:   []v1.StatementGrant{},
				Accounts: []v1.StatementAccount{{Account: "new", Below: true, GPUHours: s.Accounts[0].GPUHours, Charged: none}},
				Users:    []v1.StatementUser{},
			}
			if by != "" {
				want.Lines = []v1.StatementLine{}
			}
			if diff := cmp.Diff(want, s); diff != "" || rat(s.Accounts[0].GPUHours).Sign() != 0 {
				t.Errorf("%q by %q: %s", period, by, diff)
			}
		}
	}
	for _, q := range []query.StatementQuery{{Account: "new", By: "grant"}, {Account: "new", Period: "2026-11-31"}, {Account: "new", By: "member and model"}} {
		if _, err := b.reader(b.db).Statement(t.Context(), root, q); fault.Of(err) != codes.Invalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := b.reader(b.db).Statement(t.Context(), root, query.StatementQuery{Account: "nobody's"}); fault.Of(err) != codes.NotFound {
		t.Errorf("of no account: %v", err)
	}
}

// A job that runs is in a statement as far as it was metered, from one month into the
// next; what its deposit still holds is set aside, not spent.
func TestStatementOfARunningJob(t *testing.T) {
	b := newBench(t)
	b.now.Store(time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC).UnixNano())
	spec := workload.Spec{Name: "x", Kind: workload.KindContainer, Image: "a:1", GPU: 1000, CPU: 8000, Mem: 64 << 30, Time: 10 * hour}
	k := b.do(2, command.Submit{Spec: spec}).Result.(admission.Accepted).Job.ID
	b.do(0, command.JobStart{Job: k})
	b.do(0, command.JobObserved{Job: k, N: 1, Running: true, Started: b.now.Load()})
	meter := func(d time.Duration) {
		b.pass(d)
		b.do(0, command.Meter{Jobs: []id.Job{k}})
	}
	meter(time.Hour)
	s := b.statement(query.StatementQuery{Account: "nlp", Period: "2026-11", By: "job"})
	// an hour of 8 cores, 64 GiB and a device is 1.144; ten were set aside
	want := []string{"1.144", "498.856", "10.296"}
	if got := []string{s.Total.Spent, s.Total.Left, s.Grants[0].Deposits}; !cmp.Equal(got, want) || len(s.Lines) != 1 {
		t.Errorf("after an hour: %v, want %v, in %d lines", got, want, len(s.Lines))
	}
	// metered last at half past midnight: that hour and a half is money of December, and
	// device time of both
	meter(90 * time.Minute)
	nov, dec := b.statement(query.StatementQuery{Account: "nlp", Period: "2026-11"}), b.statement(query.StatementQuery{Account: "nlp", Period: "2026-12"})
	both := b.statement(query.StatementQuery{Account: "nlp", Period: "2026-11-30..2026-12-01", By: "day"})
	for _, x := range []struct{ what, got, want string }{
		{"spent in November", nov.Total.Charged, "1.144"}, {"spent in December", dec.Total.Charged, "1.716"}, {"spent in both", both.Total.Charged, "2.860"},
		{"November's hours", nov.Accounts[0].GPUHours, "2.000"}, {"December's hours", dec.Accounts[0].GPUHours, "0.500"}, {"their hours", both.Accounts[0].GPUHours, "2.500"},
		{"December's opening", dec.Total.Opening, nov.Total.Left}, {"what is left", dec.Total.Left, both.Total.Left},
	} {
		if rat(x.got).Cmp(rat(x.want)) != 0 {
			t.Errorf("%s: %s, want %s", x.what, x.got, x.want)
		}
	}
	b.exit(k)
	after := b.statement(query.StatementQuery{Account: "nlp", Period: "2026-11"})
	if diff := cmp.Diff(nov.Total, after.Total); diff != "" {
		t.Errorf("a job's end changed the month before: %s", diff)
	}
}

// Whoever isn't of an account learns nothing of it; who manages it, or one above, and who
// runs the machine see everybody's lines; the machine's balance is the operators' alone.
func TestWhoReadsStatements(t *testing.T) {
	b := newBench(t)
	operator := "operator"
	b.do(1, command.AccountPut{Create: true, Name: "lab"})
	b.do(1, command.AccountPut{Create: true, Name: "course", Parent: "lab"})
	b.do(0, command.UserPut{Create: true, Name: "olga", Role: &operator})
	for _, who := range []string{"bob", "mia", "top", "vic", "zoe"} {
		b.do(1, userNamed(who))
	}
	for who, in := range map[string][2]string{"bob": {"course", "member"}, "ada": {"course", "member"}, "mia": {"course", "manager"}, "top": {"lab", "owner"}, "vic": {"lab", "viewer"}} {
		b.do(1, memberOf(in[0], who, in[1]))
	}
	bob, _ := b.seq.World().Tenancy.User("bob")
	for _, u := range []id.User{2, bob.ID} {
		spec := workload.Spec{Name: "x", Kind: workload.KindContainer, Account: "course", Image: "a:1", GPU: 1000, CPU: 1000, Mem: 1 << 30, Time: hour}
		k := b.do(u, command.Submit{Spec: spec}).Result.(admission.Accepted).Job.ID
		b.do(0, command.JobStart{Job: k})
		b.do(0, command.JobObserved{Job: k, N: 1, Running: true, Started: b.now.Load()})
		b.pass(time.Minute)
		b.do(0, command.JobObserved{Job: k, N: 1, Exited: true, Finished: b.now.Load()})
	}
	tests := map[string]struct {
		lab, course []string // whose lines are seen; nil: there is no such account
		machine     bool
	}{
		"ada":  {nil, []string{"(others)", "ada"}, false},
		"bob":  {nil, []string{"(others)", "bob"}, false},
		"mia":  {nil, []string{"ada", "bob"}, false},
		"top":  {[]string{"ada", "bob"}, []string{"ada", "bob"}, false},
		"vic":  {[]string{"(others)"}, []string{"(others)"}, false},
		"zoe":  {nil, nil, false},
		"olga": {[]string{"ada", "bob"}, []string{"ada", "bob"}, true},
		"root": {[]string{"ada", "bob"}, []string{"ada", "bob"}, true},
	}
	for who, tt := range tests {
		u, _ := b.seq.World().Tenancy.User(who)
		p := access.Principal{User: int64(u.ID), Name: who, Platform: u.Platform}
		for account, want := range map[string][]string{"lab": tt.lab, "course": tt.course} {
			s, err := b.reader(b.db).Statement(t.Context(), p, query.StatementQuery{Account: account})
			if want == nil {
				if fault.Of(err) != codes.NotFound {
					t.Errorf("%s asks about %s: %v", who, account, err)
				}
				continue
			}
			var got []string
			for _, x := range s.Users {
				got = append(got, x.User)
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" || (s.Devices != nil) != tt.machine {
				t.Errorf("%s in %s: %v, nodes %v: %s", who, account, err, s.Devices, diff)
			}
		}
	}
}
