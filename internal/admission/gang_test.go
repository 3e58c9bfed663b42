package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

// machines gives the lab three nodes with four devices each.
func machines(t *testing.T, billing string, funds money.Micros) *lab {
	l := newLab(t, billing, funds)
	var inv command.InventoryObserved
	for n := range 3 {
		node := fmt.Sprintf("gpu%d", n+1)
		inv.Nodes = append(inv.Nodes, placement.Node{Name: node, CPU: 64000, Memory: 512 * gib, Ready: true})
		for i := range 4 {
			inv.Devices = append(inv.Devices, placement.Device{UUID: fmt.Sprintf("SIM-%d", 4*n+i), Node: node, Index: i, Name: fmt.Sprintf("gpu%d", i), Model: "a100", Healthy: true})
		}
	}
	l.must(t, inv)
	return l
}

// onMachines is example on so many machines.
func onMachines(n int64) workload.Spec {
	spec := example()
	spec.Nodes = n
	return spec
}

// A job on several machines counts on all of them: its price, its limits, and what is held.
func TestGangCountsAsAWhole(t *testing.T) {
	l := machines(t, "enforce", 100*money.Credit)
	j := l.submit(t, onMachines(3)).Result.(admission.Accepted).Job
	if want := money.Micros(3 * 2 * 1_144_000); j.Deposit != want {
		t.Errorf("deposit %s, want %s", j.Deposit, want)
	}
	l.must(t, command.JobStart{Job: j.ID, Image: "sha256:1"})
	j, _ = l.w.Workload.Jobs.Get(j.ID)
	if diff := cmp.Diff([]string{"gpu1", "gpu2", "gpu3"}, j.Attempt.Nodes()); diff != "" {
		t.Errorf("nodes (-want +got)\n%s", diff)
	}
	if n := catalog.Counted(j.Attempt.Models); n != 3000 || len(j.Attempt.AllDevices()) != 3 {
		t.Errorf("%d milli-devices, %v", n, j.Attempt.AllDevices())
	}
	for _, r := range j.Attempt.Ranks() {
		if cpu, mem := l.w.Placement.Used(r.Node); cpu != 8000 || mem != 64*gib || l.w.Placement.InUse(r.Devices[0]) != 1000 {
			t.Errorf("%s: cpu %d, mem %d", r.Node, cpu, mem)
		}
	}
	held := admission.Held(j)
	if held.CPU != 24_000 || held.Mem != 3*64*gib || held.GPU != 3000 {
		t.Errorf("held %+v", held)
	}
}

func TestGangRefused(t *testing.T) {
	tests := map[string]struct {
		setup func(*testing.T, *lab)
		edit  func(*workload.Spec)
		code  codes.Reason
		says  string
		want  map[string]string
	}{
		"more machines than there are": {
			nil, func(s *workload.Spec) { s.Nodes = 5 }, codes.NodesNeverFit, "asked for 5 nodes, partition main has 3 with as much on each", map[string]string{"nodes": "3"},
		},
		"more on each than any has": {
			nil, func(s *workload.Spec) { s.Nodes, s.GPU = 2, 5000 }, codes.DevicesNeverFit, "asked for 5 gpu, gpu1 has 4", map[string]string{"gpu": "4"},
		},
		"a limit on the job's devices": {
			func(t *testing.T, l *lab) {
				l.must(t, command.LimitPut{Account: "nlp", Resource: limits.JobGPU, Max: 5000})
			},
			func(s *workload.Spec) { s.Nodes, s.GPU = 3, 2000 }, codes.LimitDevices, "", map[string]string{"nodes": "2"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := machines(t, "off", 0)
			if tt.setup != nil {
				tt.setup(t, l)
			}
			spec := example()
			tt.edit(&spec)
			f := l.submit(t, spec).Fault
			if f == nil || f.Reasons[0].Code != tt.code || !f.Reasons[0].Never || !strings.Contains(f.Reasons[0].Message, tt.says) {
				t.Fatalf("got %+v", f)
			}
			if f.Remedy == nil {
				t.Fatal("no remedy")
			}
			if diff := cmp.Diff(tt.want, f.Remedy.Set); diff != "" {
				t.Errorf("remedy (-want +got)\n%s", diff)
			}
		})
	}
}

// One that waits says how many machines have room, when it starts, and what would start now.
func TestGangWaits(t *testing.T) {
	l := machines(t, "off", 0)
	alone := example()
	alone.GPU = 4000
	first := l.submit(t, alone).Result.(admission.Accepted).Job
	l.must(t, command.JobStart{Job: first.ID, Image: "sha256:1"})
	j := l.submit(t, onMachines(3)).Result.(admission.Accepted).Job
	why, req, err := admission.Why(l.w.View(l.now), j)
	if err != nil || len(why.Reasons) != 1 || why.Reasons[0].Code != codes.NodesBusy || why.Reasons[0].Message != "needs 3 nodes at once; 2 of the 3 that could have room now" {
		t.Fatalf("%+v %v", why.Reasons, err)
	}
	if at := (why.Window.Start - l.now) / minute; why.Window.Kind != placement.StartPromised || at != 120 {
		t.Errorf("starts in %d minutes: %+v", at, why.Window)
	}
	l.must(t, command.PromisesMade{Promises: []command.Promised{{Job: j.ID, At: l.now + 2*hour}}})
	req.Job, _ = l.w.Workload.Jobs.Get(j.ID)
	if r := admission.Remedy(l.w.View(l.now), req, why); r == nil || r.Set["nodes"] != "2" || r.Start != l.now {
		t.Errorf("remedy %+v: what the job was promised doesn't hold for another", r)
	}
}
