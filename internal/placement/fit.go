package placement

import (
	"cmp"
	"iter"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/limits"
)

// Capacity is the most that one node of a partition offers of each resource, and
// the first node by name that offers it. A rank runs on one node, so a shape may
// fit none although each of its amounts is within these: see NeverFits.
type Capacity struct {
	CPU, Mem, GPU             int64
	CPUNode, MemNode, GPUNode string
}

// Capacity returns the largest offers of the nodes of p that sh may run on, devices
// of its models. What is busy, drained, down or unhealthy counts, as it may return;
// what is gone from the inventory doesn't.
func (s *State) Capacity(p catalog.Partition, sh Shape) Capacity {
	var c Capacity
	for node, n := range s.kinds(p, sh.Where) {
		grow(&c.CPU, &c.CPUNode, n.full.cpu, node)
		grow(&c.Mem, &c.MemNode, n.full.mem, node)
		grow(&c.GPU, &c.GPUNode, n.full.most(sh), node)
	}
	return c
}

func grow(best *int64, where *string, n int64, node string) {
	if n > *best || n == *best && n > 0 && node < *where {
		*best, *where = n, node
	}
}

// Models lists the models that the nodes of p offer, with the number of devices,
// counted as in Capacity.
func (s *State) Models(p catalog.Partition) []catalog.ModelCount {
	var out []catalog.ModelCount
	if len(p.Nodes) == 0 {
		for model, n := range s.fleet.models.All() {
			if n.full > 0 {
				out = append(out, catalog.ModelCount{Model: model, Count: n.full})
			}
		}
		return out
	}
	for _, n := range s.kinds(p, "") {
		for _, m := range n.full.models {
			out = count(out, m.Model, m.Count)
		}
	}
	return out
}

// NeverFits says why no node of p could ever run sh, nil if one could. The amounts
// that are above every node's are named; where each alone fits some node but
// they don't together, those that the nearest node falls short of.
func (s *State) NeverFits(sh Shape, p catalog.Partition) []Misfit {
	if sh.gang() {
		return s.neverGang(sh, p)
	}
	meet := false
	for _, n := range s.kinds(p, sh.Where) {
		if n.full.fits(sh) {
			return nil
		}
		meet = true
	}
	if sh.Where != "" && !meet {
		return []Misfit{{Kind: NoFeature, Where: sh.Where}}
	}
	c := s.Capacity(p, sh)
	if sh.GPU > 0 && sh.Model != "" && c.GPU == 0 {
		return []Misfit{{Kind: NoModel, Resource: sh.devices(), Asked: sh.GPU, Where: sh.Where}}
	}
	if out := short(sh, c); out != nil {
		return out
	}
	var nearest Capacity
	var best []Misfit
	for node, n := range s.kinds(p, sh.Where) {
		at := Capacity{n.full.cpu, n.full.mem, n.full.most(sh), node, node, node}
		if out := short(sh, at); best == nil || nearer(sh, at, out, nearest, best) {
			nearest, best = at, out
		}
	}
	return best
}

// short lists the amounts of sh that are above c, the scarcest resource first.
func short(sh Shape, c Capacity) []Misfit {
	var out []Misfit
	if sh.GPU > c.GPU {
		out = append(out, Misfit{Kind: NeverFit, Resource: sh.devices(), Asked: sh.GPU, Total: c.GPU, Node: c.GPUNode})
	}
	if sh.Mem > c.Mem {
		out = append(out, Misfit{Kind: NeverFit, Resource: limits.Mem, Asked: sh.Mem, Total: c.Mem, Node: c.MemNode})
	}
	if sh.CPU > c.CPU {
		out = append(out, Misfit{Kind: NeverFit, Resource: limits.CPU, Asked: sh.CPU, Total: c.CPU, Node: c.CPUNode})
	}
	return out
}

// nearer reports whether a node with offers a, short of as, is nearer to sh than
// one with b, bs: it falls short of fewer amounts, or gives more of the scarcest.
func nearer(sh Shape, a Capacity, as []Misfit, b Capacity, bs []Misfit) bool {
	return cmp.Or(
		cmp.Compare(len(bs), len(as)),
		cmp.Compare(min(a.GPU, sh.GPU), min(b.GPU, sh.GPU)),
		cmp.Compare(min(a.Mem, sh.Mem), min(b.Mem, sh.Mem)),
		cmp.Compare(min(a.CPU, sh.CPU), min(b.CPU, sh.CPU)),
		cmp.Compare(b.CPUNode, a.CPUNode),
	) > 0
}

// LargestFit returns the shape nearest to sh, not above it, that fits some node
// of p: with one amount reduced if that suffices (devices, then cores, then
// memory), else all three, keeping as many devices as any node gives. It reports
// false when nothing of a resource that sh asks for would be left.
func (s *State) LargestFit(sh Shape, p catalog.Partition) (Shape, bool) {
	reduce := []func(o offer) Shape{
		func(o offer) Shape { return sh.within(sh.CPU, sh.Mem, o.most(sh)) },
		func(o offer) Shape { return sh.within(o.cpu, sh.Mem, sh.GPU) },
		func(o offer) Shape { return sh.within(sh.CPU, o.mem, sh.GPU) },
		func(o offer) Shape { return sh.within(o.cpu, o.mem, o.most(sh)) },
	}
	for _, to := range reduce {
		var fits []Shape
		for o := range s.offers(sh, p) {
			if r := to(o); o.fits(r) && r.keeps(sh) {
				fits = append(fits, r)
			}
		}
		if len(fits) > 0 {
			return slices.MaxFunc(fits, func(a, b Shape) int {
				return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Mem, b.Mem))
			}), true
		}
	}
	return Shape{}, false
}

// offers yields what single nodes of p offer to sh: in a reservation, its parts of them.
func (s *State) offers(sh Shape, p catalog.Partition) iter.Seq[offer] {
	return func(yield func(offer) bool) {
		if sh.In == 0 {
			for _, n := range s.kinds(p, sh.Where) {
				if !yield(n.full) {
					return
				}
			}
			return
		}
		met := constraint(sh.Where)
		r, _ := s.Reservations.Get(sh.In)
		for _, b := range s.BookingsOf(sh.In) {
			for _, part := range b.Parts {
				n, _ := s.fleet.nodes.Get(part.Node)
				if (sh.Where == "" || met(n.labels)) && !yield(r.offers(part)) {
					return
				}
			}
		}
	}
}

// within is sh with no more than these amounts.
func (sh Shape) within(cpu, mem, gpu int64) Shape {
	sh.CPU, sh.Mem, sh.GPU = min(sh.CPU, cpu), min(sh.Mem, mem), min(sh.GPU, gpu)
	return sh
}

// keeps reports that r has some of everything that sh has.
func (r Shape) keeps(sh Shape) bool {
	return (r.CPU > 0) == (sh.CPU > 0) && (r.Mem > 0) == (sh.Mem > 0) && (r.GPU > 0) == (sh.GPU > 0)
}
