package placement

import (
	"cmp"
	"math"
	"slices"

	"croft.dev/croft/internal/catalog"
)

// Timeline is what will be free on each node from now on, if every job runs to
// its limit: the availability profile of conservative backfill (Mu'alem and
// Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates
// in Scheduling the IBM SP2 with Backfilling", 2001), with one step function a
// node. What is held comes free at the hold's end, an overdue hold's after
// Overdue. Nodes and devices that are unusable now never come free, since nobody
// knows when. It isn't safe for concurrent use.
type Timeline struct {
	tracks []*track          // by node
	low    []int64           // scratch
	meets  map[string][]bool // by constraint, then by track.n
}

// Reservation is a part of a node over a time.
type Reservation struct {
	Node     string
	From, To int64                // ns
	Models   []catalog.ModelCount // its devices

	track *track
	use   []int64
}

// Timeline returns the timeline of the nodes of any of the partitions, from now.
func (s *State) Timeline(now int64, of ...catalog.Partition) *Timeline {
	t := &Timeline{}
	seen := map[string]bool{}
	for _, p := range of {
		for node, sum := range s.nodesOf(p, "") {
			if !seen[node] && !sum.usable.empty() {
				t.tracks = append(t.tracks, s.track(node, sum, now))
			}
			seen[node] = true
		}
	}
	slices.SortFunc(t.tracks, func(a, b *track) int { return cmp.Compare(a.node, b.node) })
	for i, at := range t.tracks {
		at.n = i
	}
	return t
}

// meeting says which tracks meet a constraint, by their numbers; nil if it is none.
func (t *Timeline) meeting(where string) []bool {
	if where == "" {
		return nil
	}
	if met, ok := t.meets[where]; ok {
		return met
	}
	met, test := make([]bool, len(t.tracks)), constraint(where)
	for i, at := range t.tracks {
		met[i] = test(at.labels)
	}
	if t.meets == nil {
		t.meets = map[string][]bool{}
	}
	t.meets[where] = met
	return met
}

// track lays out a node's holds and windows.
func (s *State) track(node string, sum nodeSum, now int64) *track {
	total := sum.usable
	t := &track{node: node, total: total, labels: sum.labels}
	for _, m := range total.models {
		t.models = append(t.models, m.Model)
	}
	row := t.uses(total.cpu, total.mem, total.models)
	t.at, t.free = []int64{now}, row
	holds := s.HoldsOn(node)
	uses := make([][]int64, len(holds))
	for i, h := range holds {
		uses[i] = t.uses(h.CPU, h.Mem, s.usableModels(h))
		for c, n := range uses[i] {
			row[c] -= n
		}
	}
	for i, h := range holds {
		t.add(h.ends(now), math.MaxInt64, uses[i], +1)
	}
	closed := make([]int64, t.width())
	closed[shut] = 1
	for _, m := range s.Maintenance.All() {
		if m.On(node) && m.To > now {
			t.add(max(m.From, now), m.To, closed, +1)
		}
	}
	return t
}

// usableModels counts what the hold has of the devices that are usable.
func (s *State) usableModels(h Hold) []catalog.ModelCount {
	var out []catalog.ModelCount
	for _, uuid := range h.Devices {
		if d, ok := s.Devices.Get(uuid); ok && d.Usable() && d.Node == h.Node {
			out = count(out, d.Model, 1)
		}
	}
	return out
}

// Earliest returns the first time from after on at which sh fits on a node of p
// through to its end, and the node: of several the one on which the fewest
// devices, then cores, are left over, then the first by name.
func (t *Timeline) Earliest(sh Shape, p catalog.Partition, after int64) (start int64, node string, ok bool) {
	start, at, ok := t.earliest(sh, t.within(p), after, math.MaxInt64)
	if !ok {
		return 0, "", false
	}
	return start, at.node, true
}

// Reserve takes sh's part of a node from start on, if that is free.
func (t *Timeline) Reserve(sh Shape, node string, start int64) (*Reservation, bool) {
	i, ok := slices.BinarySearchFunc(t.tracks, node, byNode)
	if !ok {
		return nil, false
	}
	return t.reserve(sh, t.tracks[i], start)
}

// Cancel gives a reservation back.
func (t *Timeline) Cancel(r *Reservation) { r.track.add(r.From, r.To, r.use, +1) }

// restore takes a cancelled reservation again, if it is still free.
func (t *Timeline) restore(r *Reservation) bool {
	for i := r.track.find(r.From); i < len(r.track.at) && r.track.at[i] < r.To; i++ {
		row := r.track.row(i)
		for c, n := range r.use {
			if n > 0 && n > row[c] || row[shut] > 0 {
				return false
			}
		}
	}
	r.track.add(r.From, r.To, r.use, -1)
	return true
}

func (t *Timeline) reserve(sh Shape, at *track, start int64) (*Reservation, bool) {
	if !t.fits(sh, at, start) {
		return nil, false
	}
	var models []catalog.ModelCount
	if sh.GPU > 0 {
		models = split(at.counts(t.low, sh.Model), sh)
	}
	r := t.reservation(sh, at, start, models)
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

func (t *Timeline) reservation(sh Shape, at *track, start int64, models []catalog.ModelCount) *Reservation {
	return &Reservation{
		Node: at.node, From: start, To: after(start, sh.Length()), Models: models,
		track: at, use: at.uses(sh.CPU, sh.Mem, models),
	}
}

func (t *Timeline) earliest(sh Shape, tracks []*track, from, until int64) (int64, *track, bool) {
	var best *track
	var left [2]int64
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
		over := [2]int64{at.gpu(low) - sh.GPU, low[cpus] - sh.CPU}
		if best == nil || start < until || slices.Compare(over[:], left[:]) < 0 {
			best, left, until = at, over, start
		}
	}
	return until, best, best != nil
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
