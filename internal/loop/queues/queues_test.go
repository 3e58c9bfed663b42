package queues_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/queues"
	"croft.dev/croft/internal/quantity"
)

// fake counts what is applied.
type fake struct {
	applied [][]engine.Queue
	err     error
}

func (f *fake) PlanQueues(_ context.Context, want []engine.Queue) (engine.QueuePlan, error) {
	return engine.QueuePlan{Scheduler: "fake"}, f.err
}

func (f *fake) ApplyQueues(_ context.Context, want []engine.Queue) (engine.QueuePlan, error) {
	if f.err == nil {
		f.applied = append(f.applied, want)
	}
	return engine.QueuePlan{Scheduler: "fake"}, f.err
}

const (
	anyAmount = engine.AnyAmount
	gib       = int64(1) << 30
)

func TestQueuesAreTheAccountTree(t *testing.T) {
	p := looptest.New(t, looptest.NewFleet(t))
	part := engine.QueueName{Partition: "main"}
	whole := func(r string, n int64) engine.QueueBound {
		return engine.QueueBound{Resource: r, Guaranteed: n, Limit: anyAmount, Borrow: anyAmount, Lend: anyAmount, Weight: 1}
	}
	main := engine.Queue{QueueName: part, Bounds: []engine.QueueBound{whole("cpu", 64_000), whole("mem", 512*gib), whole("gpu:a100", 4)}}
	if d := cmp.Diff([]engine.Queue{main}, queues.Of(p.World())); d != "" {
		t.Errorf("without shares (-want +got):\n%s", d)
	}
	p.Do(t, command.AccountPut{Create: true, Name: "group", Parent: "nlp"})
	p.Do(t, command.AccountPut{Create: true, Name: "course", Parent: "group"})
	for _, s := range shares() {
		p.Do(t, s)
	}
	nlp, course := engine.QueueName{Partition: "main", Account: "nlp"}, engine.QueueName{Partition: "main", Account: "course"}
	want := []engine.Queue{
		main,
		{QueueName: nlp, Parent: part, Bounds: []engine.QueueBound{
			whole("cpu", 32_000), {Resource: "gpu:a100", Guaranteed: 2, Limit: 3, Borrow: anyAmount, Lend: 1, Weight: 5},
		}},
		// group has no share: its queue is that of nlp
		{QueueName: course, Parent: nlp, Bounds: []engine.QueueBound{{Resource: "gpu:a100", Guaranteed: 1, Limit: anyAmount, Borrow: 0, Lend: anyAmount, Weight: 1}}},
	}
	if d := cmp.Diff(want, queues.Of(p.World())); d != "" {
		t.Errorf("queues (-want +got):\n%s", d)
	}
}

func TestLoopAppliesWhatHasChanged(t *testing.T) {
	p := looptest.New(t, looptest.NewFleet(t))
	f := &fake{}
	l := queues.New(queues.Config{Port: p, Engine: f, Period: time.Second, Repair: time.Minute, Log: slog.New(slog.DiscardHandler)})
	at := time.Unix(1000, 0)
	once := func(want int, what string) {
		t.Helper()
		if err := l.Once(t.Context(), at); err != nil && f.err == nil {
			t.Fatal(err)
		}
		if len(f.applied) != want {
			t.Errorf("%s: applied %d times, want %d", what, len(f.applied), want)
		}
	}
	once(1, "at first")
	once(1, "nothing new")
	p.Do(t, shares()[0])
	f.err = &engine.UnavailableError{Cause: errors.New("away")}
	once(1, "while the cluster is away")
	f.err = nil
	once(2, "once it is back")
	at = at.Add(time.Minute)
	once(3, "to repair what others have changed")
}

func TestLoopOnlyWatches(t *testing.T) {
	p := looptest.New(t, looptest.NewFleet(t))
	f := &fake{}
	l := queues.New(queues.Config{Port: p, Engine: f, Watch: true, Log: slog.New(slog.DiscardHandler)})
	if err := l.Once(t.Context(), time.Unix(1000, 0)); err != nil || len(f.applied) != 0 {
		t.Errorf("applied %v, %v", f.applied, err)
	}
	if plan, err := l.Plan(t.Context()); err != nil || plan.Scheduler != "fake" {
		t.Errorf("plan %+v, %v", plan, err)
	}
}

// shares are of cores and devices of nlp, and of devices of a course below it.
func shares() []command.SharePut {
	one, none := int64(quantity.Device), int64(0)
	two, three := 2*one, 3*one
	half := one / 2
	return []command.SharePut{
		{Account: "nlp", Partition: "main", Resource: "cpu", Guaranteed: 32_000},
		{Account: "nlp", Partition: "main", Resource: "gpu:a100", Guaranteed: two, Limit: &three, Lend: &half, Weight: 5},
		{Account: "course", Partition: "main", Resource: "gpu:a100", Guaranteed: one, Borrow: &none},
	}
}
