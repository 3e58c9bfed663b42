package plan_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/plan"
	"croft.dev/croft/internal/workload"
)

// shelf has every image but those that are missing or were collected.
type shelf struct {
	missing, collected map[string]bool
	ready              chan struct{}
}

func (s *shelf) Have(_ context.Context, j *workload.Job) (string, bool) {
	return "sha256:" + j.Spec.Image, !s.missing[j.Spec.Image]
}
func (s *shelf) Still(_ context.Context, j *workload.Job) bool { return !s.collected[j.Spec.Image] }
func (s *shelf) Ready() <-chan struct{}                        { return s.ready }

type bench struct {
	*testing.T
	port    *looptest.Port
	shelf   *shelf
	planner *plan.Planner
}

func inBench(t *testing.T, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, port: looptest.New(t, looptest.NewFleet(t)), shelf: &shelf{map[string]bool{}, map[string]bool{}, make(chan struct{}, 1)}}
		b.planner = plan.New(plan.Config{Port: b.port, Images: b.shelf, Depth: 10, Budget: 100, Log: looptest.Log()})
		f(b)
	})
}

func (b *bench) submit(gpu int64, edit ...func(*workload.Spec)) id.Job {
	spec := looptest.Spec()
	spec.GPU = gpu * 1000
	for _, e := range edit {
		e(&spec)
	}
	return b.port.Submit(b.T, spec)
}

func (b *bench) pass() {
	b.Helper()
	if err := b.planner.Pass(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// started lists the jobs that were started, in order.
func (b *bench) started() []id.Job {
	var out []id.Job
	for _, c := range b.port.Done("job.start") {
		out = append(out, c.(command.JobStart).Job)
	}
	return out
}

func (b *bench) want(jobs ...id.Job) {
	b.Helper()
	if diff := cmp.Diff(jobs, b.started()); diff != "" {
		b.Errorf("started (-want +got)\n%s", diff)
	}
}

// Jobs start in the order of the queue; what doesn't fit is promised a start, and
// a later job that would delay that one doesn't go before it.
func TestStartsInOrderAndPromises(t *testing.T) {
	inBench(t, func(b *bench) {
		low := b.submit(1, func(s *workload.Spec) { s.Priority = -1 })
		a, all := b.submit(2), b.submit(4)
		long := b.submit(1, func(s *workload.Spec) { s.Time = 5 * int64(time.Hour) })
		short := b.submit(1, func(s *workload.Spec) { s.Time = int64(time.Hour) / 2 })
		b.pass()
		b.want(a, short, low)
		promise := b.port.Job(all).Promise
		if least := time.Now().Add(time.Hour).UnixNano(); promise < least || promise > least+int64(time.Minute) {
			t.Errorf("promised %v", time.Until(time.Unix(0, promise)))
		}
		if b.port.Job(long).Promise < promise {
			t.Error("the long one is promised a start before the one that needs all devices")
		}
		rows := len(b.port.Done("plan.promises"))
		b.pass()
		if n := len(b.port.Done("plan.promises")); n != rows {
			t.Errorf("the same plan was recorded again: %d rows, before %d", n, rows)
		}
	})
}

// A job whose image isn't there yet keeps its place and lets those by that don't
// delay it; it starts when the image is there, and not if it was collected.
func TestWaitsForTheImage(t *testing.T) {
	inBench(t, func(b *bench) {
		b.shelf.missing["far:1"] = true
		far := b.submit(4, func(s *workload.Spec) { s.Image = "far:1" })
		other := b.submit(0)
		b.pass()
		b.want(other)
		b.shelf.missing["far:1"], b.shelf.collected["far:1"] = false, true
		b.pass()
		b.want(other)
		b.shelf.collected["far:1"] = false
		b.pass()
		b.want(other, far)
		if j := b.port.Job(far); j.Attempt.Image != "sha256:far:1" {
			t.Errorf("image %q", j.Attempt.Image)
		}
	})
}

// A limit holds within one pass, and a job that it keeps waiting keeps nobody
// else.
func TestLimitsWithinAPass(t *testing.T) {
	for name, limit := range map[string]command.LimitPut{
		"on devices": {User: "ada", Resource: "gpu", Max: 2000}, "on a model that nobody named": {User: "ada", Resource: "gpu:a100", Max: 2000},
	} {
		t.Run(name, func(t *testing.T) {
			inBench(t, func(b *bench) {
				b.port.Do(t, command.UserPut{Create: true, Name: "ben"})
				b.port.Do(t, command.MemberPut{Account: "nlp", User: "ben", Role: "member"})
				b.port.Do(t, limit)
				one, two := b.submit(2), b.submit(2)
				ben, _ := b.port.World().Tenancy.User("ben")
				spec := looptest.Spec()
				spec.GPU = 2000
				got, err := b.port.As(b.port.World().Principal(ben.ID, 0, 0), command.Submit{Spec: spec})
				if err != nil {
					t.Fatal(err)
				}
				b.pass()
				b.pass()
				b.want(one, got.(admission.Accepted).Job.ID)
				if j := b.port.Job(two); j.State != workload.Queued {
					t.Errorf("the limited one is %s", j.State)
				}
			})
		})
	}
}

// While the clock has jumped nothing is planned; afterwards the loop goes on by
// itself, and at once when a job comes or an image is ready.
// An urgent job stops those that have lost least, one at a time and only what it
// needs; what it frees is for it, even from a job of higher place.
func TestPreempts(t *testing.T) {
	inBench(t, func(b *bench) {
		priority, preempts := int64(1000), []string{"normal"}
		b.port.Do(b.T, command.QoSPut{Create: true, Name: "urgent", Priority: &priority, Preempts: &preempts})
		urgent := func(s *workload.Spec) { s.QoS = "urgent" }
		run := func() id.Job {
			k := b.submit(2)
			b.pass()
			b.port.Do(b.T, command.JobObserved{Job: k, N: 1, Running: true, Started: time.Now().UnixNano()})
			<-time.After(time.Minute)
			return k
		}
		old, young := run(), run()
		b.shelf.missing["train:1"] = true
		first := b.submit(1, urgent)
		b.pass()
		if n := len(b.port.Done("job.preempt")); n != 0 {
			t.Fatalf("%d jobs were stopped for one whose image is missing", n)
		}
		b.shelf.missing["train:1"] = false
		b.pass()
		b.pass()
		if got := b.port.Done("job.preempt"); len(got) != 1 || got[0].(command.JobPreempt).Job != young {
			t.Fatalf("stopped %+v, want job %d", got, young)
		}
		high := b.submit(2, urgent)
		b.port.Do(b.T, command.JobObserved{Job: young, N: 1, Exited: true, Finished: time.Now().UnixNano()})
		b.pass()
		b.want(old, young, first)
		if j := b.port.Job(old); j.State != workload.Stopping || j.Attempt.Preempt.By != high {
			t.Errorf("job %d is %s for %d", old, j.State, j.Attempt.Preempt.By)
		}
		if j := b.port.Job(young); j.State != workload.Queued || j.Attempt.Outcome != codes.Preempted {
			t.Errorf("job %d is %s %s", young, j.State, j.Attempt.Outcome)
		}
	})
}

func TestRun(t *testing.T) {
	inBench(t, func(b *bench) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); b.planner.Run(ctx) }()
		b.port.Jump(true)
		one := b.submit(1)
		<-time.After(time.Minute)
		synctest.Wait()
		if len(b.started()) != 0 {
			t.Error("planned although the clock has jumped")
		}
		b.port.Jump(false)
		<-time.After(time.Second)
		synctest.Wait()
		b.want(one)
		two := b.submit(1)
		synctest.Wait()
		b.want(one, two)
		b.shelf.missing["far:1"] = true
		far := b.submit(1, func(s *workload.Spec) { s.Image = "far:1" })
		synctest.Wait()
		cancel()
		<-done
		b.want(one, two)
		b.shelf.missing["far:1"] = false
		b.pass()
		b.want(one, two, far)
	})
}

// As many elements of an array start in a pass as there is room for, in the order of
// their indices, and the next have promises; at last it has ended, and nothing is left.
func TestArrayRunsToItsEnd(t *testing.T) {
	inBench(t, func(b *bench) {
		k := b.submit(1, func(s *workload.Spec) {
			s.Array.Elements = workload.Elements{{First: 0, Last: 49, Step: 1}}
			s.Array.Most = 6
		})
		behind := b.submit(4)
		var order []int64
		for range 60 {
			b.pass()
			w := b.port.World()
			running := 0
			for e := range w.Workload.ElementsOf(k) {
				order = append(order, e.Index)
				running++
				b.port.Do(b.T, command.JobObserved{Job: e.ID, N: 1, Exited: true, Finished: time.Now().UnixNano()})
			}
			if running > 4 {
				b.Fatalf("%d run on four devices", running)
			}
			if _, live := w.Workload.Jobs.Get(k); !live {
				break
			}
			if j := b.port.Job(k); j.State == workload.Queued && j.Promise == 0 {
				b.Fatal("its next element has no promise")
			}
			<-time.After(time.Minute)
		}
		for i, index := range order {
			if index != int64(i) {
				b.Fatalf("started in the order %v", order)
			}
		}
		if j := b.port.Job(k); len(order) != 50 || j.State != workload.Ended || j.Outcome != codes.Completed {
			b.Fatalf("%d started; %s %s", len(order), j.State, j.Outcome)
		}
		b.pass()
		if j := b.port.Job(behind); j.State != workload.Starting {
			b.Errorf("the job behind it is %s", j.State)
		}
	})
}
