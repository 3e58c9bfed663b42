package kube

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

func TestUnplaced(t *testing.T) {
	tainted := nodeWith(nil)
	tainted.Spec.Taints = []corev1.Taint{{Key: "maintenance", Value: "disk", Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}}
	for name, c := range map[string]struct {
		text string
		node *corev1.Node
		want string
	}{
		"resource": {
			"0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.", nil,
			"n has too little nvidia.com/gpu left",
		},
		"two of them": {"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.", nil, "n has too little CPU left; n has too little memory left"},
		"taint, unnamed": {
			"0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: none", tainted,
			"n has the taint maintenance=disk:NoSchedule",
		},
		"taint, named":       {"0/5 nodes are available: 5 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }.", nil, "5 nodes have the taint node.kubernetes.io/disk-pressure"},
		"taint, value":       {"0/1 nodes are available: 1 node(s) had untolerated taint {a: b, c}.", nil, "n has the taint a=b, c"},
		"no such node":       {"0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.", nil, "none of 4 nodes is n, or has the labels that its devices' model asks for"},
		"on another node":    {"0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.", nil, "n has too little CPU left"},
		"cordoned":           {"0/1 nodes are available: 1 node(s) were unschedulable.", nil, "n is cordoned"},
		"Pods":               {"0/1 nodes are available: 1 Too many pods.", nil, "n runs as many Pods as it may"},
		"claims":             {"0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) didn't match Pod's node affinity/selector.", nil, "n has not all devices that it claims"},
		"another cause":      {"0/1 nodes are available: 1 node(s) exceed max volume count.", nil, "n: exceed max volume count"},
		"of all":             {"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.", nil, "a claim that it mounts isn't bound to a volume"},
		"no claim":           {`0/2 nodes are available: persistentvolumeclaim "homes" not found. not found preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.`, nil, `the claim "homes" isn't there`},
		"a claim elsewhere":  {"0/1 nodes are available: 1 node(s) had volume node affinity conflict.", nil, "n has no way to the volume of a claim that it mounts"},
		"no nodes":           {"no nodes available to schedule pods", nil, "the cluster's scheduler: no nodes available to schedule pods"},
		"nothing":            {"", nil, "the cluster's scheduler: it gives no reason"},
		"nothing of them":    {"0/2 nodes are available:", nil, "the cluster's scheduler finds none of 2 nodes"},
		"control characters": {"0/1 nodes are available: 1 \x1b[31mred\nline.", nil, "n: [31mred line"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, unplaced(c.text, "n", c.node)); d != "" {
				t.Error(d)
			}
		})
	}
}

func FuzzUnschedulable(f *testing.F) {
	f.Add("0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {a: b}. preemption: 0/3 nodes are available.")
	f.Add("0/99999999999999999999 nodes are available: , 1 , 2 x")
	f.Fuzz(func(t *testing.T, text string) {
		nodes, causes, ok := parseUnschedulable(text)
		if !ok && (nodes != 0 || causes != nil) {
			t.Errorf("%d %v", nodes, causes)
		}
		for _, c := range causes {
			if c.nodes < 0 || c.text == "" {
				t.Errorf("%+v", c)
			}
		}
		words := unplaced(text, "n", nil)
		if words == "" || strings.ContainsAny(words, "\n\x1b") {
			t.Errorf("%q", words)
		}
		_, _ = refusedPull(text), pullWords(text)
	})
}

func TestPulls(t *testing.T) {
	for name, c := range map[string]struct{ text, never, words string }{
		"none": {
			`failed to pull and unpack image "r/none:1": failed to resolve image: r/none:1: not found`, "there is no such image: ",
			`failed to pull and unpack image "r/none:1": failed to resolve image: r/none:1: not found`,
		},
		"denied": {
			`rpc error: code = Unknown desc = failed to resolve image: pull access denied, repository does not exist or may require authorization`, "the registry denies the image to the node",
			`failed to resolve image: pull access denied, repository does not exist or may require authorization`,
		},
		"back-off": {
			`Back-off pulling image "r/x:1": ErrImagePull: rpc error: code = Unavailable desc = dial tcp 127.0.0.1:1: connect: connection refused`, "",
			`dial tcp 127.0.0.1:1: connect: connection refused`,
		},
		"back-off alone": {`Back-off pulling image "r/x:1"`, "", "it has tried several times"},
		"nothing":        {"", "", "no reason given"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refusedPull(c.text); (got == "") != (c.never == "") || !strings.HasPrefix(got, c.never) {
				t.Errorf("never: %q, want %q", got, c.never)
			}
			if got := pullWords(c.text); got != c.words {
				t.Errorf("words: %q, want %q", got, c.words)
			}
		})
	}
}

func TestTakenAway(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	target := func(reason string, at time.Time) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(at)}}}
	}
	killed := engine.Status{Phase: engine.PhaseExited, ExitCode: exitKilled, Finished: at}
	// Of a Pod that is beyond its own bounds the kubelet sets no condition.
	evicted := func(message string, condition bool) (p corev1.Pod) {
		if condition {
			p.Status = target("TerminationByKubelet", at)
		}
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", message
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(at)}}}}
		return p
	}
	for name, c := range map[string]struct {
		s       engine.Status
		p       corev1.Pod
		want    string
		failure string
	}{
		"by itself":                {s: killed},
		"preempted":                {s: killed, p: corev1.Pod{Status: target("PreemptionByScheduler", at)}, want: "the cluster's scheduler gave its place to a Pod of higher priority"},
		"it was over":              {s: killed, p: corev1.Pod{Status: target("PreemptionByScheduler", at.Add(time.Minute))}},
		"it was done":              {s: engine.Status{Phase: engine.PhaseExited, Finished: at}, p: corev1.Pod{Status: target("EvictionByEvictionAPI", at)}},
		"unknown":                  {s: killed, p: corev1.Pod{Status: target("Boredom", at)}, want: "the cluster ended it: Boredom"},
		"a volume is full":         {s: killed, p: evicted("Usage of EmptyDir volume \"x\" exceeds the limit \"1Mi\". ", false), failure: "its node ended it: Usage of EmptyDir volume \"x\" exceeds the limit \"1Mi\"."},
		"a container is full":      {s: killed, p: evicted("Container primary exceeded its local ephemeral storage limit \"1Gi\". ", false), failure: "its node ended it: Container primary exceeded its local ephemeral storage limit \"1Gi\"."},
		"all of it is full":        {s: killed, p: evicted("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", false), failure: "its node ended it: Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."},
		"processes":                {s: killed, p: evicted("The node was low on resource: pids. Threshold quantity: 100, available: 3. ", true), failure: "its node ended it: The node was low on resource: pids. Threshold quantity: 100, available: 3."},
		"full, nobody saw its end": {s: engine.Status{Phase: engine.PhaseExited, Lost: true, Finished: at}, p: evicted("Usage of EmptyDir volume \"x\" exceeds the limit \"1Mi\". ", false), failure: "its node ended it: Usage of EmptyDir volume \"x\" exceeds the limit \"1Mi\"."},
		"full, long after it":      {s: engine.Status{Phase: engine.PhaseExited, ExitCode: 3, Finished: at.Add(-time.Minute)}, p: evicted("Usage of EmptyDir volume \"x\" exceeds the limit \"1Mi\". ", false)},
		"pressure":                 {s: killed, p: evicted("The node was low on resource: memory. ", true), want: "its node ended it: The node was low on resource: memory."},
		"deleted":                  {s: killed, p: corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: at}, DeletionGracePeriodSeconds: ptr.To(int64(0))}}, want: "its Pod was deleted in the cluster"},
		"deleted later":            {s: killed, p: corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: at.Add(time.Minute)}, DeletionGracePeriodSeconds: ptr.To(int64(30))}}},
		"failed, and cleared away": {s: engine.Status{Phase: engine.PhaseExited, ExitCode: 3, Finished: at}, p: corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: at}, DeletionGracePeriodSeconds: ptr.To(int64(0))}}},
		"told, and then ended":     {s: engine.Status{Phase: engine.PhaseExited, ExitCode: 3, Finished: at.Add(3 * time.Second)}, p: corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: at.Add(5 * time.Second)}, DeletionGracePeriodSeconds: ptr.To(int64(5))}}, want: "its Pod was deleted in the cluster"},
		"its own fault":            {s: engine.Status{Phase: engine.PhaseExited, ExitCode: exitKilled, OutOfMemory: true, Finished: at}, p: corev1.Pod{Status: target("TerminationByKubelet", at)}},
		"runs":                     {s: engine.Status{Phase: engine.PhaseRunning}, p: corev1.Pod{Status: target("PreemptionByScheduler", at)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := takenAway(c.s, &c.p)
			if got.Taken != c.want || got.Failure != c.failure || got.Failure != "" && got.Lost {
				t.Errorf("taken %q, failure %q, lost %t; want %q, %q", got.Taken, got.Failure, got.Lost, c.want, c.failure)
			}
		})
	}
}
