package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"croft.dev/croft/internal/engine"
)

var _ engine.Queues = (*Engine)(nil)

// difference is an object that isn't as it ought to be.
type difference struct {
	engine.QueueChange
	want object
	have *unstructured.Unstructured
}

// PlanQueues implements engine.Queues.
func (e *Engine) PlanQueues(ctx context.Context, want []engine.Queue) (engine.QueuePlan, error) {
	plan, _, err := e.compare(ctx, want)
	return plan, err
}

// ApplyQueues implements engine.Queues.
func (e *Engine) ApplyQueues(ctx context.Context, want []engine.Queue) (engine.QueuePlan, error) {
	plan, all, err := e.compare(ctx, want)
	if err != nil {
		return plan, err
	}
	for i, d := range all {
		if d.Error != "" {
			continue
		}
		err := e.change(ctx, d)
		switch {
		case isRefusal(err):
			plan.Changes[i].Error = refusal(err)
		case err != nil:
			return plan, err
		}
	}
	return plan, nil
}

// compare finds what differs, in the order in which it is to be changed.
func (e *Engine) compare(ctx context.Context, queues []engine.Queue) (engine.QueuePlan, []difference, error) {
	plan := engine.QueuePlan{Scheduler: e.scheduler.name()}
	want, notes := e.scheduler.queues(queues)
	plan.Notes = notes
	var all, gone []difference
	for _, k := range e.scheduler.kinds() {
		have, err := e.existing(ctx, k)
		if err != nil {
			return plan, nil, err
		}
		for _, o := range want {
			if o.GroupVersionResource != k.GroupVersionResource {
				continue
			}
			if d, differs := e.differs(o, have[o.GetName()]); differs {
				all = append(all, d)
			}
			delete(have, o.GetName())
		}
		for _, u := range have {
			if u.GetLabels()[labelInstance] == e.cfg.Instance && u.GetDeletionTimestamp() == nil {
				gone = append(gone, difference{describe(engine.ActionDelete, k, u), object{kind: k}, u})
			}
		}
	}
	// Names have what is above before what is below, so that in reverse they are removed.
	slices.SortStableFunc(gone, func(a, b difference) int {
		order := func(d difference) int {
			return slices.IndexFunc(e.scheduler.kinds(), func(k kind) bool { return k.Kind == d.Kind })
		}
		if x, y := order(a), order(b); x != y {
			return y - x
		}
		return strings.Compare(b.Name, a.Name)
	})
	all = append(all, gone...)
	for _, d := range all {
		plan.Changes = append(plan.Changes, d.QueueChange)
	}
	return plan, all, nil
}

// existing are the objects of a kind by name, whoever's.
func (e *Engine) existing(ctx context.Context, k kind) (map[string]*unstructured.Unstructured, error) {
	out := map[string]*unstructured.Unstructured{}
	opts := metav1.ListOptions{Limit: 500}
	for {
		list, err := ask(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
			if k.namespaced {
				return e.dynamic.Resource(k.GroupVersionResource).Namespace(e.cfg.Namespace).List(ctx, opts)
			}
			return e.dynamic.Resource(k.GroupVersionResource).List(ctx, opts)
		})
		if err != nil {
			return nil, fmt.Errorf("kube: listing %s: %w", k.Resource, err)
		}
		for i := range list.Items {
			out[list.Items[i].GetName()] = &list.Items[i]
		}
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			return out, nil
		}
	}
}

func describe(a engine.Action, k kind, u *unstructured.Unstructured) engine.QueueChange {
	return engine.QueueChange{Action: a, Kind: k.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
}

// differs compares an object with what is there.
func (e *Engine) differs(want object, have *unstructured.Unstructured) (difference, bool) {
	switch {
	case have == nil:
		return difference{describe(engine.ActionCreate, want.kind, want.Unstructured), want, nil}, true
	case have.GetLabels()[labelInstance] != e.cfg.Instance:
		d := difference{describe(engine.ActionConflict, want.kind, want.Unstructured), want, have}
		d.Error = fmt.Sprintf("this %s isn't Croft's: it lacks the label %s=%s, and is left alone; remove it, or set another engine.kube.queue_prefix",
			want.Kind, labelInstance, e.cfg.Instance)
		return d, true
	case have.GetDeletionTimestamp() != nil:
		d := difference{describe(engine.ActionCreate, want.kind, want.Unstructured), want, have}
		d.Error = "the one of this name is still being deleted: what uses it must end first"
		return d, true
	}
	d := difference{describe(engine.ActionUpdate, want.kind, want.Unstructured), want, have}
	for _, f := range want.fields {
		from, _, _ := unstructured.NestedFieldNoCopy(have.Object, "spec", f)
		to, _, _ := unstructured.NestedFieldNoCopy(want.Object, "spec", f)
		if !reflect.DeepEqual(from, to) {
			d.Fields = append(d.Fields, engine.FieldChange{Path: "spec." + f, From: text(from), To: text(to)})
		}
	}
	if got := have.GetLabels()[labelManager]; got != manager {
		d.Fields = append(d.Fields, engine.FieldChange{Path: "metadata.labels." + labelManager, From: text(got), To: text(manager)})
	}
	return d, len(d.Fields) > 0
}

// text is a value as JSON; empty for none.
func text(v any) string {
	if v == nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// change carries out a change, unless somebody else has changed the object since.
func (e *Engine) change(ctx context.Context, d difference) error {
	client := e.dynamic.Resource(d.want.GroupVersionResource).Namespace(d.Namespace)
	_, err := ask(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		switch d.Action {
		case engine.ActionCreate:
			return client.Create(ctx, d.want.Unstructured, metav1.CreateOptions{})
		case engine.ActionDelete:
			return nil, client.Delete(ctx, d.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(d.have.GetUID()))})
		}
		return client.Update(ctx, d.corrected(), metav1.UpdateOptions{})
	})
	switch {
	case d.Action == engine.ActionDelete && apierrors.IsNotFound(err):
		return nil
	case err == nil:
		e.log.Info("batch scheduler changed", "action", d.Action, "kind", d.Kind, "name", d.Name)
	}
	return err
}

// corrected is what is there with Croft's fields as they ought to be.
func (d difference) corrected() *unstructured.Unstructured {
	out := d.have.DeepCopy()
	spec, _, _ := unstructured.NestedMap(out.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	for _, f := range d.want.fields {
		if v, ok, _ := unstructured.NestedFieldCopy(d.want.Object, "spec", f); ok {
			spec[f] = v
		} else {
			delete(spec, f)
		}
	}
	out.Object["spec"] = spec
	labels := out.GetLabels()
	labels[labelManager] = manager
	out.SetLabels(labels)
	return out
}
