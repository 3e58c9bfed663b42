package command

import (
	"maps"
	"reflect"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/feature"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/world"
)

// SitePut puts the settings, partitions and QoS that the configuration names. It
// is sent at every start and changes nothing when all is as it was.
type SitePut struct {
	Site       world.Site
	Partitions []catalog.Partition
	QoS        []catalog.QoS
}

// Kind is site.set.
func (SitePut) Kind() string { return "site.set" }

// Decide puts what differs.
func (c SitePut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "settings come from the server's configuration")
	}
	var out []world.Change
	if !reflect.DeepEqual(w.Site, c.Site) {
		out = append(out, world.SiteSet{Row: c.Site})
	}
	for _, ch := range c.catalog(&w.Catalog) {
		out = append(out, ch)
	}
	return world.Outcome{Changes: out, Event: world.Event{Skip: len(out) == 0, Message: "settings of the configuration"}}, nil
}

// catalog is what differs of partitions and QoS. One that the configuration no
// longer names stays, to be administered at run time; it isn't the default any more.
func (c SitePut) catalog(s *catalog.State) []catalog.Change {
	var out []catalog.Change
	here := map[string]bool{}
	for _, p := range c.Partitions {
		here[p.Name] = true
		old, ok := s.Partitions.Get(p.Name)
		if p = old.Configure(p); !ok || !reflect.DeepEqual(old, p) {
			out = append(out, catalog.PartitionSet{Row: p})
		}
	}
	for _, p := range s.Partitions.All() {
		if !here[p.Name] && (p.Configured || p.Default) {
			p.Configured, p.Default = false, false
			out = append(out, catalog.PartitionSet{Row: p})
		}
	}
	clear(here)
	for _, q := range c.QoS {
		here[q.Name] = true
		old, ok := s.QoS.Get(q.Name)
		if q = old.Configure(q); !ok || !reflect.DeepEqual(old, q) {
			out = append(out, catalog.QoSSet{Row: q})
		}
	}
	for _, q := range s.QoS.All() {
		if !here[q.Name] && (q.Configured || q.Default) {
			q.Configured, q.Default = false, false
			out = append(out, catalog.QoSSet{Row: q})
		}
	}
	return out
}

// InventoryObserved is what an engine offers now. What it no longer offers is
// kept as gone.
type InventoryObserved struct {
	Nodes   []placement.Node
	Devices []placement.Device
}

// Kind is node.observed.
func (InventoryObserved) Kind() string { return "node.observed" }

// Decide puts what differs and moves the affected devices' tiles.
func (c InventoryObserved) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only an engine reports nodes")
	}
	out := wrap(w.Placement.Observe(c.Nodes, c.Devices))
	if len(out) == 0 {
		return world.Outcome{Event: world.Event{Skip: true}}, nil
	}
	return retiled(w, at, out, world.Event{Message: "inventory changed"}, nil)
}

// NodeDrain takes a node out of use, or with Resume back into it. What runs goes
// on.
type NodeDrain struct {
	Node   string
	Reason string
	Resume bool
}

// Kind is node.drain or node.resume.
func (c NodeDrain) Kind() string {
	if c.Resume {
		return "node.resume"
	}
	return "node.drain"
}

// Decide drains or resumes the node.
func (c NodeDrain) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	row, ok := w.Placement.Nodes.Get(c.Node)
	switch {
	case !w.Can(at.Principal, access.NodeRun, 0, 0):
		return world.Outcome{}, fault.New(codes.Denied, "only an operator may drain or resume a node")
	case !ok:
		return world.Outcome{}, fault.NotFound("node", c.Node)
	case !c.Resume && !oneLine(c.Reason, 200):
		return world.Outcome{}, fault.Invalid("reason", "say why, on one line: users are shown it")
	}
	row.Drained, row.Why = !c.Resume, c.Reason
	if c.Resume {
		row.Why = ""
	}
	return retiled(w, at, []world.Change{placement.NodeSet{Row: row}}, world.Event{Message: or(c.Reason, "resumed")}, row)
}

// NodeLabel changes the labels that an operator gave a node.
type NodeLabel struct {
	Node   string
	Set    map[string]string
	Remove []string
}

// Kind is node.label.
func (NodeLabel) Kind() string { return "node.label" }

// maxLabels bounds the labels that an operator gives one node.
const maxLabels = 64

// Decide changes the labels. Jobs that run stay where they are.
func (c NodeLabel) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	row, ok := w.Placement.Nodes.Get(c.Node)
	switch {
	case !w.Can(at.Principal, access.NodeRun, 0, 0):
		return world.Outcome{}, fault.New(codes.Denied, "only an operator may label a node")
	case !ok:
		return world.Outcome{}, fault.NotFound("node", c.Node)
	}
	var bad fault.Fields
	labels := maps.Clone(row.Added)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, k := range slices.Sorted(maps.Keys(c.Set)) {
		if err := feature.CheckLabel(k, c.Set[k]); err != nil {
			bad.Add("set", "%v", err)
		}
		labels[k] = c.Set[k]
	}
	for _, k := range c.Remove {
		if _, own := row.Added[k]; !own {
			bad.Add("remove", "%s has no label %q that an operator gave it", c.Node, k)
		}
		delete(labels, k)
	}
	if len(labels) > maxLabels {
		bad.Add("set", "a node has at most %d labels", maxLabels)
	}
	if err := bad.Err(); err != nil {
		return world.Outcome{}, err
	}
	if maps.Equal(labels, row.Added) {
		return world.Outcome{Result: row, Event: world.Event{Skip: true}}, nil
	}
	row.Added = labels
	return world.Outcome{Changes: []world.Change{placement.NodeSet{Row: row}}, Result: row, Event: world.Event{Message: "labels of " + row.Name}}, nil
}

// MaintenancePut plans a window in which nothing may run, or with Cancel takes one
// back.
type MaintenancePut struct {
	Node     string
	From, To int64
	Reason   string
	Cancel   id.Maintenance
}

// Kind is maintenance.set or maintenance.cancel.
func (c MaintenancePut) Kind() string {
	if c.Cancel != 0 {
		return "maintenance.cancel"
	}
	return "maintenance.set"
}

// Decide plans or cancels the window.
func (c MaintenancePut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.NodeRun, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only an operator may plan maintenance")
	}
	if c.Cancel != 0 {
		row, ok := w.Placement.Maintenance.Get(c.Cancel)
		if !ok {
			return world.Outcome{}, fault.New(codes.NotFound, "no such maintenance window: %d", c.Cancel)
		}
		row.Over = true
		return retiled(w, at, []world.Change{placement.MaintenanceSet{Row: row}}, world.Event{Message: row.Reason}, row)
	}
	if _, ok := w.Placement.Nodes.Get(c.Node); c.Node != "*" && !ok {
		return world.Outcome{}, fault.Invalid("node", "no such node: %s (* is every node)", c.Node)
	}
	if c.From >= c.To || c.To <= at.Now {
		return world.Outcome{}, fault.Invalid("to", "must be after from and in the future")
	}
	if c.Reason != "" && !oneLine(c.Reason, 200) {
		return world.Outcome{}, fault.Invalid("reason", "must be at most 200 characters on one line")
	}
	for _, b := range w.Placement.Bookings.All() {
		for _, p := range b.Parts {
			if b.From < c.To && b.To > c.From && (c.Node == "*" || c.Node == p.Node) {
				r, _ := w.Placement.Reservations.Get(b.Reservation)
				return world.Outcome{}, fault.New(codes.Conflict, "reservation %s has %s from %s until %s (window %d): cancel that first", r.Name, p.Node, moment(b.From), moment(b.To), b.ID)
			}
		}
	}
	row := placement.Maintenance{ID: w.Placement.NextMaintenance(), Node: c.Node, From: c.From, To: c.To, Reason: c.Reason, By: id.User(at.Principal.User)}
	return retiled(w, at, []world.Change{placement.MaintenanceSet{Row: row}}, world.Event{Message: c.Reason}, row)
}

// TilesDue moves the tiles of devices whose payer changed by time alone: a
// maintenance window began or ended.
type TilesDue struct{}

// Kind is meter.tiles.
func (TilesDue) Kind() string { return "meter.tiles" }

// Decide moves the tiles that differ from what they should be.
func (TilesDue) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only the server meters")
	}
	var out []world.Change
	for _, m := range w.Placement.Maintenance.All() {
		if m.To <= at.Now {
			m.Over = true
			out = append(out, placement.MaintenanceSet{Row: m})
		}
	}
	return retiled(w, at, out, world.Event{Message: "device time"}, nil)
}

// retiled completes an outcome with what its changes do to all devices' tiles.
func retiled(w *world.World, at world.Context, changes []world.Change, ev world.Event, result any) (world.Outcome, error) {
	after := w.Copy()
	after.Fold(changes)
	var devices []placement.Device
	for _, d := range after.Placement.Devices.All() {
		devices = append(devices, d)
	}
	tiles, err := scene(after, at.Now).Retile(after.Ledger.NewPosting(at.Seq, at.Now), devices, metering.Boundary{})
	if err != nil {
		return world.Outcome{}, err
	}
	changes = append(changes, wrap(tiles)...)
	ev.Skip = len(changes) == 0
	return world.Outcome{Changes: changes, Event: ev, Result: result}, nil
}

func scene(w *world.World, now int64) metering.Scene {
	return metering.Scene{Places: &w.Placement, Jobs: &w.Workload, Catalog: &w.Catalog, Tenancy: &w.Tenancy, Ledger: &w.Ledger, Now: now}
}
