package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHoldAndRelease(t *testing.T) {
	s := machine(machine(&State{}, "n1", "a", "a"), "n10", "a")
	s.Hold(Hold{Job: 1, Node: "n1", CPU: 2, Mem: 3, Devices: uuids("n1", 0)})
	s.Hold(Hold{Job: 2, Node: "n10", CPU: 20, Mem: 30, Devices: uuids("n10", 0)})
	kept := s.Copy()

	s.Hold(Hold{Job: 1, Node: "n1", CPU: 5, Mem: 7, Devices: uuids("n1", 1)}) // the job's next attempt
	if s.InUse("n1-0") != 0 {
		t.Error("the device of the attempt before is still held")
	}
	if by := s.Shares("n1-1"); len(by) != 1 || by[0] != (Share{1, 1000}) {
		t.Errorf("n1-1 is held by %v", by)
	}
	if cpu, mem := s.Used("n1"); cpu != 5 || mem != 7 {
		t.Errorf("n1 uses %d, %d", cpu, mem)
	}
	if got := s.HoldsOn("n1"); len(got) != 1 || got[0].Job != 1 {
		t.Errorf("holds on n1: %v", got)
	}
	s.Release(1)
	s.Release(1)
	if cpu, mem := s.Used("n1"); cpu != 0 || mem != 0 || len(s.HoldsOn("n1")) != 0 {
		t.Errorf("after the release n1 uses %d, %d: %v", cpu, mem, s.HoldsOn("n1"))
	}
	if by := kept.Shares("n1-0"); len(by) != 1 || by[0].Job != 1 {
		t.Error("the copy has lost its hold")
	}
	if by := s.Shares("n10-0"); len(by) != 1 || by[0].Job != 2 {
		t.Error("the hold on the other node is gone")
	}
}

func TestDevicesMoveAndGo(t *testing.T) {
	s := machine(machine(&State{}, "n1", "a", "a"), "n2")
	change(s, "n1-1", func(d *Device) { d.Node, d.Index = "n2", 3 })
	want := []Device{{UUID: "n1-1", Node: "n2", Index: 3, Name: "gpu1", Model: "a", Healthy: true}}
	if diff := cmp.Diff(want, s.DevicesOn("n2")); diff != "" {
		t.Errorf("devices of n2 (-want +got):\n%s", diff)
	}
	if got := s.DevicesOn("n1"); len(got) != 1 || got[0].UUID != "n1-0" {
		t.Errorf("devices of n1: %v", got)
	}
	change(s, "n1-1", func(d *Device) { d.Gone = true })
	if got := s.DevicesOn("n2"); got != nil {
		t.Errorf("gone devices: %v", got)
	}
}

func TestMaintenanceThatIsOverIsForgotten(t *testing.T) {
	s := machine(&State{}, "n1")
	s.Fold(MaintenanceSet{Maintenance{ID: 3, Node: "*", From: 0, To: hour}})
	s.Fold(MaintenanceSet{Maintenance{ID: 3, Node: "*", From: 0, To: hour, Over: true}})
	if spot, misfits := s.FitNow(small(0, ""), everywhere, 1); spot.String() != "n1" {
		t.Errorf("still closed: %v", misfits)
	}
	if next := s.NextMaintenance(); next != 4 {
		t.Errorf("the next window's id is %d", next)
	}
}

func TestSpotNamesItsDevices(t *testing.T) {
	s := machine(&State{}, "n1", "a", "a", "b")
	spot, _ := s.FitNow(small(2, "a"), everywhere, 1)
	if got := spot.String(); got != "gpu0, gpu1" {
		t.Errorf("%q", got)
	}
}
