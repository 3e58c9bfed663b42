package placement

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

func drawVictims(t *rapid.T, most int) []Victim {
	var of []Victim
	for i := range rapid.IntRange(0, most).Draw(t, "jobs") {
		v := Victim{Job: id.Job(i + 1), Ran: rapid.Int64Range(0, 5).Draw(t, "ran"), CPU: rapid.Int64Range(1, 8).Draw(t, "cpu")}
		v.Devices = rapid.Int64Range(0, 4).Draw(t, "devices")
		v.Frees = Amounts{CPU: v.CPU, Mem: rapid.Int64Range(0, 8).Draw(t, "mem"), GPU: rapid.Int64Range(0, v.Devices).Draw(t, "usable")}
		of = append(of, v)
	}
	return of
}

func freed(vs []Victim) (sum Amounts, lost loss) {
	for _, v := range vs {
		sum, lost = sum.plus(v.Frees), lost.plus(v.loss())
	}
	return sum, lost
}

// Against every subset: the chosen ones suffice, lose no more than any others that
// do, and none of them is superfluous.
func TestVictimsAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := drawVictims(t, 9)
		lacking := Amounts{rapid.Int64Range(0, 20).Draw(t, "cpu"), rapid.Int64Range(0, 20).Draw(t, "mem"), rapid.Int64Range(0, 6).Draw(t, "gpu")}
		var least *loss
		for set := range uint(1) << len(of) {
			var some []Victim
			for i, v := range of {
				if set&(1<<i) != 0 {
					some = append(some, v)
				}
			}
			if sum, lost := freed(some); bits.OnesCount(set) > 0 && !lacking.zero() && sum.covers(lacking) && (least == nil || lost.compare(*least) < 0) {
				least = &lost
			}
		}
		got, ok := Victims(lacking, of)
		if ok != (least != nil) {
			t.Fatalf("found %v %v, a set exists: %v", got, ok, least != nil)
		}
		if !ok {
			return
		}
		sum, lost := freed(got)
		if !sum.covers(lacking) || lost.compare(*least) != 0 {
			t.Fatalf("%v frees %v of %v and loses %v, the least is %v", got, sum, lacking, lost, *least)
		}
		superfluous(t, got, lacking)
	})
}

func superfluous(t interface{ Fatalf(string, ...any) }, got []Victim, lacking Amounts) {
	for i := range got {
		if sum, _ := freed(slices.Delete(slices.Clone(got), i, i+1)); sum.covers(lacking) {
			t.Fatalf("job %d isn't needed in %v for %v", got[i].Job, got, lacking)
		}
	}
}

// crowd is a node full of jobs that are all different, so that few choices dominate
// others.
func crowd(n int) []Victim {
	var of []Victim
	for i := range n {
		k := int64(i)
		of = append(of, Victim{
			Job: id.Job(i + 1), Devices: 1 + k%3, CPU: 1000 + 37*k%1900, Ran: 1e9 * (1 + 7919*k%3600),
			Frees: Amounts{CPU: 1000 + 37*k%1900, Mem: (1 + 53*k%97) << 28, GPU: 1 + k%3},
		})
	}
	return of
}

// With more choices than are kept the answer still suffices and has nothing
// superfluous in it.
func TestVictimsOfManyJobs(t *testing.T) {
	of := crowd(200)
	for _, lacking := range []Amounts{{GPU: 1}, {GPU: 16, CPU: 20_000, Mem: 100 << 30}, {CPU: 100_000, Mem: 600 << 30}, {GPU: 200}} {
		got, ok := Victims(lacking, of)
		if sum, _ := freed(got); !ok || !sum.covers(lacking) {
			t.Fatalf("%v frees %v of %v", got, sum, lacking)
		}
		superfluous(t, got, lacking)
	}
}

func BenchmarkVictims(b *testing.B) {
	of := crowd(200)
	for b.Loop() {
		if _, ok := Victims(Amounts{GPU: 16, CPU: 20_000, Mem: 100 << 30}, of); !ok {
			b.Fatal("not enough")
		}
	}
}

// TestPreempt: a node with four devices; jobs 91 to 94 have one each, the later
// ones for less long. Job 90+n yields within n seconds.
func TestPreempt(t *testing.T) {
	const now = 1000 * hour
	full := func(edit ...func(*State)) *State {
		s := machine(&State{}, "n1", "a", "a", "b", "b")
		for i := range 4 {
			k := int64(i)
			s.Hold(Hold{Job: id.Job(91 + i), Node: "n1", CPU: core, Mem: gib, Devices: uuids("n1", i), From: now - (9-k)*hour, Until: now + 10*hour})
		}
		for _, e := range edit {
			e(s)
		}
		return s
	}
	all := func(*workload.Job) Yields {
		return func(holder id.Job) (int64, bool) { return int64(holder-90) * second, true }
	}
	only := func(jobs ...id.Job) func(*workload.Job) Yields {
		return func(j *workload.Job) Yields {
			if j.Pin == 0 {
				return nil
			}
			return func(holder id.Job) (int64, bool) { return second, slices.Contains(jobs, holder) }
		}
	}
	urgent := func(jid id.Job, n int64, edit ...func(*workload.Job)) *workload.Job {
		j := gpus(jid, n, 60)
		j.Pin = 10
		for _, e := range edit {
			e(j)
		}
		return j
	}
	claims := func(j *workload.Job) { j.Claim = now - second }
	tests := map[string]struct {
		state  *State
		queue  []*workload.Job
		claims []*workload.Job
		yields func(*workload.Job) Yields
		stops  [][]id.Job
		at     []int64 // seconds from now
		starts []id.Job
	}{
		"those that lose least": {
			full(), []*workload.Job{urgent(1, 2)}, nil, all, [][]id.Job{{93, 94}}, []int64{4}, nil,
		},
		"of the model that is wanted": {
			full(), []*workload.Job{urgent(1, 1, func(j *workload.Job) { j.Spec.Model = "a" })}, nil, all, [][]id.Job{{92}}, []int64{4}, nil,
		},
		"what is free is used": {
			full(func(s *State) { s.Release(91) }), []*workload.Job{urgent(1, 2)}, nil, all, [][]id.Job{{92}}, []int64{4}, nil,
		},
		"of any models, where they may be mixed": {
			full(func(s *State) { s.Release(91) }), []*workload.Job{urgent(1, 2, func(j *workload.Job) { j.Spec.Mixed = true })}, nil, all, [][]id.Job{{94}}, []int64{4}, nil,
		},
		"on a node that meets the constraint": {
			full(), []*workload.Job{urgent(1, 1, func(j *workload.Job) { j.Spec.Where = "nvlink" })}, nil, all, nil, nil, nil,
		},
		"nobody where there is room": {
			full(func(s *State) { s.Release(91) }), []*workload.Job{urgent(1, 1)}, nil, all, nil, nil, []id.Job{1},
		},
		"nobody where all that yield aren't enough": {
			full(), []*workload.Job{urgent(1, 2)}, nil, only(91), nil, nil, nil,
		},
		"two don't share a victim": {
			full(), []*workload.Job{urgent(1, 1), urgent(2, 1)}, nil, only(91, 94), [][]id.Job{{94}, {91}}, []int64{1, 1}, nil,
		},
		"nor is the last one stopped for two": {
			full(), []*workload.Job{urgent(1, 1), urgent(2, 1)}, nil, only(94), [][]id.Job{{94}}, []int64{1}, nil,
		},
		"not one that ends as soon": {
			full(func(s *State) {
				h, _ := s.Holds.Get(94)
				h.Until = now + second
				s.Hold(h)
			}), []*workload.Job{urgent(1, 1)}, nil, all, nil, nil, nil,
		},
		"not in a maintenance window": {
			full(func(s *State) {
				s.Fold(MaintenanceSet{Maintenance{ID: 1, Node: "n1", From: now + hour, To: now + 2*hour}})
			}),
			[]*workload.Job{urgent(1, 1)}, nil, all, nil, nil, nil,
		},
		"what was freed is for whom it was freed": {
			full(func(s *State) { s.Release(94) }), []*workload.Job{urgent(1, 1)}, []*workload.Job{gpus(2, 1, 60)}, only(), nil, nil, []id.Job{2},
		},
		"also while it isn't free yet": {
			full(func(s *State) {
				h, _ := s.Holds.Get(94)
				h.Until = now + 30*second
				s.Hold(h)
				s.Release(93)
			}), []*workload.Job{urgent(1, 1)}, []*workload.Job{gpus(2, 2, 60)}, only(), nil, nil, nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, j := range tt.claims {
				claims(j)
			}
			got := Plan(PlanInput{
				State: tt.state, Now: now, Depth: 10, Yields: tt.yields,
				Lanes: []Lane{{Partition: everywhere, Queue: queue(append(slices.Clone(tt.queue), tt.claims...)...), Claims: tt.claims}},
			})
			var stops [][]id.Job
			var at []int64
			for _, p := range got.Preemptions {
				stops, at = append(stops, p.Victims), append(at, (p.At-now)/second)
			}
			var starts []id.Job
			for _, s := range got.Starts {
				starts = append(starts, s.Job.ID)
			}
			if diff := cmp.Diff([]any{tt.stops, tt.at, tt.starts}, []any{stops, at, starts}); diff != "" {
				t.Errorf("stops, at, starts (-want +got)\n%s", diff)
			}
		})
	}
}
