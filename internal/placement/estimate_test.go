package placement

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/workload"
)

// waiting adds n jobs of a shape to a lane of the backlog, before of which come
// before the job in question.
func waiting(s *State, lane string, before, n int64, sh Shape) workload.Front {
	for range n {
		s.Backlog.Add(lane, sh, 1)
	}
	return workload.Front{Lane: lane, Before: before, Jobs: n}
}

func TestEstimate(t *testing.T) {
	const now = 1000 * hour
	cases := map[string]struct {
		edit func(*State, *EstimateInput)
		want Window
	}{
		"now": {want: Window{StartNow, now, 1, 1, 0}},
		"after the job that has the devices": {
			edit: func(s *State, in *EstimateInput) {
				s.Hold(Hold{Job: 9, Node: "n1", Devices: uuids("n1", 0, 1, 2, 3), Until: now + hour})
			},
			want: Window{StartPromised, now + hour, 1, 1, 0},
		},
		"after the jobs ahead": {
			edit: func(s *State, in *EstimateInput) {
				in.Ahead, in.Position, in.Queue = queue(gpus(1, 4, 60), gpus(2, 4, 60)), 2, 3
			},
			want: Window{StartPromised, now + 2*hour, 3, 3, 0},
		},
		"a job ahead that is blocked doesn't count": {
			edit: func(s *State, in *EstimateInput) {
				in.Ahead, in.Position, in.Queue = queue(gpus(1, 4, 60)), 1, 2
				in.Eligible = func(*workload.Job) bool { return false }
			},
			want: Window{StartNow, now, 2, 2, 0},
		},
		"what was promised": {
			edit: func(s *State, in *EstimateInput) { in.Promise, in.Position, in.Queue = now+5*hour, 3, 4 },
			want: Window{StartPromised, now + 5*hour, 4, 4, 0},
		},
		"after the window that it would meet": {
			edit: func(s *State, in *EstimateInput) {
				s.Fold(MaintenanceSet{Maintenance{ID: 1, Node: "*", From: now + hour - 1, To: now + 3*hour}})
			},
			want: Window{StartPromised, now + 3*hour, 1, 1, 0},
		},
		"blocked": {
			edit: func(s *State, in *EstimateInput) { in.Blocked = true },
			want: Window{StartUnknown, 0, 1, 1, 0},
		},
		"no usable node": {
			edit: func(s *State, in *EstimateInput) {
				changeNode(s, "n1", func(n *Node) { n.Drained = true })
				in.Position, in.Queue = 100, 101
			},
			want: Window{StartUnknown, 0, 101, 101, 0},
		},
		"too few usable devices": {
			edit: func(s *State, in *EstimateInput) {
				change(s, "n1-0", func(d *Device) { d.Foreign = []Process{{PID: 1}} })
				in.Shape.GPU = 4000
			},
			want: Window{StartUnknown, 0, 1, 1, 0},
		},
		"far down: work ahead over devices, after what is held": {
			edit: func(s *State, in *EstimateInput) {
				in.Fronts = fronts(waiting(s, "ahead", 100, 100, small(1, "a")))
				s.Hold(Hold{Job: 9, Node: "n1", Devices: uuids("n1", 0, 1), Until: now + 2*hour})
				in.Position, in.Queue = 100, 101
			},
			want: Window{StartEstimated, now + 26*hour, 101, 101, 0},
		},
		"in the middle of a priority level": {
			edit: func(s *State, in *EstimateInput) {
				waiting(s, "behind", 0, 100, small(1, "a"))
				in.Fronts = fronts(waiting(s, "ahead", 20, 20, small(1, "a")), waiting(s, "its own", 40, 100, small(1, "a")))
				in.Position, in.Queue = 60, 220
			},
			want: Window{StartEstimated, now + 15*hour, 61, 220, 0},
		},
		"the devices of another model don't count, its cores do": {
			edit: func(s *State, in *EstimateInput) {
				machine(s, "n2", "b", "b")
				in.Fronts = fronts(waiting(s, "ahead", 100, 100, small(1, "b")))
				in.Position, in.Queue, in.Shape.Model = 100, 101, "a"
			},
			want: Window{StartEstimated, now + 100*hour/64, 101, 101, 0},
		},
		"a job without devices waits for cores": {
			edit: func(s *State, in *EstimateInput) {
				in.Fronts = fronts(waiting(s, "ahead", 320, 320, Shape{CPU: core, Mem: 1, Wall: hour}))
				in.Position, in.Queue, in.Shape.GPU = 320, 321, 0
			},
			want: Window{StartEstimated, now + 10*hour, 321, 321, 0},
		},
		"jobs of another partition with the same nodes come first": {
			edit: func(s *State, in *EstimateInput) {
				in.Fronts = fronts(waiting(s, "fast/ahead", 8, 8, small(1, "a")))
				waiting(s, "fast/behind", 0, 1, small(1, "a"))
				in.Sharing = []string{"fast"}
			},
			want: Window{StartEstimated, now + 2*hour, 1, 1, 0},
		},
		"on what is free now, if that is sooner": {
			edit: func(s *State, in *EstimateInput) {
				s.Hold(Hold{Job: 9, Node: "n1", Devices: uuids("n1", 0, 1), Until: now + 100*hour})
				in.Fronts = fronts(waiting(s, "fast/ahead", 1, 1, small(2, "a")))
				in.Sharing = []string{"fast"}
			},
			want: Window{StartEstimated, now + hour, 1, 1, 0},
		},
		"when a job under the cap ends": {
			edit: func(s *State, in *EstimateInput) {
				h := Hold{Job: 9, Node: "n1", Devices: uuids("n1", 0, 1), Until: now + 5*hour}
				s.Hold(h)
				in.Caps = []Cap{{Resource: limits.GPU, Max: 2000, Asked: 1000, Holds: []Hold{h}, Fronts: fronts()(everywhere.Name)}}
			},
			want: Window{StartEstimated, now + 5*hour, 1, 1, 0},
		},
		"when the first job under the cap ends": {
			edit: func(s *State, in *EstimateInput) {
				first, last := Hold{Job: 8, Node: "n1", Devices: uuids("n1", 0), Until: now + hour}, Hold{Job: 9, Node: "n1", Devices: uuids("n1", 1), Until: now + 9*hour}
				s.Hold(first)
				s.Hold(last)
				in.Caps = []Cap{{Resource: limits.GPU, Max: 2000, Asked: 1000, Holds: []Hold{last, first}, Fronts: fronts()(everywhere.Name)}}
			},
			want: Window{StartEstimated, now + hour, 1, 1, 0},
		},
		"after those that wait under the cap and what then runs under it": {
			edit: func(s *State, in *EstimateInput) {
				first, last := Hold{Job: 8, Node: "n1", Devices: uuids("n1", 0), Until: now + hour}, Hold{Job: 9, Node: "n1", Devices: uuids("n1", 1), Until: now + 3*hour}
				s.Hold(first)
				s.Hold(last)
				under := fronts(waiting(s, "ahead", 10, 10, small(1, "a")))(everywhere.Name)
				// two of the ten hours until the last one ends, then two devices at once
				in.Caps = []Cap{{Resource: limits.GPU, Max: 2000, Asked: 1000, Holds: []Hold{last, first}, Fronts: under}}
			},
			want: Window{StartEstimated, now + 7*hour, 1, 1, 0},
		},
		"after those that wait under the cap": {
			edit: func(s *State, in *EstimateInput) {
				h := Hold{Job: 9, Node: "n1", Devices: uuids("n1", 0), Until: now + hour}
				s.Hold(h)
				under := fronts(waiting(s, "ahead", 10, 10, small(1, "a")))(everywhere.Name)
				in.Caps = []Cap{
					{Resource: limits.Running, Max: 1, Asked: 1, Holds: []Hold{h}, Fronts: under},
					{Resource: limits.Devices("a"), Max: 1000, Asked: 1000, Holds: []Hold{h}, Fronts: under},
				}
			},
			want: Window{StartEstimated, now + 11*hour, 1, 1, 0},
		},
		"a cap that nothing frees": {
			edit: func(s *State, in *EstimateInput) {
				in.Caps = []Cap{{Resource: limits.CPU, Max: 1000, Asked: 2000, Fronts: fronts()(everywhere.Name)}}
			},
			want: Window{StartUnknown, 0, 1, 1, 0},
		},
		"no work is done in a window": {
			edit: func(s *State, in *EstimateInput) {
				in.Fronts = fronts(waiting(s, "ahead", 100, 100, small(1, "a")))
				s.Fold(MaintenanceSet{Maintenance{ID: 1, Node: "n1", From: now + hour, To: now + 4*hour}})
				in.Position, in.Queue = 100, 101
			},
			want: Window{StartEstimated, now + 28*hour, 101, 101, 0},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := machine(&State{}, "n1", "a", "a", "a", "a")
			in := EstimateInput{State: s, Partition: everywhere, Now: now, Shape: small(1, ""), Queue: 1, Depth: 10}
			if c.edit != nil {
				c.edit(s, &in)
			}
			if diff := cmp.Diff(c.want, Estimate(in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestEstimateAgreesWithPlan: what a job within the depth is told is what the
// planner then promises it.
func TestEstimateAgreesWithPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = 1000 * hour
		s := drawFleet(t, now)
		drawHolds(t, s, now)
		var jobs []*workload.Job
		for i := range rapid.IntRange(1, 8).Draw(t, "jobs") {
			asked, _ := placeable(s, drawShape(t))
			jobs = append(jobs, job(id.Job(i+1), asked))
		}
		got := Plan(PlanInput{State: s, Lanes: []Lane{{Partition: everywhere, Queue: queue(jobs...)}}, Now: now, Depth: len(jobs)})
		starts := map[id.Job]int64{}
		for _, st := range got.Starts {
			starts[st.Job.ID] = now
		}
		for _, p := range got.Promises {
			starts[p.Job] = p.At
		}
		for i, j := range jobs {
			sh, _ := s.Sized(ShapeOf(j.Demand()))
			w := Estimate(EstimateInput{
				State: s, Partition: everywhere, Now: now, Shape: sh, Depth: len(jobs),
				Position: int64(i), Queue: int64(len(jobs)), Ahead: queue(jobs[:i]...),
			})
			if w.Start != starts[j.ID] || (w.Kind == StartUnknown) != (w.Start == 0) {
				t.Fatalf("job %d: told %v, planned %d", j.ID, w, starts[j.ID])
			}
		}
	})
}

// However jobs come and go, what is ahead is the sum over the lanes of the share
// that is before: a lane is a mixture, of which a part has its part of everything.
func TestBacklogForgetsWhatIsRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := machine(machine(&State{}, "n1", "a", "b"), "n2", "c")
		change(s, "n1-0", func(d *Device) { d.Memory = 10 * gib })
		change(s, "n1-1", func(d *Device) { d.Memory = 4 * gib })
		b := &s.Backlog
		in := map[string][]Shape{}
		lanes := []string{"p", "p\x01", "pp", "q"}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			lane := rapid.SampledFrom(lanes).Draw(t, "lane")
			if n := len(in[lane]); n > 0 && rapid.Bool().Draw(t, "remove") {
				i := rapid.IntRange(0, n-1).Draw(t, "which")
				b.Remove(lane, in[lane][i], 1)
				in[lane] = slices.Delete(in[lane], i, i+1)
			} else {
				sh := drawShape(t)
				b.Add(lane, sh, 1)
				in[lane] = append(in[lane], sh)
			}
		}
		for _, lane := range lanes {
			n := int64(len(in[lane]))
			if n == 0 {
				continue
			}
			f := workload.Front{Lane: lane, Before: rapid.Int64Range(1, n).Draw(t, "before"), Jobs: n}
			for _, model := range []string{"", "a"} {
				if got, want := s.ahead(fronts(f)(everywhere.Name), model), shareOf(s, in[lane], f, model); got != want {
					t.Fatalf("%d of %d of %q: %v, want %v", f.Before, n, lane, got, want)
				}
			}
		}
	})
}

func shareOf(s *State, shapes []Shape, f workload.Front, model string) demand {
	sums := map[string]work{}
	for _, sh := range shapes {
		key := fmt.Sprint(sh.queueModel(), "\x00", sh.byMemory())
		as, _ := s.Sized(sh)
		w, one := sums[key], workOf(as, 1)
		sums[key] = work{model: sh.queueModel(), cpu: w.cpu.plus(one.cpu), mem: w.mem.plus(one.mem), gpu: w.gpu.plus(one.gpu), time: w.time.plus(one.time)}
	}
	var d demand
	for _, m := range slices.Sorted(maps.Keys(sums)) {
		w := sums[m]
		m = w.model
		d.cpu, d.mem = d.cpu.plus(w.cpu.share(f.Before, f.Jobs)), d.mem.plus(w.mem.share(f.Before, f.Jobs))
		d.time = d.time.plus(w.time.share(f.Before, f.Jobs))
		gpu := w.gpu.share(f.Before, f.Jobs)
		d.gpu = d.gpu.plus(gpu)
		if model != "" && within(m, model) {
			d.own = d.own.plus(gpu)
		} else if !catalog.OneModel(m) && overlap(m, model) {
			d.open = d.open.plus(gpu)
		}
	}
	return d
}
