package kube

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

// Devices that drivers name (dynamic resource allocation) are Croft's one by one. What an
// attempt has is claimed device by device, by an attribute that only that one has: so the
// cluster's allocation is the one that Croft has decided on.

// claimRef is what a Pod calls its claim.
const claimRef = "devices"

// draPrefix begins the names of such devices. No node's name has a colon.
const draPrefix = "dra:"

func draName(driver, pool, device string) string {
	return draPrefix + driver + "/" + pool + "/" + device
}

// draDevice is a device that a driver has published.
type draDevice struct {
	*resourcev1.Device
	driver, pool, node string
	model              Model
	pin                string // a CEL expression that it alone meets; empty: there is none
}

// published are all devices of nodes that the catalogue knows, by their names. Of a pool only
// the newest generation counts.
func (e *Engine) published(ctx context.Context) map[string]draDevice {
	newest := make(map[[2]string]int64)
	all := e.sight.slices.List()
	for _, o := range all {
		s := o.(*resourcev1.ResourceSlice)
		pool := [2]string{s.Spec.Driver, s.Spec.Pool.Name}
		newest[pool] = max(newest[pool], s.Spec.Pool.Generation)
	}
	classes, out, pins := e.deviceClasses(), make(map[string]draDevice), make(map[[2]string]int)
	for _, o := range all {
		s := o.(*resourcev1.ResourceSlice)
		if s.Spec.Pool.Generation != newest[[2]string{s.Spec.Driver, s.Spec.Pool.Name}] {
			continue
		}
		for i := range s.Spec.Devices {
			d := draDevice{Device: &s.Spec.Devices[i], driver: s.Spec.Driver, pool: s.Spec.Pool.Name}
			var ok bool
			if d.node = ptr.Deref(s.Spec.NodeName, ptr.Deref(d.NodeName, "")); d.node == "" {
				continue // it is no node's
			}
			if d.model, ok = e.catalogue.named(ctx, d.driver, d.Device, classes); !ok {
				continue
			}
			d.pin = pinOf(d.driver, d.Attributes)
			pins[[2]string{d.node, d.pin}]++
			out[draName(d.driver, d.pool, d.Name)] = d
		}
	}
	for name, d := range out {
		if pins[[2]string{d.node, d.pin}] > 1 {
			d.pin = ""
			out[name] = d
		}
	}
	return out
}

// pinning are the attributes that tell a device of a node from the others, the best first.
var pinning = []resourcev1.QualifiedName{"uuid", "pciBusID", "resource.kubernetes.io/pciBusID", "serial", "minor", "index"}

// pinOf is the CEL expression by which a driver's device is told from the others.
func pinOf(driver string, attributes map[resourcev1.QualifiedName]resourcev1.DeviceAttribute) string {
	for _, name := range pinning {
		v, ok := attributes[name]
		if !ok {
			continue
		}
		domain, id, full := strings.Cut(string(name), "/")
		if !full {
			domain, id = driver, domain
		}
		var value string
		switch {
		case v.StringValue != nil:
			value = celString(*v.StringValue)
		case v.IntValue != nil:
			value = strconv.FormatInt(*v.IntValue, 10)
		default:
			continue
		}
		return fmt.Sprintf("device.driver == %s && device.attributes[%s].%s == %s", celString(driver), celString(domain), id, value)
	}
	return ""
}

// celString is a text as CEL writes it.
func celString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// named are the devices that drivers name, by node, in a fixed order.
func (e *Engine) named(ctx context.Context) map[string][]engine.Device {
	others := e.claimed()
	out := make(map[string][]engine.Device)
	for name, d := range e.published(ctx) {
		dev := engine.Device{UUID: name, Node: d.node, Model: d.model.Name, Memory: d.model.Memory, Healthy: true}
		if by, ok := others[name]; ok {
			dev.Foreign = []engine.Process{foreign(by)}
		}
		for _, t := range d.Taints {
			if t.Effect == resourcev1.DeviceTaintEffectNoSchedule || t.Effect == resourcev1.DeviceTaintEffectNoExecute {
				dev.Healthy, dev.Reason = false, "its driver has given it the taint "+strings.TrimSuffix(t.Key+"="+t.Value, "=")
			}
		}
		if d.pin == "" {
			dev.Healthy, dev.Reason = false, "its driver says nothing that tells it from the node's other devices"
		}
		out[d.node] = append(out[d.node], dev)
	}
	for _, devices := range out {
		slices.SortFunc(devices, func(a, b engine.Device) int { return strings.Compare(a.UUID, b.UUID) })
	}
	return out
}

// claimed are the devices that claims of others have, with their namespace.
func (e *Engine) claimed() map[string]string {
	out := make(map[string]string)
	for _, o := range e.sight.claims.List() {
		c := o.(*resourcev1.ResourceClaim)
		if e.cfg.own(c) {
			continue
		}
		for _, name := range allocationOf(c) {
			out[name] = c.Namespace
		}
	}
	return out
}

// allocationOf are the devices that a claim was given.
func allocationOf(c *resourcev1.ResourceClaim) []string {
	if c.Status.Allocation == nil {
		return nil
	}
	var out []string
	for _, r := range c.Status.Allocation.Devices.Results {
		if !ptr.Deref(r.AdminAccess, false) {
			out = append(out, draName(r.Driver, r.Pool, r.Device))
		}
	}
	slices.Sort(out)
	return out
}

// claim is what an attempt's Pod asks for of the devices that drivers name; nil for none.
func (e *Engine) claim(ctx context.Context, a engine.Allocation) (*resourcev1.ResourceClaim, error) {
	var requests []resourcev1.DeviceRequest
	var there map[string]draDevice
	for _, d := range a.Devices {
		if !strings.HasPrefix(d.UUID, draPrefix) {
			continue
		}
		if there == nil {
			there = e.published(ctx)
		}
		have, ok := there[d.UUID]
		if !ok || have.pin == "" {
			return nil, &engine.StartError{Message: "the device " + d.Name + " (" + d.UUID + ") is gone"}
		}
		requests = append(requests, resourcev1.DeviceRequest{
			Name: fmt.Sprintf("d%d", len(requests)),
			Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: have.model.Class, Selectors: selectors([]string{have.pin}),
				AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			},
		})
	}
	if len(requests) == 0 {
		return nil, nil
	}
	labels, _ := identity(a)
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: podName(a.Attempt), Namespace: e.cfg.Namespace, Labels: labels},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
	}, nil
}

// claimFor makes the claim that a Pod waits for. It is the Pod's, and goes with it.
func (e *Engine) claimFor(ctx context.Context, p *corev1.Pod, c *resourcev1.ResourceClaim) error {
	if c == nil || p.DeletionTimestamp != nil {
		return nil
	}
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}}
	_, err := ask(ctx, func(ctx context.Context) (*resourcev1.ResourceClaim, error) {
		return e.api.ResourceV1().ResourceClaims(c.Namespace).Create(ctx, c, metav1.CreateOptions{})
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return e.refused(engine.AttemptID(c.Labels[labelAttempt]), "the claim for its devices", err)
}

// claimedBy are the devices of a Pod's claim.
func (e *Engine) claimedBy(p *corev1.Pod) []string {
	o, ok, err := e.sight.claims.GetByKey(p.Namespace + "/" + p.Name)
	if err != nil || !ok {
		return nil
	}
	return allocationOf(o.(*resourcev1.ResourceClaim))
}
