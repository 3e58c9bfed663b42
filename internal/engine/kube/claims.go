package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"croft.dev/croft/internal/engine/kube/files"
)

// lookAtClaims says in the log what claims lack. None of it keeps the server from working:
// what jobs wait for they say themselves.
func (e *Engine) lookAtClaims(ctx context.Context) error {
	for _, c := range e.cfg.Claims.List {
		have, err := ask(ctx, func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
			return e.api.CoreV1().PersistentVolumeClaims(e.cfg.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
		})
		if err != nil && !isRefusal(err) {
			return err
		}
		if lack := lackOf(c, have, err); lack != "" {
			e.log.Warn("engine.kube.claims: "+lack, "claim", c.Name, "namespace", e.cfg.Namespace, "path", c.Path)
		}
	}
	return nil
}

// lackOf is why jobs don't get at a claim as they should, as the cluster has it, or doesn't.
func lackOf(c files.Claim, have *corev1.PersistentVolumeClaim, err error) string {
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	if c.ReadOnly {
		modes = append(modes, corev1.ReadOnlyMany)
	}
	shared := func(m corev1.PersistentVolumeAccessMode) bool { return slices.Contains(modes, m) }
	switch {
	case apierrors.IsNotFound(err):
		return "it isn't there: jobs that mount something of it wait for it"
	case err != nil:
		return "it can't be looked at: " + err.Error()
	case have.Status.Phase == corev1.ClaimLost:
		return "its volume is gone: jobs that mount something of it can't run"
	case have.Status.Phase != corev1.ClaimBound:
		return "it isn't bound to a volume: jobs that mount something of it wait for that"
	case !slices.ContainsFunc(have.Status.AccessModes, shared):
		return fmt.Sprintf("its access mode is %v and not %v: jobs that mount something of it run on one node at a time", have.Status.AccessModes, modes)
	}
	return ""
}
