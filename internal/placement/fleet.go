package placement

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/feature"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/table"
)

// fleet sums up the nodes: what each offers and has in use, which nodes offer the
// same, and totals over all. It follows from the rows, and is kept up to date with
// each, so that an admission needs no walk over nodes and devices.
type fleet struct {
	nodes   table.Table[string, nodeSum]   // by name
	classes table.Table[string, string]    // class + "\x00" + node
	models  table.Table[string, modelSum]  // all nodes together
	memory  table.Table[string, memorySum] // by memoryKey
	usable  offer                          // of usable nodes; CPU and Mem only
	load    load                           // on usable nodes
}

func (f *fleet) copy() fleet {
	return fleet{nodes: f.nodes.Copy(), classes: f.classes.Copy(), models: f.models.Copy(), memory: f.memory.Copy(), usable: f.usable, load: f.load}
}

// nodeSum is one node.
type nodeSum struct {
	full   offer // whether or not it is usable; nothing once it is gone
	usable offer // now: nothing unless the node is usable
	load   load
	labels map[string]string
	memory []memoryOn // of its devices
}

// mostFree is an upper bound of the devices that a job can be given now: those in use
// are unusable ones first.
func (n nodeSum) mostFree() int64 {
	unusable := n.full.gpu("") - n.usable.gpu("")
	return n.usable.gpu("") - max(0, n.load.gpu-unusable)
}

// offer is what a node can give.
type offer struct {
	cpu, mem int64
	models   []catalog.ModelCount // milli-devices, sorted by model
}

// gpu is the devices of any of the models.
func (o offer) gpu(models string) int64 {
	var n int64
	for _, m := range o.models {
		if catalog.Allows(models, m.Model) {
			n += m.Count
		}
	}
	return n
}

// most is how many devices one job like sh can have.
func (o offer) most(sh Shape) int64 { return together(o.models, sh) }

// together is how many of the devices counted one job like sh can have.
func together(of []catalog.ModelCount, sh Shape) int64 {
	var n int64
	for _, m := range of {
		switch {
		case !catalog.Allows(sh.Model, m.Model):
		case sh.Mixed:
			n += m.Count
		default:
			n = max(n, m.Count)
		}
	}
	return n
}

func (o offer) fits(sh Shape) bool {
	return sh.CPU <= o.cpu && sh.Mem <= o.mem && (sh.GPU == 0 || sh.GPU <= o.most(sh))
}

func (o offer) empty() bool { return o.cpu == 0 && o.mem == 0 && len(o.models) == 0 }

func (o offer) key() string {
	var b strings.Builder
	b.WriteString(ordered(o.cpu) + ordered(o.mem))
	for _, m := range o.models {
		b.WriteString(ordered(m.Count) + m.Model + "\x00")
	}
	return b.String()
}

// modelSum is the devices of a model on all nodes, in milli-devices.
type modelSum struct{ full, usable int64 }

// load is what is held: amounts, and amounts × the time at which they are freed.
type load struct {
	cpu, mem, gpu          int64
	cpuEnd, memEnd, gpuEnd area
}

func loadOf(h Hold) load {
	n := int64(len(h.Devices)) * h.each()
	return load{h.CPU, h.Mem, n, areaOf(h.CPU, h.Until), areaOf(h.Mem, h.Until), areaOf(n, h.Until)}
}

func (l load) add(o load, sign int64) load {
	sum := area.plus
	if sign < 0 {
		sum = area.minus
	}
	return load{
		l.cpu + sign*o.cpu, l.mem + sign*o.mem, l.gpu + sign*o.gpu,
		sum(l.cpuEnd, o.cpuEnd), sum(l.memEnd, o.memEnd), sum(l.gpuEnd, o.gpuEnd),
	}
}

// offerChanged brings the sums up to date after a row of a node or of one of its
// devices was put.
func (s *State) offerChanged(node string) {
	row, ok := s.Nodes.Get(node)
	old, _ := s.fleet.nodes.Get(node)
	sum := nodeSum{load: old.load}
	if ok && !row.Gone {
		sum.labels = row.Features()
		sum.full = offer{cpu: row.CPU, mem: row.Memory}
		if row.Usable() {
			sum.usable = sum.full
		}
		for d := range s.devicesOn(node) {
			sum.memory = withMemory(sum.memory, d)
			if !d.Gone {
				sum.full.models = count(sum.full.models, d.Model, quantity.Device)
			}
			if d.Usable() && row.Usable() {
				sum.usable.models = count(sum.usable.models, d.Model, quantity.Device)
			}
		}
	}
	s.fleet.replace(node, old, sum)
}

func (s *State) loadChanged(node string, l load, sign int64) {
	old, _ := s.fleet.nodes.Get(node)
	sum := old
	sum.load = old.load.add(l, sign)
	s.fleet.nodes.Set(node, sum)
	if !old.usable.empty() {
		s.fleet.load = s.fleet.load.add(l, sign)
	}
}

func (f *fleet) replace(node string, old, sum nodeSum) {
	f.count(old, -1)
	f.count(sum, +1)
	was, is := classOf(node, old), classOf(node, sum)
	if was != is {
		f.classes.Delete(was)
	}
	if !sum.full.empty() {
		f.classes.Set(is, node)
	}
	f.nodes.Set(node, sum)
}

func classOf(node string, n nodeSum) string {
	var labels strings.Builder
	for _, k := range slices.Sorted(maps.Keys(n.labels)) {
		labels.WriteString(k + "=" + n.labels[k] + "\x00")
	}
	return n.full.key() + "\x01" + n.usable.key() + "\x01" + labels.String() + "\x02" + node
}

func (f *fleet) count(n nodeSum, sign int64) {
	for _, m := range n.full.models {
		sum, _ := f.models.Get(m.Model)
		f.models.Set(m.Model, modelSum{sum.full + sign*m.Count, sum.usable})
	}
	f.remember(n.memory, sign)
	for _, m := range n.usable.models {
		sum, _ := f.models.Get(m.Model)
		f.models.Set(m.Model, modelSum{sum.full, sum.usable + sign*m.Count})
	}
	f.usable.cpu += sign * n.usable.cpu
	f.usable.mem += sign * n.usable.mem
	if !n.usable.empty() {
		f.load = f.load.add(n.load, sign)
	}
}

// count adds n milli-devices of a model to the sorted counts, in place.
func count(counts []catalog.ModelCount, model string, n int64) []catalog.ModelCount {
	i, ok := slices.BinarySearchFunc(counts, model, func(m catalog.ModelCount, model string) int {
		return cmp.Compare(m.Model, model)
	})
	if !ok {
		counts = slices.Insert(counts, i, catalog.ModelCount{Model: model})
	}
	counts[i].Count += n
	return counts
}

// kinds yields the nodes of p that meet a constraint and matter for a question
// about offers: of all nodes, one of each class (the first by name), else each of
// the partition.
func (s *State) kinds(p catalog.Partition, where string) iter.Seq2[string, nodeSum] {
	if len(p.Nodes) == 0 {
		return meeting(where, s.classes)
	}
	return s.nodesOf(p, where)
}

// meeting yields those of the nodes that meet a constraint.
func meeting(where string, nodes iter.Seq2[string, nodeSum]) iter.Seq2[string, nodeSum] {
	if where == "" {
		return nodes
	}
	met := constraint(where)
	return func(yield func(string, nodeSum) bool) {
		for name, n := range nodes {
			if met(n.labels) && !yield(name, n) {
				return
			}
		}
	}
}

// constraint is the test that a text stands for. One that can't be read, which no
// job was admitted with, is met by nothing.
func constraint(where string) func(labels map[string]string) bool {
	c, err := feature.Parse(where)
	if err != nil {
		return func(map[string]string) bool { return false }
	}
	return c.Met
}

func (s *State) classes(yield func(string, nodeSum) bool) {
	from := ""
	for {
		class, node := "", ""
		for class, node = range s.fleet.classes.From(from) {
			break
		}
		if node == "" {
			return
		}
		n, _ := s.fleet.nodes.Get(node)
		if !yield(node, n) {
			return
		}
		from = strings.TrimSuffix(class, node) + "\xff" // node names are ASCII
	}
}

// totals sums up the usable nodes of p and what is held there.
func (s *State) totals(p catalog.Partition) (usable offer, held load) {
	if len(p.Nodes) == 0 {
		usable = s.fleet.usable
		for model, n := range s.fleet.models.All() {
			if n.usable > 0 {
				usable.models = append(usable.models, catalog.ModelCount{Model: model, Count: n.usable})
			}
		}
		return usable, s.fleet.load
	}
	for _, name := range p.Nodes {
		n, ok := s.fleet.nodes.Get(name)
		if !ok || n.usable.empty() {
			continue
		}
		usable.cpu += n.usable.cpu
		usable.mem += n.usable.mem
		held = held.add(n.load, +1)
		for _, m := range n.usable.models {
			usable.models = count(usable.models, m.Model, m.Count)
		}
	}
	return usable, held
}
