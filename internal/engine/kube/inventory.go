package kube

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"croft.dev/croft/internal/engine"
)

// Inventory implements engine.Engine. It is what the nodes can give to Croft's Pods, which is
// what those of others haven't taken, and what nodes and devices say of themselves.
func (e *Engine) Inventory(ctx context.Context) (engine.Inventory, error) {
	if _, err := ask(ctx, func(context.Context) (any, error) { return e.api.Discovery().ServerVersion() }); err != nil {
		return engine.Inventory{}, err
	}
	var inv engine.Inventory
	others, mine, named := e.taken(), e.held(), e.named(ctx)
	for _, o := range e.nodes.GetStore().List() {
		n := o.(*corev1.Node)
		have := others[n.Name]
		node := engine.Node{
			Name:   n.Name,
			CPU:    max(0, n.Status.Allocatable.Cpu().MilliValue()-have.cpu),
			Memory: max(0, n.Status.Allocatable.Memory().Value()-have.memory),
			Labels: map[string]string{
				"kernel": n.Status.NodeInfo.KernelVersion, "runtime": n.Status.NodeInfo.ContainerRuntimeVersion, "kubelet": n.Status.NodeInfo.KubeletVersion,
			},
		}
		node.Ready, node.Reason = ready(n)
		inv.Nodes = append(inv.Nodes, node)
		devices := append(e.counted(n, have, mine[n.Name]), named[n.Name]...)
		for i := range devices {
			devices[i].Index, devices[i].Name = i, gpuName(i)
		}
		inv.Devices = append(inv.Devices, devices...)
	}
	slices.SortFunc(inv.Nodes, func(a, b engine.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(inv.Devices, func(a, b engine.Device) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index))
	})
	return inv, nil
}

// ready is whether a node takes Pods, and why not.
func ready(n *corev1.Node) (bool, string) {
	if n.Spec.Unschedulable {
		return false, "it is cordoned"
	}
	if all := repelling(n); len(all) > 0 {
		return false, "it has the taint " + strings.Join(all, ", ")
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.Message
		}
	}
	return false, "it says nothing of itself"
}

// repelling are a node's taints that keep Croft's Pods away, in words.
func repelling(n *corev1.Node) []string {
	var out []string
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute {
			out = append(out, t.ToString())
		}
	}
	return out
}
