package command

import (
	"slices"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// ReservationCancel gives back what a reservation has, or just one window of it. Jobs
// that wait in it are ended with the last window; those that run go on to their limits.
type ReservationCancel struct {
	Name   string
	Window id.Booking `json:",omitempty"` // 0: all of it
}

// Kind is reservation.cancel.
func (ReservationCancel) Kind() string { return "reservation.cancel" }

// Decide cancels it.
func (c ReservationCancel) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.NodeRun, 0, 0) {
		return world.Outcome{}, onlyReserver
	}
	r, ok := w.Placement.Reservation(c.Name)
	if !ok {
		return world.Outcome{}, fault.NotFound("reservation", c.Name)
	}
	d := due{w: w.Copy(), at: at}
	if err := d.steps(); err != nil { // a window that is over was his until it was
		return world.Outcome{}, err
	}
	found := false
	for _, b := range d.w.Placement.BookingsOf(r.ID) {
		if c.Window == 0 || b.ID == c.Window {
			found, b.Over = true, true
			d.put(placement.BookingSet{Row: b})
		}
	}
	if c.Window != 0 && !found {
		return world.Outcome{}, fault.Invalid("window", "reservation %s has no window %d", c.Name, c.Window)
	}
	if c.Window == 0 {
		r.Next = 0
	}
	n, err := d.finish(r, "reservation "+r.Name+" was cancelled by "+at.Principal.Signature())
	if err != nil {
		return world.Outcome{}, err
	}
	return retiled(w, at, d.changes, world.Event{Account: r.Payer, Message: "reservation " + r.Name + " cancelled"}, Reserved{Row: r, Ended: n})
}

// ReservationsDue does what time alone makes due: it books the windows that are near
// enough, notes that one begins, and closes those that are past, with the jobs that wait
// for nothing any more. It can be repeated at any time.
type ReservationsDue struct{}

// Kind is reservation.due.
func (ReservationsDue) Kind() string { return "reservation.due" }

// Decide takes every step that is due.
func (ReservationsDue) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	d := due{w: w.Copy(), at: at}
	if err := d.steps(); err != nil {
		return world.Outcome{}, err
	}
	for _, b := range w.Placement.Bookings.All() {
		d.again(b)
	}
	for _, r := range w.Placement.Reservations.All() {
		if err := d.reservation(r); err != nil {
			return world.Outcome{}, err
		}
	}
	if err := d.orphans(); err != nil {
		return world.Outcome{}, err
	}
	slices.Sort(d.said)
	return world.Outcome{Changes: d.changes, Event: world.Event{Skip: len(d.changes) == 0, Message: strings.Join(slices.Compact(d.said), "; ")}}, nil
}

// due collects steps, each decided after those before it.
type due struct {
	w       *world.World // with the changes folded in
	at      world.Context
	changes []world.Change
	said    []string
}

func (d *due) put(c ...world.Change) {
	d.w.Fold(c)
	d.changes = append(d.changes, c...)
}

// steps begins and ends all windows that are due, in the order of time.
func (d *due) steps() error {
	for {
		b, some := d.next()
		if !some {
			return nil
		}
		if err := d.step(b); err != nil {
			return err
		}
	}
}

// next is the window of which the earliest step is due.
func (d *due) next() (placement.Booking, bool) {
	var first placement.Booking
	for _, b := range d.w.Placement.Bookings.All() {
		if b.Due() <= d.at.Now && (first.ID == 0 || b.Due() < first.Due()) {
			first = b
		}
	}
	return first, first.ID != 0
}

// step begins or ends a window. Its devices' payer changes when that was due, however
// late it is noticed.
func (d *due) step(b placement.Booking) error {
	r, _ := d.w.Placement.Reservations.Get(b.Reservation)
	when := b.Due()
	if when == b.To {
		b.Over = true
		d.said = append(d.said, "a window of reservation "+r.Name+" ended")
	} else {
		b.Begun = true
		d.said = append(d.said, "a window of reservation "+r.Name+" began")
	}
	d.put(placement.BookingSet{Row: b})
	var devices []placement.Device
	for _, p := range b.Parts {
		devices = append(devices, d.w.Placement.DevicesOn(p.Node)...)
	}
	tiles, err := scene(d.w, when).Retile(d.w.Ledger.NewPosting(d.at.Seq, d.at.Now), devices, metering.Boundary{})
	d.put(wrap(tiles)...)
	return err
}

// again tries to book a window that couldn't be before; once it has begun, no more.
func (d *due) again(b placement.Booking) {
	if b.Failed == "" || b.From <= d.at.Now {
		return
	}
	r, _ := d.w.Placement.Reservations.Get(b.Reservation)
	p, _ := d.w.Catalog.Partition(r.Partition)
	parts, conflict := d.w.Placement.Book(r, p, b.From, b.To, d.at.Now)
	if conflict != nil {
		return
	}
	b.Parts, b.Failed = parts, ""
	if _, err := affordable(d.w, r, []placement.Booking{b}, d.at.Now); err != nil {
		return
	}
	d.put(placement.BookingSet{Row: b})
	d.said = append(d.said, "a window of reservation "+r.Name+" could be booked after all")
}

// reservation books the windows that are near enough, and closes it after the last.
func (d *due) reservation(r placement.Reservation) error {
	before := r.Next
	for r.Next != 0 && r.Next <= d.at.Now+placement.Horizon {
		b, conflict := open(d.w, &r, d.at.Now)
		_, poor := affordable(d.w, r, []placement.Booking{b}, d.at.Now)
		switch {
		case b.To <= d.at.Now:
			b.Parts, b.Failed, b.Over = nil, "it was past before it could be booked", true
		case conflict != nil:
			b.Failed = inTheWay(d.w, r, b, conflict)
		case poor != nil:
			b.Parts, b.Failed = nil, poor.Error()
		}
		if b.Failed != "" {
			d.said = append(d.said, "a window of reservation "+r.Name+" couldn't be booked: "+b.Failed)
		}
		d.put(placement.BookingSet{Row: b})
	}
	if r.Next != before {
		d.put(placement.ReservationSet{Row: r})
	}
	_, err := d.finish(r, "reservation "+r.Name+" is over")
	return err
}

// finish closes a reservation that has no window any more, and ends the jobs that wait in
// it. It returns their number.
func (d *due) finish(r placement.Reservation, message string) (int, error) {
	if r.Next != 0 || len(d.w.Placement.BookingsOf(r.ID)) > 0 {
		return 0, nil
	}
	r.Over = true
	d.put(placement.ReservationSet{Row: r})
	d.said = append(d.said, "reservation "+r.Name+" is over")
	return d.end(r.ID, message)
}

// orphans ends jobs that wait in a reservation that is over: what finish left, and those
// that were to be queued again.
func (d *due) orphans() error {
	for in := range d.w.Workload.Reservations() {
		if _, live := d.w.Placement.Reservations.Get(in); live {
			continue
		}
		if _, err := d.end(in, ""); err != nil {
			return err
		}
	}
	return nil
}

// end ends the jobs that wait in a reservation, as many as one command may.
func (d *due) end(in id.Reservation, message string) (int, error) {
	var waiting []id.Job
	for j := range d.w.Workload.Within(in) {
		if !workload.RulesOf(j.State).Running && len(waiting) < maxStops {
			waiting = append(waiting, j.ID)
		}
	}
	for _, k := range waiting {
		j, ok := d.w.Workload.Jobs.Get(k)
		if !ok {
			continue
		}
		why := admission.ReservationOver(j.Spec.Reservation).Message
		as := codes.Cancelled
		if j.Spec.Workspace() {
			as = codes.Stopped // it may start in another
		}
		out, err := finish(d.w, d.at, edit(j, d.at), as, or(message, why))
		if err != nil {
			return 0, err
		}
		d.put(out.Changes...)
	}
	return len(waiting), nil
}
