package placement

import (
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

// drawGang is a shape on two or three nodes, with whole devices on each.
func drawGang(t *rapid.T) Shape {
	sh := drawShape(t)
	sh.Nodes = rapid.Int64Range(2, 3).Draw(t, "ranks")
	sh.GPU -= sh.GPU % 1000
	if sh.GPU == 0 {
		sh.Model, sh.Memory = "", 0
	}
	return sh
}

// earliestTogether is the first time at which a gang fits, by a look at all times and nodes.
func earliestTogether(tl *Timeline, sh Shape) (int64, bool) {
	best, ok := int64(math.MaxInt64), false
	variants := []Shape{sh.rank()}
	if sh.GPU > 0 && !sh.Mixed {
		variants = nil
		for _, m := range []string{"a", "b"} {
			if catalog.Allows(sh.Model, m) {
				v := sh.rank()
				v.Model = m
				variants = append(variants, v)
			}
		}
	}
	for _, v := range variants {
		for _, tr := range tl.tracks {
			for _, at := range tr.at {
				var n int64
				for _, on := range tl.tracks {
					if tl.fits(v, on, at) {
						n++
					}
				}
				if n >= sh.Nodes && at < best {
					best, ok = at, true
				}
			}
		}
	}
	return best, ok
}

func TestGangGetsAllNodesAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = 1000 * hour
		s := drawFleet(t, now)
		drawHolds(t, s, now)
		tl := s.Timeline(now, everywhere)
		holds := heldOf(s, now)
		var reserved []taken
		var made []*Slot
		for range rapid.IntRange(1, 6).Draw(t, "slots") {
			asked, sh := placeable(s, drawGang(t))
			want, possible := earliestTogether(tl, sh)
			r := tl.take(sh, tl.tracks, now, math.MaxInt64)
			if (r != nil) != possible || r != nil && r.From != want {
				t.Fatalf("%+v: got %+v; a look at all: %d, %v", sh, r, want, possible)
			}
			if r == nil {
				continue
			}
			made = append(made, r)
			seen := map[string]bool{}
			for _, of := range r.ranks() {
				if seen[of.Node] || of.From != r.From {
					t.Fatalf("%s twice, or not at once", of.Node)
				}
				seen[of.Node] = true
				checkDevices(t, s, asked.rank(), of.Node, of.Models)
				reserved = append(reserved, slotTaken(sh, of))
			}
			if sh.GPU > 0 && !sh.Mixed && len(r.modelsIn()) > 1 {
				t.Fatalf("ranks have devices of different models: %v", r.modelsIn())
			}
			checkNever(t, s, holds, reserved)
		}
		for _, r := range made {
			tl.Cancel(r)
		}
		if diff := gocmp.Diff(s.Timeline(now, everywhere).tracks, narrowed(tl).tracks, gocmp.AllowUnexported(track{}, offer{}, shared{}, portBook{}, takenPort{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("cancelling everything doesn't restore the timeline:\n%s", diff)
		}
	})
}

// What FitNow finds passes Check, and is found exactly where the timeline has room now.
func TestGangFitsNow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = 1000 * hour
		s := drawFleet(t, now)
		drawHolds(t, s, now)
		_, sh := placeable(s, drawGang(t))
		spot, misfits := s.FitNow(sh, everywhere, now)
		start, _ := s.Timeline(now, everywhere).first(sh, s.Timeline(now, everywhere).tracks, now, now)
		if fits := misfits == nil; fits != (start == now) {
			t.Fatalf("fits now: %v, %+v; the timeline: %d, now %d", fits, misfits, start, now)
		}
		if misfits != nil {
			if never := s.NeverFits(sh, everywhere); (never == nil) == misfits[0].Incurable() {
				t.Fatalf("%+v, but never: %+v", misfits, never)
			}
			return
		}
		if out := s.Check(sh, spot, now); out != nil {
			t.Fatalf("what fits doesn't: %+v", out)
		}
		before := s.Copy()
		s.Hold(Hold{Job: 1, Node: spot.Node, Devices: spot.UUIDs(), Others: spot.Rest(), CPU: sh.CPU, Mem: sh.Mem, Until: now + hour})
		for _, r := range spot.Ranks() {
			if cpu, _ := s.Used(r.Node); len(s.HoldsOn(r.Node)) == 0 || cpu < sh.CPU {
				t.Fatalf("nothing is held on %s", r.Node)
			}
			for _, d := range r.Devices {
				if s.InUse(d.UUID) != 1000 {
					t.Fatalf("%s isn't held", d.UUID)
				}
			}
		}
		if s.Check(sh, spot, now) == nil && sh.GPU > 0 {
			t.Fatal("what is held is given again")
		}
		s.Release(1)
		if diff := gocmp.Diff(sums(&before), sums(s), gocmp.AllowUnexported(area{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("released, the sums differ:\n%s", diff)
		}
	})
}

func TestGangInTheQueue(t *testing.T) {
	const now = 1000 * hour
	state := func() *State {
		s := machine(machine(machine(&State{}, "n1", "a", "a"), "n2", "a", "a"), "n3", "b", "b")
		s.Hold(Hold{Job: 90, Node: "n1", CPU: core, Mem: gib, Devices: uuids("n1", 0, 1), Until: now + hour})
		return s
	}
	gangOf := func(n int64, jid id.Job, model string) *workload.Job {
		j := job(jid, small(2, model))
		j.Spec.Nodes = n
		return j
	}
	short, long := small(2, "a"), small(2, "a")
	short.Wall, long.Wall = hour/2, 2*hour
	plan := func(jobs ...*workload.Job) Planned {
		return Plan(PlanInput{State: state(), Lanes: []Lane{{Partition: everywhere, Queue: queue(jobs...)}}, Now: now, Depth: 10})
	}
	t.Run("it waits for the last of its nodes, and nobody takes those that are free for longer", func(t *testing.T) {
		got := plan(gangOf(2, 1, "a"), job(2, long), job(3, short), job(4, small(2, "b")))
		var starts []id.Job
		for _, st := range got.Starts {
			starts = append(starts, st.Job.ID)
		}
		if !slices.Equal(starts, []id.Job{3, 4}) {
			t.Errorf("started %v: a short one fits before the gang, a long one doesn't", starts)
		}
		if p := got.Promises[0]; p.Job != 1 || p.At != now+hour {
			t.Errorf("promised %+v", p)
		}
	})
	t.Run("its ranks are of one model", func(t *testing.T) {
		if got := plan(gangOf(2, 1, "")); len(got.Starts) != 0 || got.Promises[0].At != now+hour {
			t.Errorf("%+v: n2 and n3 have different ones", got)
		}
		mixed := gangOf(2, 1, "")
		mixed.Spec.Mixed = true
		if got := plan(mixed); len(got.Starts) != 1 || got.Starts[0].Spot.String() != "n2, n3" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("what can never be has no place", func(t *testing.T) {
		j := gangOf(3, 1, "a")
		if got := plan(j); len(got.Starts)+len(got.Promises) != 0 {
			t.Errorf("%+v", got)
		}
		m := state().NeverFits(Shape{CPU: core, Mem: gib, GPU: 2000, Model: "a", Nodes: 3, Wall: hour}, everywhere)
		if len(m) != 1 || m[0].Kind != FewNodes || m[0].Total != 2 || !m[0].Incurable() {
			t.Errorf("%+v", m)
		}
	})
	t.Run("backfilled when it fits beside every slot", func(t *testing.T) {
		s := state()
		s.Release(90)
		got := Plan(PlanInput{State: s, Lanes: []Lane{{Partition: everywhere, Queue: queue(gangOf(2, 1, "a"), gangOf(2, 2, "a"))}}, Now: now, Depth: 0})
		if len(got.Starts) != 1 || got.Starts[0].Job.ID != 1 {
			t.Errorf("%+v", got)
		}
	})
}
