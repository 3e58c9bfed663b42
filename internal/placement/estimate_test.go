package placement

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// waiting adds n jobs of a shape to the backlog of everywhere.
func waiting(s *State, n int, priority int64, sh Shape) {
	for range n {
		s.Backlog.Add(everywhere.Name, priority, sh)
	}
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
				in.Shape.GPU = 4
			},
			want: Window{StartUnknown, 0, 1, 1, 0},
		},
		"far down: work ahead over devices, after what is held": {
			edit: func(s *State, in *EstimateInput) {
				waiting(s, 100, 0, small(1, "a"))
				s.Hold(Hold{Job: 9, Node: "n1", Devices: uuids("n1", 0, 1), Until: now + 2*hour})
				in.Position, in.Queue = 100, 101
			},
			want: Window{StartEstimated, now + 26*hour, 101, 101, 0},
		},
		"in the middle of a priority level": {
			edit: func(s *State, in *EstimateInput) {
				waiting(s, 20, 5, small(1, "a"))
				waiting(s, 100, 0, small(1, "a"))
				waiting(s, 100, -5, small(1, "a"))
				in.Position, in.Queue = 60, 220
			},
			want: Window{StartEstimated, now + 15*hour, 61, 220, 0},
		},
		"the devices of another model don't count, its cores do": {
			edit: func(s *State, in *EstimateInput) {
				machine(s, "n2", "b", "b")
				waiting(s, 100, 0, small(1, "b"))
				in.Position, in.Queue, in.Shape.Model = 100, 101, "a"
			},
			want: Window{StartEstimated, now + 100*hour/64, 101, 101, 0},
		},
		"a job without devices waits for cores": {
			edit: func(s *State, in *EstimateInput) {
				waiting(s, 320, 0, Shape{CPU: core, Mem: 1, Wall: hour})
				in.Position, in.Queue, in.Shape.GPU = 320, 321, 0
			},
			want: Window{StartEstimated, now + 10*hour, 321, 321, 0},
		},
		"jobs of another partition with the same nodes come first": {
			edit: func(s *State, in *EstimateInput) {
				for range 8 {
					s.Backlog.Add("fast", 9, small(1, "a"))
				}
				s.Backlog.Add("fast", -9, small(1, "a"))
				in.Sharing = []string{"fast"}
			},
			want: Window{StartEstimated, now + 2*hour, 1, 1, 0},
		},
		"on what is free now, if that is sooner": {
			edit: func(s *State, in *EstimateInput) {
				s.Hold(Hold{Job: 9, Node: "n1", Devices: uuids("n1", 0, 1), Until: now + 100*hour})
				s.Backlog.Add("fast", 9, small(2, "a"))
				in.Sharing = []string{"fast"}
			},
			want: Window{StartEstimated, now + hour, 1, 1, 0},
		},
		"no work is done in a window": {
			edit: func(s *State, in *EstimateInput) {
				waiting(s, 100, 0, small(1, "a"))
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
			jobs = append(jobs, job(id.Job(i+1), drawShape(t)))
		}
		got := Plan(PlanInput{State: s, Lanes: []Lane{{Partition: everywhere, Queue: slices.Values(jobs)}}, Now: now, Depth: len(jobs)})
		starts := map[id.Job]int64{}
		for _, st := range got.Starts {
			starts[st.Job.ID] = now
		}
		for _, p := range got.Promises {
			starts[p.Job] = p.At
		}
		for i, j := range jobs {
			w := Estimate(EstimateInput{
				State: s, Partition: everywhere, Now: now, Shape: ShapeOf(j.Demand()), Depth: len(jobs),
				Position: int64(i), Queue: int64(len(jobs)), Ahead: slices.Values(jobs[:i]),
			})
			if w.Start != starts[j.ID] || (w.Kind == StartUnknown) != (w.Start == 0) {
				t.Fatalf("job %d: told %v, planned %d", j.ID, w, starts[j.ID])
			}
		}
	})
}

func TestBacklogForgetsWhatIsRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Backlog
		type entry struct {
			priority int64
			shape    Shape
		}
		var in []entry
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			if len(in) > 0 && rapid.Bool().Draw(t, "remove") {
				i := rapid.IntRange(0, len(in)-1).Draw(t, "which")
				b.Remove("p", in[i].priority, in[i].shape)
				in = slices.Delete(in, i, i+1)
			} else {
				e := entry{rapid.Int64Range(-2, 2).Draw(t, "priority"), drawShape(t)}
				b.Add("p", e.priority, e.shape)
				in = append(in, e)
			}
			b.Add("q", 0, small(1, "")) // isn't p's
		}
		var fresh Backlog
		for _, e := range in {
			fresh.Add("p", e.priority, e.shape)
		}
		for priority := int64(-3); priority <= 3; priority++ {
			position := b.Jobs("p", priority)
			want := int64(len(slices.DeleteFunc(slices.Clone(in), func(e entry) bool { return e.priority < priority })))
			if position != want {
				t.Fatalf("%d jobs of priority %d, want %d", position, priority, want)
			}
			for _, model := range []string{"", "a"} {
				if a, f := b.ahead("p", priority, position, model), fresh.ahead("p", priority, position, model); a != f {
					t.Fatalf("ahead of priority %d: %v, want %v", priority, a, f)
				}
			}
		}
	})
}
