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
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// watchedJob is a job that runs, in a site that stops what is idle for an hour.
func watchedJob(t *testing.T) (*sim, id.Job) {
	t.Helper()
	s := newSim(t)
	s.policy(idle.Policy{Mode: idle.Stop, After: hour, Notice: 10 * minute, KeepMax: 6 * hour})
	k := s.submit(t, example())
	s.started(t, k)
	return s, k
}

func (s *sim) policy(p ...idle.Policy) {
	site := s.w.Site
	site.Idle = p
	s.w.Fold([]world.Change{world.SiteSet{Row: site}})
}

func TestIdleIsStopped(t *testing.T) {
	s, k := watchedJob(t)
	began := s.now
	s.now += 15 * minute
	s.must(t, system, command.JobIdle{Job: k, N: 1, Since: began, Idle: 15 * minute})
	s.now += 35 * minute
	s.must(t, system, command.JobNotice{Job: k, N: 1, Since: began, Idle: 50 * minute, StopAt: s.now + 10*minute, Text: "idle for 50m"})
	told := s.now
	if diff := cmp.Diff(idle.Count{Since: began, Idle: 50 * minute, Told: told}, s.job(t, k).Attempt.Idle); diff != "" {
		t.Fatalf("told (-want +got):\n%s", diff)
	}
	s.now += 10*minute - 1
	stop := command.JobIdleStop{Job: k, N: 1, Idle: hour, Text: "idle for 1h: device 0 % (< 5 %)", Reasons: []fault.Reason{{Code: codes.Idle, Field: "device", Observed: "0 %", Bound: "5 %"}}}
	s.must(t, system, stop)
	if j := s.job(t, k); j.State != workload.Running {
		t.Fatalf("stopped before the time that its user was told: %+v", j)
	}
	s.now++
	s.must(t, system, stop)
	const why = "idle for 1h: device 0 % (< 5 %); croft keep 6h would have kept it"
	if j := s.job(t, k); j.State != workload.Stopping || j.Attempt.Cause != codes.Cancelled || j.Message != why {
		t.Fatalf("%s %s: %s", j.State, j.Attempt.Cause, j.Message)
	}
	s.must(t, system, command.JobObserved{Job: k, N: 1, Exited: true, Started: began, Finished: s.now, ExitCode: 143})
	ended := s.last[0].(workload.JobSet).Row
	if ended.State != workload.Ended || ended.Outcome != codes.Cancelled || ended.Message != why {
		t.Errorf("%s %s: %s", ended.State, ended.Outcome, ended.Message)
	}
}

// A workspace stays, and says why it was stopped.
func TestIdleWorkspaceRests(t *testing.T) {
	s := newSim(t)
	s.policy(idle.Policy{Kinds: []string{"workspace"}, Mode: idle.Stop, After: hour})
	spec := example()
	spec.Kind, spec.Name = workload.KindWorkspace, "lab"
	k := s.submit(t, spec)
	s.started(t, k)
	s.must(t, system, command.JobNotice{Job: k, N: 1, Idle: hour})
	s.must(t, system, command.JobIdleStop{Job: k, N: 1, Idle: hour, Text: "idle for 1h"})
	s.must(t, system, command.JobObserved{Job: k, N: 1, Exited: true, Started: s.now, Finished: s.now, ExitCode: 143})
	if j := s.job(t, k); j.State != workload.Stopped || j.Outcome != codes.Stopped || j.Message != "idle for 1h; croft keep 6h would have kept it" {
		t.Errorf("%s %s: %s", j.State, j.Outcome, j.Message)
	}
}

// What must be so when a job is stopped is looked at again in the step that stops it.
func TestIdleStopIsDecidedAgain(t *testing.T) {
	tests := map[string]func(t *testing.T, s *sim, k id.Job){
		"kept meanwhile": func(t *testing.T, s *sim, k id.Job) { s.must(t, s.user("ada"), command.JobKeep{Job: k, For: hour}) },
		"at work again": func(t *testing.T, s *sim, k id.Job) {
			s.must(t, system, command.JobIdle{Job: k, N: 1, Since: s.now})
		},
		"the policy is off":   func(_ *testing.T, s *sim, _ id.Job) { s.policy() },
		"the policy is tried": func(_ *testing.T, s *sim, _ id.Job) { s.policy(idle.Policy{Mode: idle.DryRun, After: hour}) },
		"it gives more time":  func(_ *testing.T, s *sim, _ id.Job) { s.policy(idle.Policy{Mode: idle.Stop, After: hour + 1}) },
		"it tells earlier": func(_ *testing.T, s *sim, _ id.Job) {
			s.policy(idle.Policy{Mode: idle.Stop, After: hour, Notice: hour})
		},
		"another attempt": func(_ *testing.T, s *sim, k id.Job) {
			j, _ := s.w.Workload.Jobs.Get(k)
			next := *j
			next.Attempt.N = 2
			s.w.Fold([]world.Change{workload.JobSet{Row: &next}})
		},
		"contact is lost": func(_ *testing.T, s *sim, k id.Job) {
			j, _ := s.w.Workload.Jobs.Get(k)
			next := *j
			next.Attempt.Lost = s.now
			s.w.Fold([]world.Change{workload.JobSet{Row: &next}})
		},
	}
	for name, meanwhile := range tests {
		t.Run(name, func(t *testing.T) {
			s, k := watchedJob(t)
			s.must(t, system, command.JobNotice{Job: k, N: 1, Since: s.now, Idle: 50 * minute, StopAt: s.now + 10*minute})
			s.now += 10 * minute
			meanwhile(t, s, k)
			s.must(t, system, command.JobIdleStop{Job: k, N: 1, Idle: hour})
			if j := s.job(t, k); j.State != workload.Running {
				t.Errorf("stopped: %s", j.Message)
			}
		})
	}
}

// What nothing stops needn't be kept, for however long.
func TestKeepWithoutAPolicy(t *testing.T) {
	s, k := watchedJob(t)
	s.policy()
	if _, err := s.do(s.user("ada"), command.JobKeep{Job: k, For: 2400 * hour}); fault.Of(err) != codes.Conflict {
		t.Errorf("%v", err)
	}
	s.must(t, s.user("ada"), command.JobKeep{Job: k})
}

func TestKeep(t *testing.T) {
	s, k := watchedJob(t)
	s.must(t, system, command.JobNotice{Job: k, N: 1, Since: s.now, Idle: 50 * minute, StopAt: s.now + 10*minute})
	s.must(t, s.user("ada"), command.JobKeep{Job: k, For: 6 * hour})
	if diff := cmp.Diff(idle.Count{Since: s.now, Keep: s.now + 6*hour}, s.job(t, k).Attempt.Idle); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	s.must(t, system, command.JobIdle{Job: k, N: 1, Since: 1, Idle: 9 * hour})
	if got := s.job(t, k).Attempt.Idle; got.Idle != 0 {
		t.Errorf("a kept job counts as idle: %+v", got)
	}
	s.must(t, s.user("ada"), command.JobKeep{Job: k})
	if got := s.job(t, k).Attempt.Idle.Keep; got != 0 {
		t.Errorf("kept until %d", got)
	}
	for name, tt := range map[string]struct {
		cmd  command.JobKeep
		want codes.Code
		text string
	}{
		"longer than may be": {command.JobKeep{Job: k, For: 6*hour + 1}, codes.Invalid, "for:"},
		"a negative time":    {command.JobKeep{Job: k, For: -1}, codes.Invalid, "for:"},
		"a waiting job":      {command.JobKeep{Job: s.submit(t, example()), For: hour}, codes.Conflict, "only one that runs"},
		"no job":             {command.JobKeep{Job: 999, For: hour}, codes.NotFound, "no such job"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.do(s.user("ada"), tt.cmd); fault.Of(err) != tt.want || !strings.Contains(err.Error()+fields(err), tt.text) {
				t.Errorf("%v", err)
			}
		})
	}
}

func fields(err error) string {
	var out string
	for _, f := range err.(*fault.Error).Fields {
		out += f.Path + ": " + f.Message
	}
	return out
}

func TestDryRunIsNotedOnce(t *testing.T) {
	s, k := watchedJob(t)
	s.policy(idle.Policy{Mode: idle.DryRun, After: hour})
	cmd := command.JobNotice{Job: k, N: 1, Since: s.now, Idle: hour, StopAt: s.now, Text: "idle for 1h"}
	out, err := cmd.Decide(s.w, s.context(system))
	if err != nil || out.Event.Message != "would be stopped (dry-run): idle for 1h" {
		t.Fatalf("%+v, %v", out.Event, err)
	}
	s.must(t, system, cmd)
	if out, err = cmd.Decide(s.w, s.context(system)); err != nil || !out.Event.Skip {
		t.Errorf("noted again: %+v, %v", out.Event, err)
	}
}

// What an attempt was seen to do says nothing of the next.
func TestIdleEndsWithTheAttempt(t *testing.T) {
	s, k := watchedJob(t)
	s.must(t, s.user("ada"), command.JobKeep{Job: k, For: hour})
	s.must(t, s.user("ada"), command.JobRequeue{Job: k})
	s.must(t, system, command.JobObserved{Job: k, N: 1, Exited: true, Started: s.now, Finished: s.now})
	s.started(t, k)
	if diff := cmp.Diff(idle.Count{}, s.job(t, k).Attempt.Idle); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPolicyIsOfAccountsAbove(t *testing.T) {
	s := newSim(t)
	s.policy(idle.Policy{Accounts: []string{"nlp"}, Mode: idle.Stop})
	k := s.must(t, s.user("ben"), command.Submit{Spec: example()}).(admission.Accepted).Job
	if p := s.w.IdlePolicy(k); p.Mode != idle.Stop {
		t.Errorf("%+v", p)
	}
}
