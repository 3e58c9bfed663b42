package kube

import (
	"context"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

// homeOf is the user's home directory if a mount brings it along.
func homeOf(u engine.User, mounts []engine.Mount) string {
	home := path.Clean(u.Home)
	if home == "/tmp" {
		return home
	}
	for _, m := range mounts {
		if target := path.Clean(m.Target); home == target || strings.HasPrefix(home, strings.TrimSuffix(target, "/")+"/") {
			return home
		}
	}
	return noHome
}

// give adds devices to a Pod.
func (e *Engine) give(a engine.Allocation, p *corev1.Pod) error {
	c := &p.Spec.Containers[0]
	var uuids []string
	for _, d := range a.Devices {
		if a.Part > 0 {
			return &engine.StartError{Message: "on this cluster a device isn't given in parts"}
		}
		uuids = append(uuids, d.UUID)
		if strings.HasPrefix(d.UUID, draPrefix) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: claimRef, ResourceClaimName: ptr.To(p.Name)}}
			c.Resources.Claims = []corev1.ResourceClaim{{Name: claimRef}}
			continue
		}
		name := resourceOf(d)
		if name == "" {
			return &engine.StartError{Message: "the device " + d.Name + " is none of this cluster's"}
		}
		for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
			q := list[name]
			q.Add(*resource.NewQuantity(1, resource.DecimalSI))
			list[name] = q
		}
	}
	if len(uuids) > 0 {
		p.Annotations[annotationDevices] = strings.Join(uuids, ",")
	}
	return nil
}

// Volumes implements engine.Engine.
func (e *Engine) Volumes(ctx context.Context, uid int64) ([]engine.Volume, error) {
	return nil, ctx.Err()
}

// RemoveVolume implements engine.Engine.
func (e *Engine) RemoveVolume(ctx context.Context, uid int64, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return &engine.NoVolumeError{Name: name}
}
