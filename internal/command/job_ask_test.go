package command_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// asksAbove is a token of ada's that asks.
func (s *sim) asksAbove(t fataler, above money.Micros) access.Principal {
	name := fmt.Sprint("t", s.w.Tenancy.NextToken())
	s.must(t, s.user("ada"), command.TokenPut{User: "ada", Name: name, Hash: name, Caps: tenancy.Caps{Ask: above}})
	return s.by(name)
}

func (s *sim) by(hash string) access.Principal {
	row, _ := s.w.Tenancy.TokenOfHash(hash)
	return s.w.Principal(row.User, row.ID, s.now)
}

func (s *sim) submitsBy(t fataler, p access.Principal, spec workload.Spec) *workload.Job {
	return s.must(t, p, command.Submit{Spec: spec}).(admission.Accepted).Job
}

// asking is the last request.
func (s *sim) asking() approval.Request {
	_, r, _ := s.w.Approvals.Requests.Last()
	return r
}

// example costs 2.288 credits.
func TestATokenAsks(t *testing.T) {
	s := newSim(t)
	bot, ada := s.asksAbove(t, 2*money.Credit), s.user("ada")
	j := s.submitsBy(t, bot, example())
	r := s.asking()
	if j.State != workload.Held || j.Hold != workload.HeldToAsk || j.Deposit != 0 || r.Kind != approval.KindJob || r.Wish.Job.Job != j.ID || r.Token.ID != j.Token.ID || r.Wish.Job.Cost <= 2*money.Credit || s.has("nlp") != 500*money.Credit {
		t.Fatalf("%+v\n%+v", j, r)
	}
	s.must(t, system, command.JobStart{Job: j.ID})
	if s.job(t, j.ID).State != workload.Held {
		t.Fatal("it starts")
	}
	s.must(t, ada, command.RequestApprove{Request: r.ID, Words: "go"})
	j = s.job(t, j.ID)
	if j.State != workload.Queued || j.Hold != workload.NoHold || j.Deposit != r.Wish.Job.Cost || !strings.Contains(j.Message, "approved by ada") || s.has("nlp") != 500*money.Credit-r.Wish.Job.Cost {
		t.Errorf("%+v", j)
	}
	for _, c := range s.last {
		if p, ok := c.(ledger.Posted); ok && (p.Row.User != j.User || p.Row.Token != j.Token.ID) {
			t.Errorf("posted for %+v", p.Row)
		}
	}
	if _, err := s.do(ada, command.RequestApprove{Request: r.ID}); fault.Of(err) != codes.Conflict {
		t.Errorf("twice: %v", err)
	}
	s.started(t, j.ID)
}

// What it may come to counts: all elements, all of a rolling job's time, and runs that it is to have again.
func TestWhatATokenAsksAbove(t *testing.T) {
	for name, tt := range map[string]struct {
		above money.Micros
		edit  func(*workload.Spec)
		asks  bool
	}{
		"cheaper":                  {3 * money.Credit, func(*workload.Spec) {}, false},
		"dearer":                   {2 * money.Credit, func(*workload.Spec) {}, true},
		"just that":                {2_288_000, func(*workload.Spec) {}, false},
		"a hair more":              {2_287_999, func(*workload.Spec) {}, true},
		"whatever":                 {tenancy.AskAll, func(s *workload.Spec) { s.GPU, s.CPU, s.Time = 0, 1000, 60e9 }, true},
		"an array":                 {3 * money.Credit, func(s *workload.Spec) { s.Array = workload.ArraySpec{Elements: elements("0-1")} }, true},
		"a rolling one":            {2 * money.Credit, func(s *workload.Spec) { s.Deposit = workload.DepositRolling }, true},
		"one that runs again":      {3 * money.Credit, func(s *workload.Spec) { s.Requeue = []string{"timeout"} }, true},
		"one that runs once again": {5 * money.Credit, func(s *workload.Spec) { s.Requeue, s.Requeues = []string{"timeout"}, 1 }, false},
		"a lost node":              {3 * money.Credit, func(s *workload.Spec) { s.Requeue = []string{"node"} }, false},
	} {
		s := newSim(t)
		spec := example()
		tt.edit(&spec)
		if j := s.submitsBy(t, s.asksAbove(t, tt.above), spec); (j.Hold == workload.HeldToAsk) != tt.asks {
			t.Errorf("%s: %+v", name, j)
		}
	}
}

func elements(text string) workload.Elements {
	e, err := workload.ParseElements(text)
	if err != nil {
		panic(err)
	}
	return e
}

// Nobody else lets it run, in any other way.
func TestOnlyItsUserLetsItRun(t *testing.T) {
	s := crowd(t)
	bot, other := s.asksAbove(t, money.Credit), s.asksAbove(t, 100*money.Credit)
	s.must(t, s.user("ada"), command.TokenPut{User: "ada", Name: "capped", Hash: "capped", Caps: tenancy.Caps{Devices: 1000}})
	s.must(t, s.user("ada"), command.TokenPut{User: "ada", Name: "submit", Hash: "submit", Scopes: access.ScopeSubmit})
	s.must(t, s.user("ada"), command.TokenPut{User: "ada", Name: "all", Hash: "all"})
	k := s.submitsBy(t, bot, example()).ID
	r := s.asking().ID
	for name, p := range map[string]access.Principal{
		"itself": bot, "another that asks": other, "one with caps": s.by("capped"), "one that submits": s.by("submit"),
		"its manager": s.user("manager"), "an owner": s.user("owner"), "an operator": s.user("operator"), "an admin": s.user("root"), "the server": system, "a stranger": s.user("stranger"),
	} {
		if _, err := s.do(p, command.RequestApprove{Request: r}); err == nil {
			t.Fatalf("%s approves it", name)
		}
		if _, err := s.do(p, command.JobRelease{Job: k}); err == nil {
			t.Fatalf("%s releases it", name)
		}
		s.do(p, command.JobHold{Job: k})
		s.do(p, command.JobPrioritize{Job: k, Points: num(1)})
		s.do(p, command.JobRequeue{Job: k})
		s.do(p, command.JobExtend{Job: k, Time: 9 * hour})
	}
	if _, err := s.do(s.user("ada"), command.JobRelease{Job: k}); fault.Of(err) != codes.Denied || !strings.Contains(err.Error(), fmt.Sprint("request ", r)) {
		t.Errorf("its user releases it: %v", err)
	}
	s.must(t, system, command.JobStart{Job: k})
	if j := s.job(t, k); j.Hold != workload.HeldToAsk || j.State != workload.Held || s.request(r).State != approval.Open {
		t.Fatalf("%+v", j)
	}
	if _, err := s.do(s.user("ada"), command.RequestMake{Wish: approval.Wish{Job: &approval.Job{Job: k}}}); fault.Of(err) != codes.Invalid {
		t.Errorf("asked for by hand: %v", err)
	}
	s.must(t, s.by("all"), command.RequestApprove{Request: r})
}

// Without an approval the job ends, and with the job the request.
func TestUnapproved(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(t *testing.T, s *sim, bot access.Principal, k id.Job, r id.Request)
		state approval.Stage
	}{
		"rejected": {func(t *testing.T, s *sim, _ access.Principal, _ id.Job, r id.Request) {
			s.must(t, s.user("ada"), command.RequestReject{Request: r})
		}, approval.Rejected},
		"withdrawn by the token": {func(t *testing.T, s *sim, bot access.Principal, _ id.Job, r id.Request) {
			s.must(t, bot, command.RequestWithdraw{Request: r})
		}, approval.Withdrawn},
		"expired": {func(t *testing.T, s *sim, _ access.Principal, _ id.Job, r id.Request) {
			s.now = s.request(r).Expires
			if _, err := s.do(s.user("ada"), command.RequestApprove{Request: r}); fault.Of(err) != codes.Conflict {
				t.Errorf("too late: %v", err)
			}
			s.must(t, system, command.RequestExpire{Request: r})
		}, approval.Expired},
		"stopped by the token": {func(t *testing.T, s *sim, bot access.Principal, k id.Job, _ id.Request) {
			s.must(t, bot, command.JobStop{Job: k})
		}, approval.Withdrawn},
		"stopped by others": {func(t *testing.T, s *sim, _ access.Principal, k id.Job, _ id.Request) {
			s.must(t, s.user("root"), command.JobStop{Job: k})
		}, approval.Withdrawn},
	} {
		for _, array := range []bool{false, true} {
			s := newSim(t)
			bot := s.asksAbove(t, money.Credit)
			spec := example()
			if array {
				spec.Array = workload.ArraySpec{Elements: elements("0-3")}
			}
			k := s.submitsBy(t, bot, spec).ID
			r := s.asking().ID
			tt.end(t, s, bot, k, r)
			if _, there := s.w.Workload.Jobs.Get(k); there || s.request(r).State != tt.state || s.has("nlp") != 500*money.Credit {
				t.Errorf("%s: there %v, %+v, %s", name, there, s.request(r), s.has("nlp"))
			}
			if _, err := s.do(s.user("ada"), command.RequestApprove{Request: r}); fault.Of(err) != codes.Conflict {
				t.Errorf("%s, approved: %v", name, err)
			}
		}
	}
}

// What has become dearer, or can't be paid, isn't run; nor is what its user may not run any more.
func TestApprovedTooLate(t *testing.T) {
	s := newSim(t)
	bot, root := s.asksAbove(t, money.Credit), s.user("root")
	s.submitsBy(t, bot, example())
	r := s.asking().ID
	s.must(t, root, command.AccountPut{Create: true, Name: "away"})
	s.must(t, root, command.GrantTransfer{From: "nlp", To: "away", Amount: 499 * money.Credit})
	if _, err := s.do(s.user("ada"), command.RequestApprove{Request: r}); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "the deposit is") {
		t.Errorf("without money: %v", err)
	}
	s.must(t, root, command.PricePut{CPU: 20_000, Mem: 2_000, Devices: []catalog.ModelRate{{Model: "a100", Rate: money.Rate(2 * money.Credit)}}})
	if _, err := s.do(s.user("ada"), command.RequestApprove{Request: r}); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "by now") {
		t.Errorf("at another price: %v", err)
	}
	s.must(t, root, command.UserPut{Name: "ada", Blocked: yes()})
	if _, err := s.do(s.user("ada"), command.RequestApprove{Request: r}); err == nil {
		t.Error("by who is blocked")
	}
}

// What was approved once isn't run again by the token, nor made longer.
func TestNoSecondRunByTheToken(t *testing.T) {
	s := newSim(t)
	bot := s.asksAbove(t, money.Credit)
	k := s.submitsBy(t, bot, example()).ID
	s.must(t, s.user("ada"), command.RequestApprove{Request: s.asking().ID})
	s.started(t, k)
	if _, err := s.do(bot, command.JobRequeue{Job: k}); fault.Of(err) != codes.Denied || !strings.Contains(err.Error(), "asks above") {
		t.Errorf("queued again: %v", err)
	}
	if _, err := s.do(bot, command.RequestMake{Wish: wallWish(k, 9*hour)}); fault.Of(err) != codes.Denied {
		t.Errorf("asked for more time: %v", err)
	}
	s.must(t, s.user("ada"), command.JobRequeue{Job: k})
	small := example()
	small.Time = hour / 2
	n := s.submitsBy(t, bot, small).ID
	s.started(t, n)
	s.must(t, bot, command.JobRequeue{Job: n})
}

// A workspace is started again as it is submitted.
func TestAWorkspaceOfATokenThatAsks(t *testing.T) {
	s := newSim(t)
	bot := s.asksAbove(t, money.Credit)
	spec := example()
	spec.Kind, spec.Name = workload.KindWorkspace, "lab"
	k := s.submitsBy(t, bot, spec).ID
	r := s.asking().ID
	s.must(t, bot, command.JobStop{Job: k})
	if j := s.job(t, k); j.State != workload.Stopped || j.Hold != workload.NoHold || s.request(r).State != approval.Withdrawn {
		t.Fatalf("%+v, %+v", j, s.request(r))
	}
	if _, err := s.do(bot, command.WorkspaceStart{Job: k}); fault.Of(err) != codes.Denied || s.job(t, k).State != workload.Stopped {
		t.Errorf("started: %v", err)
	}
	s.must(t, s.user("ada"), command.WorkspaceStart{Job: k})
}

func TestThresholdsThatCantBe(t *testing.T) {
	s := newSim(t)
	for above, scope := range map[money.Micros]access.Scope{-2: 0, math.MinInt64: 0, math.MaxInt64: 0, 1: access.ScopeManage, 2: access.ScopeRead} {
		if _, err := s.do(s.user("ada"), command.TokenPut{User: "ada", Name: "x", Hash: "x", Scopes: scope, Caps: tenancy.Caps{Ask: above}}); fault.Of(err) != codes.Invalid {
			t.Errorf("%d: %v", above, err)
		}
	}
}

// Its user's own requests aren't used up by a token.
func TestATokenAsksSoOften(t *testing.T) {
	s := crowd(t)
	bot := s.asksAbove(t, money.Credit)
	for i := 0; ; i++ {
		_, err := s.do(bot, command.Submit{Spec: example()})
		if err != nil {
			if i != approval.MaxOpen || fault.Of(err) != codes.Conflict {
				t.Errorf("%d: %v", i, err)
			}
			break
		}
	}
	s.ask(t, "ada", limitWish("nlp", 3000))
}

// Whatever a token does, and whoever does what else: nothing that may cost more than it submits
// without asking begins, or has anything set aside, unless its user has approved it himself.
func TestWhateverATokenDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(t)
		above := money.Micros(rapid.Int64Range(-1, int64(5*money.Credit)).Draw(t, "above"))
		if above == 0 {
			above = 1
		}
		bot := s.asksAbove(t, above)
		approved := map[id.Job]bool{}
		submitted := map[id.Job]money.Micros{}
		for range rapid.IntRange(5, 40).Draw(t, "acts") {
			s.now += rapid.Int64Range(0, hour).Draw(t, "later")
			p := rapid.SampledFrom([]access.Principal{bot, bot, s.user("ada"), s.user("root"), system}).Draw(t, "who")
			p.Now = s.now
			k := id.Job(rapid.Int64Range(1, 6).Draw(t, "job"))
			r := id.Request(rapid.Int64Range(1, 6).Draw(t, "request"))
			switch rapid.IntRange(0, 10).Draw(t, "act") {
			case 0, 1:
				spec := example()
				spec.Time = rapid.Int64Range(1, 300).Draw(t, "minutes") * 60e9
				spec.Hold = rapid.Bool().Draw(t, "held")
				if rapid.Bool().Draw(t, "again") {
					spec.Requeue = []string{"timeout"}
				}
				if n := rapid.IntRange(0, 4).Draw(t, "elements"); n > 0 {
					spec.Array = workload.ArraySpec{Elements: elements(fmt.Sprintf("0-%d", n))}
				}
				if got, err := s.do(bot, command.Submit{Spec: spec}); err == nil {
					a := got.(admission.Accepted)
					runs := money.Micros(1)
					if len(spec.Requeue) > 0 {
						runs += workload.MaxRequeues
					}
					submitted[a.Job.ID] = a.Verdict.Cost.Total * runs
				}
			case 2, 3:
				before := s.request(r)
				if _, err := s.do(p, command.RequestApprove{Request: r}); err == nil {
					if p.Name != "ada" || p.Narrow.Token != 0 || before.State != approval.Open {
						t.Fatalf("%s (%d) approves", p.Name, p.Narrow.Token)
					}
					approved[before.Wish.Job.Job] = true
				}
			case 4:
				s.do(p, command.RequestReject{Request: r})
			case 5:
				s.do(p, command.JobRelease{Job: k})
			case 6:
				s.do(p, command.JobHold{Job: k})
			case 7:
				s.do(p, command.JobRequeue{Job: k, Hold: rapid.Bool().Draw(t, "hold")})
			case 8:
				s.do(system, command.JobStart{Job: k})
				if j, ok := s.w.Workload.Jobs.Get(k); ok && j.State == workload.Starting {
					s.do(system, command.JobObserved{Job: k, N: j.Attempt.N, Running: true, Started: s.now})
				}
			case 9:
				s.do(p, command.JobStop{Job: k})
			case 10:
				s.do(system, command.JobDue{Job: k})
			}
			for k, j := range s.w.Workload.Jobs.All() {
				whole := submitted[k]
				if j.Of != 0 {
					whole = submitted[j.Of]
				}
				let := approved[k] || approved[j.Of] || !j.Token.Caps.Asks(whole)
				if !let && (j.Deposit != 0 || j.Attempt.N != 0 || j.State != workload.Held || j.Hold != workload.HeldToAsk) {
					t.Fatalf("job %d, which may cost %s: %+v", k, whole, j)
				}
			}
			for _, r := range s.w.Approvals.Requests.All() {
				j, there := s.w.Workload.Jobs.Get(r.Wish.Job.Job)
				if waits := there && j.Hold == workload.HeldToAsk; waits != (r.State == approval.Open) {
					t.Fatalf("%+v, and job there %v", r, there)
				}
			}
		}
	})
}
