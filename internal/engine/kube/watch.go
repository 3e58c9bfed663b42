package kube

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"croft.dev/croft/internal/engine"
)

// mine selects the objects of this instance.
func (e *Engine) mine() string { return labels.Set{labelInstance: e.cfg.Instance}.String() }

// watch begins to follow the Pods of this instance, and the nodes.
func (e *Engine) watch(ctx context.Context) error {
	pods := informers.NewSharedInformerFactoryWithOptions(e.api, 0, informers.WithNamespace(e.cfg.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = e.mine() }))
	e.pods = pods.Core().V1().Pods().Informer()
	e.nodes = informers.NewSharedInformerFactory(e.api, 0).Core().V1().Nodes().Informer()
	if err := e.nodes.SetTransform(trimNode); err != nil {
		return err
	}
	_, err := e.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(now any) { e.publish(nil, now) }, UpdateFunc: e.publish,
	})
	if err != nil {
		return err
	}
	more, err := e.look(ctx)
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(context.Background())
	e.stop = stop
	synced := []cache.InformerSynced{}
	for _, i := range append(more, e.pods, e.nodes) {
		e.informer.Go(func() { i.RunWithContext(following) })
		synced = append(synced, i.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		stop()
		return ctx.Err()
	}
	return nil
}

// trimNode keeps of a node what is asked for: the list of its images is long.
func trimNode(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		n.ManagedFields = nil
	}
	return o, nil
}

// publish tells watchers which steps of a Pod have changed.
func (e *Engine) publish(before, now any) {
	was := make(map[int]engine.Status)
	if p, ok := before.(*corev1.Pod); ok {
		for _, s := range statuses(p, e) {
			was[s.Step] = s
		}
	}
	p, ok := now.(*corev1.Pod)
	if !ok {
		return
	}
	for _, s := range statuses(p, e) {
		if old, ok := was[s.Step]; !ok || old != s {
			e.hub.send(s)
		}
	}
}

// node is a node as it was seen last.
func (e *Engine) node(name string) (*corev1.Node, bool) {
	o, ok, err := e.nodes.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil, false
	}
	return o.(*corev1.Node), true
}

// lost reports whether nothing is heard of a node.
func (e *Engine) lost(name string) bool {
	n, ok := e.node(name)
	if !ok {
		return true
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionUnknown
		}
	}
	return true
}

// List implements engine.Engine. It asks the API server: what was just done is in it.
func (e *Engine) List(ctx context.Context) ([]engine.Status, error) {
	var out []engine.Status
	opts := metav1.ListOptions{LabelSelector: e.mine(), Limit: 500}
	for {
		list, err := ask(ctx, func(ctx context.Context) (*corev1.PodList, error) {
			return e.api.CoreV1().Pods(e.cfg.Namespace).List(ctx, opts)
		})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			out = append(out, statuses(&list.Items[i], e)...)
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return out, nil
		}
	}
}

// Watch implements engine.Engine.
func (e *Engine) Watch(ctx context.Context) (<-chan engine.Status, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return e.hub.subscribe(ctx), nil
}

// hub hands statuses to watchers. One that doesn't read misses some, and holds up nobody.
type hub struct {
	mu     sync.Mutex
	subs   map[chan engine.Status]bool
	closed bool
}

const hubRoom = 1024

func (h *hub) subscribe(ctx context.Context) <-chan engine.Status {
	c := make(chan engine.Status, hubRoom)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(c)
		return c
	}
	if h.subs == nil {
		h.subs = make(map[chan engine.Status]bool)
	}
	h.subs[c] = true
	context.AfterFunc(ctx, func() { h.leave(c) })
	return c
}

func (h *hub) leave(c chan engine.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs[c] {
		delete(h.subs, c)
		close(c)
	}
}

func (h *hub) send(s engine.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.subs {
		select {
		case c <- s:
		default: // List repairs
		}
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.subs {
		delete(h.subs, c)
		close(c)
	}
}
