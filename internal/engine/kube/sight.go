package kube

import (
	"context"
	"errors"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"croft.dev/croft/internal/engine"
)

// sight is what of the cluster beside Croft's own Pods and the nodes is followed, as far as
// it is there and may be read. Without it less is known: Pods of others take room that Croft
// believes to be free, and devices that drivers name aren't offered.
type sight struct {
	pods    cache.Store // of everybody, Croft's own among them
	slices  cache.Store
	claims  cache.Store
	classes cache.Store
}

// look begins to follow it.
func (e *Engine) look(ctx context.Context) ([]cache.SharedIndexInformer, error) {
	var all []cache.SharedIndexInformer
	follow := func(what string, to *cache.Store, trim cache.TransformFunc, i cache.SharedIndexInformer, list func(context.Context, metav1.ListOptions) (runtime.Object, error)) error {
		*to = cache.NewStore(cache.MetaNamespaceKeyFunc)
		_, err := ask(ctx, func(ctx context.Context) (runtime.Object, error) { return list(ctx, metav1.ListOptions{Limit: 1}) })
		switch {
		case apierrors.IsForbidden(err):
			e.log.Warn("the cluster doesn't let Croft list "+what+": what it doesn't see, it doesn't reckon with", "error", err)
			return nil
		case apierrors.IsNotFound(err):
			return nil // this cluster has none
		case err != nil:
			return err
		}
		if err := i.SetTransform(trim); err != nil {
			return err
		}
		*to = i.GetStore()
		all = append(all, i)
		return nil
	}
	pods := informers.NewSharedInformerFactoryWithOptions(e.api, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
	})).Core().V1().Pods().Informer()
	dra := informers.NewSharedInformerFactory(e.api, 0).Resource().V1()
	err := errors.Join(
		follow("the Pods of all namespaces", &e.sight.pods, trimPod, pods, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return e.api.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		}),
		follow("ResourceSlices", &e.sight.slices, trimMeta, dra.ResourceSlices().Informer(), func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return e.api.ResourceV1().ResourceSlices().List(ctx, o)
		}),
		follow("ResourceClaims of all namespaces", &e.sight.claims, trimMeta, dra.ResourceClaims().Informer(), func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return e.api.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, o)
		}),
		follow("DeviceClasses", &e.sight.classes, trimMeta, dra.DeviceClasses().Informer(), func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return e.api.ResourceV1().DeviceClasses().List(ctx, o)
		}),
	)
	return all, err
}

// trimPod keeps of a Pod whose it is, where, and what it takes there.
func trimPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	keep := func(all []corev1.Container) []corev1.Container {
		var out []corev1.Container
		for _, c := range all {
			out = append(out, corev1.Container{Resources: corev1.ResourceRequirements{Requests: c.Resources.Requests}, RestartPolicy: c.RestartPolicy})
		}
		return out
	}
	var whose map[string]string
	if instance := p.Labels[labelInstance]; instance != "" {
		whose = map[string]string{labelInstance: instance, labelAttempt: p.Labels[labelAttempt]}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: whose, UID: p.UID, ResourceVersion: p.ResourceVersion},
		Spec: corev1.PodSpec{
			NodeName: p.Spec.NodeName, Containers: keep(p.Spec.Containers), InitContainers: keep(p.Spec.InitContainers), Overhead: p.Spec.Overhead, Resources: p.Spec.Resources,
		},
	}, nil
}

func trimMeta(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}

// taken is what the Pods of others have of a node.
type taken struct {
	cpu, memory int64 // in thousandths, in bytes
	by          map[corev1.ResourceName][]engine.Process
}

// taken adds it up.
func (e *Engine) taken() map[string]taken {
	out := make(map[string]taken)
	for _, o := range e.sight.pods.List() {
		p := o.(*corev1.Pod)
		n, ok := e.node(p.Spec.NodeName)
		if !ok || e.cfg.own(p) {
			continue
		}
		t := out[n.Name]
		if t.by == nil {
			t.by = make(map[corev1.ResourceName][]engine.Process)
		}
		for name, q := range requests(p) {
			switch name {
			case corev1.ResourceCPU:
				t.cpu = addUp(t.cpu, units(q, resource.Milli))
			case corev1.ResourceMemory:
				t.memory = addUp(t.memory, units(q, 0))
			default:
				if _, ok := e.catalogue.counted(n, name); !ok {
					continue // it is none of what seats are made of, and may be bytes
				}
				more := min(units(q, 0), mostSeats-int64(len(t.by[name])))
				t.by[name] = append(t.by[name], slices.Repeat([]engine.Process{foreign(p.Namespace)}, int(more))...)
			}
		}
		out[n.Name] = t
	}
	return out
}

// units is how many there are of 10^scale; of more than can be told, the most that can.
func units(q resource.Quantity, scale resource.Scale) int64 {
	if q.Cmp(*resource.NewScaledQuantity(math.MaxInt64, scale)) >= 0 {
		return math.MaxInt64
	}
	return max(0, q.ScaledValue(scale))
}

// addUp is the sum of what is at least 0, or the most there can be.
func addUp(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

// foreign is a Pod of another namespace as what uses a device. Its own name is nobody's
// business who only waits for the device.
func foreign(namespace string) engine.Process {
	return engine.Process{Command: "a Pod of namespace " + namespace}
}

// requests are what the scheduler keeps for a Pod on its node: what its containers have
// together, or the largest of those that run before them with the sidecars of then.
func requests(p *corev1.Pod) corev1.ResourceList {
	sum, sidecars, most := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	add := func(to, more corev1.ResourceList) {
		for name, q := range more {
			have := to[name]
			have.Add(q)
			to[name] = have
		}
	}
	raise := func(to corev1.ResourceList, lists ...corev1.ResourceList) {
		all := corev1.ResourceList{}
		for _, l := range lists {
			add(all, l)
		}
		for name, q := range all {
			if have := to[name]; q.Cmp(have) > 0 {
				to[name] = q
			}
		}
	}
	for _, c := range p.Spec.Containers {
		add(sum, c.Resources.Requests)
	}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(sidecars, c.Resources.Requests)
			raise(most, sidecars)
			continue
		}
		raise(most, sidecars, c.Resources.Requests)
	}
	add(sum, sidecars)
	raise(sum, most)
	if r := p.Spec.Resources; r != nil {
		for name, q := range r.Requests {
			sum[name] = q
		}
	}
	add(sum, p.Spec.Overhead)
	return sum
}

// deviceClasses are the cluster's, by name.
func (e *Engine) deviceClasses() map[string]*resourcev1.DeviceClass {
	out := make(map[string]*resourcev1.DeviceClass)
	for _, o := range e.sight.classes.List() {
		c := o.(*resourcev1.DeviceClass)
		out[c.Name] = c
	}
	return out
}
