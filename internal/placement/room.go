package placement

import (
	"math"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
)

// Yields says whether the running job of a hold may be stopped for a waiting one,
// and how long, in ns, that takes at most.
type Yields func(holder id.Job) (grace int64, ok bool)

// Preemption is a proposal to stop running jobs so that a waiting one can start.
type Preemption struct {
	Job     id.Job
	Node    string
	Victims []id.Job
	At      int64 // ns; when they are gone at the latest
}

// room is a place that stopping jobs would make.
type room struct {
	track   *track
	at      int64 // ns
	victims []Victim
	loss    loss
}

// room finds the place for sh that loses least: on one node, by jobs that yield,
// beside every reservation. It must begin before a start that the shape has anyway.
func (p *planner) room(sh Shape, tracks []*track, before int64, yields Yields) (room, bool) {
	var options []room
	met := p.time.meeting(sh.Where)
	for _, t := range tracks {
		if met != nil && !met[t.n] || !t.total.fits(sh) {
			continue
		}
		for _, s := range t.seats(sh) {
			if r, ok := p.roomOn(sh, t, s, yields); ok && r.at < before {
				options = append(options, r)
			}
		}
	}
	slices.SortStableFunc(options, func(a, b room) int { return a.loss.compare(b.loss) })
	for _, r := range options {
		p.free(r, +1)
		fits := p.time.fits(sh, r.track, r.at)
		p.free(r, -1)
		if fits {
			return r, true
		}
	}
	return room{}, false
}

// seats is columns of a node's devices out of which a shape takes a number.
type seats struct {
	columns []int
	need    int64
}

// seats lists the ways in which sh can have its devices: all of one model, or mixed.
func (t *track) seats(sh Shape) []seats {
	if sh.GPU == 0 {
		return []seats{{}}
	}
	var out []seats
	mixed := seats{need: sh.GPU}
	for i, m := range t.models {
		if catalog.Allows(sh.Model, m) {
			out = append(out, seats{[]int{i}, sh.GPU})
			mixed.columns = append(mixed.columns, i)
		}
	}
	if sh.Mixed {
		return []seats{mixed}
	}
	return out
}

// in is how many devices of a row are in the seats' columns.
func (s seats) in(row []int64) int64 {
	var n int64
	for _, i := range s.columns {
		n += max(0, row[devs+i])
	}
	return n
}

// roomOn chooses victims on one node. They must be gone by at, so those whose time
// is up sooner don't count.
func (p *planner) roomOn(sh Shape, t *track, s seats, yields Yields) (room, bool) {
	r := room{track: t, at: p.in.Now}
	var of []Victim
	for _, h := range p.state.HoldsOn(t.node) {
		grace, ok := yields(h.Job)
		if !ok || p.stopped[h.Job] || h.ends(p.in.Now) <= after(p.in.Now, grace) {
			continue
		}
		v := Victim{Job: h.Job, Frees: Amounts{CPU: h.CPU, Mem: h.Mem}, Devices: int64(len(h.Devices)), CPU: h.CPU, Ran: p.in.Now - h.From}
		v.Frees.GPU = s.in(t.uses(0, 0, p.state.usableModels(h)))
		of, r.at = append(of, v), max(r.at, after(p.in.Now, grace))
	}
	if len(of) == 0 {
		return room{}, false
	}
	low := t.lowest(p.in.Now, after(r.at, sh.Length()))
	lacking := Amounts{max(0, sh.CPU-low[cpus]), max(0, sh.Mem-low[mems]), max(0, s.need-s.in(low))}
	var ok bool
	if r.victims, ok = Victims(lacking, of); !ok {
		return room{}, false
	}
	for _, v := range r.victims {
		r.loss = r.loss.plus(v.loss())
	}
	return r, true
}

// lowest is what is free throughout [from, to).
func (t *track) lowest(from, to int64) []int64 {
	first := t.find(from)
	low := slices.Clone(t.row(first))
	for i := first + 1; i < len(t.at) && t.at[i] < to; i++ {
		for c, n := range t.row(i) {
			low[c] = min(low[c], n)
		}
	}
	return low
}

// free takes the victims' holds off the timeline from r.at on, or with sign -1 puts
// them there again.
func (p *planner) free(r room, sign int64) {
	for _, v := range r.victims {
		if h, ok := p.state.Holds.Get(v.Job); ok {
			r.track.add(r.at, h.ends(p.in.Now), r.track.uses(h.CPU, h.Mem, p.state.usableModels(h)), sign)
		}
	}
}

// maxPreempting bounds for how many jobs a pass looks for victims; the next pass
// goes on.
const maxPreempting = 16

// preempt makes room for a head that would start later or never. Heads after it
// give way; those before it keep their places.
func (p *planner) preempt(i int) {
	h := &p.heads[i]
	if p.in.Yields == nil || p.preempting == maxPreempting || h.held != nil && h.held.From <= p.in.Now {
		return
	}
	yields := p.in.Yields(h.job)
	if yields == nil {
		return
	}
	p.preempting++
	before := int64(math.MaxInt64)
	if h.held != nil {
		before = h.held.From
		p.time.Cancel(h.held)
	}
	later := p.lift(i)
	r, ok := p.room(h.shape, h.lane.tracks, before, yields)
	if ok {
		p.free(r, +1)
		h.held, _ = p.time.reserve(h.shape, r.track, r.at)
		p.note(h.job.ID, r)
	} else if h.held != nil && !p.time.restore(h.held) {
		h.held = nil
	}
	p.putBack(later)
}

// note proposes the preemption, and keeps its victims from others in this pass.
func (p *planner) note(j id.Job, r room) {
	out := Preemption{Job: j, Node: r.track.node, At: r.at}
	for _, v := range r.victims {
		out.Victims, p.stopped[v.Job] = append(out.Victims, v.Job), true
		h, _ := p.state.Holds.Get(v.Job)
		h.Until = r.at
		p.state.Hold(h)
	}
	p.out.Preemptions = append(p.out.Preemptions, out)
}
