package placement

import (
	"iter"
	"math"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/quantity"
)

// nodesIn yields the nodes that a reservation has parts of, by name.
func (s *State) nodesIn(r id.Reservation) iter.Seq2[string, nodeSum] {
	var names []string
	for _, b := range s.BookingsOf(r) {
		for _, p := range b.Parts {
			names = append(names, p.Node)
		}
	}
	slices.Sort(names)
	return func(yield func(string, nodeSum) bool) {
		for _, name := range slices.Compact(names) {
			if n, ok := s.fleet.nodes.Get(name); ok && !n.full.empty() && !yield(name, n) {
				return
			}
		}
	}
}

// Lasts is how long, in ns, the window of a reservation goes on that is active at now; 0:
// none is.
func (s *State) Lasts(r id.Reservation, now int64) int64 {
	for _, b := range s.BookingsOf(r) {
		if b.Active(now) && len(b.Parts) > 0 {
			return b.To - now
		}
	}
	return 0
}

// Images lists what jobs of reservations are going to run whose windows are near or
// active.
func (s *State) Images(now int64) []string {
	var out []string
	for _, b := range s.Bookings.All() {
		if now >= b.From-Lead && now < b.To && len(b.Parts) > 0 {
			r, _ := s.Reservations.Get(b.Reservation)
			out = append(out, r.Images...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ModelsIn lists the models that a reservation has, with the number of devices.
func (s *State) ModelsIn(r id.Reservation) []catalog.ModelCount {
	var out []catalog.ModelCount
	for _, b := range s.BookingsOf(r) {
		for _, p := range b.Parts {
			for _, m := range p.Models {
				out = count(out, m.Model, m.Count)
			}
		}
	}
	return out
}

// room is the most that a reservation's jobs can ever have of one node, and for how
// long: the largest of its parts that sh may use, or a place where a job has no more,
// and the longest window, in ns, that is left.
func (s *State) room(sh Shape, now int64) (most Capacity, longest int64) {
	r, _ := s.Reservations.Get(sh.In)
	if r.Next != 0 {
		longest = r.Length
	}
	met := constraint(sh.Where)
	for _, b := range s.BookingsOf(sh.In) {
		if b.To <= now || len(b.Parts) == 0 {
			continue
		}
		longest = max(longest, b.To-max(b.From, now))
		for _, p := range b.Parts {
			if sum, _ := s.fleet.nodes.Get(p.Node); sh.Where != "" && !met(sum.labels) {
				continue
			}
			o := r.offers(p)
			grow(&most.CPU, &most.CPUNode, o.cpu, p.Node)
			grow(&most.Mem, &most.MemNode, o.mem, p.Node)
			grow(&most.GPU, &most.GPUNode, o.most(sh), p.Node)
		}
	}
	return most, longest
}

// offers is what one job may have of a part.
func (r Reservation) offers(p Part) offer {
	o := offer{p.CPU, p.Mem, p.Models}
	if !r.Seats() {
		return o
	}
	o = offer{min(p.CPU, r.CPU), min(p.Mem, r.Mem), nil}
	for _, m := range p.Models {
		o.models = append(o.models, catalog.ModelCount{Model: m.Model, Count: min(m.Count, r.GPU)})
	}
	return o
}

// NeverInside says why sh could never run in its reservation, nil if it could.
func (s *State) NeverInside(sh Shape, now int64) []Misfit {
	most, longest := s.room(sh, now)
	var out []Misfit
	if r, _ := s.Reservations.Get(sh.In); r.Next == 0 || most != (Capacity{}) {
		out = short(sh, most)
	}
	for i := range out {
		out[i].In = sh.In
	}
	if sh.Length() > longest {
		out = append(out, Misfit{Kind: NoWindow, In: sh.In, Asked: sh.Wall, Wall: max(0, longest-sh.Grace), Ever: true})
	}
	return out
}

// whyNotInside returns the misfits on the node, of those that its reservation has a
// part of, on which sh lacks least.
func (s *State) whyNotInside(sh Shape, now int64) []Misfit {
	var best []Misfit
	for node := range meeting(sh.Where, s.nodesIn(sh.In)) {
		if out := s.misfitsOn(sh, node, now); best == nil || lacksLess(out, best) {
			best = out
		}
	}
	if best == nil {
		r, _ := s.Reservations.Get(sh.In)
		best = []Misfit{{Kind: NoWindow, In: sh.In, Until: r.Next}}
	}
	return best
}

// misfitsInside says what keeps sh off its reservation's part of a usable node now.
func (s *State) misfitsInside(sh Shape, node string, sum nodeSum, now int64) []Misfit {
	b, p, active := s.nextOn(sh.In, node, now)
	if !active {
		return []Misfit{{Kind: NoWindow, In: sh.In, Node: node, Booking: b, Until: b.From}}
	}
	holds := slices.DeleteFunc(s.HoldsOn(node), func(h Hold) bool { return h.In != sh.In })
	t := s.inside(sh.In, node, sum, now)
	row, total := t.row(t.find(now)), offer{p.CPU, p.Mem, p.Models}
	if !total.fits(sh) {
		return short(sh, Capacity{total.cpu, total.mem, total.most(sh), node, node, node})
	}
	var out []Misfit
	lacks := func(r limits.Resource, asked, free, total int64, of func(Hold) int64) {
		if m := (Misfit{Kind: Busy, Resource: r, Node: node, In: sh.In, Asked: asked, Free: max(0, free), Total: total}); asked > m.Free {
			m.heldBy(holds, now, of)
			out = append(out, m)
		}
	}
	if sh.GPU > 0 {
		lacks(sh.devices(), sh.GPU, t.most(row, sh), total.most(sh), func(h Hold) int64 { return int64(len(h.Devices)) * quantity.Device })
	}
	lacks(limits.Mem, sh.Mem, row[mems], total.mem, func(h Hold) int64 { return h.Mem })
	lacks(limits.CPU, sh.CPU, row[cpus], total.cpu, func(h Hold) int64 { return h.CPU })
	if _, _, ok := s.windows(sh.In, node, sum, now).try(sh, now, nil); !ok {
		out = append(out, Misfit{Kind: NoWindow, In: sh.In, Node: node, Booking: b, Asked: sh.Wall, Wall: max(0, b.To-now-sh.Grace), Until: s.after(sh.In, node, b.To)})
	}
	return s.orHeld(out, sh, node, sum, now)
}

// orHeld is out or, if that is empty and sh doesn't fit all the same, what those jobs
// outside hold that should have ended when the window began.
func (s *State) orHeld(out []Misfit, sh Shape, node string, sum nodeSum, now int64) []Misfit {
	if len(out) > 0 {
		return out
	}
	if _, _, ok := s.fitOn(sh, node, sum, now); ok {
		return nil
	}
	if out = s.shortOf(sh, node, sum, s.HoldsOn(node), now); len(out) > 0 {
		return out
	}
	return []Misfit{{Kind: Busy, Resource: sh.devices(), Node: node, In: sh.In, Asked: sh.GPU, Total: sum.full.most(sh)}}
}

// nextOn is the window of a reservation on a node that lasts now, or else the next one.
func (s *State) nextOn(r id.Reservation, node string, now int64) (Booking, Part, bool) {
	for b, p := range s.bookedOn(node) {
		if b.Reservation == r && b.To > now {
			return b, p, b.Active(now)
		}
	}
	return Booking{}, Part{}, false
}

// after is when the first window of a reservation begins on a node that does so at t or
// later; 0: none is known.
func (s *State) after(r id.Reservation, node string, t int64) int64 {
	for b := range s.bookedOn(node) {
		if b.Reservation == r && b.From >= t {
			return b.From
		}
	}
	return 0
}

// misfitsBeside says what keeps sh, which is in no reservation, off a usable node of
// which something is booked.
func (s *State) misfitsBeside(sh Shape, node string, sum nodeSum, now int64) []Misfit {
	holds := slices.DeleteFunc(s.HoldsOn(node), func(h Hold) bool { return s.covered(h, now) })
	out := s.shortOf(sh, node, sum, holds, now)
	t := s.track(node, sum, now)
	if _, _, ok := t.try(sh, now, nil); ok {
		return s.orHeld(out, sh, node, sum, now)
	}
	booked := s.empty(node, sum, now)
	booked.add(now, math.MaxInt64, use{row: booked.uses(sum.usable.cpu, sum.usable.mem, sum.usable.models)}, +1)
	s.reserve(booked, nil, nil, now)
	if _, _, ok := booked.try(sh, now, nil); !ok || len(out) == 0 {
		out = append(out, s.reserved(sh, t, now))
	}
	return out
}

// reserved says by which window sh doesn't fit a track from now on, how long it may be
// to end before that, and when it fits.
func (s *State) reserved(sh Shape, t *track, now int64) Misfit {
	m := Misfit{Kind: Reserved, Node: t.node, Asked: sh.Wall}
	if _, start, ok := t.earliest(sh, now, math.MaxInt64, nil); ok {
		m.Until = start
	}
	at := t.breaks(sh, now)
	m.Wall = max(0, at-now-sh.Grace)
	for b := range s.bookedOn(t.node) {
		if b.To > now && (m.Booking.ID == 0 || b.Active(at) && !m.Booking.Active(at)) {
			m.Booking = b
		}
	}
	return m
}

// breaks is the first moment from now on at which sh, started now, doesn't fit any more.
func (t *track) breaks(sh Shape, now int64) int64 {
	low := slices.Clone(t.row(t.find(now)))
	for i := t.find(now); i < len(t.at); i++ {
		row := t.row(i)
		for c, n := range row[:t.column(0)] {
			low[c] = min(low[c], n)
		}
		copy(low[t.column(0):], row[t.column(0):])
		if !t.fits(low, sh) || row[shut] > 0 {
			return max(now, t.at[i])
		}
	}
	return math.MaxInt64
}
