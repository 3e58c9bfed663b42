package placement

import (
	"iter"
	"slices"
	"strings"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/workload"
)

// gang reports whether the shape is on several nodes, on all at once or on none.
func (sh Shape) gang() bool { return sh.Nodes > 1 }

// ranks is on how many nodes the shape is.
func (sh Shape) ranks() int64 { return max(1, sh.Nodes) }

// rank is what a gang has on each of its nodes.
func (sh Shape) rank() Shape {
	sh.Nodes = 0
	return sh
}

// alike lists what the ranks of a gang may be: all of them have devices of one of these
// models, unless they may be mixed.
func (sh Shape) alike(models iter.Seq[string]) []Shape {
	if sh.GPU == 0 || sh.Mixed || catalog.OneModel(sh.Model) {
		return []Shape{sh.rank()}
	}
	var out []Shape
	for _, m := range slices.Compact(slices.Sorted(models)) {
		if catalog.Allows(sh.Model, m) {
			of := sh.rank()
			of.Model = m
			out = append(out, of)
		}
	}
	return out
}

// Ranks yields what is held on each of the nodes, as if there were no other.
func (h Hold) Ranks() iter.Seq[Hold] {
	return func(yield func(Hold) bool) {
		others := h.Others
		h.Others = nil
		if !yield(h) {
			return
		}
		for _, r := range others {
			if h.Node, h.Devices = r.Node, r.Devices; !yield(h) {
				return
			}
		}
	}
}

// on is what is held on one of the nodes.
func (h Hold) on(node string) Hold {
	for r := range h.Ranks() {
		if r.Node == node {
			return r
		}
	}
	return h
}

// Ranks lists what the spot is on each of its nodes.
func (sp Spot) Ranks() []Spot {
	others := sp.Others
	sp.Others = nil
	return append([]Spot{sp}, others...)
}

// Rest is what the spot has besides its first node.
func (sp Spot) Rest() []workload.Rank {
	var out []workload.Rank
	for _, o := range sp.Others {
		out = append(out, workload.Rank{Node: o.Node, Devices: o.UUIDs()})
	}
	return out
}

// spotOf makes a spot of those on several nodes, the ranks in the order of the nodes' names.
func spotOf(ranks []Spot) Spot {
	slices.SortFunc(ranks, func(a, b Spot) int { return strings.Compare(a.Node, b.Node) })
	ranks[0].Others = ranks[1:]
	return ranks[0]
}

// fitGang is FitNow for a shape on several nodes: those on which the fewest devices, then
// cores, are left over.
func (s *State) fitGang(sh Shape, p catalog.Partition, now int64) (Spot, []Misfit) {
	type place struct {
		spot Spot
		over [3]int64
	}
	lack := Misfit{Kind: FewNodes, Asked: sh.Nodes, Total: s.mostNodes(sh, p, nodeSum.whole)}
	for _, rank := range sh.alike(s.modelsOf(sh, p)) {
		var fit []place
		for node, sum := range s.candidates(rank, p) {
			if spot, over, ok := s.fitOn(rank, node, sum, now); ok {
				fit = append(fit, place{spot, over})
			}
		}
		if lack.Free = max(lack.Free, int64(len(fit))); int64(len(fit)) < sh.Nodes {
			continue
		}
		slices.SortStableFunc(fit, func(a, b place) int { return slices.Compare(a.over[:], b.over[:]) })
		var ranks []Spot
		for _, f := range fit[:sh.Nodes] {
			ranks = append(ranks, f.spot)
		}
		return spotOf(ranks), nil
	}
	return Spot{}, []Misfit{lack}
}

// checkGang is Check for a shape on several nodes.
func (s *State) checkGang(sh Shape, spot Spot, now int64) []Misfit {
	nodes := map[string]bool{}
	for _, r := range spot.Ranks() {
		if out := s.Check(sh.rank(), r, now); out != nil {
			return out
		}
		nodes[r.Node] = true
	}
	if n := int64(len(nodes)); n != sh.Nodes || len(spot.Others) != len(nodes)-1 || !sh.Mixed && len(spot.Models()) > 1 {
		return []Misfit{{Kind: FewNodes, Asked: sh.Nodes, Free: n, Total: sh.Nodes}}
	}
	return nil
}

// neverGang is NeverFits for a shape on several nodes.
func (s *State) neverGang(sh Shape, p catalog.Partition) []Misfit {
	if out := s.NeverFits(sh.rank(), p); out != nil {
		return out
	}
	if n := s.mostNodes(sh, p, nodeSum.whole); n < sh.Nodes {
		return []Misfit{{Kind: FewNodes, Asked: sh.Nodes, Free: n, Total: n}}
	}
	return nil
}

// whole is what a node offers, whether or not it is usable.
func (n nodeSum) whole() offer { return n.full }

// now is what a node offers that is usable.
func (n nodeSum) now() offer { return n.usable }

// mostNodes is on how many nodes a gang could be, if each gave all of an offer.
func (s *State) mostNodes(sh Shape, p catalog.Partition, of func(nodeSum) offer) int64 {
	var most int64
	for _, rank := range sh.alike(s.modelsOf(sh, p)) {
		var n int64
		for _, sum := range s.candidates(rank, p) {
			if of(sum).fits(rank) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// modelsOf yields the models of the nodes that sh may be on.
func (s *State) modelsOf(sh Shape, p catalog.Partition) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, n := range s.candidates(sh, p) {
			for _, m := range n.full.models {
				if !yield(m.Model) {
					return
				}
			}
		}
	}
}
