package kube

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"croft.dev/croft/internal/engine"
)

// watching is an engine of the instance i in the namespace ns that sees the node n, and Pods
// as they are kept of the cluster's.
func watching(t *testing.T, pods ...*corev1.Pod) *Engine {
	t.Helper()
	e := publishing(t, []Model{{Name: "x", Resource: "x.y/gpu"}})
	follow := informers.NewSharedInformerFactory(nil, 0).Core().V1()
	e.pods, e.nodes = follow.Pods().Informer(), follow.Nodes().Informer()
	must(t, e.nodes.GetStore().Add(nodeWith(nil)))
	for _, p := range pods {
		kept, err := trimPod(p)
		must(t, err)
		must(t, e.sight.pods.Add(kept))
		if p.Namespace == e.cfg.Namespace && p.Labels[labelInstance] == e.cfg.Instance {
			must(t, e.pods.GetStore().Add(p))
		}
	}
	return e
}

// podOf is a Pod on the node n that asks for something there.
func podOf(namespace, name string, labels map[string]string, asks map[corev1.ResourceName]string) *corev1.Pod {
	list := corev1.ResourceList{}
	for r, q := range asks {
		list[r] = resource.MustParse(q)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}},
	}
}

// mineAs are the labels of an attempt of the instance i.
func mineAs(attempt string) map[string]string {
	return map[string]string{labelInstance: "i", labelAttempt: attempt, labelJob: "1"}
}

// What others have is counted by the devices that are seats, and never byte by byte.
func TestTaken(t *testing.T) {
	gone := podOf("theirs", "f", nil, map[corev1.ResourceName]string{"cpu": "1"})
	gone.Spec.NodeName = "gone"
	seats := func(n int) map[corev1.ResourceName][]engine.Process {
		by := map[corev1.ResourceName][]engine.Process{}
		for range n {
			by["x.y/gpu"] = append(by["x.y/gpu"], foreign("theirs"))
		}
		return by
	}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want taken
	}{
		"bytes": {[]*corev1.Pod{podOf("theirs", "a", nil, map[corev1.ResourceName]string{"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "8Ei", "hugepages-2Mi": "1Gi"})},
			taken{cpu: 1500, memory: 1 << 30, by: seats(0)}},
		"devices": {[]*corev1.Pod{podOf("theirs", "a", nil, map[corev1.ResourceName]string{"x.y/gpu": "2", "x.y/other": "7"}), podOf("theirs", "b", nil, map[corev1.ResourceName]string{"x.y/gpu": "1"})},
			taken{by: seats(3)}},
		"no end of devices": {[]*corev1.Pod{podOf("theirs", "a", nil, map[corev1.ResourceName]string{"x.y/gpu": "1000"}), podOf("theirs", "b", nil, map[corev1.ResourceName]string{"x.y/gpu": "8E"})},
			taken{by: seats(mostSeats)}},
		"more than there can be": {[]*corev1.Pod{podOf("theirs", "a", nil, map[corev1.ResourceName]string{"cpu": "8E", "memory": "7E"}), podOf("theirs", "b", nil, map[corev1.ResourceName]string{"cpu": "8E", "memory": "7E"})},
			taken{cpu: math.MaxInt64, memory: math.MaxInt64, by: seats(0)}},
		"Croft's own":           {[]*corev1.Pod{podOf("ns", "croft-a-1-1", mineAs("a-1-1"), map[corev1.ResourceName]string{"cpu": "1"})}, taken{}},
		"labelled, elsewhere":   {[]*corev1.Pod{podOf("theirs", "croft-a-1-1", mineAs("a-1-1"), map[corev1.ResourceName]string{"x.y/gpu": "1"})}, taken{by: seats(1)}},
		"labelled, called else": {[]*corev1.Pod{podOf("ns", "mine", mineAs("a-1-1"), map[corev1.ResourceName]string{"cpu": "1"})}, taken{cpu: 1000, by: seats(0)}},
		"on no node":            {[]*corev1.Pod{gone}, taken{}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, watching(t, c.pods...).taken()["n"], cmp.AllowUnexported(taken{})); d != "" {
				t.Error(d)
			}
		})
	}
}

// A Pod or a claim with an attempt's labels and another name, or elsewhere, is somebody
// else's: it is no attempt, has no seats, and hides nothing that it has.
func TestLabelsOfOthers(t *testing.T) {
	mine, copied := podOf("ns", "croft-a-1-1", mineAs("a-1-1"), nil), podOf("ns", "copied", mineAs("a-1-1"), nil)
	for _, p := range []*corev1.Pod{mine, copied} {
		p.Annotations = map[string]string{annotationN: "1", annotationDevices: "n/x.y/gpu/0"}
	}
	e := watching(t, mine, copied)
	if held := e.held()["n"]; len(held) != 1 || held[0] != mine {
		t.Errorf("has seats: %v", held)
	}
	if _, ok := statusOf(mine); !ok {
		t.Error("is no attempt")
	}
	if _, ok := statusOf(copied); ok {
		t.Error("a copy is an attempt")
	}
	for name, c := range map[string]struct {
		meta metav1.ObjectMeta
		want int
	}{
		"Croft's own": {metav1.ObjectMeta{Namespace: "ns", Name: "croft-a-1-1", Labels: mineAs("a-1-1")}, 0},
		"elsewhere":   {metav1.ObjectMeta{Namespace: "theirs", Name: "croft-a-1-1", Labels: mineAs("a-1-1")}, 1},
		"called else": {metav1.ObjectMeta{Namespace: "ns", Name: "x", Labels: mineAs("a-1-1")}, 1},
	} {
		claim := &resourcev1.ResourceClaim{ObjectMeta: c.meta, Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "d", Pool: "n", Device: "b"}}},
		}}}
		if got := publishing(t, nil, claim).claimed(); len(got) != c.want {
			t.Errorf("%s: claimed %v", name, got)
		}
	}
}
