package idle_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	loop "croft.dev/croft/internal/loop/idle"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/usage"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

const (
	minute = int64(time.Minute)
	hour   = int64(time.Hour)
)

// site is a job that runs, in a site that stops what is idle for an hour, and what is seen
// of it.
type site struct {
	*testing.T
	p    *looptest.Port
	job  id.Job
	book *usage.Book
	loop *loop.Loop
	cfg  loop.Config

	cpu  int64 // ns of CPU time used
	use  int64 // milli-cores from now on
	gpu  []int64
	off  bool // nothing is seen
	ssh  int64
	says []idle.Activity
	told []string
}

func watched(t *testing.T, f func(*site)) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{T: t, p: looptest.New(t, looptest.NewFleet(t)), book: usage.NewBook(), gpu: []int64{0, 0}}
		s.policy(idle.Policy{Mode: idle.Stop, After: hour, Notice: 10 * minute, Device: 50, CPU: 100, Signals: idle.Signals()[:5]})
		spec := looptest.Spec("forever")
		spec.Time, spec.GPU = 100*hour, 2000
		s.job = s.p.Submit(t, spec)
		s.p.Do(t, command.JobStart{Job: s.job})
		s.p.Do(t, command.JobObserved{Job: s.job, N: 1, Running: true, Started: time.Now().UnixNano()})
		s.cfg = loop.Config{
			Port: s.p, Book: s.book, Log: looptest.Log(),
			Connections: func(_ id.Job, kind idle.Signal) (int64, int64) {
				if kind == idle.SSH {
					return s.ssh, 0
				}
				return 0, 0
			},
			Activities: func(context.Context, *workload.Job) []idle.Activity { return s.says },
			Tell:       func(_ id.Job, line string) { s.told = append(s.told, line) },
		}
		s.restart()
		f(s)
	})
}

func (s *site) policy(p ...idle.Policy) {
	s.p.Settle(func(site *world.Site) { site.Idle = p })
}

// restart begins with a loop that has seen nothing.
func (s *site) restart() { s.loop = loop.New(s.cfg) }

// pass lets time pass, with a sample and a look every ten seconds.
func (s *site) pass(d int64) *workload.Job {
	const step = 10 * time.Second
	for end := time.Now().UnixNano() + d; time.Now().UnixNano() < end; {
		<-time.After(step)
		s.cpu += s.use * int64(step) / 1000
		if !s.off {
			seen := usage.Seen{At: time.Now().UnixNano(), CPU: s.cpu}
			for i, uuid := range s.p.Job(s.job).Attempt.Devices {
				seen.Devices = append(seen.Devices, usage.Device{UUID: uuid, Known: s.gpu[i] >= 0, Busy: max(s.gpu[i], 0)})
			}
			s.book.Put(id.Attempt{Job: s.job, N: 1}, seen)
		}
		s.loop.Once(s.Context())
	}
	return s.p.Job(s.job)
}

func (s *site) standing() idle.Standing {
	v, _ := s.loop.Verdict(id.Attempt{Job: s.job, N: 1})
	return v.Standing
}

// kinds of commands that were carried out on the job, in order.
func (s *site) kinds() string {
	var out []string
	for _, kind := range []string{"job.idle", "job.notice", "job.idle_stop"} {
		for range s.p.Done(kind) {
			out = append(out, kind)
		}
	}
	return strings.Join(out, " ")
}

func TestIdleJobIsToldAndStopped(t *testing.T) {
	watched(t, func(s *site) {
		if j := s.pass(49 * minute); j.Attempt.Idle.Told != 0 {
			t.Errorf("told after %v", time.Duration(j.Attempt.Idle.Idle))
		}
		if j := s.pass(2 * minute); j.Attempt.Idle.Told == 0 || j.State != workload.Running {
			t.Errorf("after 51 minutes: %+v", j.Attempt.Idle)
		}
		if len(s.told) != 1 || !strings.HasSuffix(s.told[0], "has been idle for 50m and stops in 10m; croft keep 6h 1 keeps it") {
			t.Errorf("%q", s.told)
		}
		j := s.pass(10 * minute)
		const want = "idle for 1h: 2 devices at most 0 % (< 5 %), CPU 0 of 1 cores (< 0.1), no SSH, no terminal; croft keep 6h would have kept it"
		if j.State != workload.Stopping || j.Attempt.Cause != codes.Cancelled || j.Message != want {
			t.Errorf("%s: %s", j.State, j.Message)
		}
		if diff := cmp.Diff("job.idle job.idle job.idle job.notice job.idle_stop", s.kinds()); diff != "" {
			t.Errorf("%s", diff)
		}
	})
}

// What keeps a job running, each by itself.
func TestAnySignalKeepsIt(t *testing.T) {
	tests := map[string]struct {
		set  func(*site)
		want idle.Standing
	}{
		"CPU":                  {func(s *site) { s.use = 100 }, idle.Active},
		"one device":           {func(s *site) { s.gpu[1] = 50 }, idle.Active},
		"a device not known":   {func(s *site) { s.gpu[1] = -1 }, idle.Unknown},
		"SSH":                  {func(s *site) { s.ssh = 1 }, idle.Active},
		"a running cell":       {func(s *site) { s.says = []idle.Activity{{Name: "lab", Known: true, Busy: true}} }, idle.Active},
		"one that isn't known": {func(s *site) { s.says = []idle.Activity{{Name: "lab"}} }, idle.Unknown},
		"no sample":            {func(s *site) { s.off = true }, idle.Unknown},
		"a declaration":        {func(s *site) { s.p.Do(t, command.JobKeep{Job: s.job, For: 10 * hour}) }, idle.Kept},
		"the policy":           {func(s *site) { s.policy() }, idle.Unwatched},
		"lost contact":         {func(s *site) { s.p.Do(t, command.Contact{Lost: true}) }, idle.Unknown},
		"a clock that jumped":  {func(s *site) { s.p.Jump(true) }, idle.Idle},
		"a policy that is tried": {func(s *site) {
			s.policy(idle.Policy{Mode: idle.DryRun, After: hour, CPU: 100, Signals: []idle.Signal{idle.CPU}})
		}, idle.Idle},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			watched(t, func(s *site) {
				s.pass(55 * minute) // told already
				tt.set(s)
				if j := s.pass(3 * hour); j.State != workload.Running || s.standing() != tt.want {
					t.Errorf("%s, %s: %s", j.State, s.standing(), j.Message)
				}
				if name == "a policy that is tried" && len(s.p.Done("job.notice")) != 2 { // the one before, and that it would be stopped
					t.Errorf("%s", s.kinds())
				}
			})
		})
	}
}

// After it has worked the time begins anew, and its user is told again.
func TestWorkBeginsItAnew(t *testing.T) {
	watched(t, func(s *site) {
		s.pass(55 * minute)
		s.use = 1000
		if j := s.pass(minute); j.Attempt.Idle.Told != 0 || j.Attempt.Idle.Idle != 0 {
			t.Errorf("at work: %+v", j.Attempt.Idle)
		}
		s.use = 0
		if j := s.pass(58 * minute); j.State != workload.Running || j.Attempt.Idle.Told == 0 {
			t.Errorf("%s: %+v", j.State, j.Attempt.Idle)
		}
		if j := s.pass(5 * minute); j.State != workload.Stopping || len(s.told) != 2 {
			t.Errorf("%s, told %d times", j.State, len(s.told))
		}
	})
}

// Whoever takes a declaration back was there.
func TestTakingADeclarationBackIsWork(t *testing.T) {
	watched(t, func(s *site) {
		s.pass(45 * minute)
		s.p.Do(t, command.JobKeep{Job: s.job})
		if j := s.pass(45 * minute); j.State != workload.Running || j.Attempt.Idle.Told != 0 {
			t.Errorf("%s: %+v", j.State, j.Attempt.Idle)
		}
	})
}

// The time in which no server looked doesn't count, but what was noted before does: a
// server that restarts often puts the stop off, not for ever.
func TestRestarts(t *testing.T) {
	watched(t, func(s *site) {
		s.pass(46 * minute)
		<-time.After(5 * time.Hour)
		s.restart()
		if j := s.pass(minute); j.Attempt.Idle.Told != 0 {
			t.Errorf("time that nobody saw counts: %+v", j.Attempt.Idle)
		}
		if j := s.pass(20 * minute); j.State != workload.Stopping {
			t.Errorf("%s: %+v", j.State, j.Attempt.Idle)
		}
	})
	watched(t, func(s *site) {
		for range 6 {
			s.pass(16 * minute)
			s.restart()
		}
		if j := s.p.Job(s.job); j.State != workload.Stopping {
			t.Errorf("restarts every 16 minutes keep it for ever: %+v", j.Attempt.Idle)
		}
	})
}

// What is known of connections goes with the job.
func TestConnectionsAreForgotten(t *testing.T) {
	watched(t, func(s *site) {
		var kept, gone bool
		s.cfg.Forget = func(stays func(id.Job) bool) { kept, gone = stays(s.job), !stays(s.job+1) }
		s.restart()
		if s.pass(minute); !kept || !gone {
			t.Errorf("kept of one that runs: %v; forgotten of another: %v", kept, gone)
		}
	})
}

// What can't be noted is tried again.
func TestFailuresAreTriedAgain(t *testing.T) {
	watched(t, func(s *site) {
		s.p.Fail("job.notice", context.DeadlineExceeded)
		if j := s.pass(2 * hour); j.State != workload.Running || len(s.told) != 0 {
			t.Errorf("%s, told %q", j.State, s.told)
		}
		s.p.Fail("job.notice", nil)
		s.pass(minute)
		if j := s.pass(10 * minute); j.State != workload.Stopping {
			t.Errorf("%s: %+v", j.State, j.Attempt.Idle)
		}
	})
}
