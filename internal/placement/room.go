package placement

import (
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
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

// stopped lists the jobs that are to be stopped.
func (r room) stopped() []id.Job {
	var out []id.Job
	for _, v := range r.victims {
		out = append(out, v.Job)
		for _, w := range v.With {
			out = append(out, w.Job)
		}
	}
	slices.Sort(out)
	return out
}

// room finds the place for sh that loses least: on one node, by jobs that yield,
// beside every slot. It must begin before a start that the shape has anyway.
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

// seats is where a shape can have its devices: a number out of columns of whole ones, or
// a part of one that is shared.
type seats struct {
	columns []int
	shared  int // -1: whole devices
	need    int64
}

// seats lists the ways in which sh can have its devices: all of one model, or mixed; a
// part on each device that is shared, or on a whole one of a model.
func (t *track) seats(sh Shape) []seats {
	if sh.GPU == 0 {
		return []seats{{shared: -1}}
	}
	var out []seats
	mixed := seats{shared: -1, need: sh.GPU}
	for i, m := range t.models {
		if catalog.Allows(sh.Model, m) {
			out = append(out, seats{[]int{i}, -1, max(sh.GPU, quantity.Device)})
			mixed.columns = append(mixed.columns, i)
		}
	}
	if sh.part() {
		for i, d := range t.shared {
			if m := t.models[d.model]; d.uuid != "" && catalog.Allows(sh.Model, m) {
				out = append(out, seats{shared: i, need: sh.Of(m)})
			}
		}
	}
	if sh.Mixed && !sh.part() {
		return []seats{mixed}
	}
	return out
}

// in is how much of a row is in the seats' columns.
func (s seats) in(t *track, row []int64) int64 {
	if s.shared >= 0 {
		return t.roomOn(s.shared, row)
	}
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
	var holds []Hold
	for _, h := range p.state.HoldsOn(t.node) {
		if _, kept := p.state.Reservations.Get(h.In); kept {
			continue // what it frees is its reservation's
		}
		grace, ok := yields(h.Job)
		if !ok || p.stopped[h.Job] || h.ends(p.in.Now) <= after(p.in.Now, grace) {
			continue
		}
		holds, r.at = append(holds, h), max(r.at, after(p.in.Now, grace))
	}
	if len(holds) == 0 {
		return room{}, false
	}
	low := t.lowest(p.in.Now, after(r.at, sh.Length()))
	lacking := Amounts{max(0, sh.CPU-low[cpus]), max(0, sh.Mem-low[mems]), max(0, s.need-s.in(t, low))}
	var ok bool
	if r.victims, ok = Victims(lacking, p.victims(t, s, holds, lacking.GPU > 0)); !ok {
		return room{}, false
	}
	for _, v := range r.victims {
		r.loss = r.loss.plus(v.loss())
	}
	return r, true
}

// victims is what stopping each of the holds would free. Where whole devices are
// lacking, those that share one are stopped together or not at all: only then is it
// whole again.
func (p *planner) victims(t *track, s seats, holds []Hold, devices bool) []Victim {
	var out []Victim
	together := map[string]int{} // by device: the victim of it
	for _, h := range holds {
		v := Victim{Job: h.Job, Frees: Amounts{CPU: h.CPU, Mem: h.Mem}, Devices: int64(len(h.Devices)) * h.each(), CPU: h.CPU, Ran: p.in.Now - h.From}
		u := p.state.useOf(t, h)
		switch {
		case s.shared >= 0:
			if u.part > 0 && u.shared == s.shared {
				v.Frees.GPU = u.part
			}
		case u.part == 0:
			v.Frees.GPU = s.in(t, u.row)
		case devices && slices.Contains(s.columns, t.shared[u.shared].model) && p.allOf(h.Devices[0], holds):
			if i, known := together[h.Devices[0]]; known {
				out[i].Frees = out[i].Frees.plus(v.Frees)
				out[i].With = append(out[i].With, v)
				continue
			}
			together[h.Devices[0]] = len(out)
			v.Frees.GPU = quantity.Device
		}
		out = append(out, v)
	}
	return out
}

// allOf reports whether all who have parts of a device are among the holds.
func (p *planner) allOf(device string, holds []Hold) bool {
	for _, by := range p.state.Shares(device) {
		if !slices.ContainsFunc(holds, func(h Hold) bool { return h.Job == by.Job }) {
			return false
		}
	}
	return true
}

// lowest is what is free throughout [from, to), and the most that is used of shared
// devices.
func (t *track) lowest(from, to int64) []int64 {
	first := t.find(from)
	low := slices.Clone(t.row(first))
	for i := first + 1; i < len(t.at) && t.at[i] < to; i++ {
		for c, n := range t.row(i) {
			if c < t.column(0) {
				low[c] = min(low[c], n)
			} else {
				low[c] = max(low[c], n)
			}
		}
	}
	return low
}

// free takes the victims' holds off the timeline from r.at on, or with sign -1 puts
// them there again.
func (p *planner) free(r room, sign int64) {
	for _, j := range r.stopped() {
		if h, ok := p.state.Holds.Get(j); ok {
			r.track.add(r.at, h.ends(p.in.Now), p.state.useOf(r.track, h.on(r.track.node)), sign)
		}
	}
}

// maxPreempting bounds for how many jobs a pass looks for victims; the next pass
// goes on.
const maxPreempting = 16

// preempt makes room for a head on one node that would start later or never. Heads after it
// give way; those before it keep their places.
func (p *planner) preempt(i int) {
	h := &p.heads[i]
	if p.in.Yields == nil || h.shape.gang() || h.shape.In != 0 || p.preempting == maxPreempting || h.held != nil && h.held.From <= p.in.Now {
		return
	}
	yields := p.in.Yields(h.job)
	if yields == nil {
		return
	}
	p.preempting++
	before := after(h.job.Spec.LastStart(), 1)
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
	out := Preemption{Job: j, Node: r.track.node, At: r.at, Victims: r.stopped()}
	for _, v := range out.Victims {
		p.stopped[v] = true
		h, _ := p.state.Holds.Get(v)
		h.Until = r.at
		p.state.Hold(h)
	}
	p.out.Preemptions = append(p.out.Preemptions, out)
}
