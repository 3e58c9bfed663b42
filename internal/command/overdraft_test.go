package command_test

import (
	"math"
	"strings"
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
)

func credits(s string) *money.Micros { m := micros(s); return &m }

// overdrawn is an account with so many credits that may go so far beyond them.
func overdrawn(t *testing.T, has, bound string) *sim {
	t.Helper()
	s := poor(t, micros(has))
	s.must(t, s.user("root"), command.AccountPut{Name: "poor", OutOfCredit: text("overdraft"), Overdraft: credits(bound)})
	return s
}

func (s *sim) poor() id.Account { a, _ := s.w.Tenancy.Account("poor"); return a.ID }

// uses checks what is used of the overdraft, what of it is owed, and what grants have.
func (s *sim) uses(t *testing.T, used, owed, have string) {
	t.Helper()
	a := s.poor()
	got := [3]money.Micros{s.w.Ledger.Overdrawn(a), s.w.Ledger.Owed(a), ledger.Available(s.w.Ledger.Sources([]id.Account{a}, s.now))}
	if want := [3]money.Micros{micros(used), micros(owed), micros(have)}; got != want {
		t.Fatalf("used, owed, in grants: %v, want %v", got, want)
	}
}

// brief is the example for an hour, which costs 1.144 with its whole deposit.
func brief() workload.Spec {
	spec := example()
	spec.Account, spec.Time = "poor", hour
	return spec
}

// ran has a job of a spec run for as long as it may.
func (s *sim) ran(t *testing.T, spec workload.Spec) id.Job {
	t.Helper()
	k := s.opens(t, spec)
	s.now += spec.Time
	s.must(t, system, command.JobObserved{Job: k, N: 1, Exited: true, Finished: s.now})
	return k
}

// Only who gives money says how far an account may go beyond it, and says so within bounds.
func TestSetOverdraft(t *testing.T) {
	s := poor(t, micros("1"))
	root, ada := s.user("root"), s.user("ada")
	s.must(t, root, command.MemberPut{Account: "poor", User: "ada", Role: "owner"})
	over := text("overdraft")
	for name, tt := range map[string]struct {
		by   access.Principal
		put  command.AccountPut
		want string
	}{
		"its owner":          {ada, command.AccountPut{OutOfCredit: over, Overdraft: credits("5")}, "only an admin"},
		"no bound":           {root, command.AccountPut{OutOfCredit: over}, "more than 0"},
		"nothing":            {root, command.AccountPut{OutOfCredit: over, Overdraft: credits("0")}, "more than 0"},
		"less than nothing":  {root, command.AccountPut{OutOfCredit: over, Overdraft: credits("-1")}, "more than 0"},
		"too much":           {root, command.AccountPut{OutOfCredit: over, Overdraft: credits("1000000000.000001")}, "at most 1000000000"},
		"far too much":       {root, command.AccountPut{OutOfCredit: over, Overdraft: func() *money.Micros { m := money.Micros(math.MaxInt64); return &m }()}, "at most"},
		"without being one":  {root, command.AccountPut{Overdraft: credits("5")}, "set out_of_credit to overdraft too"},
		"beside draining":    {root, command.AccountPut{OutOfCredit: text("drain"), Overdraft: credits("5")}, "set out_of_credit to overdraft too"},
		"what there isn't":   {root, command.AccountPut{OutOfCredit: text("overdrive")}, "stop, drain or overdraft"},
		"the most there may": {root, command.AccountPut{OutOfCredit: over, Overdraft: credits("1000000000")}, ""},
		"a fraction":         {root, command.AccountPut{OutOfCredit: over, Overdraft: credits("0.000001")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tt.put.Name = "poor"
			_, err := tt.put.Decide(s.w, s.context(tt.by))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
		})
	}
	s.must(t, root, command.AccountPut{Name: "poor", OutOfCredit: over, Overdraft: credits("5")})
	if _, err := s.do(ada, command.AccountPut{Name: "poor", Overdraft: credits("6")}); err == nil {
		t.Error("its owner raised the bound")
	}
	s.must(t, ada, command.AccountPut{Create: true, Name: "below", Parent: "poor"})
	if below, _ := s.w.Tenancy.Account("below"); below.MayOverdraw() != 0 || below.Drains() || below.Billing != "enforce" {
		t.Errorf("its owner made another overdraft: %+v", below)
	}
}

// The overdraft pays after every grant and never beyond its bound; below what is used the bound
// can't be set, and with another way nothing more is used.
func TestOverdraftBound(t *testing.T) {
	s := overdrawn(t, "1", "2")
	root := s.user("root")
	s.ran(t, brief()) // 1.144
	s.uses(t, "0.144", "0.144", "0")
	if _, err := s.do(root, command.AccountPut{Name: "poor", Overdraft: credits("0.143")}); err == nil || !strings.Contains(err.Error(), "0.144 of it are used already") {
		t.Errorf("below what is used: %v", err)
	}
	s.must(t, root, command.AccountPut{Name: "poor", OutOfCredit: text("stop")})
	if _, err := s.do(s.user("ada"), command.Submit{Spec: brief()}); err == nil || !strings.Contains(err.Error(), "0.000 left") {
		t.Errorf("with stop: %v", err)
	}
	s.must(t, root, command.AccountPut{Name: "poor", OutOfCredit: text("overdraft"), Overdraft: credits("1.287999")})
	if _, err := s.do(s.user("ada"), command.Submit{Spec: brief()}); err == nil || !strings.Contains(err.Error(), "1.143999 left") {
		t.Errorf("a micro-credit too much: %v", err)
	}
	s.must(t, root, command.AccountPut{Name: "poor", Overdraft: credits("1.288")})
	s.ran(t, brief())
	s.uses(t, "1.288", "1.288", "0")
	if _, err := s.do(root, command.AccountRemove{Name: "poor", Expire: true}); err == nil || !strings.Contains(err.Error(), "owes 1.288") {
		t.Errorf("removed: %v", err)
	}
	s.must(t, root, command.AccountPut{Name: "poor", Billing: text("showback")}) // then nothing more is owed
	s.ran(t, brief())
	s.uses(t, "1.288", "1.288", "0")
}

// With a rolling deposit what runs goes on until the overdraft is used up, and is then stopped
// as it would be without one; a cap of its user stops it before.
func TestOverdraftUsedUp(t *testing.T) {
	for name, limit := range map[string]string{"by the bound": "", "by a cap": "2"} {
		t.Run(name, func(t *testing.T) {
			s := overdrawn(t, "1.5", "2")
			begin := s.now
			if limit != "" {
				s.must(t, s.user("root"), command.LimitPut{Account: "poor", User: "ada", Resource: limits.Credits, Per: limits.Per{}, Max: int64(micros(limit))})
			}
			k := s.opens(t, open())
			s.until(t, k, begin+5*hour)
			j := s.job(t, k)
			if j.State != workload.Stopping || j.Attempt.Cause != codes.OutOfCredit {
				t.Fatalf("%s %s", j.State, j.Attempt.Cause)
			}
			used := s.w.Ledger.Overdrawn(s.poor())
			if limit == "" && used != micros("2") || limit != "" && used > micros("0.5") {
				t.Errorf("%s of the overdraft are used", used)
			}
			end := s.must(t, system, command.JobObserved{Job: k, N: 1, Exited: true, Finished: s.now}).(*workload.Job)
			if s.w.Ledger.Owed(s.poor()) != end.Charged-micros("1.5") || end.Charged > micros("3.5") {
				t.Errorf("charged %s, owed %s", end.Charged, s.w.Ledger.Owed(s.poor()))
			}
		})
	}
}

// A grant, an allowance and what another account gives each repay what is owed in the command
// that gives them; what they don't suffice for stays owed.
func TestRepaying(t *testing.T) {
	s := overdrawn(t, "0.000001", "5")
	root := s.user("root")
	s.ran(t, brief())
	s.ran(t, brief())
	s.ran(t, brief())
	s.uses(t, "3.431999", "3.431999", "0")
	give := s.must(t, root, command.GrantGive{Account: "poor", Amount: micros("1"), Source: "late", Start: s.now + 24*hour}).(ledger.Grant)
	s.uses(t, "2.431999", "2.431999", "0")
	if s.w.Ledger.RepaidBy(give) != micros("1") {
		t.Errorf("it repaid %s", s.w.Ledger.RepaidBy(give))
	}
	s.must(t, root, command.GrantTransfer{From: "nlp", To: "poor", Amount: micros("1")})
	s.uses(t, "1.431999", "1.431999", "0")
	rule := s.must(t, root, command.AllowancePut{Account: "poor", Amount: micros("2"), Per: limits.Month, Carry: limits.Carry{Milli: 1000}}).(interface{ Next() (int64, bool) })
	for _, k := range due(s) {
		s.must(t, system, command.AllowanceDue{Allowance: k})
	}
	s.uses(t, "0", "0", "0.568001")
	s.ran(t, brief())
	s.uses(t, "0.575999", "0.575999", "0")
	s.now, _ = rule.Next()
	s.now = max(s.now, s.w.Now) + 32*24*hour
	for _, k := range due(s) {
		s.must(t, system, command.AllowanceDue{Allowance: k})
	}
	s.uses(t, "0", "0", "1.424001")
	for a, b := range s.w.Ledger.Balances {
		if b < 0 && !a.Open() {
			t.Errorf("%s has %s", a, b)
		}
	}
}

func due(s *sim) []id.Allowance { all, _ := command.AllowancesDue(s.w, s.now); return all }

// A refund repays what is owed before it is anything's to spend, and gives grants back what
// they repaid for what isn't owed any more.
func TestOverdraftRefund(t *testing.T) {
	s := overdrawn(t, "1", "5")
	root := s.user("root")
	k := s.opens(t, brief()) // 1 of the grant, 0.144 of the overdraft
	s.now += hour / 2
	s.must(t, system, command.Meter{Jobs: []id.Job{k}})
	s.ran(t, brief()) // all of the overdraft: 1.144
	s.uses(t, "1.288", "1.144", "0")
	j := s.must(t, system, command.JobObserved{Job: k, N: 1, Lost: true}).(*workload.Job)
	if j.State != workload.Ended || j.Charged != 0 || j.Refunded != micros("0.572") {
		t.Fatalf("%s, charged %s, refunded %s", j.State, j.Charged, j.Refunded)
	}
	s.uses(t, "0.144", "0.144", "0")

	s = overdrawn(t, "1", "5")
	root = s.user("root")
	k = s.opens(t, brief())
	s.now += hour - minute
	s.must(t, system, command.Meter{Jobs: []id.Job{k}})
	owed := s.w.Ledger.Owed(s.poor())
	g := s.must(t, root, command.GrantGive{Account: "poor", Amount: micros("3"), Source: "late"}).(ledger.Grant)
	if owed <= 0 || s.w.Ledger.RepaidBy(g) != owed {
		t.Fatalf("%s were owed, %s repaid", owed, s.w.Ledger.RepaidBy(g))
	}
	s.must(t, system, command.JobObserved{Job: k, N: 1, Lost: true})
	s.uses(t, "0", "0", "4")
	if s.w.Ledger.RepaidBy(g) != 0 {
		t.Errorf("%s of it are kept", s.w.Ledger.RepaidBy(g))
	}
}

// What an account uses of its overdraft isn't its to give, nor what is to repay that, and
// accounts below it don't go beyond its grants.
func TestOverdraftIsItsOwn(t *testing.T) {
	s := overdrawn(t, "1", "5")
	root := s.user("root")
	if _, err := s.do(root, command.GrantTransfer{From: "poor", To: "nlp", Amount: micros("1.000001")}); err == nil || !strings.Contains(err.Error(), "has 1.000 in grants") {
		t.Errorf("more than there is: %v", err)
	}
	k := s.opens(t, brief())
	s.must(t, root, command.GrantGive{Account: "poor", Amount: micros("1"), Source: "late", Subtree: true})
	s.uses(t, "0.144", "0", "1")
	if _, err := s.do(root, command.GrantTransfer{From: "poor", To: "nlp", Amount: micros("0.856001")}); err == nil || !strings.Contains(err.Error(), "at most 0.856") {
		t.Errorf("what is to repay: %v", err)
	}
	s.now += hour
	s.must(t, system, command.JobObserved{Job: k, N: 1, Exited: true, Finished: s.now})
	s.uses(t, "0", "0", "0.856") // what was set aside when the grant came is repaid at the end
	s.must(t, root, command.GrantTransfer{From: "poor", To: "nlp", Amount: micros("0.856")})

	s.must(t, root, command.AccountPut{Create: true, Name: "below", Parent: "poor", Billing: text("enforce")})
	s.must(t, root, command.MemberPut{Account: "below", User: "ada", Role: "member"})
	spec := brief()
	spec.Account = "below"
	if _, err := s.do(s.user("ada"), command.Submit{Spec: spec}); err == nil || !strings.Contains(err.Error(), "below has 0.000 left") {
		t.Errorf("an account below it: %v", err)
	}
}

// Managers are told once that the overdraft begins to be used; at 80 and 95 % they are told of
// the grants.
func TestOverdraftTold(t *testing.T) {
	s := overdrawn(t, "1.2", "5")
	warn := func() string {
		t.Helper()
		out, err := command.CreditWarn{Account: s.poor()}.Decide(s.w, s.context(system))
		if err != nil {
			t.Fatal(err)
		}
		if out.Event.Skip {
			return ""
		}
		s.must(t, system, command.CreditWarn{Account: s.poor()})
		return out.Event.State + ": " + out.Event.Message
	}
	say := func(want string) {
		t.Helper()
		if got := warn(); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	say("")
	s.ran(t, brief())
	say("95: 95 % of the credits of poor are used up or set aside: 0.056 of 1.200 are left")
	k := s.opens(t, brief())
	say("overdraft: the credits of poor are used up: 1.088 of its overdraft of 5.000 are used or set aside")
	say("")
	s.now += hour
	s.must(t, system, command.JobObserved{Job: k, N: 1, Exited: true, Finished: s.now})
	say("")
	s.must(t, s.user("root"), command.GrantGive{Account: "poor", Amount: micros("50"), Source: "next"})
	say("0: poor uses nothing of its overdraft any more: 48.912 of its credits of 51.200 are left")
	say("")
}

// A reservation that nobody uses is paid out of the overdraft up to its bound; the rest is the
// platform's loss.
func TestOverdraftReserved(t *testing.T) {
	s := overdrawn(t, "1.5", "2.499999")
	root := s.user("root")
	class := s.class() // costs 4
	class.Payer, class.Accounts = "poor", []string{"poor"}
	if _, err := s.do(root, class); err == nil || !strings.Contains(err.Error(), "has 3.999999 left") {
		t.Errorf("beyond the bound: %v", err)
	}
	s.must(t, root, command.AccountPut{Name: "poor", Overdraft: credits("2.5")})
	class.From, class.To = s.now+hour, s.now+3*hour
	s.must(t, root, class)
	s.ran(t, brief()) // 1.144 of the 4
	s.must(t, system, command.ReservationsDue{})
	s.now += 2 * hour
	s.must(t, system, command.ReservationsDue{})
	s.uses(t, "2.5", "2.5", "0")
	if lost := s.w.Ledger.Balance(ledger.Waste(ledger.CauseReserved)); lost != micros("1.144") {
		t.Errorf("the platform lost %s", lost)
	}
	s.must(t, root, command.GrantGive{Account: "poor", Amount: micros("3"), Source: "late"})
	s.uses(t, "0", "0", "0.5")
}
