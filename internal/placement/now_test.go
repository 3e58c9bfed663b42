package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
)

func TestFitNowSaysWhyNot(t *testing.T) {
	const now = 1000 * hour
	window := Maintenance{ID: 1, Node: "n1", From: now + hour, To: now + 2*hour, Reason: "disk"}
	cases := map[string]struct {
		edit  func(*State)
		shape Shape
		want  []Misfit
		code  codes.Reason
	}{
		"devices busy, free when the second job ends": {
			edit: func(s *State) {
				s.Hold(Hold{Job: 7, Node: "n1", Devices: uuids("n1", 0), Until: now + 3*hour})
				s.Hold(Hold{Job: 8, Node: "n1", Devices: uuids("n1", 1), Until: now + hour})
				s.Hold(Hold{Job: 9, Node: "n1", Devices: uuids("n1", 2), Until: now + 2*hour})
			},
			shape: small(3, "a100"),
			want: []Misfit{{
				Kind: Busy, Resource: "gpu:a100", Node: "n1", Asked: 3000, Free: 1000, Total: 4000, Holders: []id.Job{8, 9, 7}, Until: now + 2*hour,
			}},
			code: codes.DevicesBusy,
		},
		"cores and memory busy": {
			edit: func(s *State) {
				s.Hold(Hold{Job: 7, Node: "n1", CPU: 30 * core, Mem: 120 * gib, Until: now + hour})
			},
			shape: Shape{CPU: 4 * core, Mem: 16 * gib, Wall: hour},
			want: []Misfit{
				{Kind: Busy, Resource: limits.Mem, Node: "n1", Asked: 16 * gib, Free: 8 * gib, Total: 128 * gib, Holders: []id.Job{7}, Until: now + hour},
				{Kind: Busy, Resource: limits.CPU, Node: "n1", Asked: 4 * core, Free: 2 * core, Total: 32 * core, Holders: []id.Job{7}, Until: now + hour},
			},
			code: codes.MemoryBusy,
		},
		"overdue hold ends within a minute": {
			edit: func(s *State) {
				s.Hold(Hold{Job: 7, Node: "n1", CPU: 32 * core, Until: now - hour})
			},
			shape: small(0, ""),
			want: []Misfit{{
				Kind: Busy, Resource: limits.CPU, Node: "n1", Asked: core, Total: 32 * core, Holders: []id.Job{7}, Until: now + Overdue,
			}},
			code: codes.CPUBusy,
		},
		"foreign process": {
			edit: func(s *State) {
				change(s, "n1-3", func(d *Device) { d.Foreign = []Process{{PID: 42, User: "eve"}} })
			},
			shape: small(4, ""),
			want:  []Misfit{{Kind: Foreign, Resource: limits.GPU, Node: "n1", Asked: 4000, Free: 3000, Total: 4000, Devices: []Device{{UUID: "n1-3"}}}},
			code:  codes.DevicesForeign,
		},
		"failed device": {
			edit:  func(s *State) { change(s, "n1-3", func(d *Device) { d.Healthy = false }) },
			shape: small(4, ""),
			want:  []Misfit{{Kind: Unhealthy, Resource: limits.GPU, Node: "n1", Asked: 4000, Free: 3000, Total: 4000, Devices: []Device{{UUID: "n1-3"}}}},
			code:  codes.DevicesUnhealthy,
		},
		"busy and foreign: not enough when the job ends": {
			edit: func(s *State) {
				s.Hold(Hold{Job: 7, Node: "n1", Devices: uuids("n1", 0), Until: now + hour})
				change(s, "n1-3", func(d *Device) { d.Foreign = []Process{{PID: 42}} })
			},
			shape: small(4, ""),
			want: []Misfit{
				{Kind: Busy, Resource: limits.GPU, Node: "n1", Asked: 4000, Free: 2000, Total: 4000, Holders: []id.Job{7}},
				{Kind: Foreign, Resource: limits.GPU, Node: "n1", Asked: 4000, Free: 2000, Total: 4000, Devices: []Device{{UUID: "n1-3"}}},
			},
			code: codes.DevicesBusy,
		},
		"maintenance: the wall that fits": {
			edit:  func(s *State) { s.Fold(MaintenanceSet{window}) },
			shape: Shape{CPU: core, Mem: gib, Wall: hour, Grace: 10 * second},
			want: []Misfit{{
				Kind: InWindow, Node: "n1", Asked: hour, Until: window.To, Window: window, Wall: hour - 10*second,
			}},
			code: codes.Maintenance,
		},
		"in maintenance": {
			edit: func(s *State) {
				s.Fold(MaintenanceSet{Maintenance{ID: 1, Node: "*", From: now - hour, To: now + hour}})
			},
			shape: small(0, ""),
			want: []Misfit{{
				Kind: InWindow, Node: "n1", Asked: hour, Until: now + hour, Window: Maintenance{ID: 1, Node: "*", From: now - hour, To: now + hour},
			}},
			code: codes.Maintenance,
		},
		"drained": {
			edit:  func(s *State) { changeNode(s, "n1", func(n *Node) { n.Drained, n.Why = true, "fan" }) },
			shape: small(1, ""),
			want:  []Misfit{{Kind: Drained, Node: "n1", Why: "fan"}},
			code:  codes.NodeDrained,
		},
		"down": {
			edit:  func(s *State) { changeNode(s, "n1", func(n *Node) { n.Ready, n.Reason = false, "no runtime" }) },
			shape: small(1, ""),
			want:  []Misfit{{Kind: Down, Node: "n1", Why: "no runtime"}},
			code:  codes.NodeDown,
		},
		"never": {
			shape: small(5, "a100"),
			want:  []Misfit{{Kind: NeverFit, Resource: "gpu:a100", Node: "n1", Asked: 5000, Total: 4000}},
			code:  codes.DevicesNeverFit,
		},
		"no such model": {
			shape: small(1, "h100"),
			want:  []Misfit{{Kind: NoModel, Resource: "gpu:h100", Asked: 1000}},
			code:  codes.ModelUnknown,
		},
		"names the node that only waits for a job": {
			edit: func(s *State) {
				changeNode(s, "n1", func(n *Node) { n.Drained = true })
				machine(s, "n2", "a100")
				machine(s, "n3", "a100")
				s.Hold(Hold{Job: 7, Node: "n2", Devices: uuids("n2", 0), Until: now + 2*hour})
				s.Hold(Hold{Job: 8, Node: "n3", Devices: uuids("n3", 0), Until: now + hour})
			},
			shape: small(1, ""),
			want: []Misfit{{
				Kind: Busy, Resource: limits.GPU, Node: "n3", Asked: 1000, Total: 1000, Holders: []id.Job{8}, Until: now + hour,
			}},
			code: codes.DevicesBusy,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := machine(&State{}, "n1", "a100", "a100", "a100", "a100")
			if c.edit != nil {
				c.edit(s)
			}
			spot, got := s.FitNow(c.shape, everywhere, now)
			if spot.Node != "" {
				t.Fatalf("fits at %v", spot)
			}
			onlyUUID := cmp.Transformer("uuid", func(d Device) string { return d.UUID })
			if diff := cmp.Diff(c.want, got, onlyUUID, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("misfits (-want +got):\n%s", diff)
			}
			if got[0].Code() != c.code {
				t.Errorf("code %s, want %s", got[0].Code(), c.code)
			}
		})
	}
}

func TestFitNowChooses(t *testing.T) {
	const now = 1000 * hour
	cases := map[string]struct {
		state func() *State
		shape Shape
		want  Spot
	}{
		"the node with the fewest devices left over": {
			state: func() *State {
				return machine(machine(&State{}, "n1", "a", "a", "a", "a"), "n2", "a", "a")
			},
			shape: small(2, "a"),
			want:  Spot{Node: "n2", Devices: []Device{device("n2", 0, "a"), device("n2", 1, "a")}},
		},
		"no device for a job that wants none": {
			state: func() *State { return machine(machine(&State{}, "n1", "a"), "n2") },
			shape: small(0, ""),
			want:  Spot{Node: "n2"},
		},
		"neighbours, out of the shortest run that is long enough": {
			state: func() *State {
				s := machine(&State{}, "n1", "a", "a", "a", "a", "a", "a", "a", "a")
				s.Hold(Hold{Job: 1, Node: "n1", Devices: uuids("n1", 1, 5), Until: now + hour})
				return s // free: 0, 2 3 4, 6 7
			},
			shape: small(2, "a"),
			want:  Spot{Node: "n1", Devices: []Device{device("n1", 6, "a"), device("n1", 7, "a")}},
		},
		"the lowest when there are no neighbours": {
			state: func() *State {
				s := machine(&State{}, "n1", "a", "a", "a", "a", "a", "a")
				s.Hold(Hold{Job: 1, Node: "n1", Devices: uuids("n1", 1, 3), Until: now + hour})
				return s // free: 0, 2, 4 5
			},
			shape: small(3, "a"),
			want:  Spot{Node: "n1", Devices: []Device{device("n1", 0, "a"), device("n1", 2, "a"), device("n1", 4, "a")}},
		},
		"one model if any has enough": {
			state: func() *State { return machine(&State{}, "n1", "a", "a", "b", "b", "b") },
			shape: small(3, ""),
			want:  Spot{Node: "n1", Devices: []Device{device("n1", 2, "b"), device("n1", 3, "b"), device("n1", 4, "b")}},
		},
		"a mix of models if it must": {
			state: func() *State { return machine(&State{}, "n1", "a", "b", "b") },
			shape: Shape{CPU: core, Mem: gib, GPU: 3000, Mixed: true, Wall: hour},
			want:  Spot{Node: "n1", Devices: []Device{device("n1", 0, "a"), device("n1", 1, "b"), device("n1", 2, "b")}},
		},
		"any of several models, all of one": {
			state: func() *State {
				s := machine(&State{}, "n1", "a", "a", "b", "b", "c", "c")
				s.Hold(Hold{Job: 1, Node: "n1", Devices: uuids("n1", 0), Until: now + hour})
				return s
			},
			shape: small(2, "a|c"),
			want:  Spot{Node: "n1", Devices: []Device{device("n1", 4, "c"), device("n1", 5, "c")}},
		},
		"a node that meets the constraint": {
			state: func() *State {
				s := machine(machine(&State{}, "n1", "a"), "n2", "a", "a")
				changeNode(s, "n1", func(n *Node) { n.Labels = map[string]string{"zone": "b"} })
				changeNode(s, "n2", func(n *Node) { n.Labels = map[string]string{"zone": "b"}; n.Added = map[string]string{"zone": "a"} })
				return s
			},
			shape: Shape{CPU: core, Mem: gib, GPU: 1000, Where: "zone=a", Wall: hour},
			want:  Spot{Node: "n2", Devices: []Device{device("n2", 0, "a")}},
		},
		"up to the start of a window": {
			state: func() *State {
				s := machine(&State{}, "n1")
				s.Fold(MaintenanceSet{Maintenance{ID: 1, Node: "*", From: now + hour, To: now + 2*hour}})
				return s
			},
			shape: small(0, ""),
			want:  Spot{Node: "n1"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := c.state()
			got, misfits := s.FitNow(c.shape, everywhere, now)
			if diff := cmp.Diff(c.want, got); diff != "" || misfits != nil {
				t.Errorf("misfits %v; (-want +got):\n%s", misfits, diff)
			}
			if misfits := s.Check(c.shape, got, now); misfits != nil {
				t.Errorf("Check of the same spot: %v", misfits)
			}
		})
	}
}

func TestCheckSeesWhatWasTaken(t *testing.T) {
	const now = 1000 * hour
	s := machine(&State{}, "n1", "a", "a", "a")
	spot, _ := s.FitNow(small(1, "a"), everywhere, now)
	s.Hold(Hold{Job: 5, Node: "n1", Devices: spot.UUIDs(), Until: now + hour})
	got := s.Check(small(1, "a"), spot, now)
	if len(got) != 1 || got[0].Kind != Busy || !cmp.Equal(got[0].Holders, []id.Job{5}) {
		t.Errorf("a held device: %v", got)
	}
	s.Release(5)
	if got := s.Check(small(2, "a"), spot, now); len(got) != 1 || got[0].Kind != NeverFit {
		t.Errorf("a device too few: %v", got)
	}
	changeNode(s, "n1", func(n *Node) { n.Drained = true })
	if got := s.Check(small(1, "a"), spot, now); len(got) != 1 || got[0].Kind != Drained {
		t.Errorf("a drained node: %v", got)
	}
}

func TestNeverFits(t *testing.T) {
	s := machine(&State{}, "gpu1", "a", "a", "a", "a")
	changeNode(s, "gpu1", func(n *Node) { n.CPU = 8 * core })
	machine(s, "cpu1")
	machine(s, "gone", "a", "a", "a", "a", "a", "a")
	changeNode(s, "gone", func(n *Node) { n.Gone = true })
	change(s, "gpu1-0", func(d *Device) { d.Healthy = false })
	changeNode(s, "gpu1", func(n *Node) { n.Drained = true })

	cases := map[string]struct {
		shape     Shape
		partition catalog.Partition
		want      []Misfit
		largest   Shape // zero: none
	}{
		"fits a drained node with a failed device": {shape: small(4, "a"), largest: small(4, "a")},
		"more devices than any node": {
			shape:   small(8, "a"),
			want:    []Misfit{{Kind: NeverFit, Resource: "gpu:a", Asked: 8000, Total: 4000, Node: "gpu1"}},
			largest: small(4, "a"),
		},
		"each amount fits some node, together none": {
			shape:   Shape{CPU: 16 * core, Mem: gib, GPU: 2000, Wall: hour},
			want:    []Misfit{{Kind: NeverFit, Resource: limits.CPU, Asked: 16 * core, Total: 8 * core, Node: "gpu1"}},
			largest: Shape{CPU: 8 * core, Mem: gib, GPU: 2000, Wall: hour},
		},
		"too much of everything": {
			shape: Shape{CPU: 64 * core, Mem: 256 * gib, GPU: 8000},
			want: []Misfit{
				{Kind: NeverFit, Resource: limits.GPU, Asked: 8000, Total: 4000, Node: "gpu1"},
				{Kind: NeverFit, Resource: limits.Mem, Asked: 256 * gib, Total: 128 * gib, Node: "cpu1"},
				{Kind: NeverFit, Resource: limits.CPU, Asked: 64 * core, Total: 32 * core, Node: "cpu1"},
			},
			largest: Shape{CPU: 8 * core, Mem: 128 * gib, GPU: 4000},
		},
		"devices that are there in all, of no one model": {
			shape:   Shape{CPU: core, Mem: gib, GPU: 5000, Model: "a|b", Wall: hour},
			want:    []Misfit{{Kind: NeverFit, Resource: "gpu:a|b", Asked: 5000, Total: 4000, Node: "gpu1"}},
			largest: Shape{CPU: core, Mem: gib, GPU: 4000, Model: "a|b", Wall: hour},
		},
		"a constraint that no node meets": {
			shape: Shape{CPU: core, Mem: gib, Where: "nvlink", Wall: hour},
			want:  []Misfit{{Kind: NoFeature, Where: "nvlink"}},
		},
		"a model that no node of those that meet it has": {
			shape: Shape{CPU: core, Mem: gib, GPU: 1000, Model: "x|y", Where: "!nvlink", Wall: hour},
			want:  []Misfit{{Kind: NoModel, Resource: "gpu:x|y", Asked: 1000, Where: "!nvlink"}},
		},
		"devices in a partition without any": {
			shape:     small(1, ""),
			partition: catalog.Partition{Name: "cpu", Nodes: []string{"cpu1"}},
			want:      []Misfit{{Kind: NeverFit, Resource: limits.GPU, Asked: 1000}},
		},
		"model that the partition doesn't have": {
			shape:     small(1, "a"),
			partition: catalog.Partition{Name: "cpu", Nodes: []string{"cpu1"}},
			want:      []Misfit{{Kind: NoModel, Resource: "gpu:a", Asked: 1000}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, s.NeverFits(c.shape, c.partition)); diff != "" {
				t.Errorf("NeverFits (-want +got):\n%s", diff)
			}
			largest, ok := s.LargestFit(c.shape, c.partition)
			if diff := cmp.Diff(c.largest, largest); diff != "" || ok != (c.largest != Shape{}) {
				t.Errorf("LargestFit %v (-want +got):\n%s", ok, diff)
			}
			if ok && s.NeverFits(largest, c.partition) != nil {
				t.Errorf("LargestFit %v doesn't fit", largest)
			}
		})
	}
}
