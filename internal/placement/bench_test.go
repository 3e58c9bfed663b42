package placement

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// twenty is shapes that all want devices, which run out long before cores: the
// whole queue must be walked.
func twenty() []Shape {
	var out []Shape
	for i := range int64(20) {
		out = append(out, Shape{CPU: (1 + i%4) * core, Mem: (1 + i%5) * gib, GPU: (1 + i%8) * 1000, Model: "a100", Wall: (1 + i) * hour})
	}
	return out
}

// byAge is an order in which lanes differ, and age counts.
func byAge() workload.Order {
	return workload.Order{
		Now: 1000 * hour, Age: workload.Aging{Points: 1000, Cap: 336 * hour},
		Base: func(l workload.Lane) int64 { return int64(l.User) * 7919 % 1000 },
	}
}

// hundredThousand is that many waiting jobs of twenty shapes and a thousand users.
func hundredThousand() *workload.State {
	shapes := twenty()
	w := workload.NewState()
	for i := range 100_000 {
		j := job(id.Job(i+1), shapes[i%len(shapes)])
		j.Spec.Partition, j.User = everywhere.Name, id.User(i%1000)
		w.Fold(workload.JobSet{Row: j})
	}
	return &w
}

// occupied is n nodes of eight devices, all but the last node's last device held.
func occupied(n, devices int) *State {
	s := &State{}
	for i := range n {
		node := fmt.Sprintf("n%04d", i)
		machine(s, node, slices.Repeat([]string{"a100"}, devices)...)
		for d := range devices {
			if i < n-1 || d < devices-1 {
				s.Hold(Hold{Job: id.Job(1_000_000 + i*8 + d), Node: node, CPU: 3 * core, Mem: 8 * gib, Devices: uuids(node, d), Until: 1000*hour + int64(1+d)*hour})
			}
		}
	}
	return s
}

func empty(n, devices int) *State {
	s := &State{}
	for i := range n {
		machine(s, fmt.Sprintf("n%04d", i), slices.Repeat([]string{"a100"}, devices)...)
	}
	return s
}

var sizes = []struct{ nodes, devices int }{{1, 4}, {1000, 8}}

func BenchmarkPlan(b *testing.B) {
	w := hundredThousand()
	for _, size := range sizes {
		for _, bc := range []struct {
			name  string
			state *State
		}{{"busy", occupied(size.nodes, size.devices)}, {"empty", empty(size.nodes, size.devices)}} {
			b.Run(fmt.Sprintf("nodes=%d/%s/pending=100000", size.nodes, bc.name), func(b *testing.B) {
				var got Planned
				for b.Loop() {
					got = Plan(PlanInput{
						State: bc.state, Lanes: []Lane{{Partition: everywhere, Queue: w.Queue(byAge(), everywhere.Name)}}, Now: 1000 * hour, Depth: 100,
						Standing: got.Promises,
					})
				}
				b.ReportMetric(float64(len(got.Starts)), "starts")
			})
		}
	}
}

func BenchmarkEstimate(b *testing.B) {
	w := hundredThousand()
	for _, size := range sizes {
		s := occupied(size.nodes, size.devices)
		for _, j := range w.Jobs.All() {
			s.Backlog.Add(j.LaneOf().Key(), ShapeOf(j.Demand()), 1)
		}
		for _, position := range []int64{99, 50_000} {
			b.Run(fmt.Sprintf("nodes=%d/ahead=%d", size.nodes, position), func(b *testing.B) {
				at := workload.Place{Priority: 500, Since: 500 * hour}
				for b.Loop() {
					Estimate(EstimateInput{
						State: s, Partition: everywhere, Now: 1000 * hour, Shape: small(1, "a100"),
						Position: position, Queue: 100_000, Ahead: w.Queue(byAge(), everywhere.Name), Depth: 100,
						Fronts: func(p string) iter.Seq[workload.Front] { return w.Fronts(byAge(), p, at) },
					})
				}
			})
		}
	}
}

func BenchmarkFitNow(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", size.nodes), func(b *testing.B) {
			s := occupied(size.nodes, size.devices)
			for b.Loop() {
				if spot, _ := s.FitNow(small(2, "a100"), everywhere, 1000*hour); spot.Node != "" {
					b.Fatal("nothing should fit")
				}
			}
		})
	}
}

func BenchmarkNeverFits(b *testing.B) {
	half := catalog.Partition{Name: "half"}
	s := empty(1000, 8)
	for i := range 500 {
		half.Nodes = append(half.Nodes, fmt.Sprintf("n%04d", i))
	}
	for _, p := range []catalog.Partition{everywhere, half} {
		b.Run(p.Name, func(b *testing.B) {
			for b.Loop() {
				if s.NeverFits(small(9, "a100"), p) == nil {
					b.Fatal("nine fit")
				}
			}
		})
	}
}

func BenchmarkHold(b *testing.B) {
	s := occupied(1000, 8)
	for b.Loop() {
		s.Hold(Hold{Job: 5, Node: "n0999", CPU: core, Mem: gib, Devices: uuids("n0999", 7), Until: 1001 * hour})
		s.Release(5)
	}
}
