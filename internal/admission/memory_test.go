package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// withMemory is twoModels with 40 GiB on each a100 and 80 on each h100, which may be
// shared.
func withMemory(t *testing.T) *lab {
	l := twoModels(t)
	l.remember(t, map[string]int64{"a100": 40 * gib, "h100": 80 * gib})
	shared := true
	l.must(t, command.PartitionPut{Name: "main", ShareDevices: &shared})
	return l
}

// remember reports the devices with so much memory by model.
func (l *lab) remember(t *testing.T, memory map[string]int64) {
	var inv command.InventoryObserved
	for _, n := range l.w.Placement.Nodes.All() {
		inv.Nodes = append(inv.Nodes, n)
	}
	for _, d := range l.w.Placement.Devices.All() {
		d.Memory = memory[d.Model]
		inv.Devices = append(inv.Devices, d)
	}
	l.must(t, inv)
}

// What is needed of a device's memory decides which model will do and how large a part
// is; price, limits and start count that part.
func TestDeviceMemory(t *testing.T) {
	tests := map[string]struct {
		prepare func(t *testing.T, l *lab)
		gpu     int64 // milli-devices
		mem     int64 // GiB
		model   string
		deposit string
		got     []string // models in turn, as jobs like it start
		part    int64
	}{
		"any device has it":               {nil, 1000, 10, "", "2.000", []string{"a100", "a100", "h100", "h100"}, 1000},
		"one model has it":                {nil, 1000, 60, "", "2.000", []string{"h100", "h100"}, 1000},
		"each of two has it":              {nil, 2000, 60, "", "4.000", []string{"h100"}, 2000},
		"the part that has it":            {nil, workload.LeastPart, 20, "a100", "0.500", []string{"a100", "a100", "a100", "a100"}, 500},
		"more by memory than by part":     {nil, 250, 20, "a100", "0.500", []string{"a100", "a100"}, 500},
		"more by part than by memory":     {nil, 500, 4, "a100", "0.500", []string{"a100", "a100"}, 500},
		"rounded up":                      {nil, workload.LeastPart, 27, "h100", "0.676", []string{"h100"}, 338},
		"all of its memory":               {nil, workload.LeastPart, 80, "", "2.000", []string{"h100", "h100"}, 1000},
		"the dearest of unlike parts":     {nil, 300, 20, "", "0.600", []string{"a100"}, 500},
		"a limit that one part is beyond": {func(t *testing.T, l *lab) { l.must(t, command.LimitPut{User: "ada", Resource: limits.GPU, Max: 250}) }, workload.LeastPart, 20, "", "0.500", []string{"h100"}, 250},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := withMemory(t)
			if tt.prepare != nil {
				tt.prepare(t, l)
			}
			spec := workload.Spec{
				Name: "x", Kind: workload.KindContainer, Image: "train:1", GPU: tt.gpu, GPUMem: tt.mem * gib, Model: tt.model, CPU: 10, Mem: 1, Time: hour, Pull: "missing",
			}
			var got []string
			for range tt.got {
				out := l.submit(t, spec)
				if out.Fault != nil {
					t.Fatalf("%v", out.Fault)
				}
				j := out.Result.(admission.Accepted).Job
				if d := j.Deposit.String(); d != tt.deposit {
					t.Errorf("deposit %s, want %s", d, tt.deposit)
				}
				l.must(t, command.JobStart{Job: j.ID})
				j, _ = l.w.Workload.Jobs.Get(j.ID)
				if j.State != workload.Starting || len(j.Attempt.Models) != 1 || j.Attempt.Models[0].Count != tt.part {
					t.Fatalf("job %d is %s with %v", j.ID, j.State, j.Attempt.Models)
				}
				if held := admission.Held(j); held.GPU != tt.part {
					t.Errorf("counts as %d", held.GPU)
				}
				got = append(got, j.Attempt.Models[0].Model)
			}
			if diff := cmp.Diff(tt.got, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What no device has is refused with the most that one has; so is what isn't known.
func TestDeviceMemoryRefusals(t *testing.T) {
	whole := func(t *testing.T, l *lab) {
		shared := false
		l.must(t, command.PartitionPut{Name: "main", ShareDevices: &shared})
	}
	tests := map[string]struct {
		prepare func(t *testing.T, l *lab)
		spec    workload.Spec
		code    codes.Reason
		message string
		remedy  map[string]string
	}{
		"more than any has": {
			nil, workload.Spec{GPU: 1000, GPUMem: 90 * gib}, codes.DeviceMemory,
			"asked for 90G of a device's memory, the largest that partition main has is h100 with 80G", map[string]string{"gpu_mem": "80G"},
		},
		"more than the model has": {
			nil, workload.Spec{GPU: 1000, GPUMem: 60 * gib, Model: "a100"}, codes.DeviceMemory,
			"the largest that partition main has is a100 with 40G", map[string]string{"gpu_mem": "40G"},
		},
		"of one it isn't known": {
			func(t *testing.T, l *lab) { l.remember(t, map[string]int64{"a100": 40 * gib}) }, workload.Spec{GPU: 1000, GPUMem: 60 * gib}, codes.DeviceMemory,
			"is a100 with 40G, and how much h100 has isn't known", map[string]string{"gpu_mem": "40G"},
		},
		"it isn't known": {
			func(t *testing.T, l *lab) { l.remember(t, nil) }, workload.Spec{GPU: workload.LeastPart, GPUMem: gib}, codes.DeviceMemoryNone,
			"asked for 1G of a device's memory, and how much a100, h100 has isn't known", map[string]string{"gpu_mem": "0", "gpu": "1"},
		},
		"more devices than have it": {
			nil, workload.Spec{GPU: 3000, GPUMem: 60 * gib}, codes.DevicesNeverFit, "asked for 3 h100, gpu1 has 2", map[string]string{"gpu": "2"},
		},
		"no such model": {
			nil, workload.Spec{GPU: 1000, GPUMem: gib, Model: "b200"}, codes.ModelUnknown, "no node of partition main has a b200; there are: a100, h100", map[string]string{"model": ""},
		},
		"devices are given whole": {
			whole, workload.Spec{GPU: workload.LeastPart, GPUMem: 10 * gib}, codes.DevicesNotShared,
			"asked for 10G of a device, partition main gives whole ones", map[string]string{"gpu": "1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := withMemory(t)
			if tt.prepare != nil {
				tt.prepare(t, l)
			}
			tt.spec.Name, tt.spec.Kind, tt.spec.Image, tt.spec.Pull = "x", workload.KindContainer, "train:1", "missing"
			tt.spec.CPU, tt.spec.Mem, tt.spec.Time = 1000, gib, hour
			v, r := l.request(t, tt.spec)
			got, err := admission.Quote(v, r)
			if err != nil || len(got.Reasons) == 0 {
				t.Fatalf("admitted: %+v, %v", got, err)
			}
			if first := got.Reasons[0]; first.Code != tt.code || !strings.Contains(first.Message, tt.message) || !first.Never {
				t.Errorf("%+v, want %s: %s", first, tt.code, tt.message)
			}
			remedy := admission.Remedy(v, r, got)
			if remedy == nil {
				t.Fatal("no remedy")
			}
			if diff := cmp.Diff(tt.remedy, remedy.Set); diff != "" {
				t.Errorf("remedy (-want +got)\n%s", diff)
			}
		})
	}
}

// Once a device that has less is there, a waiting job needs more of each; while none is
// known to have as much it waits, and says so.
func TestDeviceMemoryChanges(t *testing.T) {
	l := withMemory(t)
	spec := workload.Spec{Name: "x", Kind: workload.KindContainer, Image: "train:1", GPU: workload.LeastPart, GPUMem: 30 * gib, Model: "a100", CPU: 1000, Mem: gib, Time: hour, Pull: "missing"}
	j := l.submit(t, spec).Result.(admission.Accepted).Job
	d, _ := l.w.Placement.Devices.Get("SIM-0")
	d.Memory = 20 * gib
	l.w.Fold([]world.Change{placement.DeviceSet{Row: d}})
	got, _, err := admission.Why(l.w.View(l.now), j)
	if err != nil || len(got.Reasons) != 1 || got.Reasons[0].Code != codes.DeviceMemory || got.Window.Start != 0 {
		t.Errorf("%+v %+v, %v", got.Reasons, got.Window, err)
	}
	if v := l.w.View(l.now); v.Eligible(j) {
		t.Error("the planner would look for a place")
	}
	d.Memory = 40 * gib
	l.w.Fold([]world.Change{placement.DeviceSet{Row: d}})
	if got, _, err = admission.Why(l.w.View(l.now), j); err != nil || !got.Admit || got.Spot.Part != 750 {
		t.Errorf("%+v %+v, %v", got.Reasons, got.Spot, err)
	}
}

// A job that waits for a part says how large that is, and for what.
func TestDeviceMemoryIsBusy(t *testing.T) {
	l := withMemory(t)
	spec := workload.Spec{Name: "x", Kind: workload.KindContainer, Image: "train:1", GPU: 1000, Model: "a100", CPU: 1000, Mem: gib, Time: hour, Pull: "missing"}
	for range 2 {
		l.must(t, command.JobStart{Job: l.submit(t, spec).Result.(admission.Accepted).Job.ID})
	}
	for want, ask := range map[string][2]int64{
		"needs 0.25 of a a100, for 10G of its memory; at most 0 of one is free on gpu1": {100, 10},
		"needs 0.25 of a a100; at most 0 of one is free on gpu1":                        {250, 10},
	} {
		spec.GPU, spec.GPUMem = ask[0], ask[1]*gib
		got, _, err := admission.Why(l.w.View(l.now), l.submit(t, spec).Result.(admission.Accepted).Job)
		if err != nil || len(got.Reasons) != 1 || got.Reasons[0].Message != want || got.Window.Start == 0 {
			t.Errorf("%+v %+v, %v; want %s", got.Reasons, got.Window, err, want)
		}
	}
}
