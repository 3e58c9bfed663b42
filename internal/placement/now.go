package placement

import (
	"iter"
	"slices"
	"strings"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
)

// Spot is where a job can start: a node and its devices, in index order.
type Spot struct {
	Node    string
	Devices []Device
}

// String names the devices, "gpu0, gpu1", or the node if there are none.
func (sp Spot) String() string {
	if len(sp.Devices) == 0 {
		return sp.Node
	}
	var names []string
	for _, d := range sp.Devices {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ")
}

// UUIDs lists the spot's devices.
func (sp Spot) UUIDs() []string {
	var out []string
	for _, d := range sp.Devices {
		out = append(out, d.UUID)
	}
	return out
}

// Models counts the spot's devices by model.
func (sp Spot) Models() []catalog.ModelCount {
	var out []catalog.ModelCount
	for _, d := range sp.Devices {
		out = count(out, d.Model, 1)
	}
	return out
}

// FitNow finds where sh can run from now to its end: all of it free, every device
// usable, no maintenance window in between. Of several nodes it takes the one on
// which the fewest devices, then cores, are left over, then the first by name. If
// there is none it says why, on the node that lacks least: one that only waits for
// jobs to end rather than one that somebody must repair.
func (s *State) FitNow(sh Shape, p catalog.Partition, now int64) (Spot, []Misfit) {
	var best Spot
	var left [2]int64
	for node, sum := range s.nodesOf(p, sh.Where) {
		spot, over, ok := s.fitOn(sh, node, sum, now)
		if ok && (best.Node == "" || slices.Compare(over[:], left[:]) < 0) {
			best, left = spot, over
		}
	}
	if best.Node != "" {
		return best, nil
	}
	return Spot{}, s.whyNot(sh, p, now)
}

// Check says what keeps sh from running at spot from now on, nil if nothing does:
// for a start that was planned a moment ago.
func (s *State) Check(sh Shape, spot Spot, now int64) []Misfit {
	if out := s.misfitsOn(sh, spot.Node, now); out != nil {
		return out
	}
	if int64(len(spot.Devices)) != sh.GPU {
		return []Misfit{{Kind: NeverFit, Resource: sh.devices(), Node: spot.Node, Asked: sh.GPU, Total: int64(len(spot.Devices))}}
	}
	if len(spot.Models()) > 1 && !sh.Mixed {
		return []Misfit{{Kind: NeverFit, Resource: sh.devices(), Node: spot.Node, Asked: sh.GPU, Total: together(spot.Models(), sh)}}
	}
	free := s.freeDevices(spot.Node, sh.Model)
	for _, d := range spot.Devices {
		if !slices.ContainsFunc(free, func(f Device) bool { return f.UUID == d.UUID }) {
			m := Misfit{Kind: Busy, Resource: sh.devices(), Node: spot.Node, Asked: sh.GPU, Free: int64(len(free)), Devices: []Device{d}}
			if j, ok := s.holders.Get(d.UUID); ok {
				m.Holders = []id.Job{j}
			}
			return []Misfit{m}
		}
	}
	return nil
}

// FitsOn reports whether sh can run on a node from now on.
func (s *State) FitsOn(sh Shape, node string, now int64) bool {
	return s.misfitsOn(sh, node, now) == nil
}

// nodesOf yields the nodes of p that offer anything and meet a constraint, by name.
func (s *State) nodesOf(p catalog.Partition, where string) iter.Seq2[string, nodeSum] {
	return meeting(where, func(yield func(string, nodeSum) bool) {
		if len(p.Nodes) > 0 {
			for _, name := range p.Nodes {
				if n, ok := s.fleet.nodes.Get(name); ok && !n.full.empty() && !yield(name, n) {
					return
				}
			}
			return
		}
		for name, n := range s.fleet.nodes.All() {
			if !n.full.empty() && !yield(name, n) {
				return
			}
		}
	})
}

// fitOn places sh on a node now, and says how many devices and cores are left
// over there.
func (s *State) fitOn(sh Shape, node string, sum nodeSum, now int64) (Spot, [2]int64, bool) {
	cpu, mem := sum.usable.cpu-sum.load.cpu, sum.usable.mem-sum.load.mem
	if sh.CPU > cpu || sh.Mem > mem || !sum.usable.fits(sh) || sh.GPU > sum.mostFree() {
		return Spot{}, [2]int64{}, false
	}
	if _, crosses := s.crossing(node, now, sh.Length()); crosses {
		return Spot{}, [2]int64{}, false
	}
	free := s.freeDevices(node, "")
	devices, ok := choose(free, sh)
	if !ok {
		return Spot{}, [2]int64{}, false
	}
	return Spot{node, devices}, [2]int64{int64(len(free)) - sh.GPU, cpu - sh.CPU}, true
}

// freeDevices lists the devices of any of the models on a node that a job can be
// given now, in index order.
func (s *State) freeDevices(node, models string) []Device {
	var out []Device
	for d := range s.devicesOn(node) {
		if !d.Usable() || !catalog.Allows(models, d.Model) {
			continue
		}
		if _, held := s.holders.Get(d.UUID); !held {
			out = append(out, d)
		}
	}
	return out
}

// crossing returns the first window on node that [from, from+length) runs into.
func (s *State) crossing(node string, from, length int64) (Maintenance, bool) {
	var first Maintenance
	found := false
	for _, m := range s.Maintenance.All() {
		if m.On(node) && m.From < after(from, length) && m.To > from && (!found || m.From < first.From) {
			first, found = m, true
		}
	}
	return first, found
}
