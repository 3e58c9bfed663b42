package placement

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
)

// Timeline is what will be free on each node from now on, if every job runs to
// its limit: the availability profile of conservative backfill (Mu'alem and
// Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates
// in Scheduling the IBM SP2 with Backfilling", 2001), with one step function a
// node. What is held comes free at the hold's end, an overdue hold's after
// Overdue. Nodes and devices that are unusable now never come free, since nobody
// knows when. It isn't safe for concurrent use.
type Timeline struct {
	tracks []*track                    // outside of all reservations, by node
	inside map[id.Reservation][]*track // what each reservation has, by node
	all    []*track                    // by track.n
	low    []int64                     // scratch
	meets  map[string][]bool           // by constraint, then by track.n
}

// Slot is a part of a node, or of several, over a time, taken for one job.
type Slot struct {
	Node     string
	From, To int64                // ns
	Models   []catalog.ModelCount // its devices

	track *track
	use   use

	others []*Slot // on further nodes
}

// Timeline returns the timeline of the nodes of any of the partitions, from now.
func (s *State) Timeline(now int64, of ...catalog.Partition) *Timeline {
	t := &Timeline{inside: map[id.Reservation][]*track{}}
	seen := map[string]bool{}
	for _, p := range of {
		for node, sum := range s.nodesOf(p, "") {
			if !seen[node] && !sum.usable.empty() {
				outside := s.track(node, sum, now)
				t.tracks = append(t.tracks, outside)
				for b := range s.bookedOn(node) {
					if of := t.inside[b.Reservation]; len(of) == 0 || of[len(of)-1].node != node {
						in := s.inside(b.Reservation, node, sum, now)
						in.ports = outside.ports
						t.inside[b.Reservation] = append(of, in)
					}
				}
			}
			seen[node] = true
		}
	}
	t.number(t.tracks)
	for _, r := range slices.Sorted(maps.Keys(t.inside)) {
		t.number(t.inside[r])
	}
	return t
}

// number puts tracks in the order of their nodes and numbers them after those before.
func (t *Timeline) number(tracks []*track) {
	slices.SortFunc(tracks, func(a, b *track) int { return cmp.Compare(a.node, b.node) })
	for _, at := range tracks {
		at.n = len(t.all)
		t.all = append(t.all, at)
	}
}

// of is the tracks of a reservation, or those given if there is none.
func (t *Timeline) of(in id.Reservation, tracks []*track) []*track {
	if in == 0 {
		return tracks
	}
	return t.inside[in]
}

// on is the track of a node that a shape runs on.
func (t *Timeline) on(sh Shape, node string) (*track, bool) {
	tracks := t.of(sh.In, t.tracks)
	i, ok := slices.BinarySearchFunc(tracks, node, byNode)
	if !ok {
		return nil, false
	}
	return tracks[i], true
}

// meeting says which tracks meet a constraint, by their numbers; nil if it is none.
func (t *Timeline) meeting(where string) []bool {
	if where == "" {
		return nil
	}
	if met, ok := t.meets[where]; ok {
		return met
	}
	met, test := make([]bool, len(t.all)), constraint(where)
	for i, at := range t.all {
		met[i] = test(at.labels)
	}
	if t.meets == nil {
		t.meets = map[string][]bool{}
	}
	t.meets[where] = met
	return met
}

// empty is a track on which nothing is free.
func (s *State) empty(node string, sum nodeSum, now int64) *track {
	t := &track{node: node, labels: sum.labels, ports: &portBook{}}
	for _, m := range sum.usable.models {
		t.models = append(t.models, m.Model)
	}
	t.at, t.free = []int64{now}, make([]int64, t.width())
	return t
}

// track lays out a node's holds and windows, for jobs outside of reservations.
func (s *State) track(node string, sum nodeSum, now int64) *track {
	total := sum.usable
	t := s.empty(node, sum, now)
	t.total = total
	row := t.uses(total.cpu, total.mem, total.models)
	t.free = row
	holds := s.HoldsOn(node)
	uses := make([]use, len(holds))
	for i, h := range holds {
		uses[i] = s.useOf(t, h)
		t.add(now, h.ends(now), uses[i], -1)
	}
	s.reserve(t, holds, uses, now)
	s.close(t, now)
	return t
}

// close notes the maintenance windows of a track's node.
func (s *State) close(t *track, now int64) {
	closed := use{row: make([]int64, devs)}
	closed.row[shut] = 1
	for _, m := range s.Maintenance.All() {
		if m.On(t.node) && m.To > now {
			t.add(max(m.From, now), m.To, closed, +1)
		}
	}
}

// useOf is what a hold takes of its node.
func (s *State) useOf(t *track, h Hold) use {
	models := s.usableModels(h)
	if h.Part == 0 || len(models) == 0 {
		return use{row: t.uses(h.CPU, h.Mem, models), ports: h.Ports}
	}
	i, ok := t.sharedBy(func(d shared) bool { return d.uuid == h.Devices[0] })
	if !ok {
		model, _ := slices.BinarySearch(t.models, models[0].Model)
		i = t.open(model)
		t.shared[i].uuid = h.Devices[0]
	}
	return use{t.uses(h.CPU, h.Mem, nil), i, h.Part, h.Ports}
}

// usableModels counts what the hold has of the devices that are usable.
func (s *State) usableModels(h Hold) []catalog.ModelCount {
	var out []catalog.ModelCount
	for _, uuid := range h.Devices {
		if d, ok := s.Devices.Get(uuid); ok && d.Usable() && d.Node == h.Node {
			out = count(out, d.Model, h.each())
		}
	}
	return out
}

// Earliest returns the first time from after on at which sh fits on a node of p
// through to its end, and the node: of several the one on which the fewest devices (of
// a part: the least of a shared one), then cores, are left over, then the first by name.
func (t *Timeline) Earliest(sh Shape, p catalog.Partition, after int64) (start int64, node string, ok bool) {
	start, at, ok := t.earliest(sh, t.of(sh.In, t.within(p)), after, math.MaxInt64)
	if !ok {
		return 0, "", false
	}
	return start, at.node, true
}

// Reserve takes sh's part of a node from start on, if that is free.
func (t *Timeline) Reserve(sh Shape, node string, start int64) (*Slot, bool) {
	at, ok := t.on(sh, node)
	if !ok {
		return nil, false
	}
	return t.reserve(sh, at, start)
}

// Cancel gives a slot back.
func (t *Timeline) Cancel(r *Slot) {
	r.track.add(r.From, r.To, r.use, +1)
	for _, o := range r.others {
		t.Cancel(o)
	}
}

// restore takes a cancelled slot again, if it is still free.
func (t *Timeline) restore(r *Slot) bool {
	if !r.free() {
		return false
	}
	r.track.add(r.From, r.To, r.use, -1)
	for _, o := range r.others {
		o.track.add(o.From, o.To, o.use, -1)
	}
	return true
}

// free reports whether all of a slot can be taken.
func (r *Slot) free() bool {
	return r.track.has(r.use, r.From, r.To) && !slices.ContainsFunc(r.others, func(o *Slot) bool { return !o.free() })
}

func (t *Timeline) reserve(sh Shape, at *track, start int64) (*Slot, bool) {
	if !t.fits(sh, at, start) {
		return nil, false
	}
	var r *Slot
	if sh.part() {
		to, _ := at.seat(sh, start, t.low)
		if to.shared < 0 {
			to.shared = at.open(to.model)
		}
		r = t.part(sh, at, start, to.shared)
	} else {
		r = t.slot(sh, at, start, split(at.counts(t.low, sh.Model), sh))
	}
	at.add(r.From, r.To, r.use, -1)
	return r, true
}

// fits reports whether sh fits a node from start on; t.low is then what is free.
func (t *Timeline) fits(sh Shape, at *track, start int64) bool {
	if met := t.meeting(sh.Where); met != nil && !met[at.n] {
		return false
	}
	low, from, ok := at.earliest(sh, start, start, t.low)
	t.low = low
	return ok && from == start
}

func (t *Timeline) slot(sh Shape, at *track, start int64, models []catalog.ModelCount) *Slot {
	return &Slot{
		Node: at.node, From: start, To: after(start, sh.Length()), Models: models,
		track: at, use: use{row: at.uses(sh.CPU, sh.Mem, models), ports: sh.Ports},
	}
}

// part is a slot with a part of a shared device.
func (t *Timeline) part(sh Shape, at *track, start int64, shared int) *Slot {
	model := at.models[at.shared[shared].model]
	n := sh.Of(model)
	return &Slot{
		Node: at.node, From: start, To: after(start, sh.Length()), Models: []catalog.ModelCount{{Model: model, Count: n}},
		track: at, use: use{at.uses(sh.CPU, sh.Mem, nil), shared, n, sh.Ports},
	}
}

func (t *Timeline) earliest(sh Shape, tracks []*track, from, until int64) (int64, *track, bool) {
	var best *track
	var left [3]int64
	met := t.meeting(sh.Where)
	for _, at := range tracks {
		if met != nil && !met[at.n] {
			continue
		}
		low, start, ok := at.earliest(sh, from, until, t.low)
		t.low = low
		if !ok {
			continue
		}
		over := at.over(sh, start, low)
		if best == nil || start < until || slices.Compare(over[:], left[:]) < 0 {
			best, left, until = at, over, start
		}
	}
	return until, best, best != nil
}

// over is how sh would leave a node, the less the better: for a part whether it opens
// a whole device, and what is left of one that it shares; else the devices left over;
// then the cores.
func (t *track) over(sh Shape, start int64, low []int64) [3]int64 {
	cores := low[cpus] - sh.CPU
	if !sh.part() {
		return [3]int64{0, t.gpu(low) - sh.GPU, cores}
	}
	if to, _ := t.seat(sh, start, low); to.shared >= 0 {
		return [3]int64{0, to.left, cores}
	}
	return [3]int64{1, t.gpu(low), cores}
}

// within returns the tracks of p's nodes.
func (t *Timeline) within(p catalog.Partition) []*track {
	if len(p.Nodes) == 0 {
		return t.tracks
	}
	var out []*track
	for _, node := range p.Nodes {
		if i, ok := slices.BinarySearchFunc(t.tracks, node, byNode); ok {
			out = append(out, t.tracks[i])
		}
	}
	return out
}
