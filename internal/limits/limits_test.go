package limits_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
)

// job is what counts somewhere.
type job struct {
	who limits.Who
	d   limits.Demand
}

func drawJob(t *rapid.T) job {
	// accounts: 3 and 4 are below 2, 2 is below 1
	path := rapid.SampledFrom([][]id.Account{{1}, {2, 1}, {3, 2, 1}, {4, 2, 1}}).Draw(t, "path")
	j := job{
		who: limits.Who{Path: path, User: id.User(rapid.IntRange(1, 3).Draw(t, "user")), Partition: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "partition")},
		d: limits.Demand{
			CPU: small(t, "cpu"), Mem: small(t, "mem"), Running: rapid.Int64Range(0, 1).Draw(t, "running"), Submitted: rapid.Int64Range(0, 1).Draw(t, "submitted"),
		},
	}
	for _, m := range []string{"a100", "h100"} {
		if n := rapid.Int64Range(0, 2).Draw(t, m); n > 0 {
			j.d.GPU += n
			j.d.Models = append(j.d.Models, catalog.ModelCount{Model: m, Count: n})
		}
	}
	return j
}

func small(t *rapid.T, what string) int64 { return rapid.Int64Range(0, 5).Draw(t, what) }

// within reports whether what w uses counts in sc: the oracle.
func within(w limits.Who, sc limits.Scope) bool {
	return (sc.Account == 0 || slices.Contains(w.Path, sc.Account)) && (sc.User == 0 || sc.User == w.User) && (sc.Partition == "" || sc.Partition == w.Partition)
}

// amountOf is how much of a resource a demand asks for.
func amountOf(d limits.Demand, r limits.Resource, wall int64) int64 {
	switch r {
	case limits.CPU:
		return d.CPU
	case limits.Mem:
		return d.Mem
	case limits.GPU:
		return d.GPU
	case limits.Running:
		return d.Running
	case limits.Submitted:
		return d.Submitted
	case limits.Time:
		return wall
	}
	model, _ := r.Model()
	for _, m := range d.Models {
		if m.Model == model {
			return m.Count
		}
	}
	return 0
}

var resources = []limits.Resource{limits.CPU, limits.Mem, limits.GPU, limits.Running, limits.Submitted, limits.Time, limits.Devices("a100"), limits.Devices("h100")}

func drawLimits(t *rapid.T, s *limits.State) {
	for range rapid.IntRange(0, 12).Draw(t, "limits") {
		l := limits.Limit{
			Scope: limits.Scope{
				Account: id.Account(rapid.IntRange(0, 4).Draw(t, "of account")), User: id.User(rapid.IntRange(0, 3).Draw(t, "of user")),
				Partition: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "of partition"),
			},
			Resource: rapid.SampledFrom(resources).Draw(t, "resource"), Max: rapid.Int64Range(0, 20).Draw(t, "max"),
		}
		l.ID = s.Next()
		if old, ok := s.Find(l.Scope, l.Resource); ok {
			l.ID, l.Removed = old.ID, rapid.Bool().Draw(t, "remove")
		}
		s.Fold(limits.LimitSet{Row: l})
	}
}

// Check finds every bound that would be passed and no other, however limits and
// jobs lie; the tightest first.
func TestCheckAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s limits.State
		drawLimits(t, &s)
		jobs := rapid.SliceOfN(rapid.Custom(drawJob), 0, 6).Draw(t, "jobs")
		for _, j := range jobs {
			s.Count(j.who, j.d, +1)
		}
		ask, wall := drawJob(t), rapid.Int64Range(0, 30).Draw(t, "wall")
		var want []limits.Violation
		for _, l := range s.Limits.All() {
			used := int64(0)
			for _, j := range jobs {
				if within(j.who, l.Scope) {
					used += amountOf(j.d, l.Resource, 0)
				}
			}
			if got := s.Used(l.Scope, l.Resource); got != used {
				t.Fatalf("%+v: used %d, want %d", l, got, used)
			}
			n := amountOf(ask.d, l.Resource, wall)
			if n > 0 && within(ask.who, l.Scope) && used+n > l.Max {
				want = append(want, limits.Violation{Limit: l, Used: used, Asked: n, Never: n > l.Max})
			}
		}
		got := s.Check(ask.who, ask.d, wall)
		byID := cmpopts.SortSlices(func(a, b limits.Violation) bool { return a.Limit.ID < b.Limit.ID })
		if diff := cmp.Diff(want, got, byID, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("violations (-want +got)\n%s", diff)
		}
		for i := 1; i < len(got); i++ {
			a, b := got[i-1], got[i]
			left := func(v limits.Violation) int64 { return max(v.Limit.Max-v.Used, 0) }
			if b.Never && !a.Never || a.Never == b.Never && left(a)*b.Asked > left(b)*a.Asked {
				t.Fatalf("%+v comes before %+v", a, b)
			}
		}
	})
}

// Adding and taking away in any order leaves nothing behind, and a copy stays
// what it was.
func TestCountReturnsToZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s limits.State
		jobs := rapid.SliceOfN(rapid.Custom(drawJob), 1, 8).Draw(t, "jobs")
		for _, j := range jobs {
			s.Count(j.who, j.d, +1)
		}
		before := s.Copy()
		for _, j := range rapid.Permutation(jobs).Draw(t, "order") {
			s.Count(j.who, j.d, -1)
		}
		var everybody int64
		for _, j := range jobs {
			everybody += j.d.CPU
			for _, r := range resources {
				for _, sc := range []limits.Scope{{}, {Account: 1}, {User: j.who.User}, {Account: j.who.Path[0], User: j.who.User, Partition: j.who.Partition}} {
					if n := s.Used(sc, r); n != 0 {
						t.Fatalf("%+v still uses %d %s", sc, n, r)
					}
				}
			}
		}
		if n := before.Used(limits.Scope{}, limits.CPU); n != everybody {
			t.Fatalf("the copy uses %d, was %d", n, everybody)
		}
	})
}

// Effective lists the limits that bound somebody, each with its use, once.
func TestEffective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s limits.State
		drawLimits(t, &s)
		j := drawJob(t)
		s.Count(j.who, j.d, +1)
		var want []limits.Bound
		for _, l := range s.Limits.All() {
			if within(j.who, l.Scope) {
				want = append(want, limits.Bound{Limit: l, Used: amountOf(j.d, l.Resource, 0)})
			}
		}
		byID := cmpopts.SortSlices(func(a, b limits.Bound) bool { return a.Limit.ID < b.Limit.ID })
		if diff := cmp.Diff(want, s.Effective(j.who), byID, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

// Amounts near the ends of int64 neither wrap nor panic.
func TestCheckNearTheEdge(t *testing.T) {
	const most = int64(1<<63 - 1)
	tests := map[string]struct {
		max, used, asked int64
		passes, never    bool
	}{
		"all of it":         {most, 0, most, false, false},
		"one more":          {most, 1, most, true, false},
		"a bound of zero":   {0, 0, 1, true, true},
		"used beyond it":    {5, most, 1, true, false},
		"just the rest":     {10, 7, 3, false, false},
		"more than is left": {10, 7, 4, true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var s limits.State
			s.Fold(limits.LimitSet{Row: limits.Limit{ID: 1, Resource: limits.CPU, Max: tt.max}})
			who := limits.Who{Path: []id.Account{1}, User: 1, Partition: "a"}
			s.Count(who, limits.Demand{CPU: tt.used}, +1)
			got := s.Check(who, limits.Demand{CPU: tt.asked}, 0)
			if (len(got) == 1) != tt.passes || tt.passes && got[0].Never != tt.never {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestResourceValid(t *testing.T) {
	tests := map[limits.Resource]bool{
		"cpu": true, "mem": true, "gpu": true, "running": true, "submitted": true, "time": true, "gpu:a100": true,
		"": false, "gpu:": false, "GPU": false, "disk": false, "cpu:a": false,
	}
	for r, want := range tests {
		if got := r.Valid(); got != want {
			t.Errorf("%q: %v", r, got)
		}
	}
}
