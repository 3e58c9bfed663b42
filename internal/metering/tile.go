package metering

import (
	"cmp"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Scene is what the tiles of a moment depend on.
type Scene struct {
	Places  *placement.State
	Jobs    *workload.State
	Catalog *catalog.State
	Tenancy *tenancy.State
	Ledger  *ledger.State
	Now     int64
}

// owed says who has a device, and why, as things stand: what no job has of it first. From
// is set where that can't have been so before.
func (s Scene) owed(d placement.Device) []ledger.Tile {
	rest := ledger.Tile{Device: d.UUID, Node: d.Node, Model: d.Model, Milli: quantity.Device, Cause: s.unheld(d)}
	var out []ledger.Tile
	for _, share := range s.Places.Shares(d.UUID) {
		j, ok := s.Jobs.Jobs.Get(share.Job)
		if !ok {
			continue
		}
		t := rest
		t.Milli, t.Job, t.Attempt, t.Cause = share.Milli, j.ID, j.Attempt.N, ledger.CauseStarting
		if j.Attempt.Started != 0 {
			// beyond its limit too: that part is cut off when the end is known
			t.Cause, t.Account, t.User = ledger.CauseUsed, j.Account, j.User
		}
		rest.Milli -= share.Milli
		out = append(out, t)
	}
	if b, r, ok := s.reserved(d); ok && len(out) == 0 && rest.Cause == ledger.CauseIdle {
		rest.Cause, rest.Account, rest.From = ledger.CauseReserved, r.Payer, b.From
	}
	if rest.Milli > 0 {
		out = slices.Insert(out, 0, rest)
	}
	return out
}

// reserved says for which reservation a device that no job has is kept free. One that is
// already stays so, so that another's coming and going moves no more than it must.
func (s Scene) reserved(d placement.Device) (placement.Booking, placement.Reservation, bool) {
	of := s.Places.Idle(d.Node, s.Now, func(d placement.Device) bool {
		open := s.Ledger.OpenTiles(d.UUID)
		return len(open) > 0 && open[0].Cause == ledger.CauseReserved
	})
	b := of[d.UUID]
	r, ok := s.Places.Reservations.Get(b.Reservation)
	return b, r, ok
}

// lasts is the end of the windows that a reserved tile is in, one right after the other,
// at most at: it may be noticed late that they are over.
func (s Scene) lasts(t ledger.Tile, at int64) int64 {
	end := int64(0)
	for _, b := range s.Places.BookedOn(t.Node) {
		r, _ := s.Places.Reservations.Get(b.Reservation)
		if r.Payer == t.Account && t.From < b.To && b.From < at && (end == 0 || b.From <= end) {
			end = max(end, b.To)
		}
	}
	if end == 0 {
		return at // they were cancelled just now
	}
	return max(t.From, min(end, at))
}

// unheld is the cause for a device that no job has.
func (s Scene) unheld(d placement.Device) ledger.Cause {
	n, ok := s.Places.Nodes.Get(d.Node)
	switch {
	case !ok || !n.Ready || n.Gone:
		return ledger.CauseDown
	case len(d.Foreign) > 0:
		return ledger.CauseForeign
	case !d.Healthy:
		return ledger.CauseDown
	case n.Drained:
		return ledger.CauseDrained
	}
	for _, m := range s.Places.Maintenance.All() {
		if m.On(d.Node) && m.From <= s.Now && s.Now < m.To {
			return ledger.CauseMaintenance
		}
	}
	return ledger.CauseIdle
}

// Boundary is when a device's payer changed, where that is known better than
// "now": a primary's start or end as the engine saw it.
type Boundary struct {
	// Job is whose boundary it is: of a shared device, it concerns that job's part alone.
	Job id.Job
	At  int64
	// As, when set, is the cause that the tile up to At is closed with: the
	// platform bears what its fault destroyed.
	As ledger.Cause
	// Limit, when set, is the last moment that the ended attempt's user pays for.
	Limit int64
	// Payer, when set, pays from Began on for a tile that was still "starting": the
	// attempt's start was learned only with its end.
	Began int64
	Payer ledger.Payer
}

// Retile closes the open tiles of each given device whose payer has changed and
// opens the next ones, without gap or overlap. s is the scene after the change;
// what the platform pays is posted.
func (s Scene) Retile(p *ledger.Posting, devices []placement.Device, b Boundary) ([]ledger.Change, error) {
	var out []ledger.Change
	books := s.Ledger.Copy() // in which one tile's payment is gone when the next is due
	for _, d := range devices {
		changes, err := s.retile(p, &books, d, b)
		if err != nil {
			return nil, err
		}
		out = append(out, changes...)
	}
	return out, nil
}

func (s Scene) retile(p *ledger.Posting, books *ledger.State, d placement.Device, b Boundary) ([]ledger.Change, error) {
	var out []ledger.Change
	var want []ledger.Tile
	if !d.Gone {
		want = s.owed(d)
	}
	begins := int64(0) // of what is reserved, which is the whole device
	for i := range want {
		begins, want[i].From = max(begins, want[i].From), s.Now
	}
	for _, t := range s.Ledger.OpenTiles(d.UUID) {
		own := Boundary{}
		if t.Milli == quantity.Device || t.Job == b.Job && t.Job != 0 {
			own = b
		}
		stays := slices.IndexFunc(want, func(w ledger.Tile) bool { return same(t, w) })
		if stays >= 0 && own.As == "" {
			want = slices.Delete(want, stays, stays+1)
			continue
		}
		at := own.At
		if at == 0 || at > s.Now {
			at = s.Now
		}
		at = max(at, t.From)
		closed, err := s.close(p, books, t, at, own)
		if err == nil && !follow(want, t, at) && at < s.Now && !d.Gone {
			// Until its end was learned nobody else could have had the part.
			t.From, t.Cause, t.Account, t.User = at, ledger.CauseEnding, 0, 0
			var late []ledger.Change
			late, err = s.close(p, books, t, s.Now, Boundary{})
			closed = append(closed, late...)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, closed...)
	}
	for _, w := range want {
		if begins > w.From {
			idle := w
			idle.Cause, idle.Account = ledger.CauseIdle, 0
			before, err := s.close(p, books, idle, begins, Boundary{})
			if err != nil {
				return nil, err
			}
			out, w.From = append(out, before...), begins
		}
		out = append(out, ledger.TileSet{Row: w})
	}
	return out, nil
}

// follow begins the tiles that come after one, where that ends sooner than now: all of
// the device's after one of all of it, else the same job's. It reports whether there
// are any.
func follow(want []ledger.Tile, t ledger.Tile, at int64) bool {
	any := false
	for i := range want {
		if t.Milli == quantity.Device || want[i].Job == t.Job && want[i].Milli == t.Milli {
			want[i].From, any = at, true
		}
	}
	return any
}

// close ends an open tile at t. Use beyond what its job may be charged for is cut
// off as the platform's.
func (s Scene) close(p *ledger.Posting, books *ledger.State, t ledger.Tile, at int64, b Boundary) ([]ledger.Change, error) {
	if b.As != "" && t.Cause == ledger.CauseUsed {
		t.Cause, t.Account, t.User = b.As, 0, 0
	}
	var out []ledger.Change
	if t.Cause == ledger.CauseStarting && b.Began != 0 && b.As == "" {
		starting, err := s.close(p, books, t, min(max(b.Began, t.From), at), Boundary{})
		if err != nil {
			return nil, err
		}
		out = append(out, starting...)
		t.From, t.Cause, t.Account, t.User = min(max(b.Began, t.From), at), ledger.CauseUsed, b.Payer.Account, b.Payer.User
	}
	if end := cmp.Or(b.Limit, s.limitOf(t)); t.Cause == ledger.CauseUsed && end != 0 && end < at {
		used := t
		used.To = max(end, t.From)
		out = append(out, ledger.TileSet{Row: used})
		t.From, t.Cause, t.Account, t.User = used.To, ledger.CauseEnding, 0, 0
	}
	if t.Cause == ledger.CauseReserved {
		if end := s.lasts(t, at); end < at {
			reserved, err := s.close(p, books, t, end, Boundary{})
			if err != nil {
				return nil, err
			}
			out = append(out, reserved...)
			t.From, t.Cause, t.Account = end, ledger.CauseIdle, 0
		}
	}
	t.To = at
	if t.Cause != ledger.CauseUsed {
		cost, err := s.Catalog.Book(s.partitionOf(t.Node), s.Now).Cost(catalog.Use{Devices: []catalog.ModelCount{{Model: t.Model, Count: t.Milli}}}, 1000, t.From, t.To)
		if err != nil {
			return nil, err
		}
		if t.Cause == ledger.CauseReserved {
			out = append(out, s.unused(p, books, &t, cost.Total)...)
		} else {
			t.Posted = cost.Total
			out = append(out, p.Lost(t.Cause, t.Posted, ledger.Payer{Job: t.Job, Attempt: t.Attempt})...)
		}
	}
	return append(out, ledger.TileSet{Row: t}), nil
}

// unused charges the payer of a reservation for a device that nobody used. Where money
// decides he pays what he has; the rest is the platform's loss.
func (s Scene) unused(p *ledger.Posting, books *ledger.State, t *ledger.Tile, cost money.Micros) []ledger.Change {
	payer, _ := s.Tenancy.Accounts.Get(t.Account)
	if payer.Billing == tenancy.BillingOff {
		return nil
	}
	var unfunded ledger.Account
	if payer.Billing == tenancy.BillingShowback {
		unfunded = ledger.Unfunded(payer.ID)
	}
	parts, short := ledger.Split(books.Funds(s.Tenancy.Path(payer.ID), p.At, ledger.Overdraft{Account: payer.ID, Bound: payer.MayOverdraw()}), cost, unfunded)
	t.Posted = cost - short
	who := ledger.Payer{Account: payer.ID}
	out := append(p.Spend(parts, who), p.Lost(t.Cause, short, who)...)
	for _, c := range out {
		books.Fold(c)
	}
	return out
}

// limitOf is the last moment that a used tile's job can be charged for.
func (s Scene) limitOf(t ledger.Tile) int64 {
	j, ok := s.Jobs.Jobs.Get(t.Job)
	if !ok || j.Attempt.N != t.Attempt {
		return 0
	}
	return j.Attempt.Until + j.Spec.Grace
}

// partitionOf is the first partition that has the node: whose prices waste is
// valued at.
func (s Scene) partitionOf(node string) string {
	for name, p := range s.Catalog.Partitions.All() {
		if p.Has(node) {
			return name
		}
	}
	return ""
}

func same(a, b ledger.Tile) bool {
	return a.Cause == b.Cause && a.Job == b.Job && a.Attempt == b.Attempt && a.Account == b.Account && a.Node == b.Node && a.Model == b.Model && a.Milli == b.Milli
}
