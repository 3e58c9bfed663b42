package plan_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// lend guarantees nlp so many of the four devices, and makes the account vision with the
// user ben beside it, which is guaranteed others.
func (b *bench) lend(nlp, vision int64) {
	b.port.Do(b.T, command.UserPut{Create: true, Name: "ben"})
	b.port.Do(b.T, command.AccountPut{Create: true, Name: "vision", Billing: text("off")})
	b.port.Do(b.T, command.MemberPut{Account: "vision", User: "ben", Role: "member"})
	for account, n := range map[string]int64{"nlp": nlp, "vision": vision} {
		b.port.Do(b.T, command.SharePut{Account: account, Partition: "main", Resource: "gpu", Guaranteed: n * quantity.Device})
	}
}

func (b *bench) submitAs(user string, gpu int64) id.Job {
	b.Helper()
	u, _ := b.port.World().Tenancy.User(user)
	spec := looptest.Spec()
	spec.GPU, spec.Time = gpu*quantity.Device, 100*int64(time.Hour)
	got, err := b.port.As(b.port.World().Principal(u.ID, 0, 0), command.Submit{Spec: spec})
	if err != nil {
		b.Fatal(err)
	}
	return got.(admission.Accepted).Job.ID
}

// settle lets what starts run, and what is stopped end.
func (b *bench) settle() {
	var ids []id.Job
	for k := range b.port.World().Workload.Active.All() {
		ids = append(ids, k)
	}
	for _, k := range ids {
		switch j := b.port.Job(k); j.State {
		case workload.Starting:
			b.port.Do(b.T, command.JobObserved{Job: k, N: j.Attempt.N, Running: true, Started: time.Now().UnixNano()})
		case workload.Stopping:
			b.port.Do(b.T, command.JobObserved{Job: k, N: j.Attempt.N, Exited: true, Finished: time.Now().UnixNano()})
		}
	}
	<-time.After(time.Minute)
}

// What was lent comes back as soon as it is needed, from those that lose least by it, and
// no more than is needed.
func TestReclaims(t *testing.T) {
	inBench(t, func(b *bench) {
		b.lend(3, 1)
		for range 4 {
			b.submitAs("ben", 1)
			b.pass()
			b.settle()
		}
		own := b.submitAs("ada", 2)
		b.pass()
		b.pass()
		var stopped []id.Job
		for _, c := range b.port.Done("job.preempt") {
			stopped = append(stopped, c.(command.JobPreempt).Job)
		}
		if len(stopped) != 2 || stopped[0] != 3 || stopped[1] != 4 {
			t.Fatalf("stopped %v, want those that ben began last", stopped)
		}
		b.settle()
		b.pass()
		if j := b.port.Job(own); j.State != workload.Starting {
			t.Fatalf("the job that it was for is %s", j.State)
		}
		b.settle()
		b.pass()
		if n := len(b.port.Done("job.preempt")); n != 2 {
			t.Errorf("%d were stopped in the end", n)
		}
	})
}

// Whatever is submitted by whom: who is within his guarantee runs after a few passes, and
// stopping comes to an end.
func TestGuaranteesAreHonoured(t *testing.T) {
	inBench(t, func(b *bench) {
		b.lend(3, 1)
		b.port.Settle(func(s *world.Site) { s.Weights = admission.Weights{Age: 1000, AgeCap: int64(14 * day), Queue: 10_000} })
		chance := rand.New(rand.NewPCG(3, 4))
		guaranteed := map[string]int64{"ada": 3, "ben": 1}
		waited := map[id.Job]int{}
		for step := range 300 {
			if step%5 == 0 {
				who := []string{"ada", "ben"}[chance.IntN(2)]
				b.submitAs(who, 1)
			}
			if step%7 == 0 {
				for k, j := range b.port.World().Workload.Active.All() {
					if j.State == workload.Running && chance.IntN(2) == 0 {
						b.port.Do(b.T, command.JobObserved{Job: k, N: j.Attempt.N, Exited: true, Finished: time.Now().UnixNano()})
						break
					}
				}
			}
			b.pass()
			b.settle()
			used, first := map[string]int64{}, map[string]*workload.Job{}
			w := b.port.World()
			for _, j := range w.Workload.Jobs.All() {
				u, _ := w.Tenancy.Users.Get(j.User)
				switch {
				case workload.RulesOf(j.State).Running:
					used[u.Name]++
				case first[u.Name] == nil:
					first[u.Name] = j
				}
			}
			for who, j := range first {
				if used[who] >= guaranteed[who] {
					continue
				}
				if waited[j.ID]++; waited[j.ID] > 3 {
					t.Fatalf("job %d of %s waits for %d passes, with %d of %d in use", j.ID, who, waited[j.ID], used[who], guaranteed[who])
				}
			}
		}
		if n := len(b.port.Done("job.preempt")); n == 0 || n > 300 {
			t.Errorf("%d jobs were stopped", n)
		}
	})
}
