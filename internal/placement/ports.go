package placement

import (
	"iter"
	"slices"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// A port of a node leads to one job at a time. On a track it isn't a column: few jobs ask
// for any, and which ones there are isn't known before.

// Ports is a set of a node's TCP ports, two bytes each, rising: shapes must be comparable.
type Ports string

// PortsOf is the node's side of what a job asks to have led to it.
func PortsOf(of []workload.Port) Ports {
	b := make([]byte, 0, 2*len(of))
	for _, p := range of {
		b = append(b, byte(p.Host>>8), byte(p.Host))
	}
	return Ports(b)
}

// All yields the ports in order.
func (p Ports) All() iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		for i := 0; i < len(p); i += 2 {
			if !yield(uint16(p[i])<<8 | uint16(p[i+1])) {
				return
			}
		}
	}
}

// Has reports whether port is among them.
func (p Ports) Has(port uint16) bool {
	for q := range p.All() {
		if q == port {
			return true
		}
	}
	return false
}

// covers reports whether all of o are among them.
func (p Ports) covers(o Ports) bool {
	for q := range o.All() {
		if !p.Has(q) {
			return false
		}
	}
	return true
}

// takenPort is a port that a job has for a time.
type takenPort struct {
	port     uint16
	from, to int64 // ns
}

// portBook is which ports of a node are taken when. All tracks of the node have one: a
// port is the node's, whatever reservation a job is in.
type portBook struct{ taken []takenPort }

// add takes ports in [from, to), or with sign +1 gives them back.
func (b *portBook) add(of Ports, from, to int64, sign int64) {
	for port := range of.All() {
		if sign < 0 {
			b.taken = append(b.taken, takenPort{port, from, to})
			continue
		}
		var left []takenPort
		for _, p := range b.taken {
			if p.port != port || p.to <= from || p.from >= to {
				left = append(left, p)
				continue
			}
			if p.from < from {
				left = append(left, takenPort{port, p.from, from})
			}
			if p.to > to {
				left = append(left, takenPort{port, to, p.to})
			}
		}
		b.taken = left
	}
}

// free reports whether nobody has any of the ports in [from, to), or else from when on one
// that stands in the way is free.
func (b *portBook) free(of Ports, from, to int64) (next int64, ok bool) {
	if of == "" {
		return 0, true
	}
	for _, p := range b.taken {
		if p.from < to && p.to > from && of.Has(p.port) {
			return p.to, false
		}
	}
	return 0, true
}

// portMisfits says which of the ports that sh asks for other jobs have on a node.
func (s *State) portMisfits(sh Shape, node string, now int64) []Misfit {
	if sh.Ports == "" {
		return nil
	}
	var out []Misfit
	for _, h := range s.HoldsOn(node) {
		for port := range h.Ports.All() {
			if sh.Ports.Has(port) {
				out = append(out, Misfit{Kind: PortBusy, Node: node, Asked: int64(port), Holders: []id.Job{h.Job}, Until: h.ends(now)})
			}
		}
	}
	slices.SortFunc(out, func(a, b Misfit) int { return int(a.Asked - b.Asked) })
	return out
}
