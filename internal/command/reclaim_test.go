package command_test

import (
	"strings"
	"testing"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

func withQoS(name string) func(*workload.Spec) { return func(s *workload.Spec) { s.QoS = name } }

// preempt has a job stopped for another, and reports whether it was.
func (s *sim) preempt(t fataler, victim, first id.Job, with ...id.Job) bool {
	s.must(t, system, command.JobPreempt{Job: victim, For: first, Node: "gpu1", With: with})
	return s.state(victim) == workload.Stopping
}

// Who gives way to whom by shares: nlp is guaranteed three of four devices, vision in it one,
// bio beside it one.
func TestReclaim(t *testing.T) {
	urgent := func(s *sim) {
		s.must(t, s.user("root"), command.QoSPut{Create: true, Name: "urgent", Priority: num(1000), Preempts: &[]string{"normal"}})
	}
	tests := map[string]struct {
		prepare func(s *sim) (victim, first id.Job)
		want    bool
	}{
		"what was borrowed": {func(s *sim) (id.Job, id.Job) { return s.runs(t, "cara", 4), s.queue(t, "ada", 2) }, true},
		"the job that began last": {func(s *sim) (id.Job, id.Job) {
			s.runs(t, "cara", 1)
			return s.runs(t, "cara", 3), s.queue(t, "ada", 2)
		}, true},
		"the one that is covered": {func(s *sim) (id.Job, id.Job) {
			own := s.runs(t, "cara", 1)
			s.runs(t, "cara", 3)
			return own, s.queue(t, "ada", 2)
		}, false},
		"for a job that would borrow itself": {func(s *sim) (id.Job, id.Job) { return s.runs(t, "cara", 4), s.queue(t, "ada", 4) }, false},
		"within one account":                 {func(s *sim) (id.Job, id.Job) { return s.runs(t, "ada", 4), s.queue(t, "ada", 1) }, false},
		"by one below from the one above":    {func(s *sim) (id.Job, id.Job) { return s.runs(t, "ada", 4), s.queue(t, "ben", 1) }, true},
		"by one above from one below":        {func(s *sim) (id.Job, id.Job) { return s.runs(t, "ben", 4), s.queue(t, "ada", 1) }, false},
		"one that hasn't had its time": {func(s *sim) (id.Job, id.Job) {
			s.must(t, s.user("root"), command.QoSPut{Name: "normal", Contract: command.ContractChange{MinRun: num(hour)}})
			return s.runs(t, "cara", 4), s.queue(t, "ada", 2)
		}, false},
		"one that no priority preempts": {func(s *sim) (id.Job, id.Job) {
			s.must(t, s.user("root"), command.QoSPut{Name: "normal", Contract: command.ContractChange{Exempt: yes()}})
			return s.runs(t, "cara", 4), s.queue(t, "ada", 2)
		}, true},
		"one of higher priority": {func(s *sim) (id.Job, id.Job) {
			urgent(s)
			return s.runs(t, "cara", 4, withQoS("urgent")), s.queue(t, "ada", 2)
		}, true},
		"by priority, what is borrowed": {func(s *sim) (id.Job, id.Job) {
			urgent(s)
			return s.runs(t, "cara", 4), s.queue(t, "ada", 4, withQoS("urgent"))
		}, true},
		"by priority, what others are guaranteed": {func(s *sim) (id.Job, id.Job) {
			urgent(s)
			own := s.runs(t, "cara", 1)
			s.runs(t, "ada", 3)
			return own, s.queue(t, "ada", 1, withQoS("urgent"))
		}, false},
		"by priority, in one account": {func(s *sim) (id.Job, id.Job) {
			urgent(s)
			s.runs(t, "cara", 1)
			return s.runs(t, "ada", 3), s.queue(t, "ada", 3, withQoS("urgent"))
		}, true},
		"once the guarantee is lowered": {func(s *sim) (id.Job, id.Job) {
			k, first := s.runs(t, "cara", 4), s.queue(t, "ada", 2)
			s.share(t, "nlp", 1)
			return k, first
		}, false},
		"without shares": {func(s *sim) (id.Job, id.Job) {
			k, first := s.runs(t, "cara", 4), s.queue(t, "ada", 2)
			for _, row := range s.w.Queues.Shares.All() {
				s.must(t, s.user("root"), command.SharePut{Remove: row.ID})
			}
			return k, first
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := withShares(t)
			victim, first := tt.prepare(s)
			if got := s.preempt(t, victim, first); got != tt.want {
				t.Errorf("stopped: %v, want %v", got, tt.want)
			}
		})
	}
}

// What is reclaimed ends on the terms of its QoS, goes to the job that claimed it, and isn't
// taken back.
func TestReclaimByContract(t *testing.T) {
	s := withShares(t)
	s.must(t, s.user("root"), command.QoSPut{Name: "normal", Contract: command.ContractChange{Signal: text("USR1"), Grace: num(60e9)}})
	victim := s.runs(t, "cara", 4)
	first, second := s.queue(t, "ada", 3), s.queue(t, "ada", 3)
	if !s.preempt(t, victim, first) {
		t.Fatal("what was borrowed isn't given back")
	}
	j := s.job(t, victim)
	if want := "preempted by job 2, whose account is guaranteed what it has borrowed: SIGUSR1 now, SIGKILL after 1m, then it is queued again, what it cost is given back"; j.Message != want {
		t.Errorf("told %q, want %q", j.Message, want)
	}
	if s.preempt(t, victim, second) {
		if by := s.job(t, victim).Attempt.Preempt.By; by != first {
			t.Errorf("it is stopped for job %d", by)
		}
	}
	s.must(t, system, command.JobObserved{Job: victim, N: 1, Exited: true, Finished: s.now})
	if s.state(victim) != workload.Queued {
		t.Fatalf("the victim is %s", s.state(victim))
	}
	s.must(t, system, command.JobStart{Job: first, Image: "sha256:1"})
	s.must(t, system, command.JobObserved{Job: first, N: 1, Running: true, Started: s.now})
	s.now += minute
	if s.preempt(t, first, victim) || s.preempt(t, first, second) {
		t.Error("what is guaranteed was taken")
	}
}

// Those for whom others are being stopped count: two jobs that each are within the
// guarantee, and aren't together, don't both have others stopped.
func TestNoClaimTwice(t *testing.T) {
	s := withShares(t)
	one, two := s.runs(t, "cara", 2), s.runs(t, "cara", 2)
	first, second := s.queue(t, "ada", 2), s.queue(t, "ada", 2)
	if !s.preempt(t, two, first) {
		t.Fatal("what was borrowed isn't given back")
	}
	if s.preempt(t, one, second) {
		t.Error("a second job was stopped for more than the account is guaranteed")
	}
	if !strings.Contains(s.job(t, first).Message, "is being stopped to make room") {
		t.Errorf("told %q", s.job(t, first).Message)
	}
}

// A bound of the account above that others below it have reached by borrowing doesn't keep
// anybody from what he is guaranteed.
func TestRecall(t *testing.T) {
	s := withShares(t)
	s.share(t, "nlp", 3, limited(3))
	s.runs(t, "ada", 2)
	last, first := s.runs(t, "ada", 1), s.queue(t, "ben", 1)
	if s.preempt(t, last, first) {
		t.Fatal("stopped to make room, of which there is enough")
	}
	if got := s.w.View(s.now).Recall(s.job(t, first)); len(got) != 1 || got[0] != last {
		t.Fatalf("%v are to be stopped, want %d", got, last)
	}
	s.must(t, system, command.JobPreempt{Job: last, For: first})
	if s.state(last) != workload.Stopping {
		t.Fatalf("what was borrowed is %s", s.state(last))
	}
	if got := s.w.View(s.now).Recall(s.job(t, first)); got != nil {
		t.Errorf("%v are to be stopped as well", got)
	}
	s.must(t, system, command.JobObserved{Job: last, N: 1, Exited: true, Finished: s.now})
	s.must(t, system, command.JobStart{Job: first, Image: "sha256:1"})
	if s.state(first) != workload.Starting {
		t.Errorf("the job that it was for is %s", s.state(first))
	}
	if second := s.queue(t, "ben", 1); s.w.View(s.now).Recall(s.job(t, second)) != nil {
		t.Error("for a job beyond the guarantee others are to be stopped")
	}
}
