package limits_test

import (
	"slices"
	"strings"
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
		who: limits.Who{Path: path, User: id.User(rapid.IntRange(1, 3).Draw(t, "user")), Partition: pick(t, "partition", "a", "b"), QoS: pick(t, "qos", "low", "high")},
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

func pick(t *rapid.T, what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }

func small(t *rapid.T, what string) int64 { return rapid.Int64Range(0, 5).Draw(t, what) }

// within reports whether what w uses counts in sc: the oracle.
func within(w limits.Who, sc limits.Scope) bool {
	return (sc.Account == 0 || slices.Contains(w.Path, sc.Account)) && (sc.User == 0 || sc.User == w.User || sc.User == limits.Each) && (sc.Partition == "" || sc.Partition == w.Partition) &&
		(sc.QoS == "" || sc.QoS == w.QoS)
}

// amountOf is how much of a resource a demand asks for.
func amountOf(d limits.Demand, r limits.Resource, wall int64) int64 {
	of, _ := strings.CutPrefix(string(r), "job.")
	switch r := limits.Resource(of); r {
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
	for _, m := range d.Models {
		if "gpu:"+m.Model == of {
			return m.Count
		}
	}
	return 0
}

var resources = []limits.Resource{limits.CPU, limits.Mem, limits.GPU, limits.Running, limits.Submitted, limits.Time, limits.Devices("a100"), limits.Devices("h100"),
	limits.JobCPU, limits.JobMem, limits.JobGPU, "job.gpu:a100"}

func perJob(r limits.Resource) bool { return r == "time" || strings.HasPrefix(string(r), "job.") }

func drawLimits(t *rapid.T, s *limits.State) {
	s.UserJobs = rapid.Int64Range(0, 3).Draw(t, "jobs of a user")
	for range rapid.IntRange(0, 12).Draw(t, "limits") {
		l := limits.Limit{
			Scope: limits.Scope{
				Account: id.Account(rapid.IntRange(0, 4).Draw(t, "of account")), User: id.User(rapid.IntRange(-1, 3).Draw(t, "of user")),
				Partition: pick(t, "of partition", "", "a", "b"), QoS: pick(t, "of QoS", "", "low", "high"),
			},
			Resource: rapid.SampledFrom(resources).Draw(t, "resource"), Max: rapid.Int64Range(0, 20).Draw(t, "max"),
		}
		l.ID = s.Next()
		if old, ok := s.Find(l.Scope, l.Resource, limits.Per{}); ok {
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
		jobs := rapid.SliceOfN(rapid.Custom(drawJob), 0, 6).Draw(t, "jobs")
		before := rapid.IntRange(0, len(jobs)).Draw(t, "before the limits")
		for _, j := range jobs[:before] {
			s.Count(j.who, j.d, +1)
		}
		drawLimits(t, &s)
		for _, j := range jobs[before:] {
			s.Count(j.who, j.d, +1)
		}
		ask, wall := drawJob(t), rapid.Int64Range(0, 30).Draw(t, "wall")
		var want []limits.Violation
		for _, l := range oracleLimits(&s, ask.who.User) {
			used := int64(0)
			for _, j := range jobs {
				if within(j.who, l.Scope) && !perJob(l.Resource) {
					used += amountOf(j.d, l.Resource, 0)
				}
			}
			set, _ := s.Limits.Get(l.ID)
			if b, ok := s.BoundFor(set, ask.who.User, 0); l.ID != 0 && (b.Used != used || !ok) {
				t.Fatalf("%+v: used %d, want %d", l, b.Used, used)
			}
			n := amountOf(ask.d, l.Resource, wall)
			if n > 0 && within(ask.who, l.Scope) && used+n > l.Max {
				want = append(want, limits.Violation{Bound: limits.Bound{Limit: l, Max: l.Max, Used: used}, Asked: n, Never: n > l.Max})
			}
		}
		got := s.Check(ask.who, limits.Ask{Demand: ask.d, Wall: wall})
		byID := cmpopts.SortSlices(func(a, b limits.Violation) bool { return a.Limit.ID < b.Limit.ID })
		if diff := cmp.Diff(want, got, byID, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("violations (-want +got)\n%s", diff)
		}
		for i := 1; i < len(got); i++ {
			a, b := got[i-1], got[i]
			left := func(v limits.Violation) int64 { return v.Left() }
			if b.Never && !a.Never || a.Never == b.Never && left(a)*b.Asked > left(b)*a.Asked {
				t.Fatalf("%+v comes before %+v", a, b)
			}
		}
	})
}

// oracleLimits is the limits that were set and, for a user without a limit of his
// own on submitted jobs, the site's.
func oracleLimits(s *limits.State, u id.User) []limits.Limit {
	var out []limits.Limit
	own := s.UserJobs == 0
	for _, l := range s.Limits.All() {
		if l.Scope.User == limits.Each { // of this user, unless he has one of his own
			l.Scope.User = u
			if _, there := s.Find(l.Scope, l.Resource, limits.Per{}); there {
				continue
			}
		}
		out = append(out, l)
		own = own || l.Scope == limits.Scope{User: u} && l.Resource == limits.Submitted
	}
	if !own {
		out = append(out, limits.Limit{Scope: limits.Scope{User: u}, Resource: limits.Submitted, Max: s.UserJobs})
	}
	return out
}

// What users have within a scope adds up to its use.
func TestUsers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s limits.State
		want := map[id.User]int64{}
		sc := limits.Scope{Account: id.Account(rapid.IntRange(0, 4).Draw(t, "account")), Partition: pick(t, "of partition", "", "a")}
		for _, j := range rapid.SliceOfN(rapid.Custom(drawJob), 1, 8).Draw(t, "jobs") {
			s.Count(j.who, j.d, +1)
			if n := amountOf(j.d, "gpu:a100", 0); n > 0 && within(j.who, sc) {
				want[j.who.User] += n
			}
		}
		got := map[id.User]int64{}
		for _, u := range s.Users(sc, "gpu:a100") {
			if got[u.User] != 0 {
				t.Fatalf("user %d is there twice", u.User)
			}
			got[u.User] = u.Used
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
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
				for _, sc := range []limits.Scope{{}, {Account: 1}, {User: j.who.User}, {QoS: j.who.QoS}, {Account: j.who.Path[0], User: j.who.User, Partition: j.who.Partition}} {
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
		for _, l := range oracleLimits(&s, j.who.User) {
			b := limits.Bound{Limit: l, Max: l.Max, Used: amountOf(j.d, l.Resource, 0)}
			if perJob(l.Resource) {
				b.Used = 0
			}
			if within(j.who, l.Scope) {
				want = append(want, b)
			}
		}
		byID := cmpopts.SortSlices(func(a, b limits.Bound) bool { return a.Limit.ID < b.Limit.ID })
		if diff := cmp.Diff(want, s.Effective(j.who, 0), byID, cmpopts.EquateEmpty()); diff != "" {
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
			got := s.Check(who, limits.Ask{Demand: limits.Demand{CPU: tt.asked}})
			if (len(got) == 1) != tt.passes || tt.passes && got[0].Never != tt.never {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestResourceValid(t *testing.T) {
	tests := map[limits.Resource]bool{
		"cpu": true, "mem": true, "gpu": true, "running": true, "submitted": true, "time": true, "gpu:a100": true,
		"cpu-hours": true, "mem-hours": true, "gpu-hours": true, "gpu-hours:a100": true, "running-hours": false, "gpu-hours:": false, "job.gpu-hours": false,
		"job.cpu": true, "job.mem": true, "job.gpu": true, "job.gpu:a100": true, "gpu:NVIDIA A100-SXM4-80GB": true,
		"job.": false, "job.running": false, "job.submitted": false, "job.time": false, "job.job.cpu": false, "job.gpu:": false,
		"gpu:a|b": false, "gpu:a\n": false, "gpu:\xff": false, limits.Resource("gpu:" + strings.Repeat("x", 65)): false,
		"": false, "gpu:": false, "GPU": false, "disk": false, "cpu:a": false,
	}
	for r, want := range tests {
		if got := r.Valid(); got != want {
			t.Errorf("%q: %v", r, got)
		}
	}
}
