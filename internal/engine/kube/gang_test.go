package kube

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"croft.dev/croft/internal/engine"
)

// TestGangHasNames: what the cluster's name server answers from has each rank by its name,
// and is gone with the last of them.
func TestGangHasNames(t *testing.T) {
	e := connect(t, deploy(t), "croft-jobs", uuid.NewString(), t.TempDir())
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	var ranks []engine.Allocation
	for rank := range 2 {
		a := job(e, 7, "sh", "-c", sleep)
		if rank > 0 {
			a.Attempt += "-r1"
		}
		ranks = append(ranks, a)
	}
	gang := "croft-" + string(ranks[0].Attempt)
	for rank := range ranks {
		ranks[rank].Gang = &engine.Gang{Name: gang, Rank: rank, Size: 2}
		if err := e.Start(t.Context(), ranks[rank]); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context(), ranks[rank]); err != nil { // as after a crash
			t.Fatal(err)
		}
	}
	for _, a := range ranks {
		await(t, e, a, "running", phase(engine.PhaseRunning))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var names []string
	for ; len(names) < 2 && ctx.Err() == nil; pause(ctx) {
		found, err := client(t, shared.Kubeconfig()).DiscoveryV1().EndpointSlices(e.cfg.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + gang})
		if err != nil {
			t.Fatal(err)
		}
		names = nil
		for _, s := range found.Items {
			for _, at := range s.Endpoints {
				if at.Hostname != nil && len(at.Addresses) > 0 {
					names = append(names, *at.Hostname)
				}
			}
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"rank-0", "rank-1"}, names); diff != "" {
		t.Errorf("names (-want +got)\n%s", diff)
	}
	for _, a := range ranks {
		if err := e.Stop(t.Context(), a.Attempt); err != nil {
			t.Fatal(err)
		}
		await(t, e, a, "ended", phase(engine.PhaseExited))
		if err := e.Remove(t.Context(), a.Attempt); err != nil {
			t.Fatal(err)
		}
	}
	for ; ctx.Err() == nil; pause(ctx) {
		_, err := client(t, shared.Kubeconfig()).CoreV1().Services(e.cfg.Namespace).Get(ctx, gang, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
	}
	t.Error("the names stay when nobody has them any more")
}
