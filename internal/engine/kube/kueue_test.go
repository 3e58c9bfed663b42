package kube

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"croft.dev/croft/internal/engine"
)

// queued opens an engine that hands attempts to a batch scheduler, with queue names of its own
// and the rights that deploy/kubernetes gives.
func queued(t *testing.T, scheduler, prefix string) *Engine {
	t.Helper()
	e, err := New(t.Context(), Config{
		Kubeconfig: deploy(t), Instance: uuid.NewString(), Namespace: "croft-jobs", Image: shared.registry + "/tools:1", LogDir: t.TempDir(),
		Scheduler: scheduler, QueuePrefix: prefix, Models: []Model{{Name: "a100", Resource: "example.com/gpu"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := e.ApplyQueues(context.WithoutCancel(t.Context()), nil); err != nil {
			t.Error(err)
		}
		must(t, e.Close())
	})
	return e
}

// tree is a partition with two accounts, of which one has another below it.
func lab(cpu int64) []engine.Queue {
	part := engine.QueueName{Partition: "main"}
	faculty, course := engine.QueueName{Partition: "main", Account: "faculty"}, engine.QueueName{Partition: "main", Account: "course"}
	bounds := func(guaranteed, limit int64) []engine.QueueBound {
		return []engine.QueueBound{{Resource: "cpu", Guaranteed: guaranteed, Limit: limit, Borrow: engine.AnyAmount, Lend: engine.AnyAmount, Weight: 1}}
	}
	return []engine.Queue{
		{QueueName: part, Bounds: append(bounds(cpu, engine.AnyAmount), engine.QueueBound{Resource: "mem", Guaranteed: 4 << 30, Limit: engine.AnyAmount, Borrow: engine.AnyAmount, Lend: engine.AnyAmount, Weight: 1})},
		{QueueName: faculty, Parent: part, Bounds: bounds(cpu/2, engine.AnyAmount)},
		{QueueName: course, Parent: faculty, Bounds: bounds(cpu/4, cpu/4)},
	}
}

// startKueue starts Kueue once for all tests of the package.
func startKueue(t *testing.T) {
	t.Helper()
	must(t, shared.StartKueue(t.Context()))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(shared.Tail())
		}
		must(t, shared.RemoveKueue(context.WithoutCancel(t.Context())))
	})
}

func apply(t *testing.T, e *Engine, want []engine.Queue) engine.QueuePlan {
	t.Helper()
	plan, err := e.ApplyQueues(t.Context(), want)
	must(t, err)
	for _, c := range plan.Changes {
		if c.Error != "" {
			t.Fatalf("%s %s %s: %s", c.Action, c.Kind, c.Name, c.Error)
		}
	}
	return plan
}

// settled awaits a plan that changes nothing: deletions take the controllers a while.
func settled(t *testing.T, e *Engine, want []engine.Queue) {
	t.Helper()
	var plan engine.QueuePlan
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ; ctx.Err() == nil; pause(ctx) {
		var err error
		plan, err = e.PlanQueues(t.Context(), want)
		must(t, err)
		if len(plan.Changes) == 0 {
			return
		}
	}
	t.Fatalf("it still differs: %+v", plan)
}

// One test, since Kueue's webhooks are the cluster's: what other tests start waits for them.
func TestKueue(t *testing.T) {
	startKueue(t)
	t.Run("a job runs that its queue admits", kueueAdmits)
	t.Run("a queue's limit keeps one back", kueueKeepsBack)
	t.Run("all of a gang or none", kueueGang)
	t.Run("drift is repaired", kueueDrift)
	t.Run("what isn't Croft's is left alone", kueueForeign)
	t.Run("the webhook is down", kueueIsDown)
}

func kueueAdmits(t *testing.T) {
	e := queued(t, SchedulerKueue, "admits")
	apply(t, e, lab(1000))
	settled(t, e, lab(1000))
	a := job(e, 1, "sh", "-c", "exit 7")
	a.Queue = engine.QueueName{Partition: "main", Account: "course"}
	must(t, e.Start(t.Context(), a))
	if s := await(t, e, a, "ended", phase(engine.PhaseExited)); s.ExitCode != 7 || s.Failure != "" {
		t.Errorf("%+v", s)
	}
	finish(t, e, a)
}

// finish stops and removes an attempt, and awaits that nothing is left of it.
func finish(t *testing.T, e *Engine, a engine.Allocation) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	must(t, e.Stop(ctx, a.Attempt))
	for e.Remove(ctx, a.Attempt) != nil && ctx.Err() == nil {
		pause(ctx)
	}
	for ; ; pause(ctx) {
		all, err := e.List(ctx)
		must(t, err)
		if !slices.ContainsFunc(all, func(s engine.Status) bool { return s.Attempt == a.Attempt }) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("something is left: %+v", all)
		}
	}
}

func kueueKeepsBack(t *testing.T) {
	e := queued(t, SchedulerKueue, "keeps")
	apply(t, e, lab(400)) // so that course has 100
	first, second := job(e, 1, "sh", "-c", sleep), job(e, 2, "sh", "-c", sleep)
	for _, a := range []*engine.Allocation{&first, &second} {
		a.CPU, a.Queue = 60, engine.QueueName{Partition: "main", Account: "course"}
	}
	must(t, e.Start(t.Context(), first))
	await(t, e, first, "running", phase(engine.PhaseRunning))
	must(t, e.Start(t.Context(), second))
	saysInsufficient(t, e, second)
	p, err := e.get(t.Context(), second.Attempt)
	must(t, err)
	if len(p.Spec.SchedulingGates) == 0 || p.Spec.NodeName != "" {
		t.Errorf("the second passed by: %v on %q", p.Spec.SchedulingGates, p.Spec.NodeName)
	}
	finish(t, e, first)
	await(t, e, second, "running", phase(engine.PhaseRunning))
	finish(t, e, second)
}

// saysInsufficient awaits that Kueue says of an attempt that its queue has no room.
func saysInsufficient(t *testing.T, e *Engine, a engine.Allocation) {
	t.Helper()
	said := func() (out string) {
		list, err := objects(t).Resource(kueueKind("workloads", "Workload", true).GroupVersionResource).Namespace("croft-jobs").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for _, w := range list.Items {
			// a gang's workload is owned by all of its Pods, in any order
			if slices.ContainsFunc(w.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Name == podName(a.Attempt) }) {
				conditions, _, _ := unstructured.NestedSlice(w.Object, "status", "conditions")
				for _, c := range conditions {
					out += c.(map[string]any)["message"].(string) + "\n"
				}
			}
		}
		return out
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !strings.Contains(said(), "insufficient") {
		if pause(ctx); ctx.Err() != nil {
			t.Fatalf("it is said of %s: %q", a.Attempt, said())
		}
	}
}

// Two Pods of 60 don't fit into 100, and so neither starts; into 120 both.
func kueueGang(t *testing.T) {
	e := queued(t, SchedulerKueue, "gang")
	apply(t, e, lab(400))
	a, b := job(e, 1, "sh", "-c", "exit 7"), job(e, 2, "sh", "-c", "exit 8")
	for rank, one := range []*engine.Allocation{&a, &b} {
		one.CPU, one.Queue = 60, engine.QueueName{Partition: "main", Account: "course"}
		one.Gang = &engine.Gang{Name: "gang-" + string(a.Attempt), Rank: rank, Size: 2}
		must(t, e.Start(t.Context(), *one))
	}
	saysInsufficient(t, e, a)
	for _, id := range []engine.AttemptID{a.Attempt, b.Attempt} {
		if p, err := e.get(t.Context(), id); err != nil || len(p.Spec.SchedulingGates) == 0 {
			t.Errorf("%s isn't kept back: %v", id, err)
		}
	}
	apply(t, e, lab(480))
	for want, a := range map[int]engine.Allocation{7: a, 8: b} {
		if s := await(t, e, a, "ended", phase(engine.PhaseExited)); s.ExitCode != want {
			t.Errorf("%+v", s)
		}
	}
	finish(t, e, a)
	finish(t, e, b)
}

func kueueDrift(t *testing.T) {
	e := queued(t, SchedulerKueue, "drift")
	apply(t, e, lab(1000))
	settled(t, e, lab(1000))
	queues := objects(t).Resource(kueueClusterQueue.GroupVersionResource)
	name := e.cfg.queueName(engine.QueueName{Partition: "main", Account: "course"})
	q, err := queues.Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	must(t, unstructured.SetNestedField(q.Object, "elsewhere", "spec", "cohortName"))
	must(t, unstructured.SetNestedField(q.Object, "Hold", "spec", "stopPolicy"))
	_, err = queues.Update(t.Context(), q, metav1.UpdateOptions{})
	must(t, err)
	local := objects(t).Resource(kueueLocalQueue.GroupVersionResource).Namespace("croft-jobs")
	must(t, local.Delete(t.Context(), name, metav1.DeleteOptions{}))

	plan, err := e.PlanQueues(t.Context(), lab(1000))
	must(t, err)
	want := engine.QueuePlan{Scheduler: SchedulerKueue, Changes: []engine.QueueChange{
		{Action: engine.ActionUpdate, Kind: "ClusterQueue", Name: name, Fields: []engine.FieldChange{{Path: "spec.cohortName", From: `"elsewhere"`, To: `"drift.main.faculty"`}}},
		{Action: engine.ActionCreate, Kind: "LocalQueue", Namespace: "croft-jobs", Name: name},
	}}
	if d := cmp.Diff(want, plan); d != "" {
		t.Errorf("plan (-want +got):\n%s", d)
	}
	apply(t, e, lab(1000))
	settled(t, e, lab(1000))
	q, err = queues.Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	if s, _, _ := unstructured.NestedString(q.Object, "spec", "stopPolicy"); s != "Hold" {
		t.Errorf("an operator's stopPolicy is now %q", s)
	}
	// An account loses its share: its queues go.
	apply(t, e, lab(1000)[:2])
	settled(t, e, lab(1000)[:2])
}

func kueueForeign(t *testing.T) {
	e := queued(t, SchedulerKueue, "foreign")
	cohorts := objects(t).Resource(kueueCohort.GroupVersionResource)
	theirs := e.made(kueueCohort, "foreign.main", map[string]any{})
	theirs.SetLabels(map[string]string{labelInstance: "another"})
	had, err := cohorts.Create(t.Context(), theirs.Unstructured, metav1.CreateOptions{})
	must(t, err)
	plan, err := e.ApplyQueues(t.Context(), lab(1000))
	must(t, err)
	i := slices.IndexFunc(plan.Changes, func(c engine.QueueChange) bool { return c.Name == "foreign.main" && c.Kind == "Cohort" })
	if i < 0 || plan.Changes[i].Action != engine.ActionConflict || !strings.Contains(plan.Changes[i].Error, "isn't Croft's") {
		t.Errorf("plan: %+v", plan)
	}
	apply(t, e, nil)
	now, err := cohorts.Get(t.Context(), "foreign.main", metav1.GetOptions{})
	must(t, err)
	if now.GetGeneration() != had.GetGeneration() || now.GetLabels()[labelInstance] != "another" {
		t.Error("it was changed")
	}
	must(t, cohorts.Delete(t.Context(), "foreign.main", metav1.DeleteOptions{}))
}

// Without Kueue's webhooks no Pod is made: nothing is lost, and all is right after.
func kueueIsDown(t *testing.T) {
	e := queued(t, SchedulerKueue, "down")
	apply(t, e, lab(1000))
	first, second := job(e, 1, "sh", "-c", sleep), job(e, 2, "true")
	first.Queue, second.Queue = engine.QueueName{Partition: "main"}, engine.QueueName{Partition: "main", Account: "faculty"}
	must(t, e.Start(t.Context(), first))
	was := await(t, e, first, "running", phase(engine.PhaseRunning))
	must(t, shared.StopKueue())
	if err := e.Start(t.Context(), second); !engine.IsUnavailable(err) {
		t.Errorf("Start: %v", err)
	}
	if _, err := e.ApplyQueues(t.Context(), lab(2000)); !engine.IsUnavailable(err) {
		t.Errorf("ApplyQueues: %v", err)
	}
	if _, err := New(t.Context(), e.cfg); !engine.IsUnavailable(err) {
		t.Errorf("New: %v", err)
	}
	if got := await(t, e, first, "running", phase(engine.PhaseRunning)); got != was {
		t.Errorf("the one that ran: %+v, before %+v", got, was)
	}
	must(t, shared.StartKueue(t.Context()))
	must(t, e.Start(t.Context(), second))
	if s := await(t, e, second, "ended", phase(engine.PhaseExited)); s.ExitCode != 0 {
		t.Errorf("%+v", s)
	}
	apply(t, e, lab(2000))
	finish(t, e, first)
	finish(t, e, second)
}

// Clusters without what is needed are refused, saying what that is.
func TestSchedulerIsMissing(t *testing.T) {
	for name, want := range map[string]string{SchedulerVolcano: volcanoVersion} {
		_, err := New(t.Context(), Config{Kubeconfig: deploy(t), Instance: uuid.NewString(), Namespace: "croft-jobs", Image: "x", LogDir: t.TempDir(), Scheduler: name})
		if err == nil || !strings.Contains(err.Error(), want) || engine.IsUnavailable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
