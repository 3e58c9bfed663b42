package kube

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"croft.dev/croft/internal/engine"
)

// Of a resource that a device plugin announces, Kubernetes knows how many devices a node has,
// and only the kubelet which ones a container was given. So Croft's devices of it are seats:
// node/resource/0 and so on. A Pod's annotation says which seats its attempt has, and the
// kubelet's status which devices were put there.

func gpuName(i int) string { return fmt.Sprintf("gpu%d", i) }

func seatName(node string, resource corev1.ResourceName, i int64) string {
	return fmt.Sprintf("%s/%s/%d", node, resource, i)
}

// resourceOf is the resource of a device that is a seat; empty for others.
func resourceOf(d engine.Device) corev1.ResourceName {
	rest, ok := strings.CutPrefix(d.UUID, d.Node+"/")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return ""
	}
	return corev1.ResourceName(rest[:i])
}

// held are Croft's Pods that have devices, by node.
func (e *Engine) held() map[string][]*corev1.Pod {
	out := make(map[string][]*corev1.Pod)
	for _, o := range e.pods.GetStore().List() {
		p := o.(*corev1.Pod)
		over := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
		if e.cfg.own(p) && p.Annotations[annotationDevices] != "" && p.Spec.NodeName != "" && !over {
			out[p.Spec.NodeName] = append(out[p.Spec.NodeName], p)
		}
	}
	return out
}

// seatsOf are the numbers of the seats of a resource that a Pod has.
func seatsOf(p *corev1.Pod, resource corev1.ResourceName) []int64 {
	var out []int64
	for uuid := range strings.SplitSeq(p.Annotations[annotationDevices], ",") {
		d := engine.Device{UUID: uuid, Node: p.Spec.NodeName}
		if resourceOf(d) != resource {
			continue
		}
		if i, err := strconv.ParseInt(uuid[strings.LastIndexByte(uuid, '/')+1:], 10, 64); err == nil && i >= 0 {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return out
}

// allocated are the devices of a resource that the kubelet has put into a Pod's containers,
// in the order of their ids.
func allocated(p *corev1.Pod, resource corev1.ResourceName) []corev1.ResourceHealth {
	var out []corev1.ResourceHealth
	for _, c := range p.Status.ContainerStatuses {
		for _, r := range c.AllocatedResourcesStatus {
			if r.Name == resource {
				out = append(out, r.Resources...)
			}
		}
	}
	slices.SortFunc(out, func(a, b corev1.ResourceHealth) int {
		return strings.Compare(string(a.ResourceID), string(b.ResourceID))
	})
	return slices.CompactFunc(out, func(a, b corev1.ResourceHealth) bool { return a.ResourceID == b.ResourceID })
}

// counted are a node's accelerators that it only counts, given what Pods of others and of
// Croft have of them.
func (e *Engine) counted(n *corev1.Node, others taken, mine []*corev1.Pod) []engine.Device {
	names := make([]corev1.ResourceName, 0, len(n.Status.Capacity))
	for name := range n.Status.Capacity {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []engine.Device
	for _, name := range names {
		m, ok := e.catalogue.counted(n, name)
		if !ok {
			continue
		}
		has, gives := n.Status.Capacity[name], n.Status.Allocatable[name]
		seats := make([]engine.Device, min(max(has.Value(), 0), mostSeats))
		for i := range seats {
			seats[i] = engine.Device{UUID: seatName(n.Name, name, int64(i)), Node: n.Name, Model: m.Name, Memory: m.Memory, Healthy: true}
		}
		seat(seats, name, has.Value()-gives.Value(), others.by[name], mine)
		out = append(out, seats...)
	}
	return out
}

// mostSeats bounds what a node is believed to have.
const mostSeats = 1024

// seat says which seats are ill and which are taken by others. Of those that Croft's Pods
// have the kubelet says so itself; the others are counted off the free seats, from the last.
func seat(seats []engine.Device, name corev1.ResourceName, ill int64, others []engine.Process, mine []*corev1.Pod) {
	busy := make(map[int64]bool)
	for _, p := range mine {
		given := allocated(p, name)
		for k, i := range seatsOf(p, name) {
			if busy[i] = true; k >= len(given) || i >= int64(len(seats)) {
				continue
			}
			if given[k].Health == corev1.ResourceHealthStatusUnhealthy {
				seats[i].Healthy, seats[i].Reason = false, "the node's device plugin says that "+string(given[k].ResourceID)+" is ill"
				ill--
			}
		}
	}
	for i := len(seats) - 1; i >= 0; i-- {
		switch {
		case busy[int64(i)]:
		case ill > 0:
			seats[i].Healthy, seats[i].Reason = false, "the node's device plugin says that it is ill"
			ill--
		case len(others) > 0:
			seats[i].Foreign = others[:1]
			others = others[1:]
		}
	}
}
