package placement

import (
	"math/big"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/workload"
)

// drawByMemory is mostly a part that is larger on one model than on the other.
func drawByMemory(t *rapid.T) Shape {
	return Shape{
		CPU: 10, Mem: 1, Wall: rapid.Int64Range(1, 30).Draw(t, "wall") * minute,
		GPU:    rapid.SampledFrom([]int64{1, 1, 1, 150, 300, 1000}).Draw(t, "gpu"),
		Memory: rapid.SampledFrom([]int64{0, 1, 1, 2, 3, 4, 6}).Draw(t, "memory of each") * gib,
		Model:  rapid.SampledFrom([]string{"", "", "a|b", "a", "b"}).Draw(t, "model"),
	}
}

// TestMemoryIsNeverGivenTwice is TestPromisesAreKept with jobs whose parts follow from
// memory: what is started and promised on a device is never more of its memory than it
// has, and each job has no more and no less than it needs.
func TestMemoryIsNeverGivenTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sim := &simulation{t: t, now: 1000 * hour, parts: []catalog.Partition{everywhere}, memory: map[id.Job]int64{}, shape: drawByMemory}
		sim.s = drawFleet(t, sim.now)
		sim.pending = make([][]*workload.Job, 1)
		depth := rapid.IntRange(1, 6).Draw(t, "depth")
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			for range rapid.IntRange(0, 6).Draw(t, "arrivals") {
				sim.arrive()
			}
			sim.endSome()
			sim.pass(depth)
			sim.advance()
		}
	})
}

// need is how many thousandths of a device a job takes, by the rows; none if it can't
// have it.
func need(s *State, asked Shape, model string) (int64, bool) {
	has := memoryOfRows(s, model)
	if asked.Model != "" && !catalog.Allows(asked.Model, model) || asked.Memory > has {
		return 0, false
	}
	n := asked.GPU
	for n < 1000 && new(big.Int).Mul(big.NewInt(n), big.NewInt(has)).Cmp(new(big.Int).Mul(big.NewInt(asked.Memory), big.NewInt(1000))) < 0 {
		n++
	}
	return n, true
}

// TestPartsByMemoryFit compares whether and where a part fits now with a look at every
// device, and that what one shape doesn't fit, no shape does that covers it.
func TestPartsByMemoryFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = 1000 * hour
		s := drawFleet(t, now)
		s.Maintenance = State{}.Maintenance
		var failed []Shape
		for i := range rapid.IntRange(1, 25).Draw(t, "jobs") {
			asked := drawByMemory(t)
			sh, ok := s.Sized(asked)
			can, known, tightest := false, false, int64(1000)
			for _, d := range s.Devices.All() {
				n, may := need(s, asked, d.Model)
				node, _ := s.Nodes.Get(d.Node)
				known = known || may
				free := 1000 - s.InUse(d.UUID)
				if !may || !d.Usable() || !node.Usable() || free < n {
					continue
				}
				can = true
				if free < 1000 {
					tightest = min(tightest, free-n)
				}
			}
			if ok != known && asked.Memory > 0 {
				t.Fatalf("%+v is sized: %v, and a device may do: %v", asked, ok, known)
			}
			if !ok {
				continue
			}
			spot, misfits := s.FitNow(sh, everywhere, now)
			start, _, fits := s.Timeline(now, everywhere).Earliest(sh, everywhere, now)
			if (misfits == nil) != can || (fits && start == now) != can {
				t.Fatalf("%+v: fits %v, by the timeline %v, by the rows %v", sh, misfits, fits && start == now, can)
			}
			for _, f := range failed {
				if can && sh.covers(f) {
					t.Fatalf("%+v fits, and %+v that it covers doesn't", sh, f)
				}
			}
			if !can {
				failed = append(failed, sh)
				continue
			}
			d := spot.Devices[0]
			n, _ := need(s, asked, d.Model)
			if got := spot.Models()[0].Count; got != n {
				t.Fatalf("%+v is given %d of %s, not %d", asked, got, d.Model, n)
			}
			if left := 1000 - s.InUse(d.UUID) - n; n < 1000 && tightest < 1000 && left != tightest {
				t.Fatalf("%+v leaves %d of %s, and could leave %d of another", asked, left, d.UUID, tightest)
			}
			s.Hold(Hold{Job: id.Job(i + 1), Node: spot.Node, CPU: sh.CPU, Mem: sh.Mem, Devices: spot.UUIDs(), Part: spot.Part, Until: now + hour})
		}
	})
}

// Why a part doesn't fit is said of the size that it has on the model that lacks least;
// stopping others frees it as large as it is there.
func TestPartByMemoryWaits(t *testing.T) {
	const now = 1000 * hour
	s := machine(&State{}, "n1", "a", "b")
	change(s, "n1-0", func(d *Device) { d.Memory = 40 * gib })
	change(s, "n1-1", func(d *Device) { d.Memory = 80 * gib })
	s.Hold(Hold{Job: 91, Node: "n1", CPU: core, Devices: uuids("n1", 0), Part: 600, From: now - hour, Until: now + hour})
	s.Hold(Hold{Job: 92, Node: "n1", CPU: core, Devices: uuids("n1", 1), Part: 500, From: now - hour, Until: now + 2*hour})
	s.Hold(Hold{Job: 93, Node: "n1", CPU: core, Devices: uuids("n1", 1), Part: 400, From: now - 2*hour, Until: now + 3*hour})
	asked := job(1, Shape{CPU: core, Mem: gib, GPU: 1, Memory: 20 * gib, Wall: hour})
	sh, ok := s.Sized(ShapeOf(asked.Demand()))
	if !ok || sh.Sizes != "a=500|b=250" || sh.GPU != 250 || sh.Of("a") != 500 || sh.PartOn("b") != 250 {
		t.Fatalf("%+v", sh)
	}
	_, misfits := s.FitNow(sh, everywhere, now)
	want := []Misfit{{Kind: Busy, Resource: limits.GPU, Node: "n1", Asked: 500, Free: 400, Total: 1000, Holders: []id.Job{91}, Until: now + hour}}
	if diff := gocmp.Diff(want, misfits); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for name, tt := range map[string]struct {
		yields id.Job
		want   []id.Job
	}{
		"of the smaller device": {91, []id.Job{91}},
		"of the larger":         {93, []id.Job{93}},
	} {
		got := Plan(PlanInput{
			State: s, Lanes: []Lane{{Partition: everywhere, Queue: queue(asked)}}, Now: now, Depth: 1,
			Yields: func(*workload.Job) Yields { return func(j id.Job) (int64, bool) { return second, j == tt.yields } },
		})
		var victims []id.Job
		for _, p := range got.Preemptions {
			victims = append(victims, p.Victims...)
		}
		if diff := gocmp.Diff(tt.want, victims); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	// 0.2 more of a is enough for 0.25 of b, not for 0.5 of a
	s.Hold(Hold{Job: 94, Node: "n1", CPU: core, Devices: uuids("n1", 0), Part: 200, From: now - second, Until: now + 3*hour})
	got := Plan(PlanInput{
		State: s, Lanes: []Lane{{Partition: everywhere, Queue: queue(asked)}}, Now: now, Depth: 1,
		Yields: func(*workload.Job) Yields { return func(j id.Job) (int64, bool) { return second, j == 91 || j == 94 } },
	})
	if len(got.Preemptions) != 1 || !slices.Equal(got.Preemptions[0].Victims, []id.Job{91}) {
		t.Errorf("%+v", got.Preemptions)
	}
}

// A part of unlike sizes rules out only what is no smaller on any model.
func TestPartsByMemoryCover(t *testing.T) {
	failed := Shape{GPU: 250, Sizes: "a=500|b=250", Wall: hour}
	for name, tt := range map[string]struct {
		sh   Shape
		want bool
	}{
		"the same":                  {failed, true},
		"a part between its sizes":  {Shape{GPU: 300, Wall: hour}, false},
		"unlike in another way":     {Shape{GPU: 300, Sizes: "a=300|b=600", Wall: hour}, false},
		"a whole device":            {Shape{GPU: 1000, Wall: hour}, true},
		"a whole device, but brief": {Shape{GPU: 1000, Wall: second}, false},
	} {
		if got := tt.sh.covers(failed); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !failed.covers(Shape{GPU: 250, Wall: hour}) || failed.covers(Shape{GPU: 300, Wall: hour}) {
		t.Error("one of unlike sizes covers what is no larger than the least")
	}
}
