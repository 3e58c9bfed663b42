package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/feature"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// ReservationPut sets resources aside for accounts and users over a window, or over one
// that comes again.
type ReservationPut struct {
	Name            string
	Partition       string   `json:",omitempty"` // "": the default one
	Accounts, Users []string `json:",omitempty"`
	Payer           string   `json:",omitempty"` // "": the only account

	Count         int64    `json:",omitempty"`
	CPU, Mem, GPU int64    `json:",omitempty"` // of each place
	Model, Where  string   `json:",omitempty"`
	Nodes         []string `json:",omitempty"` // or these whole

	From, To int64            `json:",omitempty"` // ns; From 0: now
	Length   int64            `json:",omitempty"` // ns; instead of To
	Repeat   placement.Repeat `json:",omitempty"`
	Until    int64            `json:",omitempty"` // ns
	Join     bool             `json:",omitempty"`
	Each     int64            `json:",omitempty"`
	Images   []string         `json:",omitempty"`
	Reason   string           `json:",omitempty"`
	DryRun   bool             `json:",omitempty"`

	tried bool // to see whether it could be, for somebody who may not know what there is
}

// Kind is reservation.create.
func (ReservationPut) Kind() string { return "reservation.create" }

// Reserved is a reservation with its windows that are booked.
type Reserved struct {
	Row      placement.Reservation
	Bookings []placement.Booking
	Cost     money.Micros // of the booked devices, if nobody uses any
	Ended    int          // jobs that waited in it and were ended with it
}

// The most that a reservation may have.
const (
	maxPlaces  = 1000
	maxLength  = int64(366 * 24 * time.Hour)
	maxNamed   = 1000
	maxDevices = quantity.Device << 20
)

// Decide books every window that begins within placement.Horizon. If one can't be had
// it says what is in the way.
func (c ReservationPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.NodeRun, 0, 0) {
		return world.Outcome{}, onlyReserver
	}
	r, err := c.row(w, at)
	if err != nil {
		return world.Outcome{}, err
	}
	out := Reserved{}
	after := w.Copy()
	changes := []world.Change{}
	for r.Next != 0 && (r.Next <= at.Now+placement.Horizon || len(out.Bookings) == 0) {
		b, conflict := open(after, &r, at.Now)
		if conflict != nil {
			if c.tried {
				return world.Outcome{}, fault.New(codes.Conflict, "%s", inTheWay(w, r, b, conflict))
			}
			return world.Outcome{}, conflictOf(w, at, r, b, conflict)
		}
		set := placement.BookingSet{Row: b}
		after.Fold([]world.Change{set})
		changes = append(changes, set)
		out.Bookings = append(out.Bookings, b)
	}
	if err := burst(w, r, at.Now); err != nil {
		return world.Outcome{}, err
	}
	if out.Cost, err = affordable(w, r, out.Bookings, at.Now); err != nil {
		return world.Outcome{}, err
	}
	out.Row = r
	if c.DryRun {
		return world.Outcome{Result: out, Event: world.Event{Skip: true}}, nil
	}
	changes = append([]world.Change{placement.ReservationSet{Row: r}}, changes...)
	return retiled(w, at, changes, world.Event{Account: r.Payer, Message: "reservation " + r.Name}, out)
}

var onlyReserver = fault.New(codes.Denied, "only an operator may make or cancel reservations")

// row checks the request and makes the row of it.
func (c ReservationPut) row(w *world.World, at world.Context) (placement.Reservation, error) {
	r := placement.Reservation{
		ID: w.Placement.NextReservation(), Name: c.Name, Count: c.Count, CPU: c.CPU, Mem: c.Mem, GPU: c.GPU, Model: c.Model, Where: c.Where,
		Repeat: c.Repeat, Until: c.Until, Join: c.Join, Each: c.Each, Images: *sorted(&c.Images), Reason: c.Reason, By: id.User(at.Principal.User), Created: at.Now,
	}
	_, taken := w.Placement.Reservation(c.Name)
	if err := vacant("reservation", c.Name, taken && !c.tried); err != nil {
		return r, err
	}
	var bad fault.Fields
	p, ok := w.Catalog.Partition(c.Partition)
	if !ok {
		bad.Add("partition", "no such partition: %s", or(c.Partition, "(default)"))
	}
	r.Partition = p.Name
	c.people(w, at, &r, &bad)
	c.amounts(w, p, &r, &bad)
	c.times(w, at, &r, &bad)
	c.terms(r, &bad)
	if c.Reason != "" && !oneLine(c.Reason, 200) {
		bad.Add("reason", "must be at most 200 characters on one line")
	}
	return r, bad.Err()
}

// people looks up whom the reservation is for and who pays for what they don't use.
func (c ReservationPut) people(w *world.World, at world.Context, r *placement.Reservation, bad *fault.Fields) {
	accounts(w, bad, "accounts", &r.Accounts, &c.Accounts)
	for _, name := range c.Users {
		u, ok := w.Tenancy.User(name)
		if !ok {
			bad.Add("users", "no such user: %s", name)
		}
		r.Users = append(r.Users, u.ID)
	}
	r.Users = *sorted(&r.Users)
	switch {
	case len(c.Accounts)+len(c.Users) == 0:
		bad.Add("accounts", "say whom it is for: accounts, users or both")
	case len(c.Accounts)+len(c.Users) > maxNamed:
		bad.Add("accounts", "is for more than %d accounts and users: name an account that they are members of", maxNamed)
	}
	if len(*bad) > 0 {
		return
	}
	payer, ok := w.Tenancy.Account(c.Payer)
	switch {
	case c.Payer == "" && len(r.Accounts) == 1:
		payer, _ = w.Tenancy.Accounts.Get(r.Accounts[0])
	case c.Payer == "":
		bad.Add("payer", "say which account pays for devices that stay unused")
	case !ok:
		bad.Add("payer", "no such account: %s", c.Payer)
	case payer.Closed || payer.Over(at.Now):
		bad.Add("payer", "account %s is closed or over", payer.Name)
	case !concerned(w, r, payer.ID, at.Now) && !w.Can(at.Principal, access.MoneyGive, 0, 0):
		bad.Add("payer", "must be one of the accounts, or above them, or one that all the users are members of; only an admin may have another pay")
	}
	r.Payer = payer.ID
}

// concerned reports whether an account has to do with everybody whom r is for.
func concerned(w *world.World, r *placement.Reservation, payer id.Account, now int64) bool {
	for _, a := range r.Accounts {
		if a != payer && !w.Tenancy.Within(a, payer) {
			return slices.Contains(r.Accounts, payer)
		}
	}
	for _, u := range r.Users {
		if w.Tenancy.Role(u, payer, now) < access.Member {
			return slices.Contains(r.Accounts, payer)
		}
	}
	return true
}

// amounts checks what is set aside.
func (c ReservationPut) amounts(w *world.World, p catalog.Partition, r *placement.Reservation, bad *fault.Fields) {
	if len(c.Nodes) > 0 {
		if c.Count != 0 || c.CPU != 0 || c.Mem != 0 || c.GPU != 0 || c.Model != "" || c.Where != "" {
			bad.Add("nodes", "are reserved whole: leave out count, cpu, mem, gpu, model and constraint")
		}
		r.Nodes = *sorted(&c.Nodes)
		for _, n := range r.Nodes {
			if row, ok := w.Placement.Nodes.Get(n); !ok || row.Gone || !p.Has(n) {
				bad.Add("nodes", "partition %s has no node %s", p.Name, n)
			}
		}
		return
	}
	if r.Count == 0 {
		r.Count = 1
	}
	within(bad, "count", r.Count, 1, maxPlaces)
	if r.CPU == 0 {
		r.CPU = w.Site.DefCPU * max(1, r.GPU/quantity.Device)
	}
	if r.Mem == 0 {
		r.Mem = w.Site.DefMem * max(1, r.GPU/quantity.Device)
	}
	if r.CPU < workload.MinCPU {
		bad.Add("cpu", "is too little for a job")
	}
	if r.Mem < workload.MinMemory {
		bad.Add("mem", "is too little for a job")
	}
	if r.GPU < 0 || r.GPU > maxDevices || r.GPU%quantity.Device != 0 {
		bad.Add("gpu", "must be a whole number of devices")
	}
	if r.GPU == 0 && r.Model != "" {
		bad.Add("model", "is of devices: say how many (gpu)")
	}
	if _, err := feature.Parse(r.Where); r.Where != "" && err != nil {
		bad.Add("constraint", "%v", err)
	}
}

// times checks the windows.
func (c ReservationPut) times(w *world.World, at world.Context, r *placement.Reservation, bad *fault.Fields) {
	r.From = cmp.Or(c.From, at.Now)
	r.Length = c.Length
	if c.To != 0 {
		r.Length = c.To - r.From
	}
	switch {
	case r.From < at.Now:
		bad.Add("from", "is in the past")
		return
	case r.Length <= 0:
		bad.Add("to", "must be after from")
		return
	case r.Length > maxLength:
		bad.Add("to", "a window lasts a year at most")
		return
	}
	if c.Until != 0 && (c.Repeat == placement.Never || c.Until < r.From) {
		bad.Add("until", "is when windows that come again end: give every, and a time after from")
	}
	if gap := c.Repeat.Gap(); gap != 0 && r.Length > int64(gap)*int64(24*time.Hour) {
		bad.Add("to", "a window must end before the next begins")
	}
	r.First(w.Site.Zone)
	if r.Next == 0 {
		bad.Add("until", "is before the first window")
	}
}

// open books the window at r.Next and moves that on. With a conflict, b is what was to be
// booked.
func open(w *world.World, r *placement.Reservation, now int64) (b placement.Booking, conflict *placement.Conflict) {
	b = placement.Booking{ID: w.Placement.NextBooking(), Reservation: r.ID}
	b.From, b.To = r.Window(w.Site.Zone)
	p, _ := w.Catalog.Partition(r.Partition)
	b.Parts, conflict = w.Placement.Book(*r, p, b.From, b.To, now)
	r.Advance(w.Site.Zone)
	return b, conflict
}

// affordable is what the windows cost if nobody uses them. Where money decides, the
// payer must have as much now; nothing is set aside.
func affordable(w *world.World, r placement.Reservation, of []placement.Booking, now int64) (money.Micros, error) {
	payer, _ := w.Tenancy.Accounts.Get(r.Payer)
	if payer.Billing == tenancy.BillingOff {
		return 0, nil
	}
	var sum money.Micros
	book := w.Catalog.Book(r.Partition, now)
	for _, b := range of {
		for _, p := range b.Parts {
			cost, err := book.Cost(catalog.Use{Devices: p.Models}, 1000, b.From, b.To)
			if err == nil {
				sum, err = sum.Add(cost.Total)
			}
			if err != nil {
				return 0, fault.New(codes.Invalid, "the price of this reservation is too large to compute: reserve less")
			}
		}
	}
	have := ledger.Available(w.Ledger.Funds(w.Tenancy.Path(payer.ID), now, ledger.Overdraft{Account: payer.ID, Bound: payer.MayOverdraw()}))
	if payer.Billing == tenancy.BillingEnforce && have < sum {
		return sum, fault.New(codes.Conflict, "the devices cost %s if nobody uses them, account %s has %s left", sum, payer.Name, have)
	}
	return sum, nil
}

// maxNames bounds the jobs and windows that a refusal names.
const maxNames = 100

// conflictOf words why a window can't be booked, for an operator.
func conflictOf(w *world.World, at world.Context, r placement.Reservation, b placement.Booking, c *placement.Conflict) *fault.Error {
	f := fault.New(codes.Conflict, "%s", inTheWay(w, r, b, c))
	for _, h := range c.Jobs[:min(len(c.Jobs), maxNames)] {
		f.Reasons = append(f.Reasons, fault.Reason{
			Code: codes.ReservationConflict, Scope: fmt.Sprintf("job %d", h.Job), Bound: moment(h.Until), Message: holderOf(w, h),
		})
	}
	for _, o := range c.Bookings[:min(len(c.Bookings), maxNames)] {
		row, _ := w.Placement.Reservations.Get(o.Reservation)
		f.Reasons = append(f.Reasons, fault.Reason{
			Code: codes.ReservationConflict, Scope: "reservation " + row.Name, Bound: moment(o.To), Message: "reservation " + row.Name + " from " + moment(o.From) + " until " + moment(o.To),
		})
	}
	for _, m := range c.Maintenance {
		f.Reasons = append(f.Reasons, fault.Reason{
			Code: codes.Maintenance, Scope: "node " + m.Node, Bound: moment(m.To), Message: "maintenance of " + m.Node + " from " + moment(m.From) + " until " + moment(m.To),
		})
	}
	return f
}

func holderOf(w *world.World, h placement.Hold) string {
	text := fmt.Sprintf("job %d", h.Job)
	if j, ok := w.Workload.Jobs.Get(h.Job); ok {
		u, _ := w.Tenancy.Users.Get(j.User)
		a, _ := w.Tenancy.Accounts.Get(j.Account)
		text += " of " + u.Name + " (" + a.Name + ")"
	}
	return text + " on " + h.Node + " until " + moment(h.Until)
}

// inTheWay is a conflict on one line. It names jobs by number only, as members may read
// it of a window that couldn't be booked.
func inTheWay(w *world.World, r placement.Reservation, b placement.Booking, c *placement.Conflict) string {
	window := "from " + moment(b.From) + " until " + moment(b.To)
	switch {
	case c.Node != "":
		return fmt.Sprintf("node %s can't be used now: %s", c.Node, window)
	case c.Never():
		return fmt.Sprintf("partition %s has room for %d such places at most, asked for %d", r.Partition, c.Room, c.Asked)
	}
	var by []string
	for _, h := range c.Jobs {
		by = append(by, fmt.Sprintf("job %d until %s", h.Job, moment(h.Until)))
	}
	for range c.Bookings {
		by = append(by, "another reservation")
	}
	for _, m := range c.Maintenance {
		by = append(by, "maintenance until "+moment(m.To))
	}
	const most = 5
	if n := len(by) - most; n > 0 {
		by = append(by[:most], fmt.Sprintf("%d more", n))
	}
	text := fmt.Sprintf("not free %s: %s", window, strings.Join(by, ", "))
	if c.Free != 0 {
		text += "; free from " + moment(c.Free)
	}
	return text
}

func moment(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05 UTC") }

// reservationsOf names the reservations that match.
func reservationsOf(w *world.World, match func(placement.Reservation) bool) []string {
	var out []string
	for _, r := range w.Placement.Reservations.All() {
		if match(r) {
			out = append(out, "reservation "+r.Name+" has it")
		}
	}
	return out
}
