package placement

import (
	"cmp"
	"iter"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/workload"
)

// first is the first start in [from, until] of a shape, on one node or several.
func (t *Timeline) first(sh Shape, tracks []*track, from, until int64) (start int64, ok bool) {
	if sh.gang() {
		start, _, _, ok = t.gang(sh, tracks, from, until)
		return start, ok
	}
	start, _, ok = t.earliest(sh, tracks, from, until)
	return start, ok
}

// take reserves the first start in [from, until], on one node or several; nil: there is none.
func (t *Timeline) take(sh Shape, tracks []*track, from, until int64) *Slot {
	if sh.gang() {
		start, rank, on, ok := t.gang(sh, tracks, from, until)
		if !ok {
			return nil
		}
		return t.reserveAll(rank, on, start)
	}
	start, at, ok := t.earliest(sh, tracks, from, until)
	if !ok {
		return nil
	}
	r, _ := t.reserve(sh, at, start)
	return r
}

// gang finds the first start in [from, until] at which sh fits on as many nodes as it needs,
// on all through to its end. It says what each rank is, and where.
func (t *Timeline) gang(sh Shape, tracks []*track, from, until int64) (start int64, rank Shape, on []*track, ok bool) {
	for _, r := range sh.alike(modelsOn(tracks)) {
		at, found := t.together(r, int(sh.Nodes), tracks, from, until)
		if found != nil && (!ok || at < start) {
			start, rank, on, ok = at, r, found, true
		}
	}
	return start, rank, on, ok
}

// modelsOn yields the models of tracks.
func modelsOn(tracks []*track) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, at := range tracks {
			for _, m := range at.models {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// candidate is a track on which a rank can begin at start.
type candidate struct {
	at    *track
	start int64
	over  [3]int64
}

// together finds the first start of n ranks at once. None is possible before the n-th track
// has room, so that it looks again from there until they all have.
func (t *Timeline) together(rank Shape, n int, tracks []*track, from, until int64) (int64, []*track) {
	met := t.meeting(rank.Where)
	var left []candidate
	for _, at := range tracks {
		if met == nil || met[at.n] {
			left = append(left, candidate{at: at, start: -1})
		}
	}
	for start := from; ; start = left[n-1].start {
		kept := left[:0]
		for _, c := range left {
			if c.start >= start || t.begins(&c, rank, start, until) {
				kept = append(kept, c)
			}
		}
		if left = kept; len(left) < n {
			return 0, nil
		}
		slices.SortStableFunc(left, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.start, b.start), slices.Compare(a.over[:], b.over[:]), cmp.Compare(a.at.node, b.at.node))
		})
		if left[n-1].start <= left[0].start {
			var on []*track
			for _, c := range left[:n] {
				on = append(on, c.at)
			}
			slices.SortFunc(on, func(a, b *track) int { return cmp.Compare(a.node, b.node) })
			return left[0].start, on
		}
	}
}

// begins finds a candidate's first start in [from, until].
func (t *Timeline) begins(c *candidate, rank Shape, from, until int64) bool {
	low, start, ok := c.at.earliest(rank, from, until, t.low)
	t.low = low
	if ok {
		c.start, c.over = start, c.at.over(rank, start, low)
	}
	return ok
}

// reserveAll takes a rank's part of each track from start on: of all or of none.
func (t *Timeline) reserveAll(rank Shape, on []*track, start int64) *Slot {
	var all []*Slot
	for _, at := range on {
		r, ok := t.reserve(rank, at, start)
		if !ok {
			for _, taken := range all {
				t.Cancel(taken)
			}
			return nil
		}
		all = append(all, r)
	}
	all[0].others = all[1:]
	return all[0]
}

// tracks lists where the slot is.
func (r *Slot) tracks() []*track {
	var out []*track
	for _, of := range r.ranks() {
		out = append(out, of.track)
	}
	return out
}

// ranks lists the slots of all nodes.
func (r *Slot) ranks() []*Slot { return append([]*Slot{r}, r.others...) }

// backfillGang starts a job on several nodes if all of them have room now beside every slot.
func (p *planner) backfillGang(l *lane, j *workload.Job, sh Shape) {
	_, rank, on, ok := p.time.gang(sh, l.tracks, p.in.Now, p.in.Now)
	if !ok {
		l.fail(sh)
		return
	}
	if p.eligible(j, sh) {
		p.startDeep(j, sh, p.time.reserveAll(rank, on, p.in.Now))
	}
}

// spots picks the devices for a slot that begins now, on all of its nodes.
func (p *planner) spots(r *Slot) (Spot, bool) {
	var ranks []Spot
	for _, of := range r.ranks() {
		spot, ok := p.spot(of)
		if !ok {
			return Spot{}, false
		}
		ranks = append(ranks, spot)
	}
	return spotOf(ranks), true
}

// modelsIn counts the devices of a slot on all of its nodes.
func (r *Slot) modelsIn() []catalog.ModelCount {
	var out []catalog.ModelCount
	for _, of := range r.ranks() {
		for _, m := range of.Models {
			out = count(out, m.Model, m.Count)
		}
	}
	return out
}
