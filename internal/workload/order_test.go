package workload_test

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// drawLane gives a job what its priority depends on. Few values, so that jobs share
// lanes, places and ages.
func drawLane(t *rapid.T, j *workload.Job) {
	j.Submitted = rapid.Int64Range(0, 12).Draw(t, "submitted")
	j.Account = id.Account(rapid.IntRange(1, 2).Draw(t, "account"))
	j.Spec.Partition = rapid.SampledFrom([]string{"a", "ab", "b"}).Draw(t, "partition")
	j.Spec.QoS = rapid.SampledFrom([]string{"", "q", "q\x01"}).Draw(t, "qos")
	j.Spec.Priority = rapid.Int64Range(-1, 1).Draw(t, "own")
	j.Spec.GPU = rapid.Int64Range(0, 5).Draw(t, "gpu") * 1000
	if j.Pinned = rapid.IntRange(0, 4).Draw(t, "pinned") == 0; j.Pinned {
		j.Pin = rapid.Int64Range(-3, 3).Draw(t, "pin")
	}
}

// drawOrder is a time and what lanes are worth then: anything, as long as it is the
// same for a lane.
func drawOrder(t *rapid.T) workload.Order {
	by := rapid.Int64Range(1, 5).Draw(t, "base")
	return workload.Order{
		Now: rapid.Int64Range(0, 20).Draw(t, "now"),
		Age: workload.Aging{Points: rapid.Int64Range(0, 9).Draw(t, "points"), Cap: rapid.Int64Range(0, 12).Draw(t, "cap")},
		Base: func(l workload.Lane) int64 {
			return int64(l.Account)*by%4 + int64(len(l.QoS)) + l.Own + int64(l.Size.Devices)%by
		},
	}
}

// naive is the priority of a job computed from its row, with numbers of any size.
func naive(o workload.Order, j *workload.Job) int64 {
	if j.Pinned {
		return j.Pin
	}
	base := o.Base(j.LaneOf())
	wait := min(o.Now-j.Submitted, o.Age.Cap)
	if wait <= 0 {
		return base
	}
	n := new(big.Int).Mul(big.NewInt(o.Age.Points), big.NewInt(wait))
	return base + n.Div(n, big.NewInt(o.Age.Cap)).Int64()
}

// checkOrder compares the queues at several times with all jobs, sorted.
func checkOrder(t *rapid.T, s *workload.State, queued []*workload.Job) {
	for range 3 {
		o := drawOrder(t)
		for _, p := range []string{"a", "ab", "b", ""} {
			var want []*workload.Job
			for _, j := range queued {
				if j.Spec.Partition == p {
					want = append(want, j)
				}
			}
			slices.SortFunc(want, func(a, b *workload.Job) int {
				switch pa, pb := naive(o, a), naive(o, b); {
				case pa != pb:
					return int(pb - pa)
				case a.Submitted != b.Submitted:
					return int(a.Submitted - b.Submitted)
				}
				return int(a.ID - b.ID)
			})
			var got []*workload.Job
			for j, at := range s.Queue(o, p) {
				if want := (workload.Place{Priority: naive(o, j), Since: j.Submitted, Job: j.ID}); at != want || o.Place(j.LaneOf(), j.Since(), j.ID) != want {
					t.Fatalf("job %d is at %+v, want %+v", j.ID, at, want)
				}
				if ahead := s.Ahead(o, p, at); ahead != int64(len(got)) {
					t.Fatalf("job %d has %d ahead, want %d", j.ID, ahead, len(got))
				}
				got = append(got, j)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("queue of %s: %v, want %v", p, got, want)
			}
			if n := s.Length(p); n != int64(len(want)) {
				t.Fatalf("%d wait in %s, want %d", n, p, len(want))
			}
		}
	}
}

// A place that nobody has, too, has those ahead that come before it.
func TestAheadOfAnyPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := workload.NewState()
		for i := range rapid.IntRange(0, 40).Draw(t, "jobs") {
			j := &workload.Job{ID: id.Job(i + 1), State: workload.Queued}
			drawLane(t, j)
			s.Fold(workload.JobSet{Row: j})
		}
		o := drawOrder(t)
		p := workload.Place{
			Priority: rapid.Int64Range(-5, 20).Draw(t, "priority"), Since: rapid.Int64Range(-1, 13).Draw(t, "since"),
			Job: id.Job(rapid.IntRange(0, 41).Draw(t, "job")),
		}
		var ahead, inLanes int64
		for _, at := range s.Queue(o, "a") {
			if at.Compare(p) < 0 {
				ahead++
			}
		}
		for f := range s.Fronts(o, "a", p) {
			if f.Before < 1 || f.Before > f.Jobs {
				t.Fatalf("%d of a lane's %d jobs are ahead", f.Before, f.Jobs)
			}
			inLanes += f.Before
		}
		if got := s.Ahead(o, "a", p); got != ahead || inLanes != ahead {
			t.Fatalf("%d ahead, %d in the fronts, want %d", got, inLanes, ahead)
		}
	})
}

// Age is worth its share of the points, up to the cap, whatever the magnitudes.
func TestAging(t *testing.T) {
	const day = int64(24 * 3600e9)
	tests := map[string]struct {
		aging workload.Aging
		wait  int64
		want  int64
	}{
		"nothing yet":           {workload.Aging{Points: 1000, Cap: 14 * day}, 0, 0},
		"half":                  {workload.Aging{Points: 1000, Cap: 14 * day}, 7 * day, 500},
		"just before the cap":   {workload.Aging{Points: 1000, Cap: 14 * day}, 14*day - 1, 999},
		"the cap":               {workload.Aging{Points: 1000, Cap: 14 * day}, 14 * day, 1000},
		"longer":                {workload.Aging{Points: 1000, Cap: 14 * day}, 400 * day, 1000},
		"in the future":         {workload.Aging{Points: 1000, Cap: 14 * day}, -day, 0},
		"no cap":                {workload.Aging{Points: 1000}, day, 0},
		"beyond 64 bits within": {workload.Aging{Points: 1e9, Cap: 3650 * day}, 3649 * day, 999_726_027},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.aging.Of(tt.wait); got != tt.want {
				t.Errorf("%d points, want %d", got, tt.want)
			}
		})
	}
}

func TestSizes(t *testing.T) {
	for devices, want := range map[int64]int8{1: 1, 2: 2, 3: 3, 4: 3, 5: 4, 8: 4, 9: 5, 1 << 40: 41} {
		if got := workload.SizeOf(devices*1000-500, 64_000); got != (workload.Size{Devices: want}) {
			t.Errorf("%d devices are of size %v, want %d", devices, got, want)
		}
		if got := workload.SizeOf(0, devices*1000-500); got != (workload.Size{Cores: want}) {
			t.Errorf("%d cores are of size %v, want %d", devices, got, want)
		}
	}
}

// hundredThousand is that many waiting jobs in so many lanes.
func hundredThousand(lanes int) *workload.State {
	s := workload.NewState()
	for i := range 100_000 {
		j := &workload.Job{ID: id.Job(i + 1), User: id.User(i % lanes), Submitted: int64(i) * 1e9, State: workload.Queued}
		j.Spec.Partition = "main"
		s.Fold(workload.JobSet{Row: j})
	}
	return &s
}

func order() workload.Order {
	return workload.Order{
		Now: 200_000e9, Age: workload.Aging{Points: 1000, Cap: 150_000e9},
		Base: func(l workload.Lane) int64 { return int64(l.User) * 7919 % 1000 },
	}
}

func BenchmarkQueue(b *testing.B) {
	for _, lanes := range []int{1, 1000, 100_000} {
		s := hundredThousand(lanes)
		for _, n := range []int{100, 100_000} {
			b.Run(fmt.Sprintf("pending=100000/lanes=%d/first=%d", lanes, n), func(b *testing.B) {
				for b.Loop() {
					left := n
					for range s.Queue(order(), "main") {
						if left--; left == 0 {
							break
						}
					}
				}
			})
		}
	}
}

func BenchmarkAhead(b *testing.B) {
	for _, lanes := range []int{1, 1000, 100_000} {
		s := hundredThousand(lanes)
		b.Run(fmt.Sprintf("pending=100000/lanes=%d", lanes), func(b *testing.B) {
			for b.Loop() {
				s.Ahead(order(), "main", workload.Place{Priority: 900, Since: 50_000e9, Job: 50_001})
			}
		})
	}
}

func BenchmarkComeAndGo(b *testing.B) {
	s := hundredThousand(1000)
	j := &workload.Job{ID: 200_000, User: 5, Submitted: 100_001e9, State: workload.Queued}
	j.Spec.Partition = "main"
	gone := *j
	gone.State = workload.Ended
	for b.Loop() {
		c := s.Copy()
		c.Fold(workload.JobSet{Row: j})
		c.Fold(workload.JobSet{Row: &gone})
	}
}
