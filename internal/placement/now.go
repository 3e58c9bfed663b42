package placement

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
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
	for node, sum := range s.nodesOf(p) {
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

// nodesOf yields the nodes of p that offer anything, by name.
func (s *State) nodesOf(p catalog.Partition) iter.Seq2[string, nodeSum] {
	return func(yield func(string, nodeSum) bool) {
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
	}
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

// freeDevices lists the devices of a model on a node ("": of any) that a job can
// be given now, in index order.
func (s *State) freeDevices(node, model string) []Device {
	var out []Device
	for d := range s.devicesOn(node) {
		if !d.Usable() || model != "" && d.Model != model {
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

// whyNot returns the misfits on the node of p that lacks least.
func (s *State) whyNot(sh Shape, p catalog.Partition, now int64) []Misfit {
	var best []Misfit
	for node, sum := range s.nodesOf(p) {
		if !sum.full.fits(sh) {
			continue
		}
		if out := s.misfitsOn(sh, node, now); best == nil || lacksLess(out, best) {
			best = out
		}
	}
	if best == nil {
		return s.NeverFits(sh, p)
	}
	return best
}

// lacksLess orders nodes by who must act, then by when all is free.
func lacksLess(a, b []Misfit) bool {
	wa, ua := weigh(a)
	wb, ub := weigh(b)
	return cmp.Or(cmp.Compare(wa, wb), cmp.Compare(ua, ub)) < 0
}

func weigh(ms []Misfit) (weight int, until int64) {
	byEffort := []MisfitKind{Busy, InWindow, Foreign, Unhealthy, Drained, Down, NeverFit}
	// What is enough once other jobs end doesn't wait for a repair.
	waits := slices.ContainsFunc(ms, func(m Misfit) bool {
		return m.Kind == Busy && m.Until > 0 && m.Resource != limits.CPU && m.Resource != limits.Mem
	})
	for _, m := range ms {
		until = max(until, m.Until)
		if !waits || m.Kind != Foreign && m.Kind != Unhealthy {
			weight = max(weight, slices.Index(byEffort, m.Kind))
		}
	}
	return weight, until
}

// misfitsOn says what keeps sh off a node now.
func (s *State) misfitsOn(sh Shape, node string, now int64) []Misfit {
	row, ok := s.Nodes.Get(node)
	sum, _ := s.fleet.nodes.Get(node)
	switch {
	case !ok || row.Gone || !row.Ready:
		return []Misfit{{Kind: Down, Node: node, Why: row.Reason}}
	case row.Drained:
		return []Misfit{{Kind: Drained, Node: node, Why: row.Why}}
	case !sum.full.fits(sh):
		return short(sh, Capacity{sum.full.cpu, sum.full.mem, sum.full.gpu(sh.Model), node, node, node})
	}
	holds := s.byEnd(node)
	out := s.deviceMisfits(sh, node, holds, now)
	amounts := []struct {
		r                  limits.Resource
		asked, used, total int64
		of                 func(Hold) int64
	}{
		{limits.Mem, sh.Mem, sum.load.mem, row.Memory, func(h Hold) int64 { return h.Mem }},
		{limits.CPU, sh.CPU, sum.load.cpu, row.CPU, func(h Hold) int64 { return h.CPU }},
	}
	for _, a := range amounts {
		m := Misfit{Kind: Busy, Resource: a.r, Node: node, Asked: a.asked, Free: a.total - a.used, Total: a.total}
		if m.Asked > m.Free {
			m.heldBy(holds, now, a.of)
			out = append(out, m)
		}
	}
	if w, crosses := s.crossing(node, now, sh.Length()); crosses {
		out = append(out, Misfit{
			Kind: InWindow, Node: node, Asked: sh.Wall, Until: w.To, Window: w, Wall: max(0, w.From-now-sh.Grace),
		})
	}
	return out
}

// deviceMisfits says why there are too few devices, if so.
func (s *State) deviceMisfits(sh Shape, node string, holds []Hold, now int64) []Misfit {
	m := Misfit{Resource: sh.devices(), Node: node, Asked: sh.GPU}
	held := map[string]bool{} // usable and of the model
	var foreign, failed []Device
	for d := range s.devicesOn(node) {
		if d.Gone || sh.Model != "" && d.Model != sh.Model {
			continue
		}
		m.Total++
		_, busy := s.holders.Get(d.UUID)
		switch {
		case !d.Healthy:
			failed = append(failed, d)
		case len(d.Foreign) > 0:
			foreign = append(foreign, d)
		case busy:
			held[d.UUID] = true
		default:
			m.Free++
		}
	}
	if m.Free >= m.Asked {
		return nil
	}
	var out []Misfit
	if len(held) > 0 {
		busy := m
		busy.Kind = Busy
		busy.heldBy(holds, now, func(h Hold) int64 {
			var n int64
			for _, d := range h.Devices {
				if held[d] {
					n++
				}
			}
			return n
		})
		out = append(out, busy)
	}
	if len(foreign) > 0 {
		m.Kind, m.Devices = Foreign, foreign
		out = append(out, m)
	}
	if len(failed) > 0 {
		m.Kind, m.Devices = Unhealthy, failed
		out = append(out, m)
	}
	return out
}

// heldBy names who holds what m lacks, and when enough of it is free at the
// latest; holds are in the order of their ends.
func (m *Misfit) heldBy(holds []Hold, now int64, of func(Hold) int64) {
	free := m.Free
	for _, h := range holds {
		n := of(h)
		if n == 0 {
			continue
		}
		m.Holders = append(m.Holders, h.Job)
		if free += n; free >= m.Asked && m.Until == 0 {
			m.Until = h.ends(now)
		}
	}
}

// byEnd lists the holds on a node, the first to end first.
func (s *State) byEnd(node string) []Hold {
	holds := s.HoldsOn(node)
	slices.SortFunc(holds, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.Job, b.Job))
	})
	return holds
}
