package expire_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/expire"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/workload"
)

// watched runs f beside the loop, with one job of an hour, a signal two minutes
// ahead and a minute of grace, which has just begun.
func watched(t *testing.T, f func(p *looptest.Port, k id.Job)) {
	synctest.Test(t, func(t *testing.T) {
		p := looptest.New(t, looptest.NewFleet(t))
		spec := looptest.Spec()
		spec.Signal, spec.Grace = workload.Signal{Name: "USR1", Before: 120e9}, 60e9
		k := p.Submit(t, spec)
		p.Do(t, command.JobStart{Job: k})
		p.Do(t, command.JobObserved{Job: k, N: 1, Running: true, Started: time.Now().UnixNano()})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { expire.Loop{Port: p, Log: looptest.Log()}.Run(ctx) })
		f(p, k)
		cancel()
		wg.Wait()
	})
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// stage is how far along its clock a job is.
func stage(p *looptest.Port, k id.Job) string {
	a := p.Job(k).Attempt
	switch {
	case a.Kill:
		return "killed"
	case a.StopAt != 0:
		return "told to end"
	case a.Signaled:
		return "signaled"
	}
	return "runs"
}

func TestSignalThenTermThenKill(t *testing.T) {
	watched(t, func(p *looptest.Port, k id.Job) {
		for _, step := range []struct {
			after time.Duration
			want  string
		}{
			{58*time.Minute - time.Millisecond, "runs"}, {time.Millisecond, "signaled"},
			{2*time.Minute - time.Millisecond, "signaled"}, {time.Millisecond, "told to end"},
			{time.Minute - time.Millisecond, "told to end"}, {time.Millisecond, "killed"},
			{time.Hour, "killed"},
		} {
			pass(step.after)
			if got := stage(p, k); got != step.want {
				t.Errorf("after %v more: %s, want %s", step.after, got, step.want)
			}
		}
		if n := len(p.Done("job.due")); n != 3 {
			t.Errorf("%d steps", n)
		}
	})
}

// While the clock has jumped nothing expires; once it is confirmed, what is due is
// done, step by step.
func TestPausesWhileTheClockHasJumped(t *testing.T) {
	watched(t, func(p *looptest.Port, k id.Job) {
		p.Jump(true)
		pass(3 * time.Hour)
		if got := stage(p, k); got != "runs" {
			t.Errorf("%s although the clock has jumped", got)
		}
		p.Jump(false)
		pass(6 * time.Second)
		if got := stage(p, k); got != "told to end" {
			t.Errorf("%s after the clock was confirmed", got)
		}
		pass(time.Minute)
		if got := stage(p, k); got != "killed" {
			t.Errorf("%s after its grace", got)
		}
	})
}

// A job with a begin time joins the queue then, one that can't end by its deadline
// any more ends: whatever else is or isn't due.
func TestWaitingJobs(t *testing.T) {
	watched(t, func(p *looptest.Port, running id.Job) {
		later, doomed := looptest.Spec(), looptest.Spec()
		later.Begin = time.Now().Add(30 * time.Minute).UnixNano()
		doomed.Deadline = time.Now().Add(90 * time.Minute).UnixNano() // of an hour
		k, d := p.Submit(t, later), p.Submit(t, doomed)
		for _, step := range []struct {
			after         time.Duration
			later, doomed workload.JobState
		}{
			{30*time.Minute - time.Millisecond, workload.Held, workload.Queued},
			{time.Millisecond, workload.Queued, workload.Queued},
			{time.Millisecond, workload.Queued, workload.Ended},
		} {
			pass(step.after)
			if a, b := p.Job(k).State, p.Job(d).State; a != step.later || b != step.doomed {
				t.Errorf("after %v more: %s and %s, want %s and %s", step.after, a, b, step.later, step.doomed)
			}
		}
		if got := p.Job(k).Since(); got != later.Begin {
			t.Errorf("it waits since %d, want %d", got, later.Begin)
		}
		if n := len(p.Done("job.due")); n != 2 {
			t.Errorf("%d steps", n)
		}
	})
}

// A step that can't be recorded is tried again, a second later.
func TestTriesAgain(t *testing.T) {
	watched(t, func(p *looptest.Port, k id.Job) {
		p.Fail("job.due", errors.New("disk full"))
		pass(59 * time.Minute)
		p.Fail("job.due", nil)
		pass(time.Second)
		if got := stage(p, k); got != "signaled" {
			t.Errorf("%s", got)
		}
	})
}

// A step has a clock of its own beside its job's.
func TestStepsExpire(t *testing.T) {
	watched(t, func(p *looptest.Port, k id.Job) {
		n := p.Do(t, command.StepAdd{Job: k, Spec: workload.StepSpec{Time: 60e9, Grace: 5e9}}).(*workload.Step).N
		p.Do(t, command.StepStart{Job: k, N: n})
		p.Do(t, command.StepObserved{Job: k, N: n, Attempt: 1, Running: true, Started: time.Now().UnixNano()})
		for _, at := range []struct {
			after time.Duration
			state workload.JobState
			kill  bool
		}{{time.Minute - time.Millisecond, workload.Running, false}, {time.Millisecond, workload.Stopping, false}, {5 * time.Second, workload.Stopping, true}} {
			pass(at.after)
			if s, _ := p.World().Workload.Step(k, n); s.State != at.state || s.Kill != at.kill {
				t.Errorf("after %v more: %s, killed %v", at.after, s.State, s.Kill)
			}
		}
		if got := stage(p, k); got != "runs" {
			t.Errorf("its job: %s", got)
		}
	})
}

// A request that nobody decides is closed when it ends, though the first time can't be recorded.
func TestRequestsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := looptest.New(t, looptest.NewFleet(t))
		if _, err := p.As(p.Ada(), command.RequestMake{Wish: approval.Wish{Join: &approval.Join{Account: "elsewhere", Role: "member"}}, Expires: time.Now().Add(time.Hour).UnixNano()}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { expire.Loop{Port: p, Log: looptest.Log()}.Run(ctx) })
		state := func() approval.Stage {
			r, _ := p.World().Approvals.Requests.Get(1)
			return r.State
		}
		if pass(time.Hour - time.Millisecond); state() != approval.Open {
			t.Errorf("too early: %s", state())
		}
		p.Fail("request.expire", errors.New("disk full"))
		if pass(time.Millisecond); state() != approval.Open {
			t.Errorf("it couldn't be recorded: %s", state())
		}
		p.Fail("request.expire", nil)
		if pass(time.Second); state() != approval.Expired {
			t.Errorf("after an hour: %s", state())
		}
		cancel()
		wg.Wait()
	})
}
