package command_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
)

// after is the example with dependencies.
func after(t *testing.T, text string) workload.Spec {
	t.Helper()
	spec := example()
	var err error
	if spec.After, err = workload.ParseDependencies(text); err != nil {
		t.Fatal(err)
	}
	return spec
}

// submit submits as ada.
func (s *sim) submit(t *testing.T, spec workload.Spec) id.Job {
	t.Helper()
	return s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job.ID
}

// started makes a job run.
func (s *sim) started(t *testing.T, k id.Job) {
	t.Helper()
	s.must(t, system, command.JobStart{Job: k})
	s.must(t, system, command.JobObserved{Job: k, N: s.job(t, k).Attempt.N, Running: true, Started: s.now})
}

// exited ends its attempt.
func (s *sim) exited(t *testing.T, k id.Job, code int32) {
	t.Helper()
	s.must(t, system, command.JobObserved{Job: k, N: s.job(t, k).Attempt.N, Exited: true, Finished: s.now, ExitCode: code})
}

// tick does what is due of waiting jobs, until nothing is.
func (s *sim) tick(t *testing.T) {
	t.Helper()
	for {
		var due id.Job
		for j := range s.w.Workload.Timed() {
			if j.Due() <= s.now {
				due = j.ID
			}
			break
		}
		if due == 0 {
			return
		}
		s.must(t, system, command.JobDue{Job: due})
	}
}

// stands are the states of jobs, "gone" for one that has ended.
func (s *sim) stands(of ...id.Job) []string {
	var out []string
	for _, k := range of {
		state := "gone"
		if j, ok := s.w.Workload.Jobs.Get(k); ok {
			state = string(j.State)
		}
		out = append(out, state)
	}
	return out
}

func (s *sim) stand(t *testing.T, when string, want []string, of ...id.Job) {
	t.Helper()
	if got := s.stands(of...); !slices.Equal(got, want) {
		t.Fatalf("%s: jobs %v are %v, want %v", when, of, got, want)
	}
}

// A job joins the queue in the step in which the one before it ended; one that can't
// start any more ends, says why, and has its money back, and so do those after it.
func TestAChainOfJobs(t *testing.T) {
	s := newSim(t)
	first := s.submit(t, example())
	ok, notOK := s.submit(t, after(t, fmt.Sprintf("afterok:%d", first))), s.submit(t, after(t, fmt.Sprintf("afternotok:%d", first)))
	begun := s.submit(t, after(t, fmt.Sprintf("after:%d+30m", first)))
	last := s.submit(t, after(t, fmt.Sprintf("afterok:%d:%d", ok, notOK)))
	either := s.submit(t, after(t, fmt.Sprintf("afterok:%d?afterok:%d", ok, notOK)))
	all := []id.Job{first, ok, notOK, begun, last, either}
	s.stand(t, "at first", []string{"queued", "held", "held", "held", "held", "held"}, all...)

	if got := s.must(t, system, command.JobStart{Job: ok}); got != nil {
		t.Error("a job that waits for another was looked at for a start")
	}
	s.started(t, first)
	s.now += 29 * minutes
	s.tick(t)
	s.stand(t, "29 minutes after the start", []string{"running", "held", "held", "held", "held", "held"}, all...)
	s.now += 61e9
	due := s.now - 1e9
	s.tick(t)
	s.stand(t, "after half an hour", []string{"running", "held", "held", "queued", "held", "held"}, all...)
	if got := s.job(t, begun).Since(); got != due {
		t.Errorf("it waits since %d, want since %d", got, due)
	}
	s.exited(t, first, 0)
	s.stand(t, "once it had completed", []string{"gone", "queued", "held", "queued", "held", "held"}, all...)
	lost := s.job(t, notOK)
	s.tick(t)
	s.stand(t, "then", []string{"gone", "queued", "gone", "queued", "gone", "held"}, all...)
	s.started(t, ok)
	s.exited(t, ok, 0)
	s.stand(t, "in the end", []string{"gone", "gone", "gone", "queued", "gone", "queued"}, all...)

	// what was set aside for those that never ran is there again
	var held money.Micros
	for _, k := range []id.Job{begun, either} {
		held += s.job(t, k).Deposit
	}
	if have := s.w.Ledger.Balance(ledger.OfGrant(1)) + s.w.Ledger.Balance(ledger.Spent(1)) + s.w.Ledger.Balance(ledger.Waste(ledger.CauseEnding)); have+held != 500*money.Credit {
		t.Errorf("%s and %s are left, job %d had %s", have, held, lost.ID, lost.Deposit)
	}
}

const minutes = int64(60e9)

// One that can't start any more says which dependency that is due to.
func TestNeverMetSaysWhy(t *testing.T) {
	s := newSim(t)
	first := s.submit(t, example())
	s.submit(t, after(t, fmt.Sprintf("afterok:%d", first)))
	s.must(t, s.user("ada"), command.JobStop{Job: first})
	cmd := command.JobDue{Job: first + 1}
	out, err := cmd.Decide(s.w, s.context(system))
	if err != nil {
		t.Fatal(err)
	}
	j := out.Result.(*workload.Job)
	if j.Outcome != codes.Cancelled || j.Message != "it was to wait until job 1 has completed, which was cancelled" {
		t.Errorf("%s: %s", j.Outcome, j.Message)
	}
	if len(out.Event.Reasons) != 1 || out.Event.Reasons[0].Code != codes.DependencyNever || out.Event.Reasons[0].Scope != "job 1" {
		t.Errorf("reasons %+v", out.Event.Reasons)
	}
}

// What a new job may wait for: not itself, nothing unknown or unseen, and of what has
// ended what became of it.
func TestWhatToWaitFor(t *testing.T) {
	s := newSim(t)
	mine := s.submit(t, example())
	theirs := s.must(t, s.user("ben"), command.Submit{Spec: example()}).(admission.Accepted).Job.ID
	failed := s.submit(t, example())
	s.must(t, system, command.JobFail{Job: failed, Message: "no such image"})
	past := []admission.Past{{Fate: workload.Fate{Job: failed, Ended: s.now, Outcome: codes.Failed}, User: 2, Account: 1}}
	hidden := []admission.Past{{Fate: workload.Fate{Job: failed, Ended: s.now, Outcome: codes.Completed}, User: 3, Account: 2}}
	for name, tt := range map[string]struct {
		after string
		past  []admission.Past
		code  codes.Code
	}{
		"itself":             {after: fmt.Sprint("afterok:", s.w.Workload.NextJob()), code: codes.Invalid},
		"unknown":            {after: "afterany:999999", code: codes.Invalid},
		"somebody else's":    {after: fmt.Sprint("afterany:", theirs), code: codes.Invalid},
		"hidden, and ended":  {after: fmt.Sprint("afterany:", failed), past: hidden, code: codes.Invalid},
		"ended, not looked":  {after: fmt.Sprint("afterany:", failed), code: codes.Conflict},
		"ended, never met":   {after: fmt.Sprint("afterok:", failed), past: past, code: codes.Refused},
		"ended, one of two":  {after: fmt.Sprintf("afterok:%d,afterok:%d", mine, failed), past: past, code: codes.Refused},
		"ended, met":         {after: fmt.Sprint("afternotok:", failed), past: past},
		"ended, any of them": {after: fmt.Sprintf("afterok:%d?afterok:%d", failed, mine), past: past},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sim{w: s.w.Copy(), now: s.now}
			got, err := s.do(s.user("ada"), command.Submit{Spec: after(t, tt.after), Past: tt.past})
			if tt.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if fault.Of(err) != tt.code {
				t.Fatalf("%v %v, want %s", got, err, tt.code)
			}
			if tt.code == codes.Conflict && !errors.Is(err, admission.ErrEndedMeanwhile) {
				t.Errorf("%v can't be told from others", err)
			}
			if tt.code == codes.Refused {
				f := refusal(t, err)
				if f.Reasons[0].Code != codes.DependencyNever || f.Remedy == nil || f.Remedy.Set["after"] != "" {
					t.Errorf("%+v %+v", f.Reasons, f.Remedy)
				}
			}
		})
	}
}

// A manager may wait for what others of the account do.
func TestWaitForOthersThatOneMayRead(t *testing.T) {
	s := newSim(t)
	s.must(t, s.user("root"), command.MemberPut{Account: "nlp", User: "ada", Role: "manager"})
	theirs := s.must(t, s.user("ben"), command.Submit{Spec: example()}).(admission.Accepted).Job.ID
	spec := after(t, fmt.Sprint("afterany:", theirs))
	spec.Account = "nlp"
	s.stand(t, "then", []string{"held"}, s.submit(t, spec))
}

// A held job doesn't start and loses what was promised to it; who may release it
// depends on who holds it.
func TestHoldAndRelease(t *testing.T) {
	s := newSim(t)
	k := s.submit(t, example())
	s.must(t, system, command.PromisesMade{Promises: []command.Promised{{Job: k, At: s.now + hour}}})
	s.now += hour
	s.must(t, s.user("ada"), command.JobHold{Job: k})
	if j := s.job(t, k); j.State != workload.Held || j.Promise != 0 || j.Message != "held by ada" {
		t.Fatalf("%s, promised %d: %s", j.State, j.Promise, j.Message)
	}
	s.must(t, system, command.JobStart{Job: k})
	s.stand(t, "held", []string{"held"}, k)
	s.must(t, s.user("root"), command.JobHold{Job: k})
	if _, err := s.do(s.user("ada"), command.JobRelease{Job: k}); fault.Of(err) != codes.Denied {
		t.Errorf("its user released what an operator holds: %v", err)
	}
	s.must(t, s.user("ada"), command.JobHold{Job: k}) // which makes it no easier
	if _, err := s.do(s.user("ada"), command.JobRelease{Job: k}); fault.Of(err) != codes.Denied {
		t.Errorf("its user released what an operator holds: %v", err)
	}
	s.now += 5 * hour
	s.must(t, s.user("root"), command.JobRelease{Job: k})
	if j := s.job(t, k); j.State != workload.Queued || s.now-j.Since() != hour {
		t.Errorf("%s, with an age of %d", j.State, s.now-j.Since())
	}
	s.started(t, k)
	if _, err := s.do(s.user("ada"), command.JobHold{Job: k}); fault.Of(err) != codes.Conflict {
		t.Errorf("a running job was held: %v", err)
	}
	if _, err := s.do(s.user("ada"), command.JobRelease{Job: s.submit(t, after(t, "afterok:1"))}); fault.Of(err) != codes.Conflict {
		t.Errorf("a job that waits for another was released: %v", err)
	}
}

// Whoever stops an attempt to have it again pays for it, unless it was taken from him.
func TestRequeue(t *testing.T) {
	for name, tt := range map[string]struct {
		by       string
		hold     bool
		want     workload.JobState
		spent    string
		requeues int32
	}{
		"by its user":      {by: "ada", want: workload.Queued, spent: "1.144", requeues: 1},
		"and held":         {by: "ada", hold: true, want: workload.Held, spent: "1.144", requeues: 1},
		"by an operator":   {by: "root", want: workload.Queued, spent: "0.000"},
		"by one, and held": {by: "root", hold: true, want: workload.Held, spent: "0.000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			k := s.submit(t, example())
			waiting := s.submit(t, after(t, fmt.Sprint("afterany:", k)))
			s.started(t, k)
			s.now += hour
			s.must(t, s.user(tt.by), command.JobRequeue{Job: k, Hold: tt.hold})
			s.stand(t, "told to", []string{"stopping"}, k)
			s.exited(t, k, 143)
			j := s.job(t, k)
			if j.State != tt.want || j.Attempt.Outcome != codes.Requeued || j.Requeues != tt.requeues {
				t.Errorf("%s, attempt %s, queued again %d times", j.State, j.Attempt.Outcome, j.Requeues)
			}
			if spent := s.w.Ledger.Balance(ledger.Spent(1)); spent.String() != tt.spent {
				t.Errorf("spent %s, want %s", spent, tt.spent)
			}
			s.stand(t, "its end is yet to come", []string{"held"}, waiting)
			if tt.hold {
				s.must(t, s.user(tt.by), command.JobRelease{Job: k})
			}
			s.started(t, k)
			if n := s.job(t, k).Attempt.N; n != 2 {
				t.Errorf("attempt %d", n)
			}
		})
	}
}

// What can't be queued again, and what else helps.
func TestNoRequeue(t *testing.T) {
	s := newSim(t)
	never, few, waits := example(), example(), example()
	never.Requeue, few.Requeues = []string{"never"}, 1
	ks := []id.Job{s.submit(t, never), s.submit(t, few), s.submit(t, waits)}
	s.started(t, ks[0])
	s.started(t, ks[1])
	s.must(t, s.user("ada"), command.JobRequeue{Job: ks[1]})
	s.exited(t, ks[1], 0)
	s.started(t, ks[1])
	for _, k := range ks {
		if _, err := s.do(s.user("ada"), command.JobRequeue{Job: k}); fault.Of(err) != codes.Conflict {
			t.Errorf("job %d was queued again: %v", k, err)
		}
	}
	// An operator's isn't counted.
	s.must(t, s.user("root"), command.JobRequeue{Job: ks[1]})
	if _, err := s.do(s.user("ada"), command.JobRequeue{Job: ks[1]}); fault.Of(err) != codes.Conflict {
		t.Errorf("one that is being stopped was told again: %v", err)
	}
	// Cancelled while it is being stopped, it doesn't come again.
	s.must(t, s.user("ada"), command.JobStop{Job: ks[1]})
	s.exited(t, ks[1], 0)
	s.stand(t, "then", []string{"running", "gone", "queued"}, ks...)
}

// A job that can't end by its deadline is refused, or ends without having started.
func TestDeadlines(t *testing.T) {
	s := newSim(t)
	spec := example() // of two hours
	spec.Deadline = s.now + 90*minutes
	_, err := s.do(s.user("ada"), command.Submit{Spec: spec})
	f := refusal(t, err)
	if f.Reasons[0].Code != codes.DeadlineTooSoon || f.Remedy == nil || f.Remedy.Set["time"] != "1h30m" {
		t.Errorf("%+v %+v", f.Reasons, f.Remedy)
	}
	spec.Deadline = s.now + 3*hour
	k, late := s.submit(t, spec), s.submit(t, spec)
	s.now += hour
	s.must(t, system, command.JobStart{Job: k})
	s.stand(t, "in time", []string{"starting", "queued"}, k, late)
	s.now++
	s.must(t, system, command.JobStart{Job: late})
	s.stand(t, "too late", []string{"starting", "queued"}, k, late)
	got := s.must(t, system, command.JobDue{Job: late}).(*workload.Job)
	if got.Outcome != codes.Deadline || got.Returned != got.Deposit {
		t.Errorf("%s, %s of %s returned", got.Outcome, got.Returned, got.Deposit)
	}
	// Its start was late: the deadline stands.
	s.now += minutes
	s.must(t, system, command.JobObserved{Job: k, N: 1, Running: true, Started: s.now})
	s.now = spec.Deadline
	s.must(t, system, command.JobDue{Job: k})
	s.exited(t, k, 143)
	s.stand(t, "at the deadline", []string{"gone"}, k)
}

// A QoS that lets no job wait takes none that is to wait.
func TestNoWaitingByOnesWish(t *testing.T) {
	s := newSim(t)
	refuse := true
	s.must(t, s.user("root"), command.QoSPut{Create: true, Name: "now", Refuse: &refuse})
	first := s.submit(t, example())
	for name, edit := range map[string]func(*workload.Spec){
		"held":  func(j *workload.Spec) { j.Hold = true },
		"later": func(j *workload.Spec) { j.Begin = s.now + hour },
		"after": func(j *workload.Spec) { j.After = after(t, fmt.Sprint("afterok:", first)).After },
	} {
		spec := example()
		spec.QoS = "now"
		edit(&spec)
		_, err := s.do(s.user("ada"), command.Submit{Spec: spec})
		if f := refusal(t, err); !slices.ContainsFunc(f.Reasons, func(r fault.Reason) bool { return r.Code == codes.QoSBusy }) {
			t.Errorf("%s: %+v", name, f.Reasons)
		}
	}
}
