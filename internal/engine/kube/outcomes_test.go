package kube

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

// What the cluster does to a job that runs is told as that, and not as its program's end.
func TestTakenByTheCluster(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, e *Engine, pod string)
		want string
	}{
		"evicted": {func(t *testing.T, e *Engine, pod string) {
			must(t, e.api.CoreV1().Pods(e.cfg.Namespace).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: e.cfg.Namespace}}))
		}, "it was evicted from its node, as when that is drained"},
		"deleted": {func(t *testing.T, e *Engine, pod string) {
			must(t, e.api.CoreV1().Pods(e.cfg.Namespace).Delete(t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
		}, "its Pod was deleted in the cluster"},
		"tainted": {func(t *testing.T, e *Engine, _ string) {
			taint(t, e, corev1.Taint{Key: "broken", Value: "fan", Effect: corev1.TaintEffectNoExecute})
		}, "its node was given a taint that ends what runs there"},
	} {
		t.Run(name, func(t *testing.T) {
			e := knowing(t)
			a := job(e, 1, "sh", "-c", "while :; do sleep 0.1; done")
			run(t, e, a)
			await(t, e, a, "running", phase(engine.PhaseRunning))
			c.do(t, e, podName(a.Attempt))
			if s := await(t, e, a, "ended", phase(engine.PhaseExited)); s.Taken != c.want {
				t.Errorf("%+v, want taken: %s", s, c.want)
			}
		})
	}
}

// taint gives the node a taint, as long as the test takes, and waits until it is seen.
func taint(t *testing.T, e *Engine, taints ...corev1.Taint) {
	t.Helper()
	put := func(ctx context.Context, taints []corev1.Taint) {
		for ; ctx.Err() == nil; pause(ctx) {
			n, err := e.api.CoreV1().Nodes().Get(ctx, "node1", metav1.GetOptions{})
			must(t, err)
			n.Spec.Taints = taints
			if _, err = e.api.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err == nil {
				return
			}
		}
	}
	t.Cleanup(func() { put(context.WithoutCancel(t.Context()), nil) })
	put(t.Context(), taints)
}

// A node with a taint isn't ready, and a Pod that was placed there all the same says so.
func TestTainted(t *testing.T) {
	e := knowing(t)
	taint(t, e, corev1.Taint{Key: "maintenance", Value: "disk", Effect: corev1.TaintEffectNoSchedule})
	a := job(e, 1, "true")
	run(t, e, a)
	s := await(t, e, a, "kept from starting", func(s engine.Status) bool { return strings.Contains(s.Waits.Message, "maintenance") })
	if s.Waits.Message != "node1 has the taint maintenance=disk:NoSchedule" {
		t.Errorf("%+v", s.Waits)
	}
	inv, err := e.Inventory(t.Context())
	must(t, err)
	if n := inv.Nodes[0]; n.Ready || n.Reason != "it has the taint maintenance=disk:NoSchedule" {
		t.Errorf("%+v", n)
	}
}

// A Pod of higher priority takes a job's place.
func TestPreemptedByOthers(t *testing.T) {
	const resourceName = "test.croft.dev/seat"
	plugin, err := node.AddDevices(t.Context(), resourceName, "seat-a")
	must(t, err)
	t.Cleanup(func() {
		if err := plugin.Close(); err != nil {
			t.Error(err)
		}
	})
	e := knowing(t, Model{Name: "seat", Resource: resourceName})
	a := job(e, 1, "sh", "-c", "while :; do sleep 0.1; done")
	a.Devices = devicesOf(t, e, "seat", "a device", healthy(1))
	run(t, e, a)
	await(t, e, a, "running", phase(engine.PhaseRunning))

	_, err = e.api.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}, metav1.CreateOptions{})
	must(t, err)
	urgent := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "urgent", Namespace: "default"}, Spec: corev1.PodSpec{
		PriorityClassName: "urgent", AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{Name: "x", Image: shared.registry + "/tiny:1", Command: []string{"true"}, Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{resourceName: resource.MustParse("1")},
		}}},
	}}
	_, err = e.api.CoreV1().Pods("default").Create(t.Context(), urgent, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = e.api.CoreV1().Pods("default").Delete(ctx, "urgent", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
		_ = e.api.SchedulingV1().PriorityClasses().Delete(ctx, "urgent", metav1.DeleteOptions{})
	})
	if s := await(t, e, a, "ended", phase(engine.PhaseExited)); s.Taken != "the cluster's scheduler gave its place to a Pod of higher priority" {
		t.Errorf("%+v", s)
	}
}

// Others write to a Pod as well: what they add changes nothing.
func TestOthersWrite(t *testing.T) {
	e, a, was := start(t)
	patch := `{"metadata": {"labels": {"team": "blue"}, "annotations": {"note": "x"}, "finalizers": ["example.com/backup", "` + finalizer + `"]}}`
	pods := e.api.CoreV1().Pods(e.cfg.Namespace)
	_, err := pods.Patch(t.Context(), podName(a.Attempt), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
	p, err := pods.Get(t.Context(), podName(a.Attempt), metav1.GetOptions{})
	must(t, err)
	p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debugger", Image: shared.registry + "/tiny:1", Command: []string{"sleep", "60"}, SecurityContext: containerSecurity(),
	}})
	_, err = pods.UpdateEphemeralContainers(t.Context(), p.Name, p, metav1.UpdateOptions{})
	must(t, err)
	must(t, e.StartStep(t.Context(), a, engine.Step{N: 2, Container: engine.Container{Image: a.Image, Command: []string{"true"}}, CPU: 10, Memory: 16 << 20}))
	all, err := e.List(t.Context())
	must(t, err)
	if len(all) != 2 {
		t.Errorf("steps: %+v", all)
	}
	if got := await(t, e, a, "running", phase(engine.PhaseRunning)); got != was {
		t.Errorf("after: %+v, before %+v", got, was)
	}
	t.Cleanup(func() { // Croft's own finalizer is gone by then
		ctx := context.WithoutCancel(t.Context())
		_, _ = pods.Patch(ctx, podName(a.Attempt), types.MergePatchType, []byte(`{"metadata": {"finalizers": []}}`), metav1.PatchOptions{})
	})
}
