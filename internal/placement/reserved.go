package placement

import (
	"iter"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
)

// A booking takes amounts of a node away from everybody outside of its reservation for
// its window, and gives them to the jobs inside. At no moment are the amounts that jobs
// outside hold and those that are booked more than the node has, so that a job inside
// finds its devices among those that nobody has, whichever they are.

func (s *State) putReservation(r Reservation) {
	s.lastReserve = max(s.lastReserve, r.ID)
	if r.Over {
		s.Reservations.Delete(r.ID)
		if by, _ := s.named.Get(r.Name); by == r.ID {
			s.named.Delete(r.Name)
		}
		return
	}
	s.Reservations.Set(r.ID, r)
	s.named.Set(r.Name, r.ID)
}

func (s *State) putBooking(b Booking) {
	s.lastBooking = max(s.lastBooking, b.ID)
	if old, ok := s.Bookings.Delete(b.ID); ok {
		for _, p := range old.Parts {
			s.booked.Delete(bookingKey(p.Node, old))
		}
	}
	if b.Over {
		return
	}
	s.Bookings.Set(b.ID, b)
	for _, p := range b.Parts {
		s.booked.Set(bookingKey(p.Node, b), b.ID)
	}
}

func bookingKey(node string, b Booking) string {
	return node + "\x00" + ordered(b.From) + ordered(int64(b.ID))
}

// NextReservation and NextBooking are the next ids.
func (s *State) NextReservation() id.Reservation { return s.lastReserve + 1 }

// NextBooking is the id of the next booking.
func (s *State) NextBooking() id.Booking { return s.lastBooking + 1 }

// Reservation returns the reservation of a name, unless it is over.
func (s *State) Reservation(name string) (Reservation, bool) {
	k, ok := s.named.Get(name)
	if !ok {
		return Reservation{}, false
	}
	return s.Reservations.Get(k)
}

// BookingsOf lists a reservation's windows, in order.
func (s *State) BookingsOf(r id.Reservation) []Booking {
	var out []Booking
	for _, b := range s.Bookings.All() {
		if b.Reservation == r {
			out = append(out, b)
		}
	}
	return out
}

// bookedOn yields the windows that have a part of a node, the first to begin first.
func (s *State) bookedOn(node string) iter.Seq2[Booking, Part] {
	return func(yield func(Booking, Part) bool) {
		if s.booked.Len() == 0 {
			return
		}
		for k, bid := range s.booked.From(node + "\x00") {
			if k >= node+"\x01" {
				return
			}
			b, _ := s.Bookings.Get(bid)
			if p, ok := b.On(node); ok && !yield(b, p) {
				return
			}
		}
	}
}

// touches reports whether bookings matter to a job on a node from now on: some are in
// the way of one outside; to one inside, always.
func (s *State) touches(sh Shape, node string, now int64) bool {
	if sh.In != 0 {
		return true
	}
	for b := range s.bookedOn(node) {
		if b.To > now {
			return b.From < after(now, sh.Length())
		}
	}
	return false
}

// trackFor is the track of a node that a shape runs on.
func (s *State) trackFor(sh Shape, node string, sum nodeSum, now int64) *track {
	if sh.In != 0 {
		return s.inside(sh.In, node, sum, now)
	}
	return s.track(node, sum, now)
}

// reserve takes what is booked from now on off a node's track, and gives back what jobs
// inside hold of that: it is part of what is booked. Their ports aren't.
func (s *State) reserve(t *track, holds []Hold, uses []use, now int64) {
	for b, p := range s.bookedOn(t.node) {
		from := max(b.From, now)
		t.add(from, b.To, use{row: t.uses(p.CPU, p.Mem, p.Models)}, -1)
		for i, h := range holds {
			if h.In == b.Reservation {
				u := uses[i]
				u.ports = ""
				t.add(from, min(b.To, h.ends(now)), u, +1)
			}
		}
	}
}

// windows is what a reservation has of a node over time: nothing but in its windows, and
// never more than is usable.
func (s *State) windows(r id.Reservation, node string, sum nodeSum, now int64) *track {
	t := s.empty(node, sum, now)
	most := t.uses(sum.usable.cpu, sum.usable.mem, sum.usable.models)
	total := make([]int64, t.width())
	for b, p := range s.bookedOn(node) {
		if b.Reservation != r || b.To <= now {
			continue
		}
		part := t.uses(p.CPU, p.Mem, p.Models)
		for c := range part {
			part[c] = min(part[c], most[c])
			total[c] = max(total[c], part[c])
		}
		t.add(max(b.From, now), b.To, use{row: part}, +1)
	}
	t.total = offer{cpu: total[cpus], mem: total[mems], models: t.counts(total, "")}
	return t
}

// inside is what is free of that beside the jobs that have some of it.
func (s *State) inside(r id.Reservation, node string, sum nodeSum, now int64) *track {
	t := s.windows(r, node, sum, now)
	for _, h := range s.HoldsOn(node) {
		if h.In == r {
			t.add(now, h.ends(now), s.useOf(t, h), -1)
		} else {
			t.ports.add(h.Ports, now, h.ends(now), -1)
		}
	}
	s.close(t, now)
	return t
}

// covered reports whether a window of its reservation covers a hold now.
func (s *State) covered(h Hold, now int64) bool {
	if h.In == 0 {
		return false
	}
	for b := range s.bookedOn(h.Node) {
		if b.Reservation == h.In && b.Active(now) {
			return true
		}
	}
	return false
}

// Reserves reports whether a window lasts that has part of a node.
func (s *State) Reserves(node string, now int64) bool {
	for b := range s.bookedOn(node) {
		if b.Active(now) {
			return true
		}
	}
	return false
}

// BookedOn lists the windows that have a part of a node, the first to begin first.
func (s *State) BookedOn(node string) []Booking {
	var out []Booking
	for b := range s.bookedOn(node) {
		out = append(out, b)
	}
	return out
}

// Idle lists the devices of a node that active bookings have and no job does, each with
// its booking: of the free ones the given first, then by index.
func (s *State) Idle(node string, now int64, first func(Device) bool) map[string]Booking {
	var out map[string]Booking
	var free []Device
	for b, p := range s.bookedOn(node) {
		if !b.Active(now) {
			continue
		}
		if out == nil {
			out, free = map[string]Booking{}, s.freeDevices(node, "")
		}
		for _, m := range s.unused(b, p) {
			for _, pick := range []bool{true, false} {
				for _, d := range free {
					if _, taken := out[d.UUID]; !taken && m.Count >= quantity.Device && d.Model == m.Model && first(d) == pick {
						out[d.UUID] = b
						m.Count -= quantity.Device
					}
				}
			}
		}
	}
	return out
}

// unused is what a booking has of a node's devices beyond what jobs inside hold.
func (s *State) unused(b Booking, p Part) []catalog.ModelCount {
	var out []catalog.ModelCount
	for _, m := range p.Models {
		out = count(out, m.Model, m.Count)
	}
	for _, h := range s.HoldsOn(p.Node) {
		if h.In == b.Reservation {
			for _, m := range s.usableModels(h) {
				out = count(out, m.Model, -m.Count)
			}
		}
	}
	return out
}
