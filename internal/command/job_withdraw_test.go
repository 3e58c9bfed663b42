package command_test

import (
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// withdraw starts a job's next attempt and takes it back.
func withdraw(t *testing.T, s *sim, k id.Job, turn bool) *workload.Job {
	t.Helper()
	s.must(t, system, command.JobStart{Job: k})
	n := s.job(t, k).Attempt.N
	s.now += 120e9
	s.must(t, system, command.JobWithdraw{Job: k, N: n, Why: "gpu1 has too little CPU left", Turn: turn})
	if j := s.job(t, k); j.State != workload.Stopping || !j.Attempt.Kill {
		t.Fatalf("%s, kill %t", j.State, j.Attempt.Kill)
	}
	// Its Pod ends without having begun: an engine says so by equal times.
	s.now += 1e9
	s.must(t, system, command.JobObserved{Job: k, N: n, Exited: true, Started: s.now, Finished: s.now, ExitCode: 137})
	return s.job(t, k)
}

// An attempt that is taken back costs nothing and frees everything; the job waits again, and
// is held when that happens three times in a row.
func TestWithdraw(t *testing.T) {
	s := newSim(t)
	spec := example()
	spec.Requeue = []string{"never"}
	j := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job
	deposit := j.Deposit
	for n := range workload.MaxWithdrawals {
		j = withdraw(t, s, j.ID, false)
		want := workload.Queued
		if n == workload.MaxWithdrawals-1 {
			want = workload.Held
		}
		if j.State != want || j.Attempt.Outcome != codes.Withdrawn || j.Attempt.Started != 0 || j.Charged != 0 || j.Deposit != deposit || j.Requeues != 0 {
			t.Fatalf("attempt %d: %s after %q, started %d, charged %s, deposit %s, requeues %d", n+1, j.State, j.Attempt.Outcome, j.Attempt.Started, j.Charged, j.Deposit, j.Requeues)
		}
	}
	if j.Message != "gpu1 has too little CPU left: it couldn't begin 3 times in a row" {
		t.Error(j.Message)
	}
	s.must(t, s.user("ada"), command.JobRelease{Job: j.ID})
	s.must(t, system, command.JobStart{Job: j.ID})
	s.must(t, system, command.JobObserved{Job: j.ID, N: 4, Running: true, Started: s.now})
	s.now += 60e9
	j = s.must(t, system, command.JobObserved{Job: j.ID, N: 4, Exited: true, Finished: s.now}).(*workload.Job)
	if j.Outcome != codes.Completed {
		t.Errorf("%s", j.Outcome)
	}
}

// Where it only wasn't its turn a job may be taken back any number of times.
func TestWithdrawOutOfTurn(t *testing.T) {
	s := newSim(t)
	j := s.must(t, s.user("ada"), command.Submit{Spec: example()}).(admission.Accepted).Job
	for range 2 * workload.MaxWithdrawals {
		if j = withdraw(t, s, j.ID, true); j.State != workload.Queued {
			t.Fatalf("%s: %s", j.State, j.Message)
		}
	}
}

// What has begun, and what has ended before it was stopped, isn't taken back.
func TestWithdrawTooLate(t *testing.T) {
	s := newSim(t)
	j := s.must(t, s.user("ada"), command.Submit{Spec: example()}).(admission.Accepted).Job
	s.must(t, system, command.JobStart{Job: j.ID})
	s.must(t, system, command.JobWithdraw{Job: j.ID, N: 2, Why: "of another attempt"})
	begun := s.now
	s.now += 10e9
	s.must(t, system, command.JobWithdraw{Job: j.ID, N: 1, Why: "slow"})
	j = s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Exited: true, Started: begun, Finished: begun + 5e9}).(*workload.Job)
	if j.Outcome != codes.Completed || j.Charged == 0 {
		t.Errorf("%s, charged %s", j.Outcome, j.Charged)
	}
	j = s.must(t, s.user("ada"), command.Submit{Spec: example()}).(admission.Accepted).Job
	s.must(t, system, command.JobStart{Job: j.ID})
	s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Running: true, Started: s.now})
	s.must(t, system, command.JobWithdraw{Job: j.ID, N: 1, Why: "too late"})
	if j := s.job(t, j.ID); j.State != workload.Running {
		t.Errorf("%s", j.State)
	}
}

// What the cluster takes away is the platform's to pay; which devices its node had chosen
// stays known.
func TestTakenAway(t *testing.T) {
	s := newSim(t)
	spec := example()
	spec.Requeue = []string{"node"}
	j := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job
	s.must(t, system, command.JobStart{Job: j.ID})
	s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Running: true, Started: s.now})
	s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Running: true, Started: s.now, Given: []string{"nvidia.com/gpu=GPU-1"}})
	s.now += hour
	s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Exited: true, Finished: s.now, ExitCode: 137, Taken: "it was evicted"})
	j = s.job(t, j.ID)
	if j.State != workload.Queued || j.Attempt.Outcome != codes.NodeFailed || j.Charged != 0 || len(j.Attempt.Given) != 1 {
		t.Errorf("%s after %s, charged %s, given %v", j.State, j.Attempt.Outcome, j.Charged, j.Attempt.Given)
	}
}
