package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

func TestCheckModels(t *testing.T) {
	for name, c := range map[string]struct {
		m    Model
		want string // in the error; empty: there is none
	}{
		"resource":          {Model{Name: "mi300x", Resource: "amd.com/gpu", Labels: map[string]string{"amd.com/gpu.product-name": "MI300X"}}, ""},
		"class":             {Model{Name: "gaudi3", Class: "gpu.intel.com", Selectors: []string{`device.attributes["gpu.intel.com"].model == "Gaudi3"`}}, ""},
		"name":              {Model{Name: "A 100", Resource: "x.y/z"}, "models[0].name"},
		"nothing":           {Model{Name: "a"}, "models[0].resource: say either"},
		"both":              {Model{Name: "a", Resource: "x.y/z", Class: "c"}, "models[0].resource: say either"},
		"short resource":    {Model{Name: "a", Resource: "gpu"}, "models[0].resource"},
		"class's name":      {Model{Name: "a", Class: "GPU"}, "models[0].class"},
		"mixed":             {Model{Name: "a", Resource: "x.y/z", Selectors: []string{"true"}}, "models[0].selectors"},
		"labels of class":   {Model{Name: "a", Class: "c", Labels: map[string]string{"a": "b"}}, "models[0].labels"},
		"bad label":         {Model{Name: "a", Resource: "x.y/z", Labels: map[string]string{"a b": "c"}}, "models[0].labels"},
		"memory":            {Model{Name: "a", Resource: "x.y/z", Memory: -1}, "models[0].memory"},
		"selector":          {Model{Name: "a", Class: "c", Selectors: []string{"true", "device.nothing == 1"}}, "models[0].selectors[1]"},
		"no truth":          {Model{Name: "a", Class: "c", Selectors: []string{"1 + 1"}}, "models[0].selectors[0]"},
		"unbalanced braces": {Model{Name: "a", Class: "c", Selectors: []string{"("}}, "models[0].selectors[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkModels([]Model{c.m})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func nodeWith(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}}
}

func TestCounted(t *testing.T) {
	mine := Model{Name: "mi300x", Resource: "amd.com/gpu", Labels: map[string]string{"kind": "x"}, Memory: 192 << 30}
	over := Model{Name: "our-a100", Resource: "nvidia.com/gpu", Labels: map[string]string{"old": "yes"}}
	for name, c := range map[string]struct {
		resource corev1.ResourceName
		labels   map[string]string
		want     Model
		none     bool
	}{
		"configured":             {resource: "amd.com/gpu", labels: map[string]string{"kind": "x"}, want: mine},
		"configured, other node": {resource: "amd.com/gpu", none: true},
		"configured first":       {resource: "nvidia.com/gpu", labels: map[string]string{"old": "yes"}, want: over},
		"no accelerator":         {resource: "hugepages-2Mi", none: true},
		"nvidia, another thing":  {resource: "nvidia.com/imex", none: true},
		"nvidia whole": {
			resource: "nvidia.com/gpu", labels: map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"},
			want: Model{Name: "a100-80g", Resource: "nvidia.com/gpu", Memory: 80 << 30},
		},
		"nvidia without labels": {resource: "nvidia.com/gpu", want: Model{Name: "gpu", Resource: "nvidia.com/gpu"}},
		"nvidia MIG single": {
			resource: "nvidia.com/gpu", labels: map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "nvidia.com/gpu.memory": "9728", "nvidia.com/mig.strategy": "single"},
			want: Model{Name: "a100-80g.1g.10gb", Resource: "nvidia.com/gpu", Memory: 9728 << 20},
		},
		"nvidia MIG mixed": {
			resource: "nvidia.com/mig-3g.40gb", labels: map[string]string{"nvidia.com/mig-3g.40gb.product": "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "nvidia.com/mig-3g.40gb.memory": "40192", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
			want: Model{Name: "a100-80g.3g.40gb", Resource: "nvidia.com/mig-3g.40gb", Memory: 40192 << 20},
		},
		"nvidia MIG mixed, labels of the whole alone": {
			resource: "nvidia.com/mig-1g.10gb", labels: map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
			want: Model{Name: "a100-80g.1g.10gb", Resource: "nvidia.com/mig-1g.10gb"},
		},
		"nvidia shared by time": {
			resource: "nvidia.com/gpu", labels: map[string]string{"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.memory": "15360"},
			want: Model{Name: "t4-shared", Resource: "nvidia.com/gpu"},
		},
		"ascend": {
			resource: "huawei.com/Ascend910", labels: map[string]string{"accelerator": "huawei-Ascend910", "node.kubernetes.io/npu.chip.name": "910B3"},
			want: Model{Name: "ascend-910b3", Resource: "huawei.com/Ascend910"},
		},
		"ascend without labels": {resource: "huawei.com/Ascend310P", want: Model{Name: "ascend-310p", Resource: "huawei.com/Ascend310P"}},
		"ascend in parts": {
			resource: "huawei.com/Ascend910-4c", labels: map[string]string{"node.kubernetes.io/npu.chip.name": "Ascend910B3"},
			want: Model{Name: "ascend-910b3.4c", Resource: "huawei.com/Ascend910-4c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cat, err := newCatalogue([]Model{over, mine})
			must(t, err)
			got, ok := cat.counted(nodeWith(c.labels), c.resource)
			if ok == c.none {
				t.Fatalf("an accelerator: %t", ok)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// given is a Pod that has seats of x.y/gpu, and what the kubelet has put there.
func given(seats string, ids ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationDevices: seats}}, Spec: corev1.PodSpec{NodeName: "n"}}
	status := corev1.ResourceStatus{Name: "x.y/gpu"}
	for _, id := range ids {
		id, ill := strings.CutSuffix(id, "!")
		health := corev1.ResourceHealthStatusHealthy
		if ill {
			health = corev1.ResourceHealthStatusUnhealthy
		}
		status.Resources = append(status.Resources, corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: health})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{AllocatedResourcesStatus: []corev1.ResourceStatus{status}}}
	return p
}

func TestSeats(t *testing.T) {
	for name, c := range map[string]struct {
		has, gives string
		mine       []*corev1.Pod
		others     int
		want       string // of each seat: healthy, ill, foreign
	}{
		"all free":            {has: "4", gives: "4", want: "hhhh"},
		"one is ill":          {has: "4", gives: "3", want: "hhhi"},
		"others have some":    {has: "4", gives: "4", others: 2, want: "hhff"},
		"not where mine are":  {has: "4", gives: "4", others: 2, mine: []*corev1.Pod{given("n/x.y/gpu/3", "a")}, want: "hffh"},
		"mine is the ill one": {has: "4", gives: "3", mine: []*corev1.Pod{given("n/x.y/gpu/1,n/x.y/gpu/0", "b!", "a")}, want: "hihh"},
		"mine isn't":          {has: "2", gives: "1", mine: []*corev1.Pod{given("n/x.y/gpu/1", "b")}, want: "ih"},
		"nothing is read yet": {has: "2", gives: "2", mine: []*corev1.Pod{given("n/x.y/gpu/1")}, want: "hh"},
		"fewer than were":     {has: "1", gives: "1", mine: []*corev1.Pod{given("n/x.y/gpu/1", "b!")}, want: "h"},
		"all of them":         {has: "2", gives: "0", others: 3, want: "ii"},
		"no seat at all":      {has: "2", gives: "2", mine: []*corev1.Pod{given("n/x.y/gpu/-1", "b!"), given("n/x.y/gpu/9", "b!"), given("n/x.y/gpu/", "b!")}, want: "hh"},
	} {
		t.Run(name, func(t *testing.T) {
			cat, err := newCatalogue([]Model{{Name: "x", Resource: "x.y/gpu"}})
			must(t, err)
			n := nodeWith(nil)
			n.Status.Capacity = corev1.ResourceList{"x.y/gpu": resource.MustParse(c.has), "cpu": resource.MustParse("4")}
			n.Status.Allocatable = corev1.ResourceList{"x.y/gpu": resource.MustParse(c.gives)}
			others := taken{by: map[corev1.ResourceName][]engine.Process{}}
			for range c.others {
				others.by["x.y/gpu"] = append(others.by["x.y/gpu"], foreign("theirs"))
			}
			got := ""
			for _, d := range (&Engine{catalogue: cat}).counted(n, others, c.mine) {
				switch {
				case !d.Healthy:
					got += "i"
				case len(d.Foreign) > 0:
					got += "f"
				default:
					got += "h"
				}
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// published is an engine that sees what drivers publish.
func publishing(t *testing.T, models []Model, objects ...any) *Engine {
	t.Helper()
	cat, err := newCatalogue(models)
	must(t, err)
	e := &Engine{cfg: Config{Instance: "i", Namespace: "ns"}, catalogue: cat}
	for _, s := range []*cache.Store{&e.sight.pods, &e.sight.slices, &e.sight.claims, &e.sight.classes} {
		*s = cache.NewStore(cache.MetaNamespaceKeyFunc)
	}
	for _, o := range objects {
		switch o.(type) {
		case *resourcev1.ResourceSlice:
			must(t, e.sight.slices.Add(o))
		case *resourcev1.DeviceClass:
			must(t, e.sight.classes.Add(o))
		case *resourcev1.ResourceClaim:
			must(t, e.sight.claims.Add(o))
		}
	}
	return e
}

func slice(name string, generation int64, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: ptr.To("n"), Pool: resourcev1.ResourcePool{Name: "n", Generation: generation, ResourceSliceCount: 1}, Devices: devices,
	}}
}

func draGPU(name, model string, taints ...resourcev1.DeviceTaint) resourcev1.Device {
	return resourcev1.Device{Name: name, Taints: taints, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"model": {StringValue: &model}, "uuid": {StringValue: ptr.To("u-" + name)},
	}}
}

func TestPublished(t *testing.T) {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{
		Selectors: selectors([]string{`device.driver == "gpu.example.com"`}),
	}}
	models := []Model{
		{Name: "big", Class: "gpu", Selectors: []string{`device.attributes["gpu.example.com"].model == "Big"`}, Memory: 1 << 30},
		{Name: "any", Class: "gpu"},
		{Name: "away", Class: "none"},
	}
	bare := resourcev1.Device{Name: "bare"}
	e := publishing(t, models, class, slice("old", 1, draGPU("gone", "Big")),
		slice("new", 2, draGPU("b", "Small"), draGPU("a", "Big"), draGPU("c", "Big", resourcev1.DeviceTaint{Key: "ill", Value: "xid79", Effect: resourcev1.DeviceTaintEffectNoExecute}), bare),
		&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "theirs"}, Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "gpu.example.com", Pool: "n", Device: "b"}}},
		}}},
	)
	want := map[string][]engine.Device{"n": {
		{UUID: "dra:gpu.example.com/n/a", Node: "n", Model: "big", Memory: 1 << 30, Healthy: true},
		{UUID: "dra:gpu.example.com/n/b", Node: "n", Model: "any", Healthy: true, Foreign: []engine.Process{foreign("theirs")}},
		{UUID: "dra:gpu.example.com/n/bare", Node: "n", Model: "any", Reason: "its driver says nothing that tells it from the node's other devices"},
		{UUID: "dra:gpu.example.com/n/c", Node: "n", Model: "big", Memory: 1 << 30, Reason: "its driver has given it the taint ill=xid79"},
	}}
	if d := cmp.Diff(want, e.named(t.Context())); d != "" {
		t.Error(d)
	}
	claim, err := e.claim(t.Context(), engine.Allocation{Attempt: "a-1-1", Devices: want["n"][:1]})
	must(t, err)
	got := claim.Spec.Devices.Requests[0].Exactly
	if got.DeviceClassName != "gpu" || got.Selectors[0].CEL.Expression != `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].uuid == "u-a"` {
		t.Errorf("asks for %+v", got)
	}
	if _, err := e.claim(t.Context(), engine.Allocation{Attempt: "a-1-1", Devices: []engine.Device{{UUID: "dra:gpu.example.com/n/gone", Name: "gpu9"}}}); err == nil {
		t.Error("a claim for what isn't there")
	}
}

// What pins a device compiles, whatever its driver calls it.
func FuzzPin(f *testing.F) {
	f.Add("gpu.nvidia.com", "GPU-4f2a")
	f.Add("a.b", "\"\\\n\x00 $(x) \u2028")
	f.Fuzz(func(t *testing.T, driver, uuid string) {
		pin := pinOf(driver, map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": {StringValue: &uuid}})
		if !strings.HasPrefix(pin, "device.driver == ") {
			t.Fatalf("pin %q", pin)
		}
		if err := checkModels([]Model{{Name: "a", Class: "c", Selectors: []string{pin}}}); err != nil {
			t.Error(err)
		}
	})
}
