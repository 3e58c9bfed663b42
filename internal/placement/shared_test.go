package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// part is a job that wants thousandths of a device for some minutes.
func part(jid id.Job, milli, minutes int64) *workload.Job {
	return job(jid, Shape{CPU: core, Mem: gib, GPU: milli, Wall: minutes * 60 * second})
}

// Parts go to the shared device that has least left over, so that whole ones stay whole.
func TestPartsArePacked(t *testing.T) {
	const now = 1000 * hour
	s := machine(machine(&State{}, "n1", "a", "a", "a", "a"), "n2", "a")
	s.Hold(Hold{Job: 91, Node: "n1", Devices: uuids("n1", 1), Part: 300, Until: now + hour})
	s.Hold(Hold{Job: 92, Node: "n1", Devices: uuids("n1", 3), Part: 500, Until: now + hour})
	s.Hold(Hold{Job: 93, Node: "n1", Devices: uuids("n1", 3), Part: 100, Until: now + hour})
	for name, tt := range map[string]struct {
		milli int64
		want  string
	}{
		"the fullest that has room":    {400, "n1-3"},
		"another shared one":           {500, "n1-1"},
		"a whole one of a fuller node": {800, "n2-0"},
	} {
		t.Run(name, func(t *testing.T) {
			sh := ShapeOf(part(1, tt.milli, 60).Demand())
			spot, misfits := s.FitNow(sh, everywhere, now)
			if misfits != nil || len(spot.Devices) != 1 || spot.Devices[0].UUID != tt.want || spot.Part != tt.milli {
				t.Errorf("now on %v %v, want %s", spot, misfits, tt.want)
			}
			got := Plan(PlanInput{State: s, Lanes: []Lane{{Partition: everywhere, Queue: queue(part(1, tt.milli, 60))}}, Now: now, Depth: 1})
			if len(got.Starts) != 1 || got.Starts[0].Spot.Devices[0].UUID != tt.want {
				t.Errorf("planned as %v, want %s", got.Starts, tt.want)
			}
		})
	}
}

// What is planned on one device together stays so, and starts there.
func TestPartsPromisedTogether(t *testing.T) {
	const now, minute = 1000 * hour, 60 * second
	s := machine(&State{}, "n1", "a")
	s.Hold(Hold{Job: 9, Node: "n1", Devices: uuids("n1", 0), Until: now + 10*minute})
	pass := func(at int64, standing []Promise, jobs ...*workload.Job) Planned {
		return Plan(PlanInput{State: s, Lanes: []Lane{{Partition: everywhere, Queue: queue(jobs...)}}, Now: at, Depth: 4, Standing: standing})
	}
	first := pass(now, nil, part(1, 500, 30), part(2, 500, 10), gpus(3, 1, 30))
	at := map[id.Job]int64{}
	for _, p := range first.Promises {
		at[p.Job] = p.At - now
		if (p.Shared != "") != (p.Job < 3) || p.Shared != "" && p.Shared != first.Promises[0].Shared {
			t.Errorf("%+v", first.Promises)
		}
	}
	if diff := cmp.Diff(map[id.Job]int64{1: 10 * minute, 2: 10 * minute, 3: 40 * minute}, at); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	s.Release(9)
	second := pass(now+10*minute, first.Promises, part(1, 500, 30), part(2, 500, 10), gpus(3, 1, 30))
	if len(second.Starts) != 2 || second.Starts[0].Spot.String() != "0.5 of gpu0" || second.Starts[1].Spot.String() != "0.5 of gpu0" {
		t.Errorf("%+v", second.Starts)
	}
	if _, misfits := s.FitNow(small(2, ""), everywhere, now); len(misfits) == 0 {
		t.Error("two devices fit one")
	}
}

// A part can be had by stopping one of those that share a device; a whole device only
// by stopping all of them.
func TestPreemptionFreesParts(t *testing.T) {
	const now = 1000 * hour
	for name, tt := range map[string]struct {
		ask  int64
		keep id.Job // doesn't yield
		want []id.Job
	}{
		"a part":                       {400, 0, []id.Job{92}},
		"the larger part":              {500, 0, []id.Job{91}},
		"the whole device":             {1000, 0, []id.Job{91, 92}},
		"not where one doesn't yield":  {1000, 91, nil},
		"a part beside one that stays": {400, 91, []id.Job{92}},
	} {
		t.Run(name, func(t *testing.T) {
			s := machine(&State{}, "n1", "a")
			s.Hold(Hold{Job: 91, Node: "n1", CPU: core, Devices: uuids("n1", 0), Part: 600, From: now - hour, Until: now + hour})
			s.Hold(Hold{Job: 92, Node: "n1", CPU: core, Devices: uuids("n1", 0), Part: 400, From: now - hour, Until: now + hour})
			got := Plan(PlanInput{
				State: s, Lanes: []Lane{{Partition: everywhere, Queue: queue(part(1, tt.ask, 60))}}, Now: now, Depth: 1,
				Yields: func(*workload.Job) Yields { return func(j id.Job) (int64, bool) { return second, j != tt.keep } },
			})
			var victims []id.Job
			for _, p := range got.Preemptions {
				victims = append(victims, p.Victims...)
			}
			if diff := cmp.Diff(tt.want, victims); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
