package placement

import (
	"iter"
	"slices"

	"croft.dev/croft/internal/workload"
)

// backfill starts what fits now of the jobs that have no slot. A pass only
// ever takes from the timeline, so a shape that fails once fails for good, and so
// does every shape that covers it.
func (p *planner) backfill() {
	for i := range p.lanes {
		p.lanes[i].done = p.lanes[i].full(p.in.Now)
	}
	looks := 0
	for l, j := range p.deeper() {
		sh, ok := p.shape(j)
		if !ok || slices.ContainsFunc(l.failed, sh.covers) || p.isBarred(j, sh) || j.Expired(p.in.Now) {
			continue
		}
		if looks++; p.in.Budget > 0 && looks > p.in.Budget {
			return
		}
		if sh.gang() {
			p.backfillGang(l, j, sh)
		} else if at, ok := p.fitsNow(l, sh); ok && p.eligible(j, sh) {
			r, _ := p.time.reserve(sh, at, p.in.Now)
			p.startDeep(j, sh, r)
		}
	}
}

// fitsNow finds a node with room for sh beside all slots.
func (p *planner) fitsNow(l *lane, sh Shape) (*track, bool) {
	if at, known := l.found[sh]; known {
		// What has started since has, if anything, made it a closer fit.
		if p.time.fits(sh, at, p.in.Now) {
			return at, true
		}
	}
	_, at, ok := p.time.earliest(sh, l.tracks, p.in.Now, p.in.Now)
	if ok {
		l.found[sh] = at
		return at, true
	}
	// Where there is no room at all now, a shorter job has none either.
	brief := sh
	brief.Wall, brief.Grace = 0, 0
	if _, _, room := p.time.earliest(brief, l.tracks, p.in.Now, p.in.Now); !room {
		sh = brief
	}
	l.fail(sh)
	return nil, false
}

// startDeep starts a job in a slot that was taken for it, if one was.
func (p *planner) startDeep(j *workload.Job, sh Shape, r *Slot) {
	if r == nil {
		return
	}
	if !p.start(j, sh, r) {
		p.time.Cancel(r)
		return
	}
	for i := range p.lanes {
		p.lanes[i].done = p.lanes[i].full(p.in.Now)
	}
}

// fail notes that sh doesn't fit; only the least such shapes are kept.
func (l *lane) fail(sh Shape) {
	l.failed = slices.DeleteFunc(l.failed, func(f Shape) bool { return f.covers(sh) })
	l.failed = append(l.failed, sh)
}

// full reports that nothing can start in the lane now: no node has both a core
// and memory left.
func (l *lane) full(now int64) bool {
	return !slices.ContainsFunc(l.tracks, func(t *track) bool {
		row := t.row(t.find(now))
		return row[cpus] > 0 && row[mems] > 0 && row[shut] == 0
	})
}

// deeper yields the jobs that collect hasn't looked at, of all lanes in order.
func (p *planner) deeper() iter.Seq2[*lane, *workload.Job] {
	return func(yield func(*lane, *workload.Job) bool) {
		if len(p.lanes) != 1 {
			merge(p.lanes, yield)
			return
		}
		for j := range p.lanes[0].rest { // spares the cost of a coroutine
			if !yield(&p.lanes[0], j) {
				return
			}
		}
	}
}

// rest yields what is left of the lane's queue while something is free.
func (l *lane) rest(yield func(*workload.Job, workload.Place) bool) {
	if l.done {
		return
	}
	skip := l.seen
	for j, at := range l.queue {
		if skip > 0 {
			skip--
		} else if j.Claim == 0 && !yield(j, at) || l.done {
			return
		}
	}
}

// merge yields the jobs of several lanes in the order of their places.
func merge(lanes []lane, yield func(*lane, *workload.Job) bool) {
	type feed struct {
		lane  *lane
		job   *workload.Job
		place workload.Place
		next  func() (*workload.Job, workload.Place, bool)
	}
	var feeds []feed
	for i := range lanes {
		l := &lanes[i]
		next, stop := iter.Pull2(l.rest)
		defer stop()
		if j, at, ok := next(); ok {
			feeds = append(feeds, feed{l, j, at, next})
		}
	}
	for len(feeds) > 0 {
		first := 0
		for i := range feeds {
			if feeds[i].place.Compare(feeds[first].place) < 0 {
				first = i
			}
		}
		f := &feeds[first]
		if !yield(f.lane, f.job) {
			return
		}
		var ok bool
		if f.job, f.place, ok = f.next(); !ok {
			feeds = slices.Delete(feeds, first, first+1)
		}
	}
}
