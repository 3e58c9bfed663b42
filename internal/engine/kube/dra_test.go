package kube

import (
	"context"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

// A driver's devices: a job gets exactly the one that Croft has chosen, by the cluster's own
// allocation, and its claim goes with it.
func TestDriver(t *testing.T) {
	const driver = "dra.croft.dev"
	dev := func(name string, taints ...resourcev1.DeviceTaint) resourcev1.Device {
		return resourcev1.Device{Name: name, Taints: taints, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"uuid": {StringValue: ptr.To("u-" + name)}, "product": {StringValue: ptr.To("Board")},
		}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	d, err := node.AddDriver(ctx, driver, dev("dra-a"), dev("dra-b"), dev("dra-c"))
	must(t, err)
	t.Cleanup(func() {
		cancel()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	e := knowing(t, Model{Name: "board", Class: driver, Selectors: []string{`device.attributes["dra.croft.dev"].product == "Board"`}})
	_, err = e.api.ResourceV1().DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourcev1.DeviceClassSpec{Selectors: selectors([]string{`device.driver == "dra.croft.dev"`})},
	}, metav1.CreateOptions{})
	must(t, err)
	all := devicesOf(t, e, "board", "three devices", healthy(3))

	a := job(e, 1, "sh", "-c", "echo $(ls /dev | grep dra-); "+sleep)
	a.Devices = all[1:2]
	run(t, e, a)
	await(t, e, a, "running with its device", func(s engine.Status) bool {
		return s.Phase == engine.PhaseRunning && s.Given == "dra:dra.croft.dev/node1/dra-b"
	})
	if got := logOf(t, e, a); got != "dra-b" {
		t.Errorf("sees %q", got)
	}

	// Another Croft finds it taken.
	other := knowing(t, e.cfg.Models...)
	got := devicesOf(t, other, "board", "one that somebody has", healthy(2))
	if len(got[1].Foreign) != 1 {
		t.Errorf("%+v", got)
	}
	must(t, d.Publish(t.Context(), dev("dra-a"), dev("dra-b"), dev("dra-c", resourcev1.DeviceTaint{Key: "ill", Effect: resourcev1.DeviceTaintEffectNoSchedule})))
	devicesOf(t, e, "board", "one that is ill", healthy(2))

	// What is taken can't be had twice, and says so.
	more := job(other, 1, "true")
	more.Devices = got[1:2]
	run(t, other, more)
	s := await(t, other, more, "kept from starting", func(s engine.Status) bool { return s.Waits.For != "" })
	if s.Waits.Message != "node1 has not all devices that it claims" {
		t.Errorf("%+v", s.Waits)
	}

	must(t, e.Stop(t.Context(), a.Attempt))
	await(t, e, a, "ended", phase(engine.PhaseExited))
	must(t, e.Remove(t.Context(), a.Attempt))
	bounded, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for ; bounded.Err() == nil; pause(bounded) {
		_, err := e.api.ResourceV1().ResourceClaims(e.cfg.Namespace).Get(bounded, podName(a.Attempt), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
	}
	t.Error("its claim is left")
}
