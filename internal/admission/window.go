package admission

import (
	"iter"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Quote is the verdict on a request that isn't submitted: what accepting it would
// say, with the window in which it would start, and a remedy if it is refused.
func Quote(v View, r Request) (Verdict, error) {
	r.Gate, r.Job = Accept, nil
	verdict, err := Decide(v, r)
	if err != nil {
		return verdict, err
	}
	verdict.Window = StartWindow(v, r, verdict)
	return verdict, nil
}

// Why is the verdict on a waiting job at the start gate, with its window.
func Why(v View, j *workload.Job) (Verdict, Request, error) {
	r := Request{Subject: v.SubjectOf(j), Spec: j.Spec, Gate: Start, Job: j}
	verdict, err := Decide(v, r)
	if err != nil {
		return verdict, r, err
	}
	verdict.Window = StartWindow(v, r, verdict)
	return verdict, r, nil
}

// StartWindow says when a request would start from its place in the queue.
func StartWindow(v View, r Request, verdict Verdict) placement.Window {
	queue, o := workload.QueueOf(r.Subject.Partition.Name, r.Subject.In.ID), v.Order()
	at := place(o, r)
	sh, fits := v.Placement.Sized(placement.ShapeOf(verdict.Demand))
	in := placement.EstimateInput{
		State: v.Placement, Partition: r.Subject.Partition, Sharing: sharing(v, r.Subject.Partition), Now: v.Now, Shape: sh,
		Claims: v.Workload.Claims(queue), Blocked: !fits || blocked(verdict), Depth: v.PlanDepth, Margin: StartMargin, Eligible: v.Eligible, Models: v.Models, Caps: v.caps(r, verdict, o, at),
		Queue: v.Workload.Length(queue), Position: v.Workload.Ahead(o, queue, at) + v.before(r.Job),
		Fronts: func(partition string) iter.Seq[workload.Front] { return v.Workload.Fronts(o, partition, at) },
	}
	if r.Job != nil {
		in.Promise, in.Yields = r.Job.Promise, v.YieldTo(r.Job)
		in.Claims = slices.DeleteFunc(in.Claims, func(j *workload.Job) bool { return j.Row() == r.Job.Row() })
	} else {
		if in.Shape.In == 0 {
			in.Yields = v.claimant(r).yields()
		}
		in.Queue += r.Spec.Jobs()
	}
	in.Ahead = func(yield func(*workload.Job, workload.Place) bool) {
		for j, p := range v.Workload.Queue(o, queue) {
			self := r.Job != nil && (j.ID == r.Job.ID || j.Row() == r.Job.ID)
			if self || p.Compare(at) > 0 || !yield(j, p) {
				return
			}
		}
	}
	opens, known := v.opens(r, verdict)
	in.Blocked = in.Blocked || !known
	w := placement.Estimate(in)
	if opens > v.Now && w.Start != 0 {
		w.Kind, w.Start, w.Stops = placement.StartEstimated, max(w.Start, opens), 0
	}
	return v.held(r.job(), w)
}

// opens is when the periods have ended whose limits on hours have no room for a request
// now, in ns; 0: there are none. known is false if one of them rolls on.
func (v View) opens(r Request, verdict Verdict) (at int64, known bool) {
	d := v.decisionOn(r)
	d.Gate = Start
	for _, viol := range v.Limits.Check(d.who(), d.ask()) {
		if !viol.Limit.Resource.Hours() {
			continue
		}
		if viol.To == 0 {
			return 0, false
		}
		at = max(at, viol.To)
	}
	return at, true
}

// caps lists the limits on use at once, and the bounds of shares, that keep a request
// from starting now, each with the jobs under it.
func (v View) caps(r Request, verdict Verdict, o workload.Order, at workload.Place) []placement.Cap {
	d := v.decisionOn(r)
	d.Gate = Start
	var out []placement.Cap
	for _, viol := range v.Limits.Check(d.who(), d.ask()) {
		l := viol.Limit
		if viol.Never || l.Resource.PerJob() || l.Resource.Hours() {
			continue
		}
		out = append(out, placement.Cap{
			Resource: l.Resource, Max: viol.Max, Asked: viol.Asked, Holds: v.holdsIn(viol.Counts), Fronts: v.frontsIn(viol.Counts, o, at),
		})
	}
	for _, viol := range d.shares(d.ask()) {
		if sc := (limits.Scope{Account: viol.Share.Account, Partition: viol.Share.Partition}); !viol.Never && viol.Kind != share.OfOthers {
			out = append(out, placement.Cap{
				Resource: viol.Share.Resource, Max: viol.Max, Asked: viol.Asked, Holds: v.holdsIn(within(sc)), Fronts: v.frontsIn(within(sc), o, at),
			})
		}
	}
	return v.perUser(out, r, o, at)
}

// perUser adds the bound of a reservation on jobs of each user, if the request's user has
// as many there as he may.
func (v View) perUser(caps []placement.Cap, r Request, o workload.Order, at workload.Place) []placement.Cap {
	in, u := r.Subject.In, r.Subject.User.ID
	if in.Each == 0 {
		return caps
	}
	c := placement.Cap{Resource: limits.Running, Max: in.Each, Asked: 1}
	for j := range v.inside(in, u) {
		if h, ok := v.Placement.Holds.Get(j.ID); ok {
			c.Holds = append(c.Holds, h)
		}
	}
	if int64(len(c.Holds)) < in.Each {
		return caps
	}
	c.Fronts = func(yield func(workload.Front) bool) {
		for f := range v.Workload.Fronts(o, workload.QueueOf(in.Partition, in.ID), at) {
			if f.Of.User == u && !yield(f) {
				return
			}
		}
	}
	return append(caps, c)
}

// within counts those of a scope.
func within(sc limits.Scope) func(limits.Who) bool {
	return func(w limits.Who) bool { return w.Within(sc) }
}

// holdsIn lists what the running jobs have that count.
func (v View) holdsIn(counts func(limits.Who) bool) []placement.Hold {
	var out []placement.Hold
	for _, j := range v.Workload.Active.All() {
		if h, ok := v.Placement.Holds.Get(j.ID); ok && counts(whoOf(j.LaneOf(), j.Path)) {
			out = append(out, h)
		}
	}
	return out
}

// frontsIn yields the lanes that count and have jobs before a place, whatever queue they
// are in: limits count what runs in reservations, too.
func (v View) frontsIn(counts func(limits.Who) bool, o workload.Order, at workload.Place) iter.Seq[workload.Front] {
	return func(yield func(workload.Front) bool) {
		for queue := range v.queues() {
			for f := range v.Workload.Fronts(o, queue, at) {
				if counts(whoOf(f.Of, v.Tenancy.Path(f.Of.Account))) && !yield(f) {
					return
				}
			}
		}
	}
}

// queues yields those of all partitions, and of the reservations that jobs are in.
func (v View) queues() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range v.Catalog.Partitions.All() {
			if !yield(name) {
				return
			}
		}
		for in := range v.Workload.Reservations() {
			if r, ok := v.Placement.Reservations.Get(in); ok && !yield(workload.QueueOf(r.Partition, in)) {
				return
			}
		}
	}
}

func whoOf(l workload.Lane, path []pathID) limits.Who {
	return limits.Who{Path: path, User: l.User, Partition: l.Partition, QoS: l.QoS, Token: tenancy.ByToken{ID: l.Token}}
}

// place is where the request's job is in the queue, or would be if it came now.
func place(o workload.Order, r Request) workload.Place {
	if r.Job != nil {
		return o.Place(r.Job.LaneOf(), r.Job.Since(), r.Job.Row())
	}
	return o.Place(laneOf(r), o.Now, 1<<63-1)
}

// before is how many elements of its array come before an element that waits.
func (v View) before(j *workload.Job) int64 {
	if j == nil {
		return 0
	}
	array, index, one := v.row(j)
	if !one {
		return 0
	}
	return array.Before(index)
}

// Lane is the lane that the request's job waits in, or would.
func (r Request) Lane() workload.Lane { return laneOf(r) }

// laneOf is the lane that a request's job waits in, or would.
func laneOf(r Request) workload.Lane {
	if r.Job != nil {
		return r.Job.LaneOf()
	}
	j := workload.Job{User: r.Subject.User.ID, Account: r.Subject.Account.ID, Spec: r.Spec, In: r.Subject.In.ID, Token: r.Subject.Token}
	return j.LaneOf()
}

// StartMargin, in ns, is the time allowed between the decision to start a job and
// the start of its program, in which it holds its resources already.
const StartMargin = int64(30e9)

// blocked reports whether something stands in the way that has no known end.
func blocked(v Verdict) bool {
	for _, r := range v.Reasons {
		switch r.Code {
		case codes.NodesBusy, codes.DevicesBusy, codes.CPUBusy, codes.MemoryBusy, codes.PortBusy, codes.Maintenance, codes.Reserved, codes.ReservationWait, codes.ReservationEach, codes.Priority, codes.BeginTime, codes.Dependency:
		case codes.LimitDevices, codes.LimitCPU, codes.LimitMemory, codes.LimitRunning, codes.LimitHours, codes.ShareLimit, codes.ShareBorrow:
			if r.Never {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// sharing names the other partitions that have nodes in common with p.
func sharing(v View, p catalog.Partition) []string {
	var out []string
	for name, o := range v.Catalog.Partitions.All() {
		if name == p.Name {
			continue
		}
		if len(p.Nodes) == 0 || len(o.Nodes) == 0 || slices.ContainsFunc(o.Nodes, p.Has) {
			out = append(out, name)
		}
	}
	return out
}
