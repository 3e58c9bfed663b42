package kube

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"croft.dev/croft/internal/engine"
)

// nameRank gives a Pod of a gang the name by which the others find it: the cluster's name server
// knows it as that of the gang's Service.
func nameRank(a engine.Allocation, p *corev1.Pod) {
	if a.Gang == nil {
		return
	}
	p.Spec.Hostname, p.Spec.Subdomain, _ = strings.Cut(a.Gang.Host(a.Gang.Rank), ".")
	p.Labels[labelGang] = a.Gang.Name
}

// ensureNames makes the Service of a gang: it has no address, and its Pods have names. It is
// all Pods' of the gang and goes with the last of them.
func (e *Engine) ensureNames(ctx context.Context, a engine.Allocation, p *corev1.Pod) error {
	if a.Gang == nil {
		return nil
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}
	services := e.api.CoreV1().Services(p.Namespace)
	_, err := ask(ctx, func(ctx context.Context) (*corev1.Service, error) {
		return services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Name: a.Gang.Name, OwnerReferences: []metav1.OwnerReference{owner},
				Labels: map[string]string{labelInstance: a.Instance, labelManager: manager, labelGang: a.Gang.Name},
			},
			Spec: corev1.ServiceSpec{
				ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
				Selector: map[string]string{labelInstance: a.Instance, labelGang: a.Gang.Name},
			},
		}, metav1.CreateOptions{})
	})
	if apierrors.IsAlreadyExists(err) {
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{owner}}}); err != nil {
			return err
		}
		_, err = ask(ctx, func(ctx context.Context) (*corev1.Service, error) { // merged by the owners' uids
			return services.Patch(ctx, a.Gang.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		})
	}
	return e.refused(a.Attempt, "names for its ranks", err)
}
