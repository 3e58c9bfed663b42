package placement

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strconv"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

// planner is one pass.
type planner struct {
	in       PlanInput
	time     *Timeline
	state    State // a copy, which holds what this pass has started
	lanes    []lane
	heads    []head // the jobs with a slot, in order
	standing map[id.Job]Promise
	barred   map[kin]bool   // jobs like these aren't eligible
	narrowed map[kin]string // what Models said of jobs like these
	sized    map[Shape]sized
	out      Planned
	promised []*head // of out.Promises

	preempting int             // so many heads have looked for victims
	stopped    map[id.Job]bool // victims that this pass has chosen
}

// kin is what Eligible may depend on.
type kin struct {
	user           id.User
	account        id.Account
	partition, qos string
	shape          Shape
}

// lane is a Lane on the timeline.
type lane struct {
	queue  iter.Seq2[*workload.Job, workload.Place]
	tracks []*track
	claims []*workload.Job
	seen   int              // how many jobs of the queue collect has looked at
	failed []Shape          // don't fit now, nor does what covers them
	found  map[Shape]*track // the best fit now when it was looked for last
	done   bool             // nothing more can start now
}

// head is a job that gets a slot.
type head struct {
	job   *workload.Job
	place workload.Place
	shape Shape
	lane  *lane
	held  *Slot // nil: has no place yet
}

func newPlanner(in PlanInput) *planner {
	p := &planner{
		in: in, state: in.State.Copy(),
		standing: make(map[id.Job]Promise, len(in.Standing)), barred: map[kin]bool{}, narrowed: map[kin]string{}, sized: map[Shape]sized{}, stopped: map[id.Job]bool{},
	}
	for _, pr := range in.Standing {
		p.standing[pr.Job] = pr
	}
	partitions := make([]catalog.Partition, len(in.Lanes))
	for i, l := range in.Lanes {
		partitions[i] = l.Partition
	}
	p.time = in.State.Timeline(in.Now, partitions...)
	p.lanes = make([]lane, len(in.Lanes))
	for i, l := range in.Lanes {
		p.lanes[i] = lane{queue: l.Queue, claims: l.Claims, tracks: p.time.of(l.In, p.time.within(l.Partition)), found: map[Shape]*track{}}
	}
	return p
}

// lay gives the first eligible jobs of each lane their places.
func (p *planner) lay() {
	for i := range p.lanes {
		p.collect(&p.lanes[i])
	}
	slices.SortStableFunc(p.heads, head.compare)
	p.layStanding()
	p.settle()
}

// shape is what a job takes on the timeline; false if no device has as much memory.
func (p *planner) shape(j *workload.Job) (Shape, bool) {
	sh := Shape{
		CPU: j.Spec.CPU, Mem: j.Spec.Mem, GPU: j.Spec.GPU, Model: p.models(j), Memory: j.Spec.GPUMem, Mixed: j.Spec.Mixed, Where: j.Spec.Where, Ports: PortsOf(j.Spec.Pod.Ports),
		Wall: j.Spec.Time, Grace: after(j.Spec.Grace, p.in.Margin), Nodes: j.Spec.Nodes, In: j.In,
	}
	if sh.Memory == 0 {
		return sh, true
	}
	k := Shape{GPU: sh.GPU, Model: sh.Model, Memory: sh.Memory}
	as, known := p.sized[k]
	if !known {
		as.Shape, as.ok = p.state.Sized(k)
		p.sized[k] = as
	}
	sh.GPU, sh.Model, sh.Sizes = as.GPU, as.Model, as.Sizes
	return sh, as.ok
}

// sized is what Sized said of a shape.
type sized struct {
	Shape
	ok bool
}

// models is what a job's devices may be now.
func (p *planner) models(j *workload.Job) string {
	if p.in.Models == nil || j.Spec.GPU == 0 || catalog.OneModel(j.Spec.Model) {
		return j.Spec.Model
	}
	k := kin{user: j.User, account: j.Account, partition: j.Spec.Partition, qos: j.Spec.QoS, shape: Shape{GPU: j.Spec.GPU, Model: j.Spec.Model, Memory: j.Spec.GPUMem, In: j.In}}
	models, known := p.narrowed[k]
	if !known {
		models = p.in.Models(j)
		p.narrowed[k] = models
	}
	return models
}

// eligible asks about a job, unless one like it was turned down.
func (p *planner) eligible(j *workload.Job, sh Shape) bool {
	if p.in.Eligible == nil {
		return true
	}
	if p.isBarred(j, sh) {
		return false
	}
	if !p.in.Eligible(j) {
		p.barred[kinOf(j, sh)] = true
		return false
	}
	return true
}

// isBarred reports whether a job like this one was turned down.
func (p *planner) isBarred(j *workload.Job, sh Shape) bool {
	return len(p.barred) > 0 && p.barred[kinOf(j, sh)]
}

func kinOf(j *workload.Job, sh Shape) kin {
	return kin{j.User, j.Account, j.Spec.Partition, j.Spec.QoS, sh}
}

// collect takes the lane's first eligible jobs as heads.
func (p *planner) collect(l *lane) {
	for _, j := range l.claims {
		if sh, ok := p.shape(j); ok && !j.Expired(p.in.Now) && p.eligible(j, sh) {
			p.heads = append(p.heads, head{job: j, place: workload.Place{Job: j.ID}, shape: sh, lane: l})
		}
	}
	n := 0
	for j, at := range l.queue {
		if n == p.in.Depth {
			return
		}
		l.seen++
		if j.Claim != 0 || j.Expired(p.in.Now) {
			continue
		}
		if sh, ok := p.shape(j); ok && p.eligible(j, sh) {
			p.heads = append(p.heads, head{job: j, place: at, shape: sh, lane: l})
			n++
		}
	}
}

// compare orders heads of several lanes by their places, after those for which
// others were stopped.
func (h head) compare(o head) int {
	return cmp.Or(o.job.Claimed()-h.job.Claimed(), h.place.Compare(o.place))
}

// layStanding reserves what was promised before, as far as that is still possible.
func (p *planner) layStanding() {
	for i := range p.heads {
		h := &p.heads[i]
		pr, ok := p.standing[h.job.ID]
		if !ok {
			pr = Promise{At: h.job.Promise}
		}
		if pr.At == 0 {
			continue
		}
		at := max(pr.At, p.in.Now)
		if h.held = p.time.keep(h.shape, pr, at, h.job.Spec.LastStart()); h.held == nil {
			h.held = p.place(h, at, at)
		}
	}
}

// keep reserves what a promise names at a start that is no earlier. If the node
// is free a little later only (its job began late, or is still being stopped), it
// waits for that rather than take the place of others elsewhere. Later than last it
// may not start.
func (t *Timeline) keep(sh Shape, pr Promise, at, last int64) *Slot {
	on, ok := t.on(sh, pr.Node)
	if !ok || at > last || sh.gang() { // a gang's nodes may be others, if they are as many
		return nil
	}
	if met := t.meeting(sh.Where); met != nil && !met[on.n] {
		return nil
	}
	if len(pr.Models) > 0 && sh.isGiven(pr.Models) {
		if r := t.again(sh, pr, on, at); r != nil && t.restore(r) {
			return r
		}
	}
	start, on, ok := t.earliest(sh, []*track{on}, at, min(after(at, Overdue), last))
	if !ok {
		return nil
	}
	r, _ := t.reserve(sh, on, start)
	return r
}

// again is the slot that was promised. A part is on the same device as those that it
// was to share it with.
func (t *Timeline) again(sh Shape, pr Promise, at *track, start int64) *Slot {
	if !sh.part() {
		return t.slot(sh, at, start, pr.Models)
	}
	model, ok := slices.BinarySearch(at.models, pr.Models[0].Model)
	if !ok || pr.Shared == "" {
		return nil
	}
	i, ok := at.sharedBy(func(d shared) bool { return d.model == model && (d.uuid == pr.Shared || d.label == pr.Shared) })
	if !ok {
		i = at.open(model)
		at.shared[i].label = pr.Shared
	}
	return t.part(sh, at, start, i)
}

// label names the devices that promised parts are to share, for the next pass: one
// that no job has a part of by the first job that is promised one.
func (p *planner) label() {
	type place struct {
		at     *track
		shared int
	}
	names := map[place]string{}
	for i, h := range p.promised {
		if h.held.use.part == 0 {
			continue
		}
		at := place{h.held.track, h.held.use.shared}
		if names[at] == "" {
			names[at] = cmp.Or(at.at.shared[at.shared].uuid, "of job "+strconv.FormatInt(int64(h.job.ID), 10))
		}
		p.out.Promises[i].Shared = names[at]
	}
}

// place reserves the earliest start in [from, until], nil if there is none in which
// the job can end by its deadline.
func (p *planner) place(h *head, from, until int64) *Slot {
	until = min(until, h.job.Spec.LastStart())
	return p.time.take(h.shape, h.lane.tracks, from, until)
}

// settle gives every head its place, those before it having theirs.
func (p *planner) settle() {
	for i := range p.heads {
		if h := &p.heads[i]; h.held != nil {
			p.advance(h)
		} else {
			p.insert(i)
		}
		p.preempt(i)
	}
}

// startHeads starts the heads whose time has come; the others keep a promise.
func (p *planner) startHeads() {
	for i := range p.heads {
		h := &p.heads[i]
		if h.held == nil || h.held.From <= p.in.Now && p.start(h.job, h.shape, h.held) {
			continue
		}
		p.out.Promises = append(p.out.Promises, Promise{Job: h.job.ID, At: h.held.From, Node: h.held.Node, Models: h.held.modelsIn()})
		p.promised = append(p.promised, h)
	}
}

// advance moves a head forward to where nobody is in its way.
func (p *planner) advance(h *head) {
	was := h.held
	if was.From <= p.in.Now {
		return
	}
	p.time.Cancel(was)
	if h.held = p.place(h, p.in.Now, was.From-1); h.held == nil && p.time.restore(was) {
		h.held = was
	}
}

// insert finds a place for a head that has none, whatever those after it were
// promised; those that it pushes out have none then.
func (p *planner) insert(i int) {
	later := p.lift(i)
	p.heads[i].held = p.place(&p.heads[i], p.in.Now, math.MaxInt64)
	p.putBack(later)
}

// lift takes the slots of the heads after one off the timeline.
func (p *planner) lift(i int) []*head {
	var later []*head
	for k := i + 1; k < len(p.heads); k++ {
		if h := &p.heads[k]; h.held != nil {
			p.time.Cancel(h.held)
			later = append(later, h)
		}
	}
	return later
}

// putBack reserves again what was lifted, as far as it still can.
func (p *planner) putBack(later []*head) {
	for _, h := range later {
		if !p.time.restore(h.held) {
			h.held = p.time.take(h.shape, h.held.tracks(), h.held.From, h.held.From)
		}
	}
}

// start picks the devices for a slot that begins now.
func (p *planner) start(j *workload.Job, sh Shape, r *Slot) bool {
	spot, ok := p.spots(r)
	if !ok || p.state.Check(sh, spot, p.in.Now) != nil || p.in.CanStart != nil && !p.in.CanStart(j, spot) {
		return false
	}
	if r.use.part > 0 {
		r.track.shared[r.use.shared].uuid = spot.Devices[0].UUID
	}
	p.state.Hold(Hold{Job: j.ID, Node: r.Node, CPU: sh.CPU, Mem: sh.Mem, Devices: spot.UUIDs(), Others: spot.Rest(), Part: spot.Part, Ports: sh.Ports, From: p.in.Now, Until: r.To, In: sh.In})
	p.out.Starts = append(p.out.Starts, Start{j, spot})
	return true
}

// spot picks the devices for a slot: of a part the one that it shares, if others have
// parts of that already.
func (p *planner) spot(r *Slot) (Spot, bool) {
	spot := Spot{Node: r.Node, Part: partOf(r.use.part)}
	models := r.Models
	if r.use.part > 0 {
		if d, ok := p.state.Devices.Get(r.track.shared[r.use.shared].uuid); ok {
			spot.Devices = []Device{d}
			return spot, true
		}
		models = []catalog.ModelCount{{Model: models[0].Model, Count: quantity.Device}}
	}
	free := p.state.freeDevices(r.Node, "")
	for _, m := range models {
		of, ok := choose(free, Shape{GPU: m.Count, Model: m.Model})
		if !ok {
			return spot, false
		}
		spot.Devices = append(spot.Devices, of...)
	}
	slices.SortFunc(spot.Devices, byIndex)
	return spot, true
}
