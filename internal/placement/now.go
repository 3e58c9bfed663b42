package placement

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/quantity"
)

// Spot is where a job can start: a node and its devices, in index order.
type Spot struct {
	Node    string
	Devices []Device
	Part    int64  // milli-devices of the one device; 0: the devices are whole
	Others  []Spot // further nodes, of a job on several: one for each rank from 1 on
}

// String names the devices, "gpu0, gpu1" or "0.5 of gpu0", or the node if there are none;
// the nodes if they are several.
func (sp Spot) String() string {
	if len(sp.Others) > 0 {
		var nodes []string
		for _, r := range sp.Ranks() {
			nodes = append(nodes, r.Node)
		}
		return strings.Join(nodes, ", ")
	}
	if len(sp.Devices) == 0 {
		return sp.Node
	}
	var names []string
	for _, d := range sp.Devices {
		names = append(names, d.Name)
	}
	if sp.Part > 0 {
		return quantity.FormatDevices(sp.Part) + " of " + names[0]
	}
	return strings.Join(names, ", ")
}

// UUIDs lists the spot's devices on its first node.
func (sp Spot) UUIDs() []string {
	var out []string
	for _, d := range sp.Devices {
		out = append(out, d.UUID)
	}
	return out
}

// Models counts the spot's devices on all of its nodes by model.
func (sp Spot) Models() []catalog.ModelCount {
	var out []catalog.ModelCount
	for _, r := range sp.Ranks() {
		for _, d := range r.Devices {
			out = count(out, d.Model, cmp.Or(sp.Part, quantity.Device))
		}
	}
	return out
}

// FitNow finds where sh can run from now to its end: all of it free, every device
// usable, no maintenance window in between. Of several nodes it takes the one on
// which the fewest devices, then cores, are left over, then the first by name; for a
// part first one that has a shared device with room, the least that leaves. If
// there is none it says why, on the node that lacks least: one that only waits for
// jobs to end rather than one that somebody must repair.
func (s *State) FitNow(sh Shape, p catalog.Partition, now int64) (Spot, []Misfit) {
	if sh.gang() {
		return s.fitGang(sh, p, now)
	}
	var best Spot
	var left [3]int64
	for node, sum := range s.candidates(sh, p) {
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
	if sh.gang() {
		return s.checkGang(sh, spot, now)
	}
	if len(spot.Devices) == 1 {
		sh = sh.on(spot.Devices[0].Model)
	}
	if out := s.misfitsOn(sh, spot.Node, now); out != nil {
		return out
	}
	if n := catalog.Counted(spot.Models()); n != sh.GPU || sh.part() && len(spot.Devices) > 1 {
		return []Misfit{{Kind: NeverFit, Resource: sh.devices(), Node: spot.Node, Asked: sh.GPU, Total: n}}
	}
	if len(spot.Models()) > 1 && !sh.Mixed {
		return []Misfit{{Kind: NeverFit, Resource: sh.devices(), Node: spot.Node, Asked: sh.GPU, Total: together(spot.Models(), sh)}}
	}
	sum, _ := s.fleet.nodes.Get(spot.Node)
	if s.touches(sh, spot.Node, now) {
		t := s.trackFor(sh, spot.Node, sum, now)
		would := Hold{Node: spot.Node, CPU: sh.CPU, Mem: sh.Mem, Devices: spot.UUIDs(), Part: spot.Part}
		if !t.has(s.useOf(t, would), now, after(now, sh.Length())) {
			return []Misfit{s.reserved(sh, t, now)}
		}
	}
	for _, d := range spot.Devices {
		on, ok := s.Devices.Get(d.UUID)
		if !ok || on.Node != spot.Node || !on.Usable() || !catalog.Allows(sh.Model, on.Model) || s.InUse(d.UUID) > quantity.Device-cmp.Or(spot.Part, quantity.Device) {
			m := Misfit{Kind: Busy, Resource: sh.devices(), Node: spot.Node, Asked: sh.GPU, Free: s.mostNow(sh, spot.Node), Devices: []Device{d}}
			for _, by := range s.Shares(d.UUID) {
				m.Holders = append(m.Holders, by.Job)
			}
			return []Misfit{m}
		}
	}
	return nil
}

// mostNow is how much of a node's devices a job like sh could be given now.
func (s *State) mostNow(sh Shape, node string) int64 {
	if sh.part() {
		var most int64
		for d := range s.devicesOn(node) {
			if d.Usable() && catalog.Allows(sh.Model, d.Model) {
				most = max(most, quantity.Device-s.InUse(d.UUID))
			}
		}
		return most
	}
	return int64(len(s.freeDevices(node, sh.Model))) * quantity.Device
}

// FitsOn reports whether sh can run on a node from now on.
func (s *State) FitsOn(sh Shape, node string, now int64) bool {
	return s.misfitsOn(sh, node, now) == nil
}

// candidates yields the nodes of p that sh may run on, by name.
func (s *State) candidates(sh Shape, p catalog.Partition) iter.Seq2[string, nodeSum] {
	if sh.In != 0 {
		return meeting(sh.Where, s.nodesIn(sh.In))
	}
	return s.nodesOf(p, sh.Where)
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

// fitOn places sh on a node now, and says how it would leave the node, as track.over
// does.
func (s *State) fitOn(sh Shape, node string, sum nodeSum, now int64) (spot Spot, over [3]int64, ok bool) {
	cpu, mem := sum.usable.cpu-sum.load.cpu, sum.usable.mem-sum.load.mem
	if sh.CPU > cpu || sh.Mem > mem || !sum.usable.fits(sh) || sh.GPU > sum.mostFree() {
		return spot, over, false
	}
	if _, crosses := s.crossing(node, now, sh.Length()); crosses || s.portMisfits(sh, node, now) != nil {
		return spot, over, false
	}
	spot.Node = node
	devices := s.freeDevices(node, "")
	free := int64(len(devices)) * quantity.Device
	if sh.part() {
		d, left, opens, ok := s.partOn(sh, node, sum, now)
		spot.Devices, spot.Part, over = []Device{d}, sh.PartOn(d.Model), [3]int64{0, left, cpu - sh.CPU}
		if opens {
			over = [3]int64{1, free, cpu - sh.CPU}
		}
		return spot, over, ok
	}
	if s.touches(sh, node, now) {
		if devices, cpu, ok = s.beside(sh, node, sum, devices, now); !ok {
			return spot, over, false
		}
		free = int64(len(devices)) * quantity.Device
	}
	spot.Devices, ok = choose(devices, sh)
	return spot, [3]int64{0, free - sh.GPU, cpu - sh.CPU}, ok
}

// partOn picks the device for sh, a part, on a node: where bookings matter, as they
// leave room for it to its end.
func (s *State) partOn(sh Shape, node string, sum nodeSum, now int64) (d Device, left int64, opens, ok bool) {
	if !s.touches(sh, node, now) {
		return s.choosePart(node, sh)
	}
	t := s.trackFor(sh, node, sum, now)
	low, _, ok := t.try(sh, now, nil)
	if !ok {
		return d, 0, false, false
	}
	to, _ := t.seat(sh, now, low)
	if to.shared >= 0 {
		d, ok = s.Devices.Get(t.shared[to.shared].uuid)
		return d, to.left, false, ok
	}
	whole, ok := choose(s.freeDevices(node, ""), Shape{GPU: quantity.Device, Model: t.models[to.model]})
	if !ok {
		return d, 0, false, false
	}
	return whole[0], to.left, true, true
}

// beside is what of a node's free devices a job can be given now where bookings matter,
// and how many cores.
func (s *State) beside(sh Shape, node string, sum nodeSum, free []Device, now int64) ([]Device, int64, bool) {
	t := s.trackFor(sh, node, sum, now)
	low, _, ok := t.try(sh, now, nil)
	if !ok {
		return nil, 0, false
	}
	var out []Device
	left := t.counts(low, sh.Model)
	for _, d := range free {
		if i := slices.IndexFunc(left, func(m catalog.ModelCount) bool { return m.Model == d.Model && m.Count >= quantity.Device }); i >= 0 {
			left[i].Count -= quantity.Device
			out = append(out, d)
		}
	}
	return out, low[cpus], true
}

// freeDevices lists the devices of any of the models on a node that a job can be
// given whole now, in index order.
func (s *State) freeDevices(node, models string) []Device {
	var out []Device
	for d := range s.devicesOn(node) {
		if !d.Usable() || !catalog.Allows(models, d.Model) {
			continue
		}
		if s.InUse(d.UUID) == 0 {
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
