package plan_test

import (
	"testing"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/plan"
	"croft.dev/croft/internal/workload"
)

// As many jobs are handed over as may be pending there; the rest waits in order, and jobs
// without devices don't wait for those with some.
func TestWindow(t *testing.T) {
	inBench(t, func(b *bench) {
		b.planner = plan.New(plan.Config{Port: b.port, Images: b.shelf, Depth: 10, Budget: 100, Window: 2, Log: looptest.Log()})
		one, two, three, plain := b.submit(1), b.submit(1), b.submit(1), b.submit(0)
		b.pass()
		b.want(one, two, plain)
		b.pass()
		b.want(one, two, plain)
		j := b.port.Job(two)
		b.port.Do(b.T, command.JobObserved{Job: two, N: j.Attempt.N, Running: true, Started: b.port.World().Now})
		if s := b.port.Job(two).State; s != workload.Running {
			b.Fatalf("job %d is %s", two, s)
		}
		b.pass()
		b.want(one, two, plain, three)
	})
}

// Each account that has a share has a line of its own.
func TestWindowIsOfAQueue(t *testing.T) {
	inBench(t, func(b *bench) {
		b.planner = plan.New(plan.Config{Port: b.port, Images: b.shelf, Depth: 10, Budget: 100, Window: 1, Log: looptest.Log()})
		b.port.Do(b.T, command.AccountPut{Create: true, Name: "vision"})
		b.port.Do(b.T, command.MemberPut{Account: "vision", User: "ada", Role: "member"})
		b.port.Do(b.T, command.SharePut{Account: "vision", Partition: "main", Resource: "gpu", Guaranteed: 1000})
		in := func(account string) func(*workload.Spec) { return func(s *workload.Spec) { s.Account = account } }
		one, _, other := b.submit(1, in("nlp")), b.submit(1, in("nlp")), b.submit(1, in("vision"))
		b.pass()
		b.want(one, other)
	})
}
