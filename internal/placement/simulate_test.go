package placement

import (
	"cmp"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// simulation runs queues on a fleet: jobs arrive, are planned and started, and end
// at their limit or earlier.
type simulation struct {
	t        *rapid.T
	s        *State
	now      int64
	parts    []catalog.Partition
	in       []id.Reservation  // that has a queue of its own, after the partitions
	pending  [][]*workload.Job // by queue, in order
	standing []Promise
	arrived  []*workload.Job // since the last pass
	next     id.Job
	memory   map[id.Job]int64 // what those that started need of a device's
	shape    func(*rapid.T) Shape
}

// TestPromisesAreKept is the contract of Plan: as long as no node, device or
// window changes, a promised start moves later only if a job of higher place has
// come; at most the promised number of starts happens at once; and nothing that
// is started or promised is taken twice.
func TestPromisesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sim := &simulation{t: t, now: 1000 * hour, parts: []catalog.Partition{everywhere}, memory: map[id.Job]int64{}, shape: drawShape}
		sim.s = drawFleet(t, sim.now)
		drawHolds(t, sim.s, sim.now)
		if rapid.Bool().Draw(t, "two partitions") {
			sim.parts = append(sim.parts, catalog.Partition{Name: "first", Nodes: []string{"n0"}})
		}
		drawReservations(t, sim.s, sim.now)
		for r := range sim.s.Reservations.All() {
			sim.in = append(sim.in, r)
		}
		sim.pending = make([][]*workload.Job, len(sim.parts)+len(sim.in))
		depth := rapid.IntRange(1, 6).Draw(t, "depth")
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "arrivals") {
				sim.arrive()
			}
			sim.endSome()
			sim.pass(depth)
			sim.advance()
		}
	})
}

func (sim *simulation) arrive() {
	sim.next++
	j := job(sim.next, sim.shape(sim.t))
	j.Submitted = sim.now
	j.Pin = rapid.SampledFrom([]int64{0, 0, 0, 1, 2}).Draw(sim.t, "priority")
	i := rapid.IntRange(0, len(sim.pending)-1).Draw(sim.t, "queue")
	if n := i - len(sim.parts); n >= 0 {
		j.In = sim.in[n]
	}
	sim.pending[i] = append(sim.pending[i], j)
	slices.SortFunc(sim.pending[i], byPlace)
	sim.arrived = append(sim.arrived, j)
}

// endSome ends the jobs at their limit and perhaps another.
func (sim *simulation) endSome() {
	var ends []id.Job
	for _, h := range sim.s.Holds.All() {
		if h.Until <= sim.now || rapid.IntRange(0, 5).Draw(sim.t, "early") == 0 {
			ends = append(ends, h.Job)
		}
	}
	for _, j := range ends {
		sim.s.Release(j)
	}
}

// advance goes to the next time at which a pass is due, or some way there.
func (sim *simulation) advance() {
	due := sim.now + 10*60*second
	for _, p := range sim.standing {
		due = min(due, p.At)
	}
	for _, h := range sim.s.Holds.All() {
		due = min(due, h.Until)
	}
	if due > sim.now && rapid.Bool().Draw(sim.t, "part of the way") {
		due = sim.now + (due-sim.now)/2
	}
	sim.now = max(sim.now, due)
}

func (sim *simulation) pass(depth int) {
	in := PlanInput{State: sim.s, Now: sim.now, Depth: depth, Standing: sim.standing}
	for i, p := range sim.parts {
		in.Lanes = append(in.Lanes, Lane{Partition: p, Queue: queue(sim.pending[i]...)})
	}
	for i, r := range sim.in {
		in.Lanes = append(in.Lanes, Lane{Partition: everywhere, In: r, Queue: queue(sim.pending[len(sim.parts)+i]...)})
	}
	got := Plan(in)
	if diff := gocmp.Diff(got, Plan(in), cmpopts.EquateEmpty()); diff != "" {
		sim.t.Fatalf("the same input twice:\n%s", diff)
	}
	sim.checkKept(got)
	sim.checkRoom(got)
	for _, st := range got.Starts {
		checkDevices(sim.t, sim.s, ShapeOf(st.Job.Demand()), st.Spot.Node, st.Spot.Models())
		sim.memory[st.Job.ID] = st.Job.Spec.GPUMem
		sh, _ := sim.s.Sized(ShapeOf(st.Job.Demand()))
		if misfits := sim.s.Check(sh, st.Spot, sim.now); misfits != nil {
			sim.t.Fatalf("job %d can't start at %v: %v", st.Job.ID, st.Spot, misfits)
		}
		sim.s.Hold(Hold{
			Job: st.Job.ID, Node: st.Spot.Node, CPU: sh.CPU, Mem: sh.Mem, Devices: st.Spot.UUIDs(), Part: st.Spot.Part, Ports: sh.Ports, Until: sim.now + sh.Length(), In: sh.In,
		})
		for i := range sim.pending {
			sim.pending[i] = slices.DeleteFunc(sim.pending[i], func(j *workload.Job) bool { return j.ID == st.Job.ID })
		}
	}
	sim.standing, sim.arrived = got.Promises, nil
}

// checkKept compares the promises with the last pass's.
func (sim *simulation) checkKept(got Planned) {
	at := map[id.Job]int64{}
	for _, st := range got.Starts {
		at[st.Job.ID] = sim.now
	}
	for _, p := range got.Promises {
		at[p.Job] = p.At
	}
	for _, p := range sim.standing {
		now, ok := at[p.Job]
		if !ok {
			now = math.MaxInt64
		}
		if now > p.At && !sim.outranked(p.Job) {
			sim.t.Fatalf("job %d was promised %d, now %d (%d later)", p.Job, p.At, now, now-p.At)
		}
	}
}

// outranked reports whether a job of higher place has come since the last pass:
// has arrived or, from another partition, has come within the depth.
func (sim *simulation) outranked(jid id.Job) bool {
	var j *workload.Job
	for _, q := range sim.pending {
		for _, o := range q {
			if o.ID == jid {
				j = o
			}
		}
	}
	came := sim.arrived
	if len(sim.parts) > 1 {
		came = slices.DeleteFunc(slices.Concat(sim.pending...), func(o *workload.Job) bool {
			return slices.ContainsFunc(sim.standing, func(p Promise) bool { return p.Job == o.ID })
		})
	}
	return slices.ContainsFunc(came, func(o *workload.Job) bool { return byPlace(o, j) < 0 })
}

// checkRoom checks all holds, starts and promises together against the rows.
func (sim *simulation) checkRoom(got Planned) {
	var reserved []taken
	var uses []inside
	for _, h := range sim.s.Holds.All() {
		u := taken{h.Node, sim.now, h.ends(sim.now), h.CPU, h.Mem, sim.s.usableModels(h), "", sim.memory[h.Job], h.Ports}
		if h.Part > 0 {
			u.shared = h.Devices[0]
		}
		uses = append(uses, inside{u, h.In})
	}
	devices := map[string]int64{}
	for _, st := range got.Starts {
		sh := ShapeOf(st.Job.Demand())
		u := taken{st.Spot.Node, sim.now, sim.now + sh.Length(), sh.CPU, sh.Mem, st.Spot.Models(), "", sh.Memory, sh.Ports}
		if st.Spot.Part > 0 {
			u.shared = st.Spot.Devices[0].UUID
		}
		reserved = append(reserved, u)
		uses = append(uses, inside{u, sh.In})
		for _, d := range st.Spot.Devices {
			each := cmp.Or(st.Spot.Part, 1000)
			devices[d.UUID] += each
			if sim.s.InUse(d.UUID)+devices[d.UUID] > 1000 || !d.Usable() || d.Node != st.Spot.Node {
				sim.t.Fatalf("job %d is given device %s", st.Job.ID, d.UUID)
			}
		}
	}
	for _, p := range got.Promises {
		for _, j := range slices.Concat(sim.pending...) {
			if j.ID == p.Job {
				sh := ShapeOf(j.Demand())
				reserved = append(reserved, taken{p.Node, p.At, p.At + sh.Length(), sh.CPU, sh.Mem, p.Models, p.Shared, sh.Memory, sh.Ports})
				uses = append(uses, inside{reserved[len(reserved)-1], sh.In})
			}
		}
	}
	checkNever(sim.t, sim.s, heldOf(sim.s, sim.now), reserved)
	checkReserved(sim.t, sim.s, uses)
}
