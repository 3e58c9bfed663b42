package kube

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

// Volcano's definitions are real. Where VOLCANO_BIN names a folder with its programs, they
// run too, and what is asserted of the objects is then seen to happen.
func TestVolcano(t *testing.T) {
	must(t, shared.DefineVolcano(t.Context()))
	bin := os.Getenv("VOLCANO_BIN")
	if bin != "" {
		must(t, shared.StartVolcano(t.Context(), bin))
	}
	e := queued(t, SchedulerVolcano, "volcano")
	apply(t, e, lab(400))
	settled(t, e, lab(400))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(shared.Tail())
		}
	})
	t.Run("queues are the account tree", func(t *testing.T) { volcanoTree(t, e) })
	t.Run("a job is a group in its queue", func(t *testing.T) { volcanoJob(t, e, bin != "") })
	if bin != "" {
		t.Run("a queue's limit keeps one back", func(t *testing.T) { volcanoKeepsBack(t, e) })
	}
	t.Run("drift is repaired", func(t *testing.T) { volcanoDrift(t, e) })
}

func volcanoTree(t *testing.T, e *Engine) {
	got := map[string]any{}
	have, err := e.existing(t.Context(), volcanoQueue)
	must(t, err)
	for name, u := range have {
		if u.GetLabels()[labelInstance] == e.cfg.Instance {
			got[name] = u.Object["spec"]
		}
	}
	queue := func(parent string, fields map[string]any) map[string]any {
		out := map[string]any{"parent": parent, "weight": int64(1), "reclaimable": false, "dequeueStrategy": "traverse"}
		for k, v := range fields {
			out[k] = v
		}
		return out
	}
	cpu := func(n string) map[string]any { return map[string]any{"cpu": n} }
	all := func(cpu string) map[string]any { return map[string]any{"cpu": cpu, "memory": "4Gi"} }
	want := map[string]any{
		"volcano.main":              queue("root", map[string]any{"deserved": all("400m")}),
		"volcano-jobs.main":         queue("volcano.main", map[string]any{"deserved": all("200m")}),
		"volcano.main.faculty":      queue("volcano.main", map[string]any{"deserved": cpu("200m")}),
		"volcano-jobs.main.faculty": queue("volcano.main.faculty", map[string]any{"deserved": cpu("100m")}),
		"volcano.main.course":       queue("volcano.main.faculty", map[string]any{"deserved": cpu("100m"), "capability": cpu("100m")}),
		"volcano-jobs.main.course":  queue("volcano.main.course", map[string]any{"deserved": cpu("100m")}),
	}
	for _, q := range got {
		delete(q.(map[string]any), "dequeueStrategy") // which Croft leaves to others
	}
	for _, q := range want {
		delete(q.(map[string]any), "dequeueStrategy")
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("queues (-want +got):\n%s", d)
	}
}

func volcanoJob(t *testing.T, e *Engine, runs bool) {
	a := job(e, 1, "sh", "-c", "exit 7")
	a.Queue = engine.QueueName{Partition: "main", Account: "course"}
	must(t, e.Start(t.Context(), a))
	must(t, e.Start(t.Context(), a))
	p, err := e.get(t.Context(), a.Attempt)
	must(t, err)
	if p.Spec.SchedulerName != "volcano" || p.Annotations["scheduling.k8s.io/group-name"] != p.Name {
		t.Errorf("the Pod: scheduler %q, annotations %v", p.Spec.SchedulerName, p.Annotations)
	}
	groups := objects(t).Resource(volcanoGroup.GroupVersionResource).Namespace("croft-jobs")
	g, err := groups.Get(t.Context(), p.Name, metav1.GetOptions{})
	must(t, err)
	spec := g.Object["spec"].(map[string]any)
	want := map[string]any{"minMember": int64(1), "queue": "volcano-jobs.main.course", "minResources": map[string]any{"cpu": "50m", "memory": "32Mi"}}
	for k := range spec {
		if _, ok := want[k]; !ok {
			delete(spec, k) // what Volcano itself fills in
		}
	}
	if d := cmp.Diff(want, spec); d != "" {
		t.Errorf("group (-want +got):\n%s", d)
	}
	wantOwner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}}
	if d := cmp.Diff(wantOwner, g.GetOwnerReferences()); d != "" {
		t.Errorf("its owner (-want +got):\n%s", d)
	}
	if runs {
		if s := await(t, e, a, "ended", phase(engine.PhaseExited)); s.ExitCode != 7 || s.Failure != "" {
			t.Errorf("%+v", s)
		}
	}
	finish(t, e, a)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ; ; pause(ctx) {
		if _, err := groups.Get(t.Context(), p.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("the group outlives its Pod")
		}
	}
}

func volcanoKeepsBack(t *testing.T, e *Engine) {
	first, second := job(e, 2, "sh", "-c", sleep), job(e, 3, "sh", "-c", sleep)
	for _, a := range []*engine.Allocation{&first, &second} {
		a.CPU, a.Queue = 60, engine.QueueName{Partition: "main", Account: "course"}
	}
	must(t, e.Start(t.Context(), first))
	await(t, e, first, "running", phase(engine.PhaseRunning))
	must(t, e.Start(t.Context(), second))
	groups := objects(t).Resource(volcanoGroup.GroupVersionResource).Namespace("croft-jobs")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for said := ""; said == ""; pause(ctx) {
		g, err := groups.Get(t.Context(), podName(second.Attempt), metav1.GetOptions{})
		must(t, err)
		conditions, _, _ := unstructured.NestedSlice(g.Object, "status", "conditions")
		for _, c := range conditions {
			if c.(map[string]any)["type"] == "Unschedulable" {
				said = "unschedulable"
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("nothing is said of the second: %v", g.Object["status"])
		}
	}
	p, err := e.get(t.Context(), second.Attempt)
	must(t, err)
	if p.Spec.NodeName != "" {
		t.Errorf("the second passed by: it is on %s", p.Spec.NodeName)
	}
	finish(t, e, first)
	await(t, e, second, "running", phase(engine.PhaseRunning))
	finish(t, e, second)
}

func volcanoDrift(t *testing.T, e *Engine) {
	queues := objects(t).Resource(volcanoQueue.GroupVersionResource)
	q, err := queues.Get(t.Context(), "volcano.main.course", metav1.GetOptions{})
	must(t, err)
	unstructured.RemoveNestedField(q.Object, "spec", "capability")
	must(t, unstructured.SetNestedStringMap(q.Object, map[string]string{"cpu": "1m", "memory": "1Mi"}, "spec", "deserved"))
	_, err = queues.Update(t.Context(), q, metav1.UpdateOptions{})
	must(t, err)
	plan := apply(t, e, lab(400))
	want := []engine.QueueChange{{Action: engine.ActionUpdate, Kind: "Queue", Name: "volcano.main.course", Fields: []engine.FieldChange{
		{Path: "spec.deserved", From: `{"cpu":"1m","memory":"1Mi"}`, To: `{"cpu":"100m"}`}, {Path: "spec.capability", To: `{"cpu":"100m"}`},
	}}}
	if d := cmp.Diff(want, plan.Changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	settled(t, e, lab(400))
}

// Two Pods are a group by Kubernetes' own means: one alone waits, both start.
func TestNative(t *testing.T) {
	e := queued(t, SchedulerNative, "native")
	a, b := job(e, 1, "sh", "-c", "exit 7"), job(e, 2, "sh", "-c", "exit 8")
	a.Gang = &engine.Gang{Name: "gang-" + string(a.Attempt), Rank: 0, Size: 2}
	b.Gang = &engine.Gang{Name: a.Gang.Name, Rank: 1, Size: 2}
	must(t, e.Start(t.Context(), a))
	must(t, e.Start(t.Context(), a))
	// An attempt is a group of its own. What comes later passes the one that is incomplete.
	c := job(e, 3, "true")
	must(t, e.Start(t.Context(), c))
	if p, err := e.get(t.Context(), c.Attempt); err != nil || ptr.Deref(p.Spec.SchedulingGroup.PodGroupName, "") != p.Name {
		t.Errorf("group %v, %v", p.Spec.SchedulingGroup, err)
	}
	await(t, e, c, "ended", phase(engine.PhaseExited))
	if p, err := e.get(t.Context(), a.Attempt); err != nil || p.Spec.NodeName != "" {
		t.Fatalf("one alone is on %q, %v", p.Spec.NodeName, err)
	}
	must(t, e.Start(t.Context(), b))
	for want, a := range map[int]engine.Allocation{7: a, 8: b} {
		if s := await(t, e, a, "ended", phase(engine.PhaseExited)); s.ExitCode != want {
			t.Errorf("%+v", s)
		}
	}
	finish(t, e, c)
	finish(t, e, b)
	finish(t, e, a)
}
