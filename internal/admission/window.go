package admission

import (
	"iter"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

func shapeOf(s workload.Spec) placement.Shape {
	return placement.Shape{CPU: s.CPU, Mem: s.Mem, GPU: s.GPU, Model: s.Model, Mixed: s.Mixed, Where: s.Where, Wall: s.Time, Grace: s.Grace}
}

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
	partition, o := r.Subject.Partition.Name, v.Order()
	at := place(o, r)
	in := placement.EstimateInput{
		State: v.Placement, Partition: r.Subject.Partition, Sharing: sharing(v, r.Subject.Partition), Now: v.Now, Shape: placement.ShapeOf(verdict.Demand),
		Claims: v.Workload.Claims(partition), Blocked: blocked(verdict), Depth: v.PlanDepth, Margin: StartMargin, Eligible: v.Eligible, Models: v.Models,
		Queue: v.Workload.Length(partition), Position: v.Workload.Ahead(o, partition, at),
		Fronts: func(partition string) iter.Seq[workload.Front] { return v.Workload.Fronts(o, partition, at) },
	}
	if r.Job != nil {
		in.Promise, in.Yields = r.Job.Promise, v.YieldTo(r.Job)
		in.Claims = slices.DeleteFunc(in.Claims, func(j *workload.Job) bool { return j.ID == r.Job.ID })
	} else {
		in.Yields = v.yieldTo(r.Subject.QoS)
		in.Queue++
	}
	in.Ahead = func(yield func(*workload.Job, workload.Place) bool) {
		for j, p := range v.Workload.Queue(o, partition) {
			if p.Compare(at) >= 0 || !yield(j, p) {
				return
			}
		}
	}
	return placement.Estimate(in)
}

// place is where the request's job is in the queue, or would be if it came now.
func place(o workload.Order, r Request) workload.Place {
	if r.Job != nil {
		return o.Place(r.Job.LaneOf(), r.Job.Since(), r.Job.ID)
	}
	j := workload.Job{User: r.Subject.User.ID, Account: r.Subject.Account.ID, Spec: r.Spec}
	return o.Place(j.LaneOf(), o.Now, 1<<63-1)
}

// StartMargin, in ns, is the time allowed between the decision to start a job and
// the start of its program, in which it holds its resources already.
const StartMargin = int64(30e9)

// Eligible reports whether nothing but resources keeps a waiting job from
// starting: limits and funds have room for it.
func (v View) Eligible(j *workload.Job) bool {
	kept, err := v.Kept(j)
	return err == nil && len(kept) == 0
}

// Kept is what other than resources keeps a waiting job from starting.
func (v View) Kept(j *workload.Job) ([]fault.Reason, error) {
	d := decision{View: v, Request: Request{Subject: v.SubjectOf(j), Spec: j.Spec, Gate: Start, Job: j}, path: j.Path}
	d.out.Demand = j.Demand()
	d.shape = shapeOf(j.Spec)
	d.standing()
	d.offer()
	d.bounds()
	if len(d.out.Reasons) > 0 {
		return d.out.Reasons, nil
	}
	err := d.price()
	return d.out.Reasons, err
}

// blocked reports whether something other than busy resources stands in the way.
func blocked(v Verdict) bool {
	for _, r := range v.Reasons {
		switch r.Code {
		case codes.DevicesBusy, codes.CPUBusy, codes.MemoryBusy, codes.Maintenance, codes.Priority:
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
