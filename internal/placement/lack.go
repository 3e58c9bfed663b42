package placement

import (
	"cmp"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/quantity"
)

// whyNot returns the misfits on the node of p that lacks least.
func (s *State) whyNot(sh Shape, p catalog.Partition, now int64) []Misfit {
	if sh.In != 0 {
		return s.whyNotInside(sh, now)
	}
	var best []Misfit
	for node, sum := range s.nodesOf(p, sh.Where) {
		if !sum.full.fits(sh) || s.lacksMore(node, sum, best, now) {
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

// lacksMore reports, without looking at its devices, that a node lacks no less than
// what best says of another: there nothing but the ends of jobs is in the way, the
// last of them no later than the first one here.
func (s *State) lacksMore(node string, sum nodeSum, best []Misfit, now int64) bool {
	if best == nil {
		return false
	}
	weight, until := weigh(best)
	return weight == 0 && (sum.usable.empty() || until <= max(now, s.nextEnd(node)))
}

// lacksLess orders nodes by who must act, then by when all is free.
func lacksLess(a, b []Misfit) bool {
	wa, ua := weigh(a)
	wb, ub := weigh(b)
	return cmp.Or(cmp.Compare(wa, wb), cmp.Compare(ua, ub)) < 0
}

func weigh(ms []Misfit) (weight int, until int64) {
	byEffort := []MisfitKind{Busy, PortBusy, NoWindow, Reserved, InWindow, Foreign, Unhealthy, Drained, Down, NoFeature, NeverFit}
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
	case sh.Where != "" && !constraint(sh.Where)(sum.labels):
		return []Misfit{{Kind: NoFeature, Node: node, Where: sh.Where}}
	case !sum.full.fits(sh):
		return short(sh, Capacity{sum.full.cpu, sum.full.mem, sum.full.most(sh), node, node, node})
	}
	ports := s.portMisfits(sh, node, now)
	sh.Ports = ""
	switch {
	case sh.In != 0:
		return append(ports, s.misfitsInside(sh, node, sum, now)...)
	case s.touches(sh, node, now):
		return append(ports, s.misfitsBeside(sh, node, sum, now)...)
	}
	return append(ports, s.shortOf(sh, node, sum, s.HoldsOn(node), now)...)
}

// shortOf says what keeps sh off a node now, as if nothing was reserved there. Holds are
// those that count.
func (s *State) shortOf(sh Shape, node string, sum nodeSum, holds []Hold, now int64) []Misfit {
	out := s.deviceMisfits(sh, node, holds, now)
	var used load
	for _, h := range holds {
		used.cpu, used.mem = used.cpu+h.CPU, used.mem+h.Mem
	}
	amounts := []struct {
		r                  limits.Resource
		asked, used, total int64
		of                 func(Hold) int64
	}{
		{limits.Mem, sh.Mem, used.mem, sum.full.mem, func(h Hold) int64 { return h.Mem }},
		{limits.CPU, sh.CPU, used.cpu, sum.full.cpu, func(h Hold) int64 { return h.CPU }},
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

// deviceMisfits says why there are too few devices, if so: of the models that have
// as many at all, it speaks of the one that lacks least.
func (s *State) deviceMisfits(sh Shape, node string, holds []Hold, now int64) []Misfit {
	if sh.GPU == 0 {
		return nil
	}
	models := []string{sh.Model}
	if sum, _ := s.fleet.nodes.Get(node); !sh.Mixed {
		models = nil
		for _, m := range sum.full.models {
			if catalog.Allows(sh.Model, m.Model) && m.Count >= sh.GPU {
				models = append(models, m.Model)
			}
		}
	}
	var best []Misfit
	for i, m := range models {
		out := s.lackOf(m, sh.on(m), node, holds, now)
		if out == nil {
			return nil
		}
		if i == 0 || lacksLess(out, best) {
			best = out
		}
	}
	return best
}

// lackOf says why there are too few devices of a set of models, if so.
func (s *State) lackOf(models string, sh Shape, node string, holds []Hold, now int64) []Misfit {
	m := Misfit{Resource: sh.devices(), Node: node, Asked: sh.GPU}
	var used []inUse // of those that are usable and of the models
	var foreign, failed []Device
	for d := range s.devicesOn(node) {
		if d.Gone || !catalog.Allows(models, d.Model) {
			continue
		}
		m.Total += quantity.Device
		switch {
		case !d.Healthy:
			failed = append(failed, d)
		case len(d.Foreign) > 0:
			foreign = append(foreign, d)
		default:
			used = append(used, inUse{d.UUID, s.inUseOf(d.UUID, holds)})
		}
	}
	if m.Free = freeOf(sh, used); m.Free >= m.Asked {
		return nil
	}
	var out []Misfit
	if busy := m; len(used) > 0 {
		busy.Kind = Busy
		busy.devicesHeldBy(sh, holds, now, used)
		if len(busy.Holders) > 0 {
			out = append(out, busy)
		}
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

// inUse is how much of a device is held, in milli-devices.
type inUse struct {
	device string
	milli  int64
}

// inUseOf is how much of a device some of those that hold it have.
func (s *State) inUseOf(device string, holds []Hold) int64 {
	var n int64
	for _, by := range s.Shares(device) {
		if slices.ContainsFunc(holds, func(h Hold) bool { return h.Job == by.Job }) {
			n += by.Milli
		}
	}
	return min(n, quantity.Device)
}

// freeOf is how much of the devices a job like sh can have.
func freeOf(sh Shape, used []inUse) int64 {
	var all, most int64
	for _, d := range used {
		if most = max(most, quantity.Device-d.milli); d.milli == 0 {
			all += quantity.Device
		}
	}
	if sh.part() {
		return most
	}
	return all
}

// devicesHeldBy is heldBy for devices.
func (m *Misfit) devicesHeldBy(sh Shape, holds []Hold, now int64, used []inUse) {
	for _, h := range holds {
		has := false
		for _, uuid := range h.Devices {
			if i := slices.IndexFunc(used, func(d inUse) bool { return d.device == uuid }); i >= 0 {
				used[i].milli, has = max(0, used[i].milli-h.each()), true
			}
		}
		if !has {
			continue
		}
		m.Holders = append(m.Holders, h.Job)
		if m.Until == 0 && freeOf(sh, used) >= m.Asked {
			m.Until = h.ends(now)
		}
	}
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
