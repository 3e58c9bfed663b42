package command_test

import (
	"strings"
	"testing"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
	"pgregory.net/rapid"
)

// limitCredits caps what a user may spend, or each one.
func (h *history) limitCredits(t *rapid.T) {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	h.do(t, h.user("root"), command.LimitPut{
		Account: pick("credits in", "nlp", "vision"), User: pick("credits of", "*", "ada", "ben"), Resource: limits.Credits,
		Per: limits.Per{Unit: limits.Unit(pick("credits per", "", "day", "week", "month"))},
		Max: rapid.Int64Range(0, 12).Draw(t, "credits") * int64(money.Credit),
	})
}

// credits checks a cap against the transfers: what is counted is what the user was charged
// in the period, less what came back of it, and what is set aside; and no deposit is made
// beyond the cap.
func (h *history) credits(t *rapid.T, l limits.Limit) {
	for u, b := range h.w.View(h.now).Capped(l) {
		var spent, aside money.Micros
		added := false
		for i, tr := range h.transfers {
			if tr.User != u || tr.Job == 0 {
				continue
			}
			jobs := within(h.rows[tr.Job], limits.Scope{Account: l.Scope.Account})
			switch tr.Kind {
			case ledger.KindDeposit:
				if handed := strings.HasPrefix(string(tr.From), "deposit:"); !handed && jobs {
					aside += tr.Amount
					added = added || i >= h.checked && !renewedAnyway(h.rows[tr.Job])
				}
			case ledger.KindReturn:
				aside -= when(jobs, tr.Amount)
			case ledger.KindCharge:
				aside -= when(jobs, tr.Amount)
			case ledger.KindCorrect:
				aside += when(jobs, tr.Amount)
			}
			if !h.w.Tenancy.Within(tr.Account, l.Scope.Account) || tr.At < begin(l.Per.Unit, h.now) {
				continue
			}
			switch tr.Kind {
			case ledger.KindCharge:
				spent += tr.Amount
			case ledger.KindCorrect, ledger.KindRefund:
				spent -= tr.Amount
			}
		}
		if spent = max(spent, 0); b.Spent != int64(spent) || b.Used != int64(spent+aside) {
			t.Fatalf("%+v of user %d: %d spent and %d used are counted, the transfers come to %d and %d", l, u, b.Spent, b.Used, spent, spent+aside)
		}
		if added && b.Used > l.Max {
			t.Fatalf("%+v of user %d: something was set aside, and %d of %d are used", l, u, b.Used, l.Max)
		}
	}
}

// renewedAnyway reports whether a deposit may pass caps: that of a job that runs where nothing
// is stopped for want of money.
func renewedAnyway(j *workload.Job) bool {
	return j.Spec.Rolling() && j.State == workload.Running && j.Billing == "showback"
}

func when(is bool, amount money.Micros) money.Micros {
	if is {
		return amount
	}
	return 0
}

// begin is when the period of a unit began, told apart from what limits makes of it.
func begin(u limits.Unit, now int64) int64 {
	if u == "" {
		return 0
	}
	day := time.Unix(0, now).UTC().Truncate(24 * time.Hour)
	for u == limits.Week && day.Weekday() != time.Monday || u == limits.Month && day.Day() != 1 {
		day = day.AddDate(0, 0, -1)
	}
	return day.UnixNano()
}

// capped is a machine on which ada may spend 5 credits in nlp, where two hours cost 2.288.
func capped(t *testing.T, per limits.Unit) *sim {
	t.Helper()
	s := newSim(t)
	s.must(t, s.user("root"), command.LimitPut{Account: "nlp", User: "ada", Resource: limits.Credits, Per: limits.Per{Unit: per}, Max: 5 * int64(money.Credit)})
	return s
}

// used is what is counted of the only cap: spent, and in all.
func (s *sim) used() string {
	for _, l := range s.w.Limits.Limits.All() {
		b := s.w.View(s.now).Charged(s.w.Limits.BoundOf(l, s.now))
		return money.Micros(b.Spent).String() + " of " + money.Micros(b.Used).String()
	}
	return ""
}

func (s *sim) submits(t *testing.T) id.Job {
	t.Helper()
	return s.must(t, s.user("ada"), command.Submit{Spec: example()}).(admission.Accepted).Job.ID
}

// lasts has a job run for a time.
func (s *sim) lasts(t *testing.T, k id.Job, d int64) {
	t.Helper()
	s.must(t, system, command.JobStart{Job: k})
	s.must(t, system, command.JobObserved{Job: k, N: 1, Running: true, Started: s.now})
	s.now += d
}

func (s *sim) ends(t *testing.T, k id.Job) {
	t.Helper()
	s.must(t, system, command.JobObserved{Job: k, N: 1, Exited: true, Finished: s.now})
}

// What is set aside counts, and what isn't used makes room again. A refusal says how much
// of either there is and what would do; a new period begins with what is still set aside.
func TestASpendCap(t *testing.T) {
	s := capped(t, limits.Month)
	first, second := s.submits(t), s.submits(t)
	refused := func(message, would string) {
		t.Helper()
		_, err := s.do(s.user("ada"), command.Submit{Spec: example()})
		f := refusal(t, err)
		r := f.Reasons[0]
		if r.Code != codes.LimitCredits || !r.Never || r.Field != "time" || !strings.HasPrefix(r.Message, message) {
			t.Errorf("%+v", r)
		}
		if would == "" && f.Remedy != nil || would != "" && (f.Remedy == nil || f.Remedy.Set["time"] != would) {
			t.Errorf("would be admitted: %+v, want %s", f.Remedy, would)
		}
	}
	refused("the deposit is 2.288, user ada in account nlp has 0.424 left of 5.000 credits this month, until 2026-12-01 00:00 UTC: 0.000 spent, 4.576 set aside; whoever manages nlp", "22m")
	s.lasts(t, first, hour)
	s.ends(t, first)
	if got := s.used(); got != "1.144 of 3.432" {
		t.Errorf("used %s", got)
	}
	refused("the deposit is 2.288, user ada in account nlp has 1.568 left of 5.000 credits this month, until 2026-12-01 00:00 UTC: 1.144 spent, 2.288 set aside", "1h22m")
	s.now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	if got := s.used(); got != "0.000 of 2.288" {
		t.Errorf("used in December: %s", got)
	}
	s.lasts(t, second, hour)
	s.must(t, system, command.Meter{Jobs: []id.Job{second}})
	s.must(t, system, command.JobObserved{Job: second, N: 1, Gone: true})
	if got := s.used(); got != "0.000 of 0.000" {
		t.Errorf("used after the platform's fault: %s", got)
	}
}

// A cap on everything that is spent never begins anew.
func TestACapInAll(t *testing.T) {
	s := capped(t, "")
	for range 2 {
		k := s.submits(t)
		s.lasts(t, k, 2*hour)
		s.ends(t, k)
		s.now += 400 * 24 * hour
	}
	_, err := s.do(s.user("ada"), command.Submit{Spec: example()})
	if r := refusal(t, err).Reasons[0]; !strings.Contains(r.Message, "has 0.424 left of 5.000 credits in all: 4.576 spent, 0.000 set aside") {
		t.Errorf("%+v", r)
	}
}

// A job that has become dearer than its user may spend waits, and says so; its deposit
// stays. With a higher cap it starts.
func TestACappedJobWaits(t *testing.T) {
	s := capped(t, limits.Month)
	dear := func(rate money.Rate) command.PricePut {
		return command.PricePut{CPU: 10_000, Mem: 1_000, Devices: []catalog.ModelRate{{Model: "a100", Rate: rate}}}
	}
	k := s.submits(t)
	s.must(t, s.user("root"), dear(3_000_000))
	v := s.must(t, system, command.JobStart{Job: k}).(admission.Verdict)
	if r := v.Reasons[0]; r.Code != codes.LimitCredits || r.Never || r.Observed != "4.000" || r.Bound != "5.000" {
		t.Errorf("%+v", r)
	}
	if got := s.used(); got != "0.000 of 2.288" {
		t.Errorf("used %s", got)
	}
	s.must(t, s.user("root"), command.LimitPut{Account: "nlp", User: "ada", Resource: limits.Credits, Per: limits.Per{Unit: limits.Month}, Max: 7 * int64(money.Credit)})
	s.must(t, system, command.JobStart{Job: k})
	if j := s.job(t, k); j.State != workload.Starting || j.Deposit.String() != "6.288" {
		t.Errorf("%s with %s", j.State, j.Deposit)
	}
}

// Where nothing is refused for want of funds a cap holds all the same; of one for each
// user everybody has his own, and a user's takes its place.
func TestCapsWithoutFunds(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.MemberPut{Account: "vision", User: "ada", Role: "member"})
	s.must(t, root, command.LimitPut{Account: "vision", User: "*", Resource: limits.Credits, Max: 3 * int64(money.Credit)})
	spec := example()
	spec.Account = "vision"
	for _, u := range []string{"ada", "ben"} {
		s.must(t, s.user(u), command.Submit{Spec: spec})
		_, err := s.do(s.user(u), command.Submit{Spec: spec})
		if f := refusal(t, err); f.Reasons[0].Scope != "user "+u+" in account vision" || f.Remedy.Set["time"] != "37m" {
			t.Errorf("%+v %+v", f.Reasons[0], f.Remedy)
		}
	}
	s.must(t, root, command.LimitPut{Account: "nlp", User: "ben", Resource: limits.Credits, Max: 100 * int64(money.Credit)}) // of all below, another scope
	if _, err := s.do(s.user("ben"), command.Submit{Spec: spec}); err == nil {
		t.Error("a wider cap of another scope lifts none")
	}
	s.must(t, root, command.LimitPut{Account: "vision", User: "ben", Resource: limits.Credits, Max: 5 * int64(money.Credit)})
	s.must(t, s.user("ben"), command.Submit{Spec: spec})
	s.must(t, root, command.AccountPut{Name: "vision", Billing: text("off")})
	s.must(t, s.user("ada"), command.Submit{Spec: spec})
}

// What members may spend is whoever manages the account's to say, of that account and
// those below it; other limits aren't.
func TestWhoMaySetCaps(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	for _, u := range []string{"mia", "olga"} {
		s.must(t, root, command.UserPut{Create: true, Name: u})
	}
	s.must(t, root, command.MemberPut{Account: "vision", User: "mia", Role: "manager"})
	s.must(t, root, command.UserPut{Name: "olga", Role: text("operator")})
	inNLP := s.must(t, s.user("olga"), command.LimitPut{Account: "nlp", User: "ada", Resource: limits.Credits, Max: 1}).(limits.Limit)
	tests := map[string]struct {
		who     string
		cmd     command.LimitPut
		allowed bool
	}{
		"her account":         {"mia", command.LimitPut{Account: "vision", User: "ben", Resource: limits.Credits, Max: 1}, true},
		"for each":            {"mia", command.LimitPut{Account: "vision", User: "*", Resource: limits.Credits, Max: 1}, true},
		"the one above":       {"mia", command.LimitPut{Account: "nlp", User: "ada", Resource: limits.Credits, Max: 9}, false},
		"no account":          {"mia", command.LimitPut{User: "ben", Resource: limits.Credits, Max: 1}, false},
		"another resource":    {"mia", command.LimitPut{Account: "vision", User: "ben", Resource: limits.GPU, Max: 1}, false},
		"a member":            {"ben", command.LimitPut{Account: "vision", User: "ben", Resource: limits.Credits, Max: 1 << 40}, false},
		"another's":           {"mia", command.LimitPut{Remove: inNLP.ID}, false},
		"none":                {"mia", command.LimitPut{Remove: 99}, false},
		"another's as hers":   {"mia", command.LimitPut{Remove: inNLP.ID, Account: "vision", Resource: limits.Credits}, false},
		"an operator":         {"olga", command.LimitPut{Account: "vision", User: "ben", Resource: limits.Credits, Max: 2}, true},
		"an operator removes": {"olga", command.LimitPut{Remove: inNLP.ID}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := tt.cmd.Decide(s.w, s.context(s.user(tt.who)))
			if (err == nil) != tt.allowed || err != nil && fault.Of(err) != codes.Denied {
				t.Errorf("got %v", err)
			}
		})
	}
}
