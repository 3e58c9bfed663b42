package placement

import (
	"maps"
	"slices"
)

// Observe returns the changes that make the state agree with what an engine
// offers now. An operator's drain stays; what is no longer offered is kept as
// gone, so that its history has a name.
func (s *State) Observe(nodes []Node, devices []Device) []Change {
	var out []Change
	seen := map[string]bool{}
	for _, n := range nodes {
		seen[n.Name] = true
		old, ok := s.Nodes.Get(n.Name)
		n.Drained, n.Why, n.Added, n.Gone = old.Drained, old.Why, old.Added, false
		if !ok || !sameNode(old, n) {
			out = append(out, NodeSet{n})
		}
	}
	for _, old := range s.Nodes.All() {
		if !seen[old.Name] && !old.Gone {
			old.Gone = true
			out = append(out, NodeSet{old})
		}
	}
	offered := map[string]bool{}
	for _, d := range devices {
		offered[d.UUID] = true
		d.Gone = false
		if old, ok := s.Devices.Get(d.UUID); !ok || !sameDevice(old, d) {
			out = append(out, DeviceSet{d})
		}
	}
	for _, old := range s.Devices.All() {
		if !offered[old.UUID] && !old.Gone {
			old.Gone, old.Foreign = true, nil
			out = append(out, DeviceSet{old})
		}
	}
	return out
}

func sameNode(a, b Node) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Added, b.Added) && a.Name == b.Name && a.CPU == b.CPU && a.Memory == b.Memory && a.Ready == b.Ready &&
		a.Gone == b.Gone && a.Reason == b.Reason && a.Drained == b.Drained && a.Why == b.Why
}

func sameDevice(a, b Device) bool {
	return a.UUID == b.UUID && a.Node == b.Node && a.Index == b.Index && a.Name == b.Name && a.Model == b.Model && a.Memory == b.Memory && a.CDI == b.CDI &&
		a.Healthy == b.Healthy && a.Gone == b.Gone && a.Reason == b.Reason && slices.Equal(a.Foreign, b.Foreign)
}
