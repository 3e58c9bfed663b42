package placement

import (
	"cmp"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
)

// Conflict is why a window can't be booked.
type Conflict struct {
	Asked, Room int64         // places asked for, and how many there would be if nothing ran
	Node        string        // that is asked for whole and can't be had: not usable, or not there
	Jobs        []Hold        // that reach into the window, by their ends, the last one first
	Bookings    []Booking     // of other reservations, and
	Maintenance []Maintenance // windows that are in the way
	Free        int64         // ns; when a window as long could begin; 0: not as far as is known
}

// Never reports that the partition can't hold as much at all.
func (c Conflict) Never() bool { return c.Room < c.Asked }

// Book finds the parts for a window of r in [from, to), beside everything that jobs hold
// until their limits and that is booked already. Jobs that wait don't count. The places
// go where the fewest devices, then cores, are left over, as jobs do. It returns the
// conflict if there is no room.
func (s *State) Book(r Reservation, p catalog.Partition, from, to, now int64) ([]Part, *Conflict) {
	if parts, n := s.book(s.Timeline(now, p), r, p, from, to); n == r.places() {
		return parts, nil
	}
	return nil, s.conflict(r, p, from, to, now)
}

// places is how many places a window has.
func (r Reservation) places() int64 { return max(r.Count, int64(len(r.Nodes))) }

// book finds as many places on t as there are, up to those that r has.
func (s *State) book(t *Timeline, r Reservation, p catalog.Partition, from, to int64) ([]Part, int64) {
	if len(r.Nodes) > 0 {
		return s.bookNodes(t, r, from, to)
	}
	var slots []*Slot
	sh := r.place(to - from)
	for range r.Count {
		_, at, ok := t.earliest(sh, t.within(p), from, from)
		if !ok {
			break
		}
		slot, _ := t.reserve(sh, at, from)
		slots = append(slots, slot)
	}
	for _, slot := range slots {
		t.Cancel(slot)
	}
	return merged(sh, slots), int64(len(slots))
}

// merged adds up the places on each node.
func merged(sh Shape, slots []*Slot) []Part {
	var out []Part
	for _, slot := range slots {
		i, ok := slices.BinarySearchFunc(out, slot.Node, func(p Part, node string) int { return cmp.Compare(p.Node, node) })
		if !ok {
			out = slices.Insert(out, i, Part{Node: slot.Node})
		}
		out[i].CPU += sh.CPU
		out[i].Mem += sh.Mem
		for _, m := range slot.Models {
			out[i].Models = count(out[i].Models, m.Model, m.Count)
		}
	}
	return out
}

// bookNodes takes whole nodes, on which there is nothing else meanwhile.
func (s *State) bookNodes(t *Timeline, r Reservation, from, to int64) ([]Part, int64) {
	var out []Part
	for _, node := range r.Nodes {
		at, ok := t.on(Shape{}, node)
		if !ok || !at.has(use{row: at.uses(at.total.cpu, at.total.mem, at.total.models)}, from, to) {
			continue
		}
		sum, _ := s.fleet.nodes.Get(node)
		out = append(out, Part{node, sum.full.cpu, sum.full.mem, slices.Clone(sum.full.models)})
	}
	slices.SortFunc(out, func(a, b Part) int { return cmp.Compare(a.Node, b.Node) })
	return out, int64(len(out))
}

// conflict explains why book found nothing.
func (s *State) conflict(r Reservation, p catalog.Partition, from, to, now int64) *Conflict {
	c := &Conflict{Asked: r.places()}
	idle := s.Copy()
	idle.Maintenance, idle.Bookings, idle.booked = State{}.Maintenance, State{}.Bookings, State{}.booked
	for j := range s.Holds.All() {
		idle.Release(j)
	}
	empty := idle.Timeline(now, p)
	if _, c.Room = idle.book(empty, r, p, from, to); c.Never() {
		if i := slices.IndexFunc(r.Nodes, func(n string) bool { _, ok := empty.on(Shape{}, n); return !ok }); i >= 0 {
			c.Node = r.Nodes[i]
		}
		return c
	}
	s.inTheWay(c, r, p, from, to, now)
	c.Free = s.free(r, p, from, to, now)
	return c
}

// inTheWay lists what reaches into the window on the nodes that would do.
func (s *State) inTheWay(c *Conflict, r Reservation, p catalog.Partition, from, to, now int64) {
	bookings := map[id.Booking]bool{}
	for node := range s.nodesOf(p, r.Where) {
		if len(r.Nodes) > 0 && !slices.Contains(r.Nodes, node) {
			continue
		}
		for _, h := range s.HoldsOn(node) {
			if h.ends(now) > from && !s.booksFor(h, from, to) {
				c.Jobs = append(c.Jobs, h)
			}
		}
		for b := range s.bookedOn(node) {
			if b.From < to && b.To > from && !bookings[b.ID] {
				bookings[b.ID] = true
				c.Bookings = append(c.Bookings, b)
			}
		}
	}
	for _, m := range s.Maintenance.All() {
		if m.From < to && m.To > from && (m.Node == "*" || p.Has(m.Node)) {
			c.Maintenance = append(c.Maintenance, m)
		}
	}
	// Where devices are asked for, jobs without one are only in the way if nothing else is.
	with := slices.DeleteFunc(slices.Clone(c.Jobs), func(h Hold) bool { return len(h.Devices) == 0 })
	if r.GPU > 0 && len(with)+len(c.Bookings)+len(c.Maintenance) > 0 {
		c.Jobs = with
	}
	slices.SortFunc(c.Jobs, func(a, b Hold) int { return cmp.Or(cmp.Compare(b.ends(now), a.ends(now)), cmp.Compare(a.Job, b.Job)) })
}

// booksFor reports whether the job of a hold is inside of a reservation that has its
// node in all that is left of the hold: the booking is in the way then, not the job.
func (s *State) booksFor(h Hold, from, to int64) bool {
	for b := range s.bookedOn(h.Node) {
		if b.Reservation == h.In && b.From <= from && b.To >= min(to, h.Until) {
			return true
		}
	}
	return false
}

// maxLooks bounds how often a place is looked for on a node to say when a window could
// begin.
const maxLooks = 500_000

// free is the first moment from from on at which the window could begin. Amounts only
// become free where a use ends, so those moments suffice.
func (s *State) free(r Reservation, p catalog.Partition, from, to, now int64) int64 {
	t := s.Timeline(now, p)
	var starts []int64
	for _, at := range t.tracks {
		for _, begin := range at.at {
			if begin > from {
				starts = append(starts, begin)
			}
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	most := maxLooks / int(r.places()*int64(len(t.tracks))+1)
	for _, start := range starts[:min(len(starts), most)] {
		if _, n := s.book(t, r, p, start, after(start, to-from)); n == r.places() {
			return start
		}
	}
	return 0
}
