package metering

import (
	"cmp"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

// Scene is what the tiles of a moment depend on.
type Scene struct {
	Places  *placement.State
	Jobs    *workload.State
	Catalog *catalog.State
	Ledger  *ledger.State
	Now     int64
}

// owed says who has a device, and why, as things stand.
func (s Scene) owed(d placement.Device) ledger.Tile {
	t := ledger.Tile{Device: d.UUID, Node: d.Node, Model: d.Model, Milli: 1000, Cause: s.unheld(d)}
	jid, held := s.Places.Holder(d.UUID)
	if !held {
		return t
	}
	j, ok := s.Jobs.Jobs.Get(jid)
	if !ok {
		return t
	}
	t.Job, t.Attempt = j.ID, j.Attempt.N
	if t.Cause = ledger.CauseStarting; j.Attempt.Started != 0 {
		// beyond its limit too: that part is cut off when the end is known
		t.Cause, t.Account, t.User = ledger.CauseUsed, j.Account, j.User
	}
	return t
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
	At int64
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

// Retile closes the open tile of each given device whose payer has changed and
// opens the next one, without gap or overlap. s is the scene after the change;
// what the platform pays is posted.
func (s Scene) Retile(p *ledger.Posting, devices []placement.Device, b Boundary) ([]ledger.Change, error) {
	var out []ledger.Change
	for _, d := range devices {
		open, isOpen := s.Ledger.Tiles.Get(d.UUID)
		want := s.owed(d)
		if isOpen && !d.Gone && same(open, want) && b.As == "" {
			continue
		}
		at := b.At
		if at == 0 || at > s.Now {
			at = s.Now
		}
		if isOpen {
			at = max(at, open.From)
			closed, err := s.close(p, open, at, b)
			if err != nil {
				return nil, err
			}
			out = append(out, closed...)
		}
		if !d.Gone {
			want.From = at
			out = append(out, ledger.TileSet{Row: want})
		}
	}
	return out, nil
}

// close ends an open tile at t. Use beyond what its job may be charged for is cut
// off as the platform's.
func (s Scene) close(p *ledger.Posting, t ledger.Tile, at int64, b Boundary) ([]ledger.Change, error) {
	if b.As != "" && t.Cause == ledger.CauseUsed {
		t.Cause, t.Account, t.User = b.As, 0, 0
	}
	var out []ledger.Change
	if t.Cause == ledger.CauseStarting && b.Began != 0 && b.As == "" {
		starting, err := s.close(p, t, min(max(b.Began, t.From), at), Boundary{})
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
	t.To = at
	if t.Account == 0 {
		cost, err := s.Catalog.Book(s.partitionOf(t.Node), s.Now).Cost(catalog.Use{Devices: []catalog.ModelCount{{Model: t.Model, Count: 1}}}, 1000, t.From, t.To)
		if err != nil {
			return nil, err
		}
		t.Posted = cost.Total
		out = append(out, p.Lost(t.Cause, t.Posted, ledger.Payer{Job: t.Job, Attempt: t.Attempt})...)
	}
	return append(out, ledger.TileSet{Row: t}), nil
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
	return a.Cause == b.Cause && a.Job == b.Job && a.Attempt == b.Attempt && a.Account == b.Account && a.Node == b.Node && a.Model == b.Model
}
