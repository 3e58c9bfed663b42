package command_test

import (
	"strings"
	"testing"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// poor is a machine whose account nlp has so many micro-credits, where an hour of the
// example costs 1.144.
func poor(t *testing.T, has money.Micros) *sim {
	t.Helper()
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.AccountPut{Create: true, Name: "poor", Billing: text("enforce")})
	s.must(t, root, command.MemberPut{Account: "poor", User: "ada", Role: "member"})
	if has > 0 {
		s.must(t, root, command.GrantGive{Account: "poor", Amount: has, Source: "DFG-9"})
	}
	return s
}

// open is the example with a rolling deposit: for a day, with two minutes of grace.
func open() workload.Spec {
	spec := example()
	spec.Account, spec.Time, spec.Grace, spec.Deposit = "poor", 24*hour, 2*minute, workload.DepositRolling
	return spec
}

// opens has a job of a spec start and run now.
func (s *sim) opens(t *testing.T, spec workload.Spec) id.Job {
	t.Helper()
	k := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job.ID
	s.begins(t, k, 1)
	return k
}

func (s *sim) begins(t *testing.T, k id.Job, n int32) {
	t.Helper()
	s.must(t, system, command.JobStart{Job: k})
	s.must(t, system, command.JobObserved{Job: k, N: n, Running: true, Started: s.now})
}

// until lets time pass up to a moment, with the loops of deposits and of the clock in it.
func (s *sim) until(t *testing.T, k id.Job, at int64) {
	t.Helper()
	for s.now < at {
		s.now = min(s.now+minute, at)
		j, ok := s.w.Workload.Active.Get(k)
		if !ok {
			continue
		}
		if command.TopUpDue(s.w.View(s.now), j) {
			s.must(t, system, command.JobTopUp{Job: k, N: j.Attempt.N})
		}
		s.must(t, system, command.JobDue{Job: k})
	}
}

func (s *sim) left(t *testing.T, k id.Job) money.Micros {
	t.Helper()
	var sum money.Micros
	for _, p := range s.job(t, k).Sources {
		sum += p.Left
	}
	return sum
}

func micros(credits string) money.Micros { m, _ := money.Parse(credits); return m }

// At first a window and the grace are set aside, of a job that may run for a day; while it
// runs never more than that.
func TestRollingDeposit(t *testing.T) {
	s := poor(t, 100*money.Credit)
	begin := s.now
	k := s.opens(t, open())
	first := micros("1.182132") // 62 minutes
	if j := s.job(t, k); j.Deposit != first || j.Attempt.Paid != begin+hour {
		t.Errorf("deposit %s, paid until %s", j.Deposit, time.Duration(j.Attempt.Paid-begin))
	}
	s.until(t, k, begin+44*minute)
	if j := s.job(t, k); j.Deposit != first {
		t.Errorf("deposit %s before it is due", j.Deposit)
	}
	s.until(t, k, begin+45*minute)
	if j := s.job(t, k); j.Attempt.Paid != begin+105*minute || j.Charged != micros("0.858") || s.left(t, k) != first {
		t.Errorf("charged %s, left %s, paid until %s", j.Charged, s.left(t, k), time.Duration(j.Attempt.Paid-begin))
	}
	s.until(t, k, begin+24*hour-1)
	if j := s.job(t, k); j.State != workload.Running || j.Attempt.Short != 0 || j.Attempt.Rolls() || s.left(t, k) > first {
		t.Errorf("%s %+v", j.State, j.Attempt)
	}
	s.until(t, k, begin+24*hour)
	s.now += 2 * minute
	s.costs(t, k, codes.TimedOut, micros("27.494132"), micros("27.494132"))
}

// costs ends a job that was told to, and compares what it cost and was to cost.
func (s *sim) costs(t *testing.T, k id.Job, as codes.Outcome, charged, deposit money.Micros) {
	t.Helper()
	n := s.job(t, k).Attempt.N
	j := s.must(t, system, command.JobObserved{Job: k, N: n, Exited: true, Finished: s.now}).(*workload.Job)
	if j.Outcome != as || j.Charged != charged || j.Deposit != deposit || j.Returned != deposit-charged {
		t.Errorf("%s: charged %s of %s, returned %s; %s", j.Outcome, j.Charged, j.Deposit, j.Returned, j.Message)
	}
	for a, b := range s.w.Ledger.Balances {
		if strings.HasPrefix(string(a), "waste:ending") || a.Deposit() {
			t.Errorf("%s has %s", a, b)
		}
	}
}

// Without money the user is told a quarter of a window ahead, what is there is used, and the
// job is stopped such that its grace is paid, too.
func TestOutOfCredit(t *testing.T) {
	s := poor(t, micros("1.5"))
	begin := s.now
	k := s.opens(t, open())
	s.until(t, k, begin+45*minute)
	j := s.job(t, k)
	paid := begin + 76*minute // 1.5 pays 78 minutes and 40 seconds
	if j.Attempt.Short != s.now || j.Attempt.Paid < paid || j.Attempt.Paid > paid+minute || s.w.Ledger.Balance(ledger.OfGrant(2)) != 0 {
		t.Errorf("%+v, %s", j.Attempt, time.Duration(j.Attempt.Paid-begin))
	}
	const want = "its money ends: it is stopped in 31m40s, at 2026-11-01 10:16:40 UTC, unless some comes: account poor has 0.317868 left, 0.858 more are to be set aside for the next 1h: 0.540132 are missing, which an admin can give: croft grant add poor 0.540132 --source NAME"
	if j.Message != want {
		t.Errorf("got  %s\nwant %s", j.Message, want)
	}
	s.until(t, k, j.Attempt.Paid)
	j = s.job(t, k)
	if j.State != workload.Stopping || j.Attempt.Cause != codes.OutOfCredit || j.KillAt() != j.Attempt.Paid+2*minute {
		t.Errorf("%s %+v", j.State, j.Attempt)
	}
	s.now = j.KillAt()
	s.must(t, system, command.JobDue{Job: k})
	s.costs(t, k, codes.OutOfCredit, micros("1.499999"), micros("1.5"))
}

// Money that comes before the end lets the job go on, and whoever was signalled is signalled
// again; the signal comes ahead of the end of the money.
func TestMoneyComesInTime(t *testing.T) {
	s := poor(t, micros("1.2"))
	begin := s.now
	spec := open()
	spec.Signal = workload.Signal{Name: "USR1", Before: 5 * minute}
	k := s.opens(t, spec)
	s.until(t, k, begin+50*minute)
	if a := s.job(t, k).Attempt; a.Short == 0 || a.Signaled {
		t.Errorf("%+v", a)
	}
	s.until(t, k, begin+56*minute)
	if !s.job(t, k).Attempt.Signaled {
		t.Error("it isn't signalled")
	}
	s.must(t, s.user("root"), command.GrantGive{Account: "poor", Amount: 10 * money.Credit, Source: "more"})
	s.until(t, k, begin+57*minute)
	if j := s.job(t, k); j.Attempt.Short != 0 || j.Attempt.Signaled || j.Attempt.Paid != s.now+hour || j.Message != "" || j.State != workload.Running {
		t.Errorf("%s %+v %s", j.State, j.Attempt, j.Message)
	}
	s.until(t, k, begin+24*hour)
	if j := s.job(t, k); j.State != workload.Stopping || j.Attempt.Cause != codes.OutOfCredit || !j.Attempt.Signaled {
		t.Errorf("%s %+v", j.State, j.Attempt)
	}
}

// A server that was away stops what nobody could pay for, and pays on where somebody can:
// the time that it was away is the user's only where there was money.
func TestAwayWhileTheMoneyEnds(t *testing.T) {
	s := poor(t, micros("1.2"))
	k := s.opens(t, open())
	s.now += 3 * hour
	s.must(t, system, command.JobDue{Job: k})
	if j := s.job(t, k); j.State != workload.Stopping || j.Attempt.StopAt != s.now {
		t.Errorf("%s %+v", j.State, j.Attempt)
	}
	j := s.must(t, system, command.JobObserved{Job: k, N: 1, Exited: true, Finished: s.now}).(*workload.Job)
	if j.Charged > micros("1.2") || s.w.Ledger.Balance(ledger.Waste(ledger.CauseEnding)) != micros("3.432")-j.Charged {
		t.Errorf("charged %s, lost %s", j.Charged, s.w.Ledger.Balance(ledger.Waste(ledger.CauseEnding)))
	}
	s = poor(t, 100*money.Credit)
	k = s.opens(t, open())
	s.now += 3 * hour
	s.must(t, system, command.JobDue{Job: k})
	if j := s.job(t, k); j.State != workload.Running || j.Attempt.Paid != s.now+hour {
		t.Errorf("%s %+v", j.State, j.Attempt)
	}
	s.costs(t, k, codes.Completed, micros("3.432"), micros("4.614132"))
}

// Grants that end at the same instant pay in the order of their numbers, and what is set
// aside out of them outlives them; what comes after isn't theirs.
func TestGrantsEndTogether(t *testing.T) {
	s := poor(t, 0)
	begin := s.now
	for range 2 {
		s.must(t, s.user("root"), command.GrantGive{Account: "poor", Amount: money.Credit, Source: "short", End: begin + 30*minute})
	}
	k := s.opens(t, open())
	if got := s.job(t, k).Sources; len(got) != 2 || got[0].Left != money.Credit || got[1].Left != micros("0.182132") {
		t.Errorf("%+v", got)
	}
	s.until(t, k, begin+45*minute)
	if j := s.job(t, k); j.Attempt.Short == 0 || j.Attempt.Paid != begin+hour || j.Deposit != micros("1.182132") {
		t.Errorf("%+v", j)
	}
}

// A cap bounds what is set aside next, in the step that sets it aside; showback stops nothing
// for money.
func TestCapsAndShowbackOfRollingDeposits(t *testing.T) {
	for billing, stops := range map[string]bool{"enforce": true, "showback": false} {
		s := poor(t, 100*money.Credit)
		s.must(t, s.user("root"), command.AccountPut{Name: "poor", Billing: text(billing)})
		s.must(t, s.user("root"), command.LimitPut{Account: "poor", User: "ada", Resource: limits.Credits, Max: int64(micros("1.5"))})
		begin := s.now
		k := s.opens(t, open())
		s.until(t, k, begin+45*minute)
		j := s.job(t, k)
		if stops != (j.Attempt.Short != 0) || stops && (j.Deposit != micros("1.5") || !strings.Contains(j.Message, "user ada in account poor has 0.317868 left of 1.500 credits")) {
			t.Errorf("%s: %+v %s", billing, j.Attempt, j.Message)
		}
		s.until(t, k, begin+2*hour)
		if j := s.job(t, k); stops != (j.State == workload.Stopping) {
			t.Errorf("%s: %s", billing, j.State)
		}
	}
	s := poor(t, 0)
	s.must(t, s.user("root"), command.AccountPut{Name: "poor", Billing: text("off")})
	k := s.opens(t, open())
	s.until(t, k, s.now+24*hour-1)
	if j := s.job(t, k); j.State != workload.Running || j.Attempt.Paid != 0 || j.Deposit != 0 {
		t.Errorf("off: %s %+v", j.State, j.Attempt)
	}
}

// A price that was published before counts from its time on in what is set aside.
func TestRollingDepositOverAPrice(t *testing.T) {
	s := poor(t, 100*money.Credit)
	begin := s.now
	s.must(t, s.user("root"), command.PricePut{From: begin + hour, CPU: 20_000, Mem: 2_000, Devices: []catalog.ModelRate{{Model: "a100", Rate: 2 * money.Rate(money.Credit)}}})
	k := s.opens(t, open())
	s.until(t, k, begin+45*minute)
	if j := s.job(t, k); j.Deposit != micros("2.936265") {
		t.Errorf("%s", j.Deposit)
	}
	s.now = begin + 90*minute
	s.costs(t, k, codes.Completed, micros("2.288"), s.job(t, k).Deposit)
}

// What waits, is held, or comes back to the queue has a window's deposit, and no more for
// the next attempt than that lacks; a stopped workspace has none.
func TestRollingDepositOfWhatWaits(t *testing.T) {
	s := poor(t, 3*money.Credit)
	spec := open()
	spec.Hold, spec.Requeue = true, []string{"node"}
	first := micros("1.182132")
	k := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job.ID
	s.now += 100 * hour
	if s.left(t, k) != first {
		t.Errorf("%s", s.left(t, k))
	}
	s.must(t, s.user("ada"), command.JobRelease{Job: k})
	s.begins(t, k, 1)
	s.now += 30 * minute
	s.must(t, system, command.JobObserved{Job: k, N: 1, Gone: true})
	if j := s.job(t, k); j.State != workload.Queued || s.left(t, k) != first || j.Charged != 0 {
		t.Errorf("%s %s", j.State, s.left(t, k))
	}
	s.begins(t, k, 2)
	if j := s.job(t, k); s.left(t, k) != first || j.Attempt.Paid != s.now+hour {
		t.Errorf("%s %+v", s.left(t, k), j.Attempt)
	}
	ws := open()
	ws.Kind, ws.Name, ws.GPU = workload.KindWorkspace, "nb", 0
	w := s.opens(t, ws)
	s.until(t, w, s.now+24*hour)
	j := s.job(t, w)
	s.now = j.KillAt()
	s.must(t, system, command.JobObserved{Job: w, N: 1, Exited: true, Finished: s.now})
	if j := s.job(t, w); j.State != workload.Stopped || j.Outcome != codes.OutOfCredit || s.left(t, w) != 0 || !strings.Contains(j.Message, "account poor has") {
		t.Errorf("%s %s %s", j.State, j.Outcome, j.Message)
	}
	s.must(t, s.user("root"), command.GrantGive{Account: "poor", Amount: money.Credit, Source: "more"})
	s.must(t, s.user("ada"), command.WorkspaceStart{Job: w})
	s.begins(t, w, 2)
	if a := s.job(t, w).Attempt; a.Paid != s.now+hour || a.Short != 0 {
		t.Errorf("%+v", a)
	}
}

// Each element of an array sets a window aside for itself, and goes on by itself.
func TestRollingDepositOfAnArray(t *testing.T) {
	s := poor(t, 10*money.Credit)
	spec := open()
	spec.Array = workload.ArraySpec{Elements: workload.Elements{{First: 0, Last: 3, Step: 1}}}
	got := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted)
	if got.Job.Deposit != 4*micros("1.182132") {
		t.Errorf("%s", got.Job.Deposit)
	}
	s.must(t, system, command.JobStart{Job: got.Job.ID, Element: 2})
	e := s.w.Workload.NextJob() - 1
	s.must(t, system, command.JobObserved{Job: e, N: 1, Running: true, Started: s.now})
	s.until(t, e, s.now+45*minute)
	if j := s.job(t, e); j.Deposit != micros("2.040132") || s.left(t, got.Job.ID) != 3*micros("1.182132") {
		t.Errorf("%s, the others %s", j.Deposit, s.left(t, got.Job.ID))
	}
}

// Only the server renews deposits, of attempts that are due.
func TestWhoRenews(t *testing.T) {
	s := poor(t, 10*money.Credit)
	k := s.opens(t, open())
	for _, cmd := range []world.Command{command.JobTopUp{Job: k, N: 1}, command.JobTopUp{Job: k, N: 2}, command.JobTopUp{Job: 99, N: 1}} {
		if _, err := s.do(s.user("root"), cmd); err == nil {
			t.Error("root may")
		}
		seq := s.w.Seq
		s.must(t, system, cmd)
		if s.w.Seq != seq {
			t.Errorf("%+v did something", cmd)
		}
	}
}

// Where the account drains, what runs goes on to its time limit, owing what the grants lack;
// nothing new starts, it gets no more time, and a cap stops it all the same.
func TestDrain(t *testing.T) {
	s := poor(t, micros("1.5"))
	root := s.user("root")
	begin := s.now
	k := s.opens(t, open())
	for _, user := range []string{"ada", "root"} { // it helps what runs already, and isn't for who pays
		_, err := s.do(s.user(user), command.AccountPut{Name: "poor", OutOfCredit: text("drain")})
		if (err == nil) != (user == "root") {
			t.Fatalf("%s: %v", user, err)
		}
	}
	s.until(t, k, begin+3*hour)
	j := s.job(t, k)
	if j.State != workload.Running || j.Attempt.Short != 0 || s.w.Ledger.Balance(ledger.OfGrant(2)) != 0 || s.w.Ledger.Balance(ledger.Unfunded(j.Account)) >= 0 {
		t.Fatalf("%s, %+v, %s", j.State, j.Attempt, j.Message)
	}
	spec := open()
	spec.Name = "another"
	if _, err := s.do(s.user("ada"), command.Submit{Spec: spec}); err == nil || !strings.Contains(err.Error(), "poor has 0.000 left") {
		t.Errorf("something new is taken: %v", err)
	}
	if _, err := s.do(root, command.JobExtend{Job: k, Time: 48 * hour}); err == nil || !strings.Contains(err.Error(), "gets no more time") {
		t.Errorf("more time: %v", err)
	}
	s.until(t, k, begin+24*hour)
	s.now += 2 * minute
	n := s.job(t, k).Attempt.N
	end := s.must(t, system, command.JobObserved{Job: k, N: n, Exited: true, Finished: s.now}).(*workload.Job)
	if owed := s.w.Ledger.Balance(ledger.Unfunded(j.Account)); end.Outcome != codes.TimedOut || end.Charged != micros("27.494132") || owed != micros("1.5")-end.Charged {
		t.Errorf("%s, charged %s, owed %s", end.Outcome, end.Charged, owed)
	}

	// One that was told to be stopped goes on as soon as the account drains; a cap ends it.
	s = poor(t, micros("1.5"))
	root = s.user("root")
	begin = s.now
	k = s.opens(t, open())
	s.until(t, k, begin+50*minute)
	if s.job(t, k).Attempt.Short == 0 {
		t.Fatal("it wasn't told")
	}
	s.must(t, root, command.AccountPut{Name: "poor", OutOfCredit: text("drain")})
	s.until(t, k, begin+2*hour)
	if j := s.job(t, k); j.State != workload.Running || j.Attempt.Short != 0 {
		t.Errorf("%s %+v", j.State, j.Attempt)
	}
	s.must(t, root, command.LimitPut{Account: "poor", User: "ada", Resource: limits.Credits, Per: limits.Per{}, Max: int64(4 * money.Credit)})
	s.until(t, k, begin+5*hour)
	if j := s.job(t, k); j.State != workload.Stopping || j.Attempt.Cause != codes.OutOfCredit || !strings.Contains(j.Message, "credits") {
		t.Errorf("at a cap: %s %s", j.State, j.Message)
	}

	s = poor(t, micros("1.5"))
	root = s.user("root")
	begin = s.now
	s.must(t, root, command.AccountPut{Name: "poor", OutOfCredit: text("drain")})
	k = s.opens(t, open())
	s.until(t, k, begin+3*hour)
	s.must(t, root, command.AccountPut{Name: "poor", OutOfCredit: text("stop")})
	s.until(t, k, begin+5*hour)
	if j := s.job(t, k); j.State != workload.Stopping || j.Attempt.Cause != codes.OutOfCredit {
		t.Errorf("%s %+v", j.State, j.Attempt)
	}
}
