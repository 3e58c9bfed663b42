package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

// Batch schedulers that attempts are handed to.
const (
	SchedulerNone    = "none"    // the cluster's own scheduler, Pod by Pod
	SchedulerKueue   = "kueue"   // Kueue, by its groups of plain Pods
	SchedulerVolcano = "volcano" // Volcano, by a PodGroup
	SchedulerNative  = "native"  // the cluster's own scheduler, by Kubernetes' PodGroup
)

// scheduler binds attempts to a batch scheduler.
type scheduler interface {
	name() string
	// check says what the cluster lacks, or what of it is too old.
	check(ctx context.Context) error
	// bind marks an attempt's Pod as one of its gang, in a queue.
	bind(a engine.Allocation, p *corev1.Pod)
	// group is the object that makes a gang of Pods; nil where none is needed.
	group(a engine.Allocation) *object
	// kinds are those of the objects that queues are made of, in the order in which they are
	// made; they are removed in the reverse one.
	kinds() []kind
	// queues are the objects that the queues ought to be, and what can't be said by them.
	queues(want []engine.Queue) (objects []object, notes []string)
}

// kind is a sort of object that Croft makes, and the fields of its spec that are Croft's.
// All others are whoever else's, who sets them.
type kind struct {
	schema.GroupVersionResource
	Kind       string
	namespaced bool
	fields     []string
}

// object is one as it ought to be.
type object struct {
	kind
	*unstructured.Unstructured
}

// made is an object of this Croft.
func (e *Engine) made(k kind, name string, spec map[string]any) object {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(k.GroupVersion().String())
	u.SetKind(k.Kind)
	u.SetName(name)
	u.SetLabels(map[string]string{labelInstance: e.cfg.Instance, labelManager: manager})
	if k.namespaced {
		u.SetNamespace(e.cfg.Namespace)
	}
	return object{k, u}
}

func (e *Engine) newScheduler() (scheduler, error) {
	switch e.cfg.Scheduler {
	case "", SchedulerNone:
		return none{}, nil
	case SchedulerKueue:
		return kueue{e}, nil
	case SchedulerVolcano:
		return volcano{e}, nil
	case SchedulerNative:
		return native{e}, nil
	}
	return nil, fmt.Errorf("kube: Scheduler %q: must be one of %v", e.cfg.Scheduler, []string{SchedulerNone, SchedulerKueue, SchedulerVolcano, SchedulerNative})
}

// gangOf is the gang that an attempt is one of: by itself, one of one.
func gangOf(a engine.Allocation) engine.Gang {
	if a.Gang == nil {
		return engine.Gang{Name: podName(a.Attempt), Size: 1}
	}
	return *a.Gang
}

// ensureBeside makes what an attempt needs beside its Pod.
func (e *Engine) ensureBeside(ctx context.Context, a engine.Allocation, p *corev1.Pod) error {
	if p.DeletionTimestamp != nil {
		return nil
	}
	if err := e.ensureNames(ctx, a, p); err != nil {
		return err
	}
	return e.ensureGroup(ctx, a, p)
}

// ensureGroup makes the object that makes a gang of Pods. It belongs to the one of them that
// is there first, and goes with it.
func (e *Engine) ensureGroup(ctx context.Context, a engine.Allocation, p *corev1.Pod) error {
	g := e.scheduler.group(a)
	if g == nil {
		return nil
	}
	g.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}})
	labels, _ := identity(a)
	g.SetLabels(labels)
	_, err := ask(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return e.dynamic.Resource(g.GroupVersionResource).Namespace(g.GetNamespace()).Create(ctx, g.Unstructured, metav1.CreateOptions{})
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return e.refused(a.Attempt, "the group of its Pods", err)
}

// need says that something isn't there.
func need(what, version string) error {
	return fmt.Errorf("kube: the cluster has no %s: %s is needed, or engine.kube.scheduler must be another", what, version)
}

// serves checks that the cluster has kinds.
func (e *Engine) serves(ctx context.Context, version string, kinds ...kind) error {
	for _, k := range kinds {
		list, err := ask(ctx, func(context.Context) (*metav1.APIResourceList, error) {
			return e.api.Discovery().ServerResourcesForGroupVersion(k.GroupVersion().String())
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		found := false
		for i := 0; list != nil && i < len(list.APIResources); i++ {
			found = found || list.APIResources[i].Name == k.Resource
		}
		if !found {
			return need(k.Resource+" of "+k.GroupVersion().String(), version)
		}
	}
	return nil
}

// trial is what the cluster would make of a Pod that is bound to the scheduler; nil where it
// takes none for now. Nothing is made. A Pod is also what admission by others is asked of.
func (e *Engine) trial(ctx context.Context, s scheduler) (*corev1.Pod, error) {
	a := engine.Allocation{
		Attempt: "trial-1-1", Job: 1, N: 1, Instance: e.cfg.Instance, Container: engine.Container{Image: e.cfg.Image, Command: []string{"true"}},
		User: engine.User{Name: "nobody", UID: 65534, GID: 65534}, CPU: 1, Memory: 1 << 20, Queue: engine.QueueName{Partition: "trial"},
	}
	p, err := e.pod(ctx, a)
	if err != nil {
		return nil, err
	}
	s.bind(a, p)
	got, err := ask(ctx, func(ctx context.Context) (*corev1.Pod, error) {
		return e.api.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	})
	switch {
	case lasting(err):
		return nil, fmt.Errorf("kube: the cluster refuses Pods in the namespace %s: %s", e.cfg.Namespace, refusal(err))
	case isRefusal(err): // what runs must be seen all the same
		e.log.Warn("the cluster takes no Pods now: whether its batch scheduler is as it must be isn't known", "error", err)
		return nil, nil
	}
	return got, err
}

// none leaves Pods to the cluster's scheduler.
type none struct{}

func (none) name() string                               { return SchedulerNone }
func (none) check(context.Context) error                { return nil }
func (none) bind(engine.Allocation, *corev1.Pod)        {}
func (none) group(engine.Allocation) *object            { return nil }
func (none) kinds() []kind                              { return nil }
func (none) queues([]engine.Queue) ([]object, []string) { return nil, nil }

// native makes gangs by Kubernetes' own PodGroup.
type native struct{ *Engine }

// nativeVersion is what has it.
const nativeVersion = "Kubernetes 1.37 with the feature gate GenericWorkload, and scheduling.k8s.io/v1beta1 served,"

var nativeGroup = kind{GroupVersionResource: schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"}, Kind: "PodGroup", namespaced: true}

func (native) name() string { return SchedulerNative }

func (n native) check(ctx context.Context) error {
	if err := n.serves(ctx, nativeVersion, nativeGroup); err != nil {
		return err
	}
	p, err := n.trial(ctx, n)
	if p != nil && p.Spec.SchedulingGroup == nil {
		err = need("groups of Pods: it forgets a Pod's schedulingGroup", nativeVersion)
	}
	return err
}

func (native) bind(a engine.Allocation, p *corev1.Pod) {
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(gangOf(a).Name)}
}

func (n native) group(a engine.Allocation) *object {
	g := gangOf(a)
	o := n.made(nativeGroup, g.Name, map[string]any{
		"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(g.Size)}},
	})
	return &o
}

func (native) kinds() []kind { return nil }

func (native) queues(want []engine.Queue) ([]object, []string) {
	if len(want) == 0 {
		return nil, nil
	}
	return nil, []string{"Kubernetes' own groups of Pods have no queues: shares are kept by Croft alone"}
}
