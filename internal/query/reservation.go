package query

import (
	"cmp"
	"slices"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

// Reservations lists those that the caller may see, the first to begin first.
func (r *Reader) Reservations(p access.Principal) []v1.Reservation {
	v := r.view(p)
	out := []v1.Reservation{}
	for _, row := range v.w.Placement.Reservations.All() {
		if v.decides().SeesReservation(p, row) {
			out = append(out, r.reservation(v, row))
		}
	}
	slices.SortStableFunc(out, func(a, b v1.Reservation) int {
		return cmp.Or(begins(a).Compare(begins(b)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Reservation returns one.
func (r *Reader) Reservation(p access.Principal, name string) (v1.Reservation, error) {
	v := r.view(p)
	row, ok := v.w.Placement.Reservation(name)
	if !ok || !v.decides().SeesReservation(p, row) {
		return v1.Reservation{}, fault.NotFound("reservation", clip(name))
	}
	return r.reservation(v, row), nil
}

func (r *Reader) reservation(v view, row placement.Reservation) v1.Reservation {
	out := v.reservationWire(row, v.w.Placement.BookingsOf(row.ID))
	for i := range out.Images {
		if r.Server.Coming != nil {
			out.Images[i].State = r.Server.Coming(out.Images[i].Image)
		}
	}
	return out
}

// Reserved is what making a reservation came to, or would.
func (r *Reader) Reserved(p access.Principal, row placement.Reservation, bookings []placement.Booking, cost money.Micros) v1.Reservation {
	out := r.view(p).reservationWire(row, bookings)
	out.Cost = cost.String()
	return out
}

func (v view) reservationWire(row placement.Reservation, bookings []placement.Booking) v1.Reservation {
	out := v1.Reservation{
		Name: row.Name, Partition: row.Partition, State: "planned", Accounts: v.seen(row.Accounts),
		Count: row.Count, Model: row.Model, Where: row.Where, Nodes: row.Nodes,
		From: at(row.From), Length: spanWire(row.Length), Every: row.Repeat.String(), Until: moment(row.Until), Reason: row.Reason,
		Windows: []v1.ReservationWindow{},
	}
	if out.Join, out.Each = row.Join, row.Each; row.Repeat != placement.Never {
		out.At = v.w.Limits.Zone.Clock(row.From)
	}
	for _, ref := range row.Images {
		out.Images = append(out.Images, v1.ReservationImage{Image: ref})
	}
	if row.Count > 0 {
		out.CPU, out.Mem = amount(limits.CPU, row.CPU), amount(limits.Mem, row.Mem)
	}
	if row.GPU > 0 {
		out.GPU = amount(limits.GPU, row.GPU)
	}
	for _, u := range row.Users {
		if v.may(access.UserSee, u, 0) {
			out.Users = append(out.Users, v.user(u))
		}
	}
	if v.may(access.AccountSee, 0, row.Payer) {
		out.Payer = v.account(row.Payer)
	}
	if v.may(access.UserSee, row.By, 0) {
		out.By = v.user(row.By)
	}
	for _, b := range bookings {
		w := v.windowWire(b)
		if w.State == "active" {
			out.State = w.State
		}
		out.Windows = append(out.Windows, w)
	}
	for j := range v.w.Workload.Within(row.ID) {
		if workload.RulesOf(j.State).Running {
			out.Running++
		} else {
			out.Waiting += j.Waits()
		}
	}
	return out
}

func (v view) windowWire(b placement.Booking) v1.ReservationWindow {
	w := v1.ReservationWindow{ID: decimal(b.ID), From: at(b.From), To: at(b.To), State: "planned", Reason: b.Failed}
	switch {
	case b.Failed != "":
		w.State = "failed"
	case b.Active(v.now):
		w.State = "active"
	}
	for _, p := range b.Parts {
		part := v1.ReservationPart{Node: p.Node, CPU: amount(limits.CPU, p.CPU), Mem: amount(limits.Mem, p.Mem)}
		for _, m := range p.Models {
			if part.Models == nil {
				part.Models = map[string]int64{}
			}
			part.Models[m.Model] = m.Count / quantity.Device
		}
		w.Parts = append(w.Parts, part)
	}
	return w
}

// begins is when a reservation's next window does.
func begins(r v1.Reservation) time.Time {
	if len(r.Windows) > 0 {
		return r.Windows[0].From
	}
	return r.From
}

func amount(r limits.Resource, n int64) v1.Quantity { return v1.Quantity(limits.Format(r, n)) }
