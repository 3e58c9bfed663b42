package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/store"
)

// payers are the parts of a machine's balance in their order, with the causes that each is
// made of.
var payers = []struct {
	name   string
	causes []ledger.Cause
}{
	{"users", []ledger.Cause{ledger.CauseUsed}},
	{"reserved", []ledger.Cause{ledger.CauseReserved}},
	{"idle", []ledger.Cause{ledger.CauseIdle}},
	{"overhead", []ledger.Cause{ledger.CauseStarting, ledger.CauseEnding, ledger.CausePreempted}},
	{"foreign", []ledger.Cause{ledger.CauseForeign}},
	{"maintenance", []ledger.Cause{ledger.CauseMaintenance, ledger.CauseDrained}},
	{"faults", []ledger.Cause{ledger.CauseDown}},
}

func payerOf(c ledger.Cause) string {
	for _, p := range payers {
		if slices.Contains(p.causes, c) {
			return p.name
		}
	}
	return string(c)
}

// machine is the balance of the machine, or of a part of it, while it is made.
type machine struct {
	view
	span  store.Period
	kept  *kept // of closed periods; nil: some of the span is open
	sums  map[balanceKey]*deviceTime
	gaps  []gap
	check findings
}

// gap is time in which nothing is recorded of a device.
type gap struct {
	device   string
	from, to int64
}

type balanceKey struct {
	node, model string
	cause       ledger.Cause
}

// MachineStatement is where the device time of the inventory went in a period: each
// device-second of it has one payer. Of is a node or a partition, or "" for everything.
func (r *Reader) MachineStatement(ctx context.Context, p access.Principal, of, period string) (v1.MachineStatement, error) {
	v := r.view(p)
	if !v.may(access.LedgerAll, 0, 0) {
		return v1.MachineStatement{}, fault.New(codes.Denied, "the machine's balance is for operators and auditors")
	}
	span, err := parsePeriod(period, time.Unix(0, v.now))
	if err != nil {
		return v1.MachineStatement{}, err
	}
	span.Now = v.now
	nodes, err := v.nodesOf(of)
	if err != nil {
		return v1.MachineStatement{}, err
	}
	m := &machine{view: v, span: span}
	read := func(b *store.Books) (err error) {
		if m.kept, err = v.keptOf(b, span); err != nil {
			return err
		}
		return m.read(b, nodes)
	}
	if err := r.History.Books(ctx, read); err != nil {
		return v1.MachineStatement{}, readErr(err, "", "")
	}
	out := m.wire()
	out.Of = of
	return out, nil
}

// nodesOf are the nodes that a name stands for; none are all of them.
func (v view) nodesOf(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	if n, ok := v.w.Placement.Nodes.Get(name); ok {
		return []string{n.Name}, nil
	}
	p, ok := v.w.Catalog.Partitions.Get(name)
	if !ok {
		return nil, fault.NotFound("node or partition", clip(name))
	}
	nodes := []string{""} // which no node is called: a partition without nodes isn't all of them
	for _, n := range v.w.Placement.Nodes.All() {
		if p.Has(n.Name) {
			nodes = append(nodes, n.Name)
		}
	}
	return nodes, nil
}

// read sums the tiles, and checks that those of a device come to all of it whenever it
// was in the inventory.
func (m *machine) read(b *store.Books, nodes []string) error {
	m.sums = map[balanceKey]*deviceTime{}
	if m.kept != nil {
		return m.readKept(b, nodes)
	}
	var device []ledger.Tile
	flush := func() {
		if len(device) > 0 {
			m.whole(device)
		}
		device = device[:0]
	}
	seen := map[string]bool{}
	err := b.DeviceTiles(nodes, m.span, func(t *ledger.Tile) {
		if len(device) > 0 && device[0].Device != t.Device {
			flush()
		}
		device, seen[t.Device] = append(device, *t), true
		if from, to := cut(*t, m.span); from < to && (nodes == nil || slices.Contains(nodes, t.Node)) {
			timeOf(m.sums, balanceKey{t.Node, t.Model, t.Cause}).add(to-from, t.Milli)
		}
	})
	if err != nil {
		return err
	}
	flush()
	for _, g := range m.gaps {
		if err := m.missing(b, g); err != nil {
			return err
		}
	}
	for _, d := range m.w.Placement.Devices.All() {
		if open := m.w.Ledger.OpenTiles(d.UUID); !d.Gone && !seen[d.UUID] && (nodes == nil || slices.Contains(nodes, d.Node)) && (len(open) == 0 || open[0].From < m.span.Until()) {
			m.check.note(0, 0, "%s is in the inventory, and nothing is recorded of its time", d.UUID)
		}
	}
	return nil
}

func timeOf[K comparable](in map[K]*deviceTime, k K) *deviceTime {
	if in[k] == nil {
		in[k] = &deviceTime{}
	}
	return in[k]
}

// whole goes along a device's tiles, in order of their starts: at every time they come to
// the whole device, or the device had been taken out of the inventory.
func (m *machine) whole(tiles []ledger.Tile) {
	device := tiles[0].Device
	type edge struct{ at, milli int64 }
	var edges []edge
	for _, t := range tiles {
		if from, to := cut(t, m.span); from < to {
			edges = append(edges, edge{from, t.Milli}, edge{to, -t.Milli})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	if len(edges) > 0 && edges[0].at > m.span.From {
		m.gaps = append(m.gaps, gap{device, m.span.From, edges[0].at})
	}
	var sum int64
	for i, e := range edges {
		sum += e.milli
		until := m.span.Until()
		if i+1 < len(edges) {
			until = edges[i+1].at
		}
		switch {
		case until == e.at || sum == quantity.Device:
		case sum == 0:
			m.gaps = append(m.gaps, gap{device, e.at, until})
		default:
			m.check.note(0, 0, "%s of %s is recorded from %s to %s", quantityOf(sum), device, stamp(e.at), stamp(until))
		}
	}
}

// missing notes a gap, unless the device was new then or had been taken out of the
// inventory.
func (m *machine) missing(b *store.Books, g gap) error {
	last, err := b.Seen(g.device, g.to)
	if err != nil || last == 0 {
		return err
	}
	gone, err := b.Withdrawn(g.device, last)
	if err == nil && !gone {
		m.check.note(0, 0, "nothing is recorded of %s from %s to %s", g.device, stamp(max(last, g.from)), stamp(g.to))
	}
	return err
}

func (m *machine) wire() v1.MachineStatement {
	out := v1.MachineStatement{From: at(m.span.From), To: at(m.span.To), Nodes: []v1.StatementNode{}, Closed: m.kept.wire(), Verified: m.check.first == "", Difference: m.check.first}
	var keys []balanceKey
	for k := range m.sums {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b balanceKey) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.model, b.model), cmp.Compare(a.cause, b.cause))
	})
	all, models := newBalance(), map[string]*balance{}
	for len(keys) > 0 {
		n := v1.StatementNode{Node: keys[0].node}
		whole := newBalance()
		for len(keys) > 0 && keys[0].node == n.Node {
			model, own := keys[0].model, newBalance()
			for ; len(keys) > 0 && keys[0].node == n.Node && keys[0].model == model; keys = keys[1:] {
				if models[model] == nil {
					models[model] = newBalance()
				}
				for _, into := range []*balance{own, whole, all, models[model]} {
					into.add(keys[0].cause, *m.sums[keys[0]])
				}
			}
			n.Models = append(n.Models, own.wire(model))
		}
		of := whole.wire("")
		n.Total, n.By, n.Causes = of.Total, of.By, of.Causes
		out.Nodes = append(out.Nodes, n)
	}
	sum := all.wire("")
	out.Total, out.By, out.Causes = sum.Total, sum.By, sum.Causes
	for _, model := range slices.Sorted(maps.Keys(models)) {
		out.Models = append(out.Models, models[model].wire(model))
	}
	return out
}

// balance is device time by cause.
type balance struct{ causes map[ledger.Cause]*deviceTime }

func newBalance() *balance { return &balance{map[ledger.Cause]*deviceTime{}} }

func (b *balance) add(c ledger.Cause, d deviceTime) { timeOf(b.causes, c).plus(d) }

// wire shows the balance in hours. The parts are rounded so that they come to the total.
func (b *balance) wire(model string) v1.StatementModelTime {
	var total deviceTime
	var causes []ledger.Cause
	var weights []int64
	for _, c := range slices.Sorted(maps.Keys(b.causes)) {
		total.plus(*b.causes[c])
		causes, weights = append(causes, c), append(weights, b.causes[c].seconds)
	}
	out := v1.StatementModelTime{Model: model, Total: total.String(), By: map[string]string{}, Causes: map[string]string{}}
	by := map[string]int64{}
	for i, n := range apportion(total.thousandths(), weights) {
		out.Causes[string(causes[i])] = quantity.FormatDecimal(n, 3, 1)
		by[payerOf(causes[i])] += n
	}
	for name, n := range by {
		out.By[name] = quantity.FormatDecimal(n, 3, 1)
	}
	return out
}

func quantityOf(milli int64) string { return quantity.FormatDevices(milli) }

// lasting is a span of device time, exactly.
func lasting(ns int64) string { return fmt.Sprintf("%d.%09d s", ns/1e9, ns%1e9) }
