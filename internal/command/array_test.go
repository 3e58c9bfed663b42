package command_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

// arrayOf is a small job without devices, times the elements.
func arrayOf(t *testing.T, text string) workload.Spec {
	t.Helper()
	spec := workload.Spec{Name: "sweep", Kind: workload.KindContainer, Image: "train:1", CPU: 1000, Mem: 1 << 30, Time: hour / 10, Pull: "missing"}
	var err error
	if spec.Array, err = workload.ParseArray(text); err != nil {
		t.Fatal(err)
	}
	return spec
}

// begin starts an element and returns the number that it has then.
func (s *sim) begin(t *testing.T, array id.Job, index int64) id.Job {
	t.Helper()
	s.must(t, system, command.JobStart{Job: array, Element: index})
	e, ok := s.w.Workload.Element(array, index)
	if !ok {
		return 0
	}
	s.must(t, system, command.JobObserved{Job: e.ID, N: 1, Running: true, Started: s.now})
	return e.ID
}

// A hundred thousand elements are one row, which stays small, and are admitted about
// as fast as one job.
func TestALargeArrayIsCheap(t *testing.T) {
	s := newSim(t)
	s.must(t, s.user("root"), command.GrantGive{Account: "nlp", Amount: 1_000_000 * money.Credit, Source: "more"})
	begun := time.Now()
	k := s.submit(t, arrayOf(t, "0-99999"))
	if took := time.Since(begun); took > time.Second {
		t.Errorf("admitting it took %s", took)
	}
	j := s.job(t, k)
	one := s.job(t, s.submit(t, arrayOf(t, ""))).Deposit
	if j.Deposit != 100_000*one {
		t.Errorf("deposit %s, one has %s", j.Deposit, one)
	}
	nlp, _ := s.w.Tenancy.Account("nlp")
	s.must(t, s.user("root"), command.LimitPut{Account: "nlp", Resource: limits.Submitted, Max: 200_000})
	if n := s.w.Limits.Used(limits.Scope{Account: nlp.ID}, limits.Submitted); n != 100_001 {
		t.Errorf("%d count as submitted", n)
	}
	for i := range int64(1000) {
		e := s.begin(t, k, i)
		if e == 0 {
			t.Fatalf("element %d didn't start", i)
		}
		s.exited(t, e, int32(i%3/2))
	}
	j = s.job(t, k)
	b, err := json.Marshal(j)
	if err != nil || len(b) > 40_000 {
		t.Errorf("its row has %d bytes (%v)", len(b), err)
	}
	if j.Array.Pending.Len() != 99_000 || j.Array.Active != 0 || j.State != workload.Queued {
		t.Errorf("%s, %d wait, %d run", j.State, j.Array.Pending.Len(), j.Array.Active)
	}
	s.must(t, s.user("ada"), command.JobStop{Job: k})
	s.stand(t, "stopped", []string{"gone"}, k)
	if _, err := workload.ParseArray("0-9999999"); err == nil {
		t.Error("ten million are taken")
	}
}

// The whole life of an array: at most so many at once, a share of the deposit each, its
// end with the last, and those that wait for it then.
func TestAnArrayToItsEnd(t *testing.T) {
	s := newSim(t)
	k := s.submit(t, arrayOf(t, "0-9%2"))
	next := s.submit(t, after(t, fmt.Sprint("afterok:", k)))
	whole := s.job(t, k).Deposit
	first, second := s.begin(t, k, 0), s.begin(t, k, 1)
	if third := s.begin(t, k, 2); third != 0 {
		t.Fatal("a third runs beside two")
	}
	s.stand(t, "with two", []string{"held", "running", "running", "held"}, k, first, second, next)
	if j, e := s.job(t, k), s.job(t, first); j.Array.Moved != 2*e.Deposit || e.Deposit != whole/10 {
		t.Errorf("moved %s, the first has %s of %s", j.Array.Moved, e.Deposit, whole)
	}
	s.now += minutes
	s.exited(t, first, 0)
	s.stand(t, "with room", []string{"queued"}, k)
	s.must(t, system, command.JobStart{Job: k, Element: 0})
	if _, again := s.w.Workload.Element(k, 0); again {
		t.Error("element 0 runs twice")
	}
	s.exited(t, second, 0)
	for i := int64(2); i < 10; i++ {
		e := s.begin(t, k, i)
		s.now += minutes
		s.exited(t, e, 0)
		if i < 9 {
			s.stand(t, "before its end", []string{"held"}, next)
		}
	}
	s.stand(t, "in the end", []string{"gone", "queued"}, k, next)
	spent, grant := s.w.Ledger.Balance(ledger.Spent(1)), s.w.Ledger.Balance(ledger.OfGrant(1))
	if aside := s.job(t, next).Deposit; spent+grant+aside != 500*money.Credit || spent == 0 {
		t.Errorf("spent %s, %s left, %s set aside", spent, grant, aside)
	}
}

// One element fails: so does the array, and what waited for all of it never starts.
func TestAnArrayFails(t *testing.T) {
	s := newSim(t)
	k := s.submit(t, arrayOf(t, "3,5,8"))
	next := s.submit(t, after(t, fmt.Sprint("afterok:", k)))
	for _, i := range []int64{3, 5} {
		e := s.begin(t, k, i)
		s.exited(t, e, int32(i-3))
	}
	e := s.begin(t, k, 8)
	out, err := command.JobObserved{Job: e, N: 1, Exited: true, Finished: s.now}.Decide(s.w, s.context(system))
	if err != nil {
		t.Fatal(err)
	}
	s.exited(t, e, 0)
	s.tick(t)
	s.stand(t, "then", []string{"gone", "gone"}, k, next)
	for _, c := range out.Changes {
		if set, ok := c.(workload.JobSet); ok && set.Row.ID == k {
			if a := set.Row; a.Outcome != codes.Failed || a.Message != "1 failed" || a.Array.Failed.String() != "5" {
				t.Errorf("%s: %s, failed %s", a.Outcome, a.Message, a.Array.Failed)
			}
			return
		}
	}
	t.Error("the array's row isn't among the changes")
}

// Elements are stopped by their indices, those that wait and those that run.
func TestStopElements(t *testing.T) {
	s := newSim(t)
	k := s.submit(t, arrayOf(t, "0-9"))
	whole := s.job(t, k).Deposit
	run := s.begin(t, k, 0)
	s.begin(t, k, 5)
	s.must(t, s.user("ada"), command.JobStop{Job: k, Elements: workload.Elements{{First: 0, Last: 4, Step: 1}}})
	s.stand(t, "a part", []string{"queued", "stopping"}, k, run)
	if j := s.job(t, k); j.Array.Pending.String() != "6-9" || j.Returned != whole/10*4 {
		t.Errorf("%s wait, %s of %s returned", j.Array.Pending, j.Returned, whole)
	}
	if _, err := s.do(s.user("ben"), command.JobStop{Job: k}); fault.Of(err) != codes.NotFound {
		t.Errorf("a stranger stopped it: %v", err)
	}
	s.must(t, s.user("ada"), command.JobHold{Job: k})
	if e := s.begin(t, k, 6); e != 0 {
		t.Error("an element of a held array started")
	}
	if _, err := s.do(s.user("ada"), command.JobRequeue{Job: k}); fault.Of(err) != codes.Conflict {
		t.Errorf("an array was queued again: %v", err)
	}
	s.must(t, s.user("ada"), command.JobStop{Job: k})
	five, _ := s.w.Workload.Element(k, 5)
	s.stand(t, "all of it", []string{"held", "stopping", "stopping"}, k, run, five.ID)
	s.exited(t, run, 143)
	s.exited(t, five.ID, 143)
	s.stand(t, "in the end", []string{"gone", "gone", "gone"}, k, run, five.ID)
}

// An element that is queued again is a job of its own by then; the array isn't over
// before it is.
func TestAnElementAgain(t *testing.T) {
	s := newSim(t)
	k := s.submit(t, arrayOf(t, "0"))
	e := s.begin(t, k, 0)
	s.must(t, s.user("ada"), command.JobRequeue{Job: e})
	s.exited(t, e, 143)
	s.stand(t, "again", []string{"held", "queued"}, k, e)
	s.must(t, system, command.JobStart{Job: e})
	s.must(t, system, command.JobObserved{Job: e, N: 2, Exited: true, Finished: s.now})
	s.stand(t, "in the end", []string{"gone", "gone"}, k, e)
}

// Limits count elements.
func TestArraysAndLimits(t *testing.T) {
	s := newSim(t)
	s.must(t, s.user("root"), command.LimitPut{Account: "nlp", Resource: limits.Submitted, Max: 10})
	_, err := s.do(s.user("ada"), command.Submit{Spec: arrayOf(t, "0-10")})
	if r := refusal(t, err).Reasons[0]; r.Code != codes.LimitSubmitted || r.Message != "asks for 11 jobs, account nlp has 0 of at most 10 jobs submitted" || !r.Never {
		t.Errorf("%+v", r)
	}
	if m := refusal(t, err).Remedy; m == nil || m.Flags != "--array 0-9" {
		t.Errorf("remedy %+v", m)
	}
	s.submit(t, arrayOf(t, "0-9"))
	if _, err := s.do(s.user("ada"), command.Submit{Spec: example()}); refusal(t, err).Reasons[0].Code != codes.LimitSubmitted {
		t.Errorf("%v", err)
	}
	s.must(t, s.user("root"), command.LimitPut{Account: "nlp", Resource: limits.Submitted, Max: 12})
	_, err = s.do(s.user("ada"), command.Submit{Spec: arrayOf(t, "0-2")})
	if r := refusal(t, err).Reasons[0]; r.Message != "asks for 3 jobs, account nlp has 10 of at most 12 jobs submitted" || r.Never {
		t.Errorf("%+v", r)
	}
}

// Elements are preempted like other jobs, as a set: they wait again by themselves, each
// under its name, their array goes on, and what they took is given back. An array that
// takes their place does so for one element.
func TestPreemptElements(t *testing.T) {
	s := withUrgent(t, command.ContractChange{})
	spec := example()
	spec.Array, spec.Grace = arrayOf(t, "0-5").Array, 10e9
	k := s.submit(t, spec)
	var run []id.Job
	for i := range int64(4) {
		run = append(run, s.begin(t, k, i))
	}
	s.now += hour
	spec = example()
	spec.QoS, spec.GPU, spec.Array = "urgent", 2*quantity.Device, arrayOf(t, "0-1").Array
	urgent := s.submit(t, spec)
	for i, victim := range run[:2] {
		s.must(t, system, command.JobPreempt{Job: victim, For: urgent, Node: "gpu1", With: []id.Job{run[1-i]}})
	}
	s.stand(t, "told to", []string{"stopping", "stopping", "running", "running", "queued", "queued"}, append(slices.Clone(run), k, urgent)...)
	if s.job(t, urgent).Claim == 0 {
		t.Error("the room isn't claimed")
	}
	s.exited(t, run[0], 143)
	s.exited(t, run[1], 143)
	first := s.job(t, run[0])
	if first.State != workload.Queued || first.Name() != fmt.Sprintf("%d_0", k) || first.Attempt.Outcome != codes.Preempted || first.Requeues != 0 {
		t.Errorf("%s is %s, its attempt %s", first.Name(), first.State, first.Attempt.Outcome)
	}
	if waste, spent := s.w.Ledger.Balance(ledger.Waste(ledger.CausePreempted)), s.w.Ledger.Balance(ledger.Spent(1)); waste == 0 || spent != 0 {
		t.Errorf("%s wasted, %s spent", waste, spent)
	}
	if a := s.job(t, k).Array; a.Active != 4 || a.Pending.String() != "4-5" || len(a.Ended) != 0 {
		t.Errorf("%+v", a)
	}
	taker := s.begin(t, urgent, 0)
	if taker == 0 || s.job(t, urgent).Claim != 0 || s.job(t, urgent).State != workload.Queued {
		t.Fatalf("element 0 is job %d; its array %+v", taker, s.job(t, urgent))
	}
	s.must(t, system, command.JobStart{Job: run[0]})
	s.stand(t, "with no room", []string{"queued"}, run[0])
	s.exited(t, taker, 0)
	s.must(t, s.user("ada"), command.JobStop{Job: urgent})
	for _, e := range run[:2] {
		s.started(t, e)
	}
	for _, e := range run {
		s.exited(t, e, 0)
	}
	for i := int64(4); i < 6; i++ {
		s.exited(t, s.begin(t, k, i), 0)
	}
	s.stand(t, "in the end", []string{"gone", "gone"}, k, urgent)
}
