package kube

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"croft.dev/croft/internal/engine"
)

// volcano hands Pods to Volcano's scheduler, as a PodGroup in a Queue.
//
//	guaranteed               deserved
//	of that, never lent      guarantee
//	limit                    capability
//	weight                   weight
//
// Only Queues without others below them take jobs there, so that each queue is two: one for
// all that is in it, and one below for its own jobs.
type volcano struct{ *Engine }

// volcanoVersion is the oldest that has what is used.
const volcanoVersion = "Volcano 1.11"

// Names that Volcano knows.
const (
	volcanoScheduler = "volcano"
	volcanoGroupName = "scheduling.k8s.io/group-name"
	volcanoRoot      = "root"
)

func volcanoKind(resource, name string, namespaced bool, fields ...string) kind {
	return kind{schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: resource}, name, namespaced, fields}
}

var (
	volcanoQueue = volcanoKind("queues", "Queue", false, "parent", "weight", "guarantee", "deserved", "capability", "reclaimable")
	volcanoGroup = volcanoKind("podgroups", "PodGroup", true)
)

func (volcano) name() string { return SchedulerVolcano }

func (volcano) kinds() []kind { return []kind{volcanoQueue} }

// check asks whether a Queue has the fields that are used: what is made isn't kept.
func (v volcano) check(ctx context.Context) error {
	if err := v.serves(ctx, volcanoVersion, volcanoQueue, volcanoGroup); err != nil {
		return err
	}
	q := v.made(volcanoQueue, v.cfg.queuePrefix()+"-trial", map[string]any{
		"parent": volcanoRoot, "weight": int64(1), "reclaimable": false,
		"deserved": map[string]any{"cpu": "1"}, "guarantee": map[string]any{"resource": map[string]any{"cpu": "1"}}, "capability": map[string]any{"cpu": "1"},
	})
	_, err := ask(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return v.dynamic.Resource(q.GroupVersionResource).Create(ctx, q.Unstructured, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		})
	})
	if apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) {
		return need("Queue with parent and deserved: "+refusal(err), volcanoVersion)
	}
	return err
}

func (v volcano) bind(a engine.Allocation, p *corev1.Pod) {
	p.Spec.SchedulerName = volcanoScheduler
	p.Annotations[volcanoGroupName] = gangOf(a).Name
}

func (v volcano) group(a engine.Allocation) *object {
	g := gangOf(a)
	least := map[string]any{"cpu": amount("cpu", a.CPU*int64(g.Size)), "memory": amount("memory", a.Memory*int64(g.Size))}
	spec := map[string]any{"minMember": int64(g.Size), "queue": v.leaf(a.Queue), "minResources": least}
	if v.cfg.PriorityClass != "" {
		spec["priorityClassName"] = v.cfg.PriorityClass
	}
	o := v.made(volcanoGroup, g.Name, spec)
	return &o
}

// leaf is what the queue is called that takes a queue's own jobs.
func (v volcano) leaf(q engine.QueueName) string {
	c := v.cfg
	c.QueuePrefix = c.queuePrefix() + "-jobs"
	return c.queueName(q)
}

func (v volcano) queues(want []engine.Queue) (out []object, notes []string) {
	t := newTree(want)
	limits := map[engine.QueueName]map[string]int64{}
	for _, q := range t.queues {
		above := volcanoRoot
		if q.Parent != (engine.QueueName{}) {
			above = v.cfg.queueName(q.Parent)
		}
		most := int64(1)
		keep, deserved, own, capability := map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}
		limits[q.QueueName] = map[string]int64{}
		for _, r := range v.resources() {
			has, said := v.total(t, q, r.ours, limits[q.Parent])
			if !said {
				continue
			}
			most = max(most, has.Weight)
			deserved[r.theirs], own[r.theirs] = amount(r.theirs, has.Guaranteed), amount(r.theirs, has.own)
			if k := has.Guaranteed - has.Lend; has.Lend != engine.AnyAmount && k > 0 {
				keep[r.theirs] = amount(r.theirs, k)
			}
			if has.Limit != engine.AnyAmount {
				capability[r.theirs] = amount(r.theirs, has.Limit)
				limits[q.QueueName][r.theirs] = has.Limit
			}
		}
		spec := map[string]any{"parent": above, "weight": most, "reclaimable": false}
		set(spec, "guarantee", map[string]any{"resource": keep}, len(keep) > 0)
		set(spec, "deserved", deserved, len(deserved) > 0)
		set(spec, "capability", capability, len(capability) > 0)
		jobs := map[string]any{"parent": v.cfg.queueName(q.QueueName), "weight": int64(1), "reclaimable": false}
		set(jobs, "deserved", own, len(own) > 0)
		out = append(out, v.made(volcanoQueue, v.cfg.queueName(q.QueueName), spec), v.made(volcanoQueue, v.leaf(q.QueueName), jobs))
		for _, b := range q.Bounds {
			if !slices.ContainsFunc(v.resources(), func(r volcanoResource) bool { return slices.Contains(r.ours, b.Resource) }) {
				notes = append(notes, unsaid(q, b.Resource))
			}
		}
	}
	return out, notes
}

func set(spec map[string]any, field string, value any, ok bool) {
	if ok {
		spec[field] = value
	}
}

// volcanoResource is a resource of the cluster and the bounds of which it is the sum.
type volcanoResource struct {
	theirs string
	ours   []string
}

// resources are cores, memory, and each resource that is a model's or several models'.
func (v volcano) resources() []volcanoResource {
	out := []volcanoResource{{"cpu", []string{"cpu"}}, {"memory", []string{"mem"}}}
	for _, m := range v.cfg.Models {
		if m.Resource == "" {
			continue // it is claimed, and claims are no resource of a queue
		}
		i := slices.IndexFunc(out, func(r volcanoResource) bool { return r.theirs == m.Resource })
		if i < 0 {
			i, out = len(out), append(out, volcanoResource{theirs: m.Resource})
		}
		out[i].ours = append(out[i].ours, "gpu:"+m.Name)
	}
	if len(out) == 3 { // then all devices are of the one resource
		out[2].ours = append(out[2].ours, "gpu")
	}
	return out
}

// total is a queue's bounds of a resource: of all devices if there is one, else the sum
// over the models. own is of the guarantee what isn't that of queues below. A limit is only
// one if all models have one, and no more than above, as Volcano demands.
type total struct {
	engine.QueueBound
	own int64
}

func (v volcano) total(t tree, q engine.Queue, ours []string, above map[string]int64) (total, bool) {
	sum := total{QueueBound: engine.QueueBound{Lend: 0, Limit: 0, Weight: 1}}
	some, all := false, true
	for _, r := range ours {
		b, ok := bound(q, r)
		if !ok {
			all = all && r == "gpu"
			continue
		}
		if r == "gpu" {
			sum, some, all = total{QueueBound: engine.QueueBound{Weight: 1}}, true, true
		}
		some = true
		sum.Guaranteed += b.Guaranteed
		sum.own += t.own(q, b)
		sum.Weight = max(sum.Weight, b.Weight)
		sum.Limit = plus(sum.Limit, b.Limit)
		sum.Lend = plus(sum.Lend, b.Lend)
	}
	if !all {
		sum.Limit = engine.AnyAmount
	}
	return sum, some
}

// plus adds two bounds.
func plus(a, b int64) int64 {
	if a == engine.AnyAmount || b == engine.AnyAmount {
		return engine.AnyAmount
	}
	return a + b
}
