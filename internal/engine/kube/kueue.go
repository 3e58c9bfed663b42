package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"croft.dev/croft/internal/engine"
)

// kueue hands Pods to Kueue, which keeps them from the cluster's scheduler by a gate until
// their queue has room.
//
//	partition, or account with others below   Cohort, and a ClusterQueue in it for its own jobs
//	other account                             ClusterQueue in the Cohort above
//	each of them                              LocalQueue of the same name
//	model of accelerators                     ResourceFlavor by the labels of its nodes
//
// Nothing is preempted by Kueue: that is Croft's to decide.
type kueue struct{ *Engine }

// kueueVersion is the oldest that has what is used.
const kueueVersion = "Kueue 0.15"

// Names that Kueue knows.
const (
	kueueQueue      = "kueue.x-k8s.io/queue-name"
	kueueGroup      = "kueue.x-k8s.io/pod-group-name"
	kueueGroupTotal = "kueue.x-k8s.io/pod-group-total-count"
	kueueRetriable  = "kueue.x-k8s.io/retriable-in-group"
	kueueGate       = "kueue.x-k8s.io/admission"
)

func kueueKind(resource, name string, namespaced bool, fields ...string) kind {
	return kind{schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: resource}, name, namespaced, fields}
}

var (
	kueueFlavor       = kueueKind("resourceflavors", "ResourceFlavor", false, "nodeLabels")
	kueueCohort       = kueueKind("cohorts", "Cohort", false, "parentName", "resourceGroups", "fairSharing")
	kueueClusterQueue = kueueKind("clusterqueues", "ClusterQueue", false, "cohortName", "resourceGroups", "namespaceSelector", "queueingStrategy", "preemption", "fairSharing")
	kueueLocalQueue   = kueueKind("localqueues", "LocalQueue", true, "clusterQueue")
)

func (kueue) name() string { return SchedulerKueue }

func (kueue) kinds() []kind {
	return []kind{kueueFlavor, kueueCohort, kueueClusterQueue, kueueLocalQueue}
}

func (k kueue) check(ctx context.Context) error {
	if err := k.serves(ctx, kueueVersion, k.kinds()...); err != nil {
		return err
	}
	p, err := k.trial(ctx, k)
	if p == nil {
		return err
	}
	for _, g := range p.Spec.SchedulingGates {
		if g.Name == kueueGate {
			return nil
		}
	}
	return fmt.Errorf("kube: Kueue lets Pods in the namespace %s pass by: its configuration must name pod in integrations.frameworks, and its managedJobsNamespaceSelector must not leave the namespace out", k.cfg.Namespace)
}

// kueueKinds is how many kinds of Pods Kueue has in a group at most. Since Croft has chosen
// the node of each, each is of its own kind.
const kueueKinds = 8

// bind implements scheduler. Larger gangs go Pod by Pod: Croft has found room for all.
func (k kueue) bind(a engine.Allocation, p *corev1.Pod) {
	p.Labels[kueueQueue] = k.cfg.queueName(a.Queue)
	k.choose(a, p)
	if g := gangOf(a); g.Size > 1 && g.Size <= kueueKinds {
		p.Labels[kueueGroup] = g.Name
		p.Annotations[kueueGroupTotal] = strconv.Itoa(g.Size)
		p.Annotations[kueueRetriable] = "false" // else it waits for one in place of any that fails
	}
}

// choose has Kueue count a Pod's devices as those of the models that Croft has chosen.
func (k kueue) choose(a engine.Allocation, p *corev1.Pod) {
	for _, d := range a.Devices {
		for _, m := range k.cfg.Models {
			if m.Name == d.Model && len(m.Labels) > 0 {
				if p.Spec.NodeSelector == nil {
					p.Spec.NodeSelector = map[string]string{}
				}
				maps.Copy(p.Spec.NodeSelector, m.Labels)
			}
		}
	}
}

func (kueue) group(engine.Allocation) *object { return nil }

func (k kueue) queues(want []engine.Queue) (out []object, notes []string) {
	t := newTree(want)
	flavors := k.flavors()
	for _, f := range flavors {
		labels := map[string]any{}
		for name, v := range f.labels {
			labels[name] = v
		}
		spec := map[string]any{}
		if len(labels) > 0 {
			spec["nodeLabels"] = labels
		}
		out = append(out, k.made(kueueFlavor, f.name, spec))
	}
	var cohorts, queues, locals []object
	for _, q := range t.queues {
		name := k.cfg.queueName(q.QueueName)
		above := ""
		if q.Parent != (engine.QueueName{}) {
			above = k.cfg.queueName(q.Parent)
		}
		groups := k.groups(flavors, t, q, true)
		if t.inner(q) {
			spec := map[string]any{"resourceGroups": groups}
			if above != "" {
				spec["parentName"] = above
				spec["fairSharing"] = weight(q)
			}
			cohorts = append(cohorts, k.made(kueueCohort, name, spec))
			above, groups = name, k.groups(flavors, t, q, false)
		}
		spec := map[string]any{
			"resourceGroups": groups, "queueingStrategy": "BestEffortFIFO",
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: k.cfg.Namespace}},
			"preemption":        map[string]any{"reclaimWithinCohort": "Never", "withinClusterQueue": "Never", "borrowWithinCohort": map[string]any{"policy": "Never"}},
		}
		if above != "" {
			spec["cohortName"] = above
			spec["fairSharing"] = weight(q)
		}
		queues = append(queues, k.made(kueueClusterQueue, name, spec))
		locals = append(locals, k.made(kueueLocalQueue, name, map[string]any{"clusterQueue": name}))
		notes = append(notes, k.unsaid(flavors, q)...)
	}
	return slices.Concat(out, cohorts, queues, locals), notes
}

// weight is a queue's among those beside it, the largest of its resources.
func weight(q engine.Queue) map[string]any {
	most := int64(1)
	for _, b := range q.Bounds {
		most = max(most, b.Weight)
	}
	return map[string]any{"weight": strconv.FormatInt(most, 10)}
}

// flavor is a kind of node that Kueue counts resources of apart.
type flavor struct {
	name      string
	labels    map[string]string
	resources []flavorResource
}

// flavorResource is a resource as Croft and as the cluster call it.
type flavorResource struct{ ours, theirs string }

// flavors are one for cores and memory, wherever they are, and one for each model.
func (k kueue) flavors() []flavor {
	out := []flavor{{name: k.cfg.queuePrefix() + ".any", resources: []flavorResource{{"cpu", "cpu"}, {"mem", "memory"}}}}
	for _, m := range k.cfg.Models {
		if m.Resource == "" {
			continue // it is claimed, and claims are no resource of a queue
		}
		out = append(out, flavor{
			name: objectName(k.cfg.queuePrefix()+".model", m.Name), labels: m.Labels, resources: []flavorResource{{"gpu:" + m.Name, m.Resource}},
		})
	}
	return out
}

// groups are the amounts of a queue by flavor; those of a group cover the same resources.
// Without own there are none: what lies above is borrowed from.
func (k kueue) groups(flavors []flavor, t tree, q engine.Queue, own bool) []any {
	var out []any
	at := map[string]int{}
	for _, f := range flavors {
		var covered, quotas []any
		for _, r := range f.resources {
			covered = append(covered, r.theirs)
			quotas = append(quotas, k.quota(t, q, r, own))
		}
		entry := map[string]any{"name": f.name, "resources": quotas}
		i, ok := at[f.resources[0].theirs]
		if !ok {
			i = len(out)
			at[f.resources[0].theirs] = i
			out = append(out, map[string]any{"coveredResources": covered, "flavors": []any{}})
		}
		g := out[i].(map[string]any)
		g["flavors"] = append(g["flavors"].([]any), entry)
	}
	return out
}

// quota is a queue's of a resource. What queues below have is added to it by Kueue.
func (k kueue) quota(t tree, q engine.Queue, r flavorResource, own bool) map[string]any {
	out := map[string]any{"name": r.theirs, "nominalQuota": amount(r.theirs, 0)}
	b, ok := k.boundOf(q, r.ours)
	if !own || !ok {
		return out
	}
	out["nominalQuota"] = amount(r.theirs, t.own(q, b))
	if q.Parent == (engine.QueueName{}) {
		return out
	}
	borrow := b.Borrow
	if b.Limit != engine.AnyAmount && (borrow == engine.AnyAmount || b.Limit-b.Guaranteed < borrow) {
		borrow = b.Limit - b.Guaranteed
	}
	if borrow != engine.AnyAmount {
		out["borrowingLimit"] = amount(r.theirs, borrow)
	}
	if b.Lend != engine.AnyAmount {
		out["lendingLimit"] = amount(r.theirs, min(b.Lend, b.Guaranteed))
	}
	return out
}

// boundOf is a queue's bound of a resource as Kueue counts it. That of all devices together
// is one of a model's where there is only that model.
func (k kueue) boundOf(q engine.Queue, resource string) (engine.QueueBound, bool) {
	if b, ok := bound(q, resource); ok {
		return b, ok
	}
	if len(k.cfg.Models) == 1 && resource == "gpu:"+k.cfg.Models[0].Name {
		return bound(q, "gpu")
	}
	return engine.QueueBound{}, false
}

// unsaid are the bounds of a queue that Kueue can't be told.
func (k kueue) unsaid(flavors []flavor, q engine.Queue) (notes []string) {
	for _, b := range q.Bounds {
		said := false
		for _, f := range flavors {
			for _, r := range f.resources {
				by, ok := k.boundOf(q, r.ours)
				said = said || ok && by.Resource == b.Resource
			}
		}
		if !said {
			notes = append(notes, unsaid(q, b.Resource))
		}
	}
	return notes
}
