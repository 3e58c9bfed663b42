package placement

import (
	"iter"
	"math"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ placement() }

// The changes.
type (
	NodeSet        struct{ Row Node }
	DeviceSet      struct{ Row Device }
	MaintenanceSet struct{ Row Maintenance }
	ReservationSet struct{ Row Reservation }
	BookingSet     struct{ Row Booking }
)

func (NodeSet) placement()        {}
func (ReservationSet) placement() {}
func (BookingSet) placement()     {}
func (DeviceSet) placement()      {}
func (MaintenanceSet) placement() {}

// State is nodes, devices, maintenance windows, reservations, and what is held. Holds
// are derived from the jobs that have an allocation, Backlog from those that wait.
type State struct {
	Nodes        table.Table[string, Node]
	Devices      table.Table[string, Device] // by UUID
	Maintenance  table.Table[id.Maintenance, Maintenance]
	Reservations table.Table[id.Reservation, Reservation] // those that aren't over
	Bookings     table.Table[id.Booking, Booking]         // likewise
	Holds        table.Table[id.Job, Hold]
	Backlog      Backlog

	onNode  table.Table[string, Device] // by deviceKey
	holders table.Table[string, Share]  // by holderKey
	holdsOn table.Table[string, id.Job] // by Hold.key
	fleet   fleet

	named  table.Table[string, id.Reservation]
	booked table.Table[string, id.Booking] // by node, then begin: see bookingKey

	lastMnt     id.Maintenance
	lastReserve id.Reservation
	lastBooking id.Booking
}

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{
		Nodes: s.Nodes.Copy(), Devices: s.Devices.Copy(), Maintenance: s.Maintenance.Copy(), Holds: s.Holds.Copy(),
		Backlog: s.Backlog.Copy(), onNode: s.onNode.Copy(), holders: s.holders.Copy(), holdsOn: s.holdsOn.Copy(),
		fleet: s.fleet.copy(), Reservations: s.Reservations.Copy(), Bookings: s.Bookings.Copy(), named: s.named.Copy(), booked: s.booked.Copy(),
		lastMnt: s.lastMnt, lastReserve: s.lastReserve, lastBooking: s.lastBooking,
	}
}

// Fold puts a change's row.
func (s *State) Fold(c Change) {
	switch c := c.(type) {
	case NodeSet:
		s.Nodes.Set(c.Row.Name, c.Row)
		s.offerChanged(c.Row.Name)
	case DeviceSet:
		s.putDevice(c.Row)
	case MaintenanceSet:
		s.lastMnt = max(s.lastMnt, c.Row.ID)
		if c.Row.Over {
			s.Maintenance.Delete(c.Row.ID)
		} else {
			s.Maintenance.Set(c.Row.ID, c.Row)
		}
	case ReservationSet:
		s.putReservation(c.Row)
	case BookingSet:
		s.putBooking(c.Row)
	}
}

func (s *State) putDevice(d Device) {
	if old, ok := s.Devices.Set(d.UUID, d); ok {
		s.onNode.Delete(deviceKey(old))
		if old.Node != d.Node {
			s.offerChanged(old.Node)
		}
	}
	s.onNode.Set(deviceKey(d), d)
	s.offerChanged(d.Node)
}

// Hold notes that a job has an allocation.
func (s *State) Hold(h Hold) {
	s.Release(h.Job)
	s.Holds.Set(h.Job, h)
	for r := range h.Ranks() {
		s.holdsOn.Set(r.key(), h.Job)
		for _, d := range r.Devices {
			s.holders.Set(holderKey(d, h.Job), Share{h.Job, h.each()})
		}
		s.loadChanged(r.Node, loadOf(r), +1)
	}
}

// Release notes that a job has no allocation any more.
func (s *State) Release(j id.Job) {
	h, ok := s.Holds.Delete(j)
	if !ok {
		return
	}
	for r := range h.Ranks() {
		s.holdsOn.Delete(r.key())
		for _, d := range r.Devices {
			s.holders.Delete(holderKey(d, j))
		}
		s.loadChanged(r.Node, loadOf(r), -1)
	}
}

// NextMaintenance is the id of the next window.
func (s *State) NextMaintenance() id.Maintenance { return s.lastMnt + 1 }

// Share is what a job has of a device.
type Share struct {
	Job   id.Job
	Milli int64
}

// Shares lists who has a device, by job: one that has it whole, or those that have
// parts of it.
func (s *State) Shares(uuid string) []Share {
	var out []Share
	for k, share := range s.holders.From(uuid + "\x00") {
		if k >= uuid+"\x01" {
			break
		}
		out = append(out, share)
	}
	return out
}

// InUse is how much of a device is held, in milli-devices: all of it at most.
func (s *State) InUse(uuid string) int64 {
	var n int64
	for k, share := range s.holders.From(uuid + "\x00") {
		if k >= uuid+"\x01" {
			break
		}
		n += share.Milli
	}
	return min(n, quantity.Device)
}

// Used returns what is held on a node: milli-cores and bytes.
func (s *State) Used(node string) (cpu, mem int64) {
	n, _ := s.fleet.nodes.Get(node)
	return n.load.cpu, n.load.mem
}

// DevicesOn lists a node's devices in index order.
func (s *State) DevicesOn(node string) []Device {
	var out []Device
	for d := range s.devicesOn(node) {
		if !d.Gone {
			out = append(out, d)
		}
	}
	return out
}

// HoldsOn lists what is held on a node, the first to end first.
func (s *State) HoldsOn(node string) []Hold {
	var out []Hold
	for k, j := range s.holdsOn.From(node + "\x00") {
		if k >= node+"\x01" {
			break
		}
		if h, ok := s.Holds.Get(j); ok {
			out = append(out, h.on(node))
		}
	}
	return out
}

// nextEnd is when the first hold on a node is to end, the end of time if none is.
func (s *State) nextEnd(node string) int64 {
	for k, j := range s.holdsOn.From(node + "\x00") {
		if h, ok := s.Holds.Get(j); ok && k < node+"\x01" {
			return h.Until
		}
		break
	}
	return math.MaxInt64
}

func (s *State) devicesOn(node string) iter.Seq[Device] {
	return func(yield func(Device) bool) {
		for k, d := range s.onNode.From(node + "\x00") {
			if k >= node+"\x01" || !yield(d) {
				return
			}
		}
	}
}

// deviceKey orders devices by node, then index.
func deviceKey(d Device) string {
	return d.Node + "\x00" + ordered(int64(d.Index)) + d.UUID
}

// holderKey orders holders by device.
func holderKey(uuid string, j id.Job) string { return uuid + "\x00" + ordered(int64(j)) }

// key orders holds by node, then end, then job.
func (h Hold) key() string { return h.Node + "\x00" + ordered(h.Until) + ordered(int64(h.Job)) }

// ordered is n as a string that sorts as n does.
func ordered(n int64) string {
	var k [8]byte
	for i := range 8 {
		k[7-i] = byte((uint64(n) ^ 1<<63) >> (8 * i))
	}
	return string(k[:])
}
