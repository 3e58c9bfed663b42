package command_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
)

const minute = hour / 60

func num(n int64) *int64 { return &n }

// withUrgent is a machine where urgent jobs may preempt normal ones.
func withUrgent(t fataler, c command.ContractChange) *sim {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.QoSPut{Create: true, Name: "urgent", Priority: num(1000), Preempts: &[]string{"normal"}})
	s.must(t, root, command.QoSPut{Name: "normal", Contract: c})
	return s
}

// run submits a job and has it run, with or without its start seen.
func (s *sim) run(t fataler, spec workload.Spec, seen bool) id.Job {
	j := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job
	s.must(t, system, command.JobStart{Job: j.ID, Image: "sha256:1"})
	if seen {
		s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Running: true, Started: s.now})
	}
	return j.ID
}

func (s *sim) urgent(t fataler, gpu int64) id.Job {
	spec := example()
	spec.QoS, spec.GPU = "urgent", gpu*1000
	return s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job.ID
}

func four() workload.Spec {
	spec := example()
	spec.GPU, spec.Grace = 4000, 10e9
	return spec
}

// What befalls a preempted job on each of the terms that a QoS can have.
func TestPreemptionByContract(t *testing.T) {
	tests := map[string]struct {
		contract command.ContractChange
		requeue  []string
		state    workload.JobState
		outcome  codes.Outcome
		charged  bool  // for the first attempt
		killed   int64 // seconds until SIGKILL
		told     string
	}{
		"queued again, money back": {command.ContractChange{}, nil, workload.Queued, "", false, 10, "SIGTERM now, SIGKILL after 10s, then it is queued again, what it cost is given back"},
		"ended, money kept": {
			command.ContractChange{Cancel: yes(), Keep: yes(), Signal: text("USR1"), Grace: num(60e9)}, nil,
			workload.Ended, codes.Preempted, true, 60, "SIGUSR1 now, SIGKILL after 1m, then it ends, what it cost is kept",
		},
		"ended, but the job asked to be queued again": {command.ContractChange{Cancel: yes()}, []string{"preempt"}, workload.Queued, "", false, 10, "then it is queued again"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := withUrgent(t, tt.contract)
			spec := four()
			spec.Requeue = tt.requeue
			victim := s.run(t, spec, true)
			s.now += hour
			urgent := s.urgent(t, 2)
			s.must(t, system, command.JobPreempt{Job: victim, For: urgent, Node: "gpu1"})
			j := s.job(t, victim)
			if j.State != workload.Stopping || !strings.Contains(j.Message, tt.told) || j.Due() != s.now+tt.killed*1e9 {
				t.Fatalf("%s, %q, SIGKILL in %d s", j.State, j.Message, (j.Due()-s.now)/1e9)
			}
			s.now = j.Due()
			s.must(t, system, command.JobDue{Job: victim})
			if !s.job(t, victim).Attempt.Kill {
				t.Error("it ignores the signal and isn't killed")
			}
			got := s.must(t, system, command.JobObserved{Job: victim, N: 1, Exited: true, ExitCode: 137, Finished: s.now}).(*workload.Job)
			if got.State != tt.state || got.Outcome != tt.outcome || got.Requeues != 0 || got.ID != victim {
				t.Errorf("job %d is %s %s after %d requeues", got.ID, got.State, got.Outcome, got.Requeues)
			}
			want := "preempted by job 2 of QoS urgent"
			if tt.state == workload.Ended {
				want = "by job 2 of QoS urgent"
			}
			if !strings.Contains(got.Message, want) {
				t.Errorf("told %q", got.Message)
			}
			spent, waste := s.w.Ledger.Balance(ledger.Spent(1)), s.w.Ledger.Balance(ledger.Waste(ledger.CausePreempted))
			if (spent > 0) != tt.charged || (waste > 0) == tt.charged {
				t.Errorf("spent %s, wasted %s", spent, waste)
			}
			s.must(t, system, command.JobStart{Job: urgent, Image: "sha256:1"})
			if first := s.job(t, urgent); first.Claim != 0 || first.State != workload.Starting {
				t.Errorf("the urgent job is %s, claim %d", first.State, first.Claim)
			}
		})
	}
}

// A second attempt of a preempted job costs what it takes, and nothing twice.
func TestPreemptedJobRunsAgain(t *testing.T) {
	s := withUrgent(t, command.ContractChange{})
	victim := s.run(t, four(), true)
	s.now += hour
	urgent := s.urgent(t, 1)
	s.must(t, system, command.JobPreempt{Job: victim, For: urgent, Node: "gpu1"})
	s.must(t, system, command.JobObserved{Job: victim, N: 1, Exited: true, Finished: s.now})
	s.must(t, s.user("ada"), command.JobStop{Job: urgent})
	s.must(t, system, command.JobStart{Job: victim, Image: "sha256:1"})
	s.must(t, system, command.JobObserved{Job: victim, N: 2, Running: true, Started: s.now})
	s.now += hour
	got := s.must(t, system, command.JobObserved{Job: victim, N: 2, Exited: true, Finished: s.now}).(*workload.Job)
	// an hour of 4 devices at 1, 8 cores at 0.01 and 64 GiB at 0.001
	if want := 4*money.Credit + 144_000; got.Charged != want || got.Outcome != codes.Completed || len(got.Past) != 1 {
		t.Errorf("%s, charged %s, want %s; %d past attempts", got.Outcome, got.Charged, want, len(got.Past))
	}
}

// Who isn't preempted.
func TestNotPreempted(t *testing.T) {
	tests := map[string]struct {
		contract command.ContractChange
		prepare  func(t *testing.T, s *sim, victim, urgent id.Job)
	}{
		"one that is exempt":           {command.ContractChange{Exempt: yes()}, nil},
		"one that hasn't had its time": {command.ContractChange{MinRun: num(hour + 1)}, nil},
		"one that is being stopped":    {command.ContractChange{}, func(t *testing.T, s *sim, v, _ id.Job) { s.must(t, s.user("ada"), command.JobStop{Job: v}) }},
		"one that is out of reach":     {command.ContractChange{}, func(t *testing.T, s *sim, _, _ id.Job) { s.must(t, system, command.Contact{Lost: true}) }},
		"for a job that was cancelled": {command.ContractChange{}, func(t *testing.T, s *sim, _, u id.Job) { s.must(t, s.user("ada"), command.JobStop{Job: u}) }},
		"for a job that its limit holds": {command.ContractChange{}, func(t *testing.T, s *sim, _, _ id.Job) {
			s.must(t, s.user("root"), command.LimitPut{Account: "nlp", Resource: "running", Max: 1})
		}},
		"when its QoS may no longer": {command.ContractChange{}, func(t *testing.T, s *sim, _, _ id.Job) {
			s.must(t, s.user("root"), command.QoSPut{Name: "urgent", Preempts: &[]string{}})
		}},
		"on a node that takes nothing new": {command.ContractChange{}, func(t *testing.T, s *sim, _, _ id.Job) {
			s.must(t, s.user("root"), command.NodeDrain{Node: "gpu1", Reason: "fans"})
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := withUrgent(t, tt.contract)
			victim := s.run(t, four(), true)
			s.now += hour
			urgent := s.urgent(t, 1)
			if tt.prepare != nil {
				tt.prepare(t, s, victim, urgent)
			}
			before := s.w
			s.must(t, system, command.JobPreempt{Job: victim, For: urgent, Node: "gpu1"})
			if s.w != before {
				t.Errorf("preempted: %s", s.job(t, victim).Message)
			}
		})
	}
	t.Run("one that is starting", func(t *testing.T) {
		s := withUrgent(t, command.ContractChange{})
		victim := s.run(t, four(), false)
		urgent := s.urgent(t, 1)
		before := s.w
		s.must(t, system, command.JobPreempt{Job: victim, For: urgent, Node: "gpu1"})
		if s.w != before {
			t.Error("preempted while starting")
		}
	})
}

// Two jobs that want the same victim: the first has it. The victim can't take its
// place back, though it is queued before the one that took it has started.
func TestNoLoops(t *testing.T) {
	s := withUrgent(t, command.ContractChange{})
	victim := s.run(t, four(), true)
	first, second := s.urgent(t, 4), s.urgent(t, 4)
	s.must(t, system, command.JobPreempt{Job: victim, For: first, Node: "gpu1"})
	before := s.w
	s.must(t, system, command.JobPreempt{Job: victim, For: second, Node: "gpu1"})
	if s.w != before {
		t.Fatal("one job was stopped for two")
	}
	s.must(t, system, command.JobObserved{Job: victim, N: 1, Exited: true, Finished: s.now})
	s.must(t, system, command.JobStart{Job: first})
	s.must(t, system, command.JobObserved{Job: first, N: 1, Running: true, Started: s.now})
	before = s.w
	s.must(t, system, command.JobPreempt{Job: first, For: victim, Node: "gpu1"})
	s.must(t, system, command.JobPreempt{Job: first, For: second, Node: "gpu1"})
	if s.w != before {
		t.Error("a job was preempted by one of a lower or its own QoS")
	}
}

// A set is stopped one by one, and only while the whole of it still suffices.
func TestPreemptASet(t *testing.T) {
	s := withUrgent(t, command.ContractChange{})
	two := four()
	two.GPU = 2000
	a, b := s.run(t, two, true), s.run(t, two, true)
	s.now += minute
	urgent := s.urgent(t, 4)
	before := s.w
	s.must(t, system, command.JobPreempt{Job: a, For: urgent, Node: "gpu1"})
	if s.w != before {
		t.Fatal("one was stopped though it isn't enough")
	}
	s.must(t, system, command.JobPreempt{Job: a, For: urgent, Node: "gpu1", With: []id.Job{b}})
	s.must(t, system, command.JobPreempt{Job: b, For: urgent, Node: "gpu1", With: []id.Job{a}})
	for _, k := range []id.Job{a, b} {
		if j := s.job(t, k); j.State != workload.Stopping {
			t.Errorf("job %d is %s", k, j.State)
		}
	}
	if u := s.job(t, urgent); u.Claim != s.now || !strings.Contains(u.Message, "2 jobs are being stopped") {
		t.Errorf("claim %d, told %q", u.Claim, u.Message)
	}
}

// A program that was through before the decision to preempt it has ended by itself;
// one that the platform loses is queued again all the same; one whose user cancels
// it meanwhile isn't, and pays nothing.
func TestEndsWhilePreempted(t *testing.T) {
	s := withUrgent(t, command.ContractChange{})
	victim := s.run(t, four(), true)
	s.now += hour
	s.must(t, system, command.JobPreempt{Job: victim, For: s.urgent(t, 1), Node: "gpu1"})
	got := s.must(t, system, command.JobObserved{Job: victim, N: 1, Exited: true, Finished: s.now - minute}).(*workload.Job)
	if got.Outcome != codes.Completed || got.Charged == 0 {
		t.Errorf("%s, charged %s", got.Outcome, got.Charged)
	}

	// An engine that knows the second alone says that it ended before it was stopped.
	for finished, state := range map[int64]workload.JobState{0: workload.Queued, -1: workload.Ended, -1e9: workload.Ended} {
		s = withUrgent(t, command.ContractChange{})
		victim = s.run(t, four(), true)
		s.now += hour
		s.now += 700_000_000 - s.now%1e9
		s.must(t, system, command.JobPreempt{Job: victim, For: s.urgent(t, 1), Node: "gpu1"})
		got = s.must(t, system, command.JobObserved{Job: victim, N: 1, Exited: true, Finished: s.now - s.now%1e9 + finished, ExitCode: 143}).(*workload.Job)
		if got.State != state {
			t.Errorf("%d ns from the second of the stop: %s", finished, got.State)
		}
	}

	s = withUrgent(t, command.ContractChange{Keep: yes()})
	victim = s.run(t, four(), true)
	s.now += hour
	s.must(t, system, command.JobPreempt{Job: victim, For: s.urgent(t, 1), Node: "gpu1"})
	got = s.must(t, system, command.JobObserved{Job: victim, N: 1, Gone: true}).(*workload.Job)
	if got.State != workload.Queued || got.Attempt.Outcome != codes.NodeFailed || got.Charged != 0 || got.Requeues != 0 {
		t.Errorf("lost while it was stopped: %s after %s, charged %s", got.State, got.Attempt.Outcome, got.Charged)
	}

	s = withUrgent(t, command.ContractChange{})
	victim = s.run(t, four(), true)
	s.now += hour
	s.must(t, system, command.JobPreempt{Job: victim, For: s.urgent(t, 1), Node: "gpu1"})
	s.must(t, s.user("ada"), command.JobStop{Job: victim})
	got = s.must(t, system, command.JobObserved{Job: victim, N: 1, Exited: true, Finished: s.now}).(*workload.Job)
	if got.State != workload.Ended || got.Outcome != codes.Cancelled || got.Charged != 0 {
		t.Errorf("%s %s, charged %s", got.State, got.Outcome, got.Charged)
	}
}

// A QoS that refuses when busy says why, and when it could start; what it is told to
// do instead is accepted.
func TestRefuseWhenBusy(t *testing.T) {
	s := newSim(t)
	s.must(t, s.user("root"), command.QoSPut{Create: true, Name: "interactive", Refuse: yes()})
	spec := example()
	spec.QoS = "interactive"
	s.must(t, s.user("ada"), command.Submit{Spec: spec}) // there is room
	s.run(t, of(3), true)
	s.must(t, system, command.JobStart{Job: 1})
	_, err := s.do(s.user("ada"), command.Submit{Spec: spec})
	f := refusal(t, err)
	var got []codes.Reason
	for _, r := range f.Reasons {
		got = append(got, r.Code)
	}
	if diff := cmp.Diff([]codes.Reason{codes.DevicesBusy, codes.QoSBusy}, got); diff != "" {
		t.Errorf("reasons (-want +got)\n%s", diff)
	}
	if last := f.Reasons[len(f.Reasons)-1]; last.Bound != "2026-11-01T11:00:00Z" && !strings.Contains(last.Message, "could start at") {
		t.Errorf("told %q", last.Message)
	}
	if f.Remedy == nil || f.Remedy.Flags != "--qos normal" {
		t.Fatalf("remedy %+v", f.Remedy)
	}
	spec.QoS = "normal"
	s.must(t, s.user("ada"), command.Submit{Spec: spec})
}

func of(n int64) workload.Spec {
	spec := four()
	spec.GPU = n * 1000
	return spec
}

// Where it may preempt, it needn't wait.
func TestRefuseCountsPreemption(t *testing.T) {
	s := withUrgent(t, command.ContractChange{})
	s.must(t, s.user("root"), command.QoSPut{Name: "urgent", Refuse: yes()})
	s.run(t, four(), true)
	s.urgent(t, 1)
	spec := example()
	spec.QoS, spec.GPU = "urgent", 4000
	// the first has a claim to none yet, but its place: the second would have to wait
	s.now += minute
	if _, err := s.do(s.user("ada"), command.Submit{Spec: spec}); fault.Of(err) != codes.Refused {
		t.Errorf("a second one: %v", err)
	}
}

// Accounts that a QoS or a partition isn't for are refused, with what is.
func TestAllowedAccounts(t *testing.T) {
	tests := map[string]struct {
		put  func(t *testing.T, s *sim)
		code codes.Reason // of ben in vision, below nlp; "" is accepted
		fix  string
	}{
		"a QoS for the account above": {func(t *testing.T, s *sim) {
			s.must(t, s.user("root"), command.QoSPut{Name: "normal", Accounts: &[]string{"nlp"}})
		}, "", ""},
		"a QoS for another": {func(t *testing.T, s *sim) {
			s.must(t, s.user("root"), command.AccountPut{Create: true, Name: "other"})
			s.must(t, s.user("root"), command.QoSPut{Create: true, Name: "open"})
			s.must(t, s.user("root"), command.QoSPut{Name: "normal", Accounts: &[]string{"other"}})
		}, codes.QoSDenied, "--qos open"},
		"a partition denied to the account above": {func(t *testing.T, s *sim) {
			s.must(t, s.user("root"), command.PartitionPut{Name: "main", Deny: &[]string{"nlp"}})
		}, codes.PartitionDenied, ""},
		"a partition that takes other QoS": {func(t *testing.T, s *sim) {
			s.must(t, s.user("root"), command.QoSPut{Create: true, Name: "open"})
			s.must(t, s.user("root"), command.PartitionPut{Name: "main", QoS: &[]string{"open"}})
		}, codes.QoSDenied, "--qos open"},
		"a QoS for other partitions": {func(t *testing.T, s *sim) {
			s.must(t, s.user("root"), command.PartitionPut{Create: true, Name: "spare"})
			s.must(t, s.user("root"), command.QoSPut{Name: "normal", Partitions: &[]string{"spare"}})
		}, codes.QoSDenied, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			tt.put(t, s)
			_, err := s.do(s.user("ben"), command.Submit{Spec: example()})
			if tt.code == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			f := refusal(t, err)
			if f.Reasons[0].Code != tt.code {
				t.Errorf("refused for %s, want %s", f.Reasons[0].Code, tt.code)
			}
			if got := flags(f.Remedy); got != tt.fix {
				t.Errorf("remedy %q, want %q", got, tt.fix)
			}
		})
	}
}

func flags(r *fault.Remedy) string {
	if r == nil {
		return ""
	}
	return r.Flags
}
