package placement

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/workload"
)

// WindowKind says how sure a start is.
type WindowKind string

// The kinds.
const (
	StartNow       WindowKind = "now"
	StartPromised  WindowKind = "promised"  // what the planner promises if nothing of higher place comes
	StartEstimated WindowKind = "estimated" // from the work that is ahead; not kept to
	StartUnknown   WindowKind = "unknown"
)

// Window is when a job is expected to start.
type Window struct {
	Kind     WindowKind
	Start    int64 // ns; 0 when unknown
	Position int64 // place in the queue; 1 is the next
	Queue    int64 // length of the queue, the job included
	Stops    int64 // running jobs that would be stopped for it
}

// EstimateInput is a job, submitted or not, at a place in the queue.
type EstimateInput struct {
	State     *State
	Partition catalog.Partition
	// Sharing names the other partitions that have nodes in common with this one.
	Sharing []string
	Now     int64 // ns
	Shape   Shape
	Promise int64 // ns; what the job was promised already; 0: nothing
	// Blocked says that something with no known end keeps the job waiting.
	Blocked bool

	Position int64 // how many jobs of the partition come before it
	Queue    int64 // how many wait in the partition, it included
	// Ahead yields those before it, in order; read only if they are fewer than Depth.
	Ahead iter.Seq2[*workload.Job, workload.Place]
	// Fronts yields the lanes of a partition, this or one of Sharing, that have jobs
	// which come before it. nil: none has.
	Fronts func(partition string) iter.Seq[workload.Front]

	Depth    int       // as the planner's
	Margin   int64     // as the planner's
	Standing []Promise // as the planner's
	Eligible func(*workload.Job) bool
	Claims   []*workload.Job            // as a Lane's
	Yields   Yields                     // which running jobs may be stopped for this one; nil: none
	Models   func(*workload.Job) string // as the planner's
	Caps     []Cap                      // those that have no room for the job now
}

// Estimate says when a job is expected to start. With fewer than Depth jobs ahead
// it lays them out as Plan does. Further down it divides the work ahead, every job
// taken to run to its limit, by what the partition's usable nodes offer, after what
// is held: a fluid model, which jobs that end early make too late and fragmentation
// makes too early. That takes a time proportional to the number of lanes (and of
// nodes that the partition names), however many jobs wait.
func Estimate(in EstimateInput) Window {
	w := Window{Kind: StartUnknown, Position: in.Position + 1, Queue: in.Queue}
	if in.Blocked || in.Shape.In == 0 && !in.State.mayFit(in.Shape, in.Partition) {
		return w
	}
	ok := true
	switch {
	case in.Promise > in.Now:
		w.Kind, w.Start = StartPromised, in.Promise
	case in.Shape.In != 0 && in.Position >= int64(in.Depth):
		ok = false // no fluid flows in windows
	case in.Shape.In != 0 || in.Position < int64(in.Depth) && !in.contended():
		if w.Start, w.Stops, ok = in.exact(); ok {
			w.Kind = StartPromised
		}
	default:
		if w.Start, ok = in.fluid(); ok {
			w.Kind = StartEstimated
		}
	}
	if w.Kind == StartPromised && w.Start <= in.Now {
		w.Kind = StartNow
	}
	return in.capped(w)
}

// mayFit reports whether a node of p that is usable now could run sh, once free.
func (s *State) mayFit(sh Shape, p catalog.Partition) bool {
	if sh.gang() {
		return s.mostNodes(sh, p, nodeSum.now) >= sh.Nodes
	}
	for _, n := range s.kinds(p, sh.Where) {
		if !n.usable.empty() && n.usable.fits(sh) {
			return true
		}
	}
	return false
}

// contended reports whether jobs of other partitions may come first on the nodes.
func (in *EstimateInput) contended() bool {
	for _, name := range in.Sharing {
		for range in.fronts(name) {
			return true
		}
	}
	return false
}

func (in *EstimateInput) fronts(partition string) iter.Seq[workload.Front] {
	if in.Fronts == nil {
		return func(func(workload.Front) bool) {}
	}
	return in.Fronts(partition)
}

// exact lays out the jobs ahead. Stops is how many would be stopped for an earlier
// start than there is by itself.
func (in *EstimateInput) exact() (start, stops int64, ok bool) {
	queue := in.Ahead
	if queue == nil {
		queue = func(func(*workload.Job, workload.Place) bool) {}
	}
	p := newPlanner(PlanInput{
		State: in.State, Lanes: []Lane{{in.Partition, in.Shape.In, queue, in.Claims}}, Now: in.Now, Depth: in.Depth, Margin: in.Margin,
		Standing: in.Standing, Eligible: in.Eligible, Models: in.Models,
	})
	p.lay()
	sh := in.Shape
	sh.Grace = after(sh.Grace, in.Margin)
	start, ok = p.time.first(sh, p.lanes[0].tracks, in.Now, math.MaxInt64)
	if in.Yields != nil && sh.In == 0 && !sh.gang() && (!ok || start > in.Now) {
		if !ok {
			start = math.MaxInt64
		}
		if r, found := p.room(sh, p.lanes[0].tracks, start, in.Yields); found {
			return r.at, int64(len(r.stopped())), true
		}
	}
	return start, 0, ok
}

// fluid lets the work ahead drain.
func (in *EstimateInput) fluid() (int64, bool) {
	model := in.Shape.queueModel()
	wait := in.State.ahead(in.fronts(in.Partition.Name), model)
	for _, name := range in.Sharing {
		wait = wait.plus(in.State.ahead(in.fronts(name), model))
	}
	start := in.Now
	for {
		// What is booked until then is work too: it comes before, whoever waits.
		all := wait.plus(in.State.bookedBefore(in.Partition, start, model, in.Now))
		next := after(in.Now, in.drain(all, model))
		if next <= start {
			break
		}
		start = next
	}
	start = in.State.pastWindows(in.Partition, start, in.Shape.Length(), in.Now)
	return start, start < math.MaxInt64
}

// drain is how long the work that waits takes.
func (in *EstimateInput) drain(wait demand, model string) int64 {
	has, held := in.State.totals(in.Partition)
	sh := in.Shape
	n := sh.ranks()
	drain := max(
		drained(wait.cpu, held.cpuEnd, held.cpu, in.Now, has.cpu, n*sh.CPU),
		drained(wait.mem, held.memEnd, held.mem, in.Now, has.mem, n*sh.Mem),
	)
	if sh.GPU > 0 {
		all := wait.gpu
		if model != "" {
			all = wait.own.plus(wait.open)
			drain = max(drain, drained(wait.own, area{}, 0, in.Now, has.gpu(model), n*sh.GPU))
		}
		drain = max(drain, drained(all, held.gpuEnd, held.gpu, in.Now, has.gpu(""), n*sh.GPU))
	}
	return drain
}

// bookedBefore is what reservations have on p's nodes in windows that begin by a time.
func (s *State) bookedBefore(p catalog.Partition, by int64, model string, now int64) demand {
	var d demand
	for _, b := range s.Bookings.All() {
		if b.From > by || b.To <= now {
			continue
		}
		left := b.To - max(b.From, now)
		for _, part := range b.Parts {
			if !p.Has(part.Node) {
				continue
			}
			d.cpu, d.mem = d.cpu.plus(areaOf(part.CPU, left)), d.mem.plus(areaOf(part.Mem, left))
			for _, m := range part.Models {
				d.gpu = d.gpu.plus(areaOf(m.Count, left))
				if model != "" && within(m.Model, model) {
					d.own = d.own.plus(areaOf(m.Count, left))
				}
			}
		}
	}
	return d
}

// drained is how long a resource takes to do the work that waits: at most the
// work and what is left of the holds (the area to their ends, less that to now) on
// all there is, and at most the work alone on what is free now, if the job itself
// has room there. Both bound the time from above.
func drained(waits, ends area, held, now, has, asked int64) int64 {
	if has <= 0 {
		return 0 // nobody asks for it: mayFit has seen to that
	}
	time := waits.plus(ends.minus(areaOf(held, now)).orZero()).over(has)
	if free := has - held; free >= max(1, asked) {
		time = min(time, waits.over(free))
	}
	return time
}

// pastWindows moves a start later by the maintenance windows of the whole
// partition in which no work is done until then, and out of one that the job
// would run into.
func (s *State) pastWindows(p catalog.Partition, start, length, now int64) int64 {
	var all []Maintenance
	for _, m := range s.Maintenance.All() {
		if !m.Over && m.To > now && s.closes(m, p) {
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b Maintenance) int { return cmp.Compare(a.From, b.From) })
	for _, m := range all {
		if m.From < after(start, length) {
			start = after(max(start, m.From), m.To-max(m.From, now))
		}
	}
	return start
}

// closes reports whether a window concerns every node of p.
func (s *State) closes(m Maintenance, p catalog.Partition) bool {
	if m.Node == "*" {
		return true
	}
	for node := range s.nodesOf(p, "") {
		if node != m.Node {
			return false
		}
	}
	return true
}
