package workload_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

func TestParseArray(t *testing.T) {
	tests := map[string]struct {
		in, text string // text where it isn't in
		n, most  int64
		bad      string
	}{
		"a range":       {in: "0-99999", n: 100_000},
		"a stride":      {in: "0-99999:2%50", text: "0-99998:2%50", n: 50_000, most: 50},
		"a list":        {in: "7,1-3,5,9", text: "1-3,5-9:2", n: 6},
		"overlaps":      {in: "0-5,3-9", text: "0-9", n: 10},
		"one":           {in: "7-7:3", text: "7", n: 1},
		"the most":      {in: "0-999999", n: 1_000_000},
		"too many":      {in: "0-9999999", bad: "more than 1000000 elements"},
		"in sum":        {in: "0-999998,2000000,2000001", bad: "more than 1000000 elements"},
		"no index":      {in: "a", bad: "isn't an index"},
		"negative":      {in: "-1-5", bad: "isn't an index"},
		"backwards":     {in: "5-1", bad: "isn't an index"},
		"stride of 0":   {in: "0-9:0", bad: "isn't an index"},
		"a lone stride": {in: "5:2", bad: "isn't an index"},
		"large index":   {in: "10000000", bad: "isn't an index"},
		"huge index":    {in: "99999999999999999999", bad: "isn't an index"},
		"empty part":    {in: "1,,2", bad: "isn't an index"},
		"none at once":  {in: "0-9%0", bad: "may run at once"},
		"odd at once":   {in: "0-9%x", bad: "may run at once"},
		"fragments":     {in: fragments(1100), bad: "ranges: at most 1024"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, err := workload.ParseArray(tt.in)
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) || len(err.Error()) > 200 {
					t.Fatalf("%v, want it to say %q", err, tt.bad)
				}
				return
			}
			if err != nil || a.Elements.Len() != tt.n || a.Most != tt.most || a.String() != tt.text && a.String() != tt.in {
				t.Errorf("%v: %d elements, %d at once, reads %q", err, a.Elements.Len(), a.Most, a)
			}
		})
	}
}

// fragments is n indices that make no ranges.
func fragments(n int) string {
	var parts []string
	for i := range n {
		parts = append(parts, cmpText(i*i*3))
	}
	return strings.Join(parts, ",")
}

func cmpText(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return cmpText(n/10) + string(rune('0'+n%10))
}

func FuzzArray(f *testing.F) {
	for _, s := range []string{"", "0-99:2%5", "1,3,5-9", "0-9999999", "5:2", "%", "1%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Count(s, "-") > 3 {
			return // what is large takes its time
		}
		a, err := workload.ParseArray(s)
		if err != nil {
			return
		}
		again, err := workload.ParseArray(a.String())
		if diff := cmp.Diff(a, again); err != nil || diff != "" {
			t.Fatalf("%q reads back as %q: %v\n%s", s, a, err, diff)
		}
	})
}

// However elements of an array start, end and are dropped: each is waiting, active or
// counted, once, and shares of the deposit come to the whole.
func TestElementsAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []string
		for range rapid.IntRange(1, 4).Draw(t, "ranges") {
			first := rapid.IntRange(0, 30).Draw(t, "first")
			list = append(list, cmpText(first)+"-"+cmpText(first+rapid.IntRange(0, 20).Draw(t, "more"))+":"+cmpText(rapid.IntRange(1, 4).Draw(t, "step")))
		}
		spec, err := workload.ParseArray(strings.Join(list, ","))
		if err != nil {
			t.Fatal(err)
		}
		j := &workload.Job{ID: 5, Spec: workload.Spec{Array: spec}, Array: &workload.Array{Pending: spec.Elements}, Sources: []workload.Part{{Source: "a", Left: 37}, {Source: "b", Left: 1000}}}
		total, n := j.Sources[0].Left+j.Sources[1].Left, spec.Elements.Len()
		var pending, active, failed []int64
		for i := range spec.Elements.All {
			pending = append(pending, i)
		}
		slices.Sort(pending)
		done := int64(0)
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				if len(pending) == 0 {
					continue
				}
				i := rapid.SampledFrom(pending).Draw(t, "starts")
				e := j.Element(9, i)
				if e.Of != 5 || e.Index != i || e.Array != nil || e.Name() != "5_"+cmpText(int(i)) {
					t.Fatalf("%+v", e)
				}
				next := *j
				next.Take(e.Sources)
				next.Starts(i)
				total -= e.Deposit
				j, pending, active = &next, without(pending, i), append(active, i)
			case 1:
				if len(active) == 0 {
					continue
				}
				i := rapid.SampledFrom(active).Draw(t, "ends")
				e := &workload.Job{Of: 5, Index: i, Outcome: rapid.SampledFrom([]codes.Outcome{codes.Completed, codes.Failed}).Draw(t, "outcome")}
				next := *j
				next.Ends(e)
				if j, active, done = &next, without(active, i), done+1; e.Outcome != codes.Completed {
					failed = append(failed, i)
				}
			case 2:
				from := rapid.Int64Range(0, 50).Draw(t, "from")
				which := workload.Elements{{First: from, Last: from + 3, Step: 1}}
				next := *j
				share := next.Share(j.Array.Pending.Common(which))
				next.Take(share)
				for _, p := range share {
					total -= p.Left
				}
				done += next.Drops(which, codes.Cancelled)
				for i := from; i <= from+3; i++ {
					if slices.Contains(pending, i) {
						pending, failed = without(pending, i), append(failed, i)
					}
				}
				j = &next
			}
			if got := listOf(j.Array.Pending); !slices.Equal(got, pending) {
				t.Fatalf("%v wait, want %v", got, pending)
			}
			slices.Sort(failed)
			if got := listOf(j.Array.Failed); !slices.Equal(got, failed) {
				t.Fatalf("%v failed, want %v", got, failed)
			}
			var ended int64
			for _, tally := range j.Array.Ended {
				ended += tally.Count
			}
			if j.Array.Active != int64(len(active)) || ended != done || j.Array.Pending.Len()+j.Array.Active+ended != n {
				t.Fatalf("%+v of %d", j.Array, n)
			}
			left := j.Sources[0].Left + j.Sources[1].Left
			if left != total || left < 0 || len(pending) == 0 && n > 0 && left != 0 {
				t.Fatalf("%d left, want %d, with %d waiting", left, total, len(pending))
			}
		}
	})
}

func without(s []int64, i int64) []int64 {
	return slices.DeleteFunc(slices.Clone(s), func(k int64) bool { return k == i })
}

func listOf(e workload.Elements) []int64 {
	var out []int64
	for i := range e.All {
		out = append(out, i)
	}
	slices.Sort(out)
	return out
}

// An array takes its elements' places in the queue, and yields those that may be next.
func TestArraysInTheQueue(t *testing.T) {
	s := workload.NewState()
	spec, _ := workload.ParseArray("0-99999%300")
	j := &workload.Job{ID: 1, State: workload.Queued, Spec: workload.Spec{Partition: "main", Array: spec}, Array: &workload.Array{Pending: spec.Elements}, Promise: 7}
	s.Fold(workload.JobSet{Row: j})
	s.Fold(workload.JobSet{Row: &workload.Job{ID: 2, Submitted: 1, State: workload.Queued, Spec: workload.Spec{Partition: "main"}}})
	o := workload.Order{Base: func(workload.Lane) int64 { return 0 }}
	if s.Waiting() != 100_001 || s.Length("main") != 100_001 {
		t.Errorf("%d wait, %d in the partition", s.Waiting(), s.Length("main"))
	}
	if n := s.Ahead(o, "main", o.Place(workload.Lane{Partition: "main"}, 1, 2)); n != 100_000 {
		t.Errorf("%d are ahead of the last", n)
	}
	seen := map[id.Job]bool{}
	promised := 0
	for e := range s.Queue(o, "main") {
		if array, index, ok := e.ID.Array(); ok && (array != 1 || index != int64(len(seen))) {
			t.Fatalf("%d is element %d of %d", e.ID, index, array)
		}
		if e.Promise != 0 {
			promised++
		}
		seen[e.ID] = true
	}
	if len(seen) != 257 || !seen[2] || promised != 1 {
		t.Errorf("%d are seen, %d with a promise", len(seen), promised)
	}
}

// A set is kept as its text, and read as that or as the list of ranges that it was kept
// as before.
func TestElementsAsJSON(t *testing.T) {
	e, err := workload.ParseElements("0-9:3,20,30-40")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(e)
	if err != nil || string(text) != `"0-9:3,20,30-40"` {
		t.Errorf("%s %v", text, err)
	}
	for _, kept := range []string{string(text), `[{"first":0,"last":9,"step":3},{"first":20,"last":20,"step":1},{"first":30,"last":40,"step":1}]`} {
		var again workload.Elements
		if err := json.Unmarshal([]byte(kept), &again); err != nil || again.String() != e.String() {
			t.Errorf("%s is read as %s: %v", kept, again, err)
		}
	}
	for _, bad := range []string{`"x"`, `"1,,2"`, `7`, `"5-1"`} {
		var again workload.Elements
		if err := json.Unmarshal([]byte(bad), &again); err == nil {
			t.Errorf("%s is read as %s", bad, again)
		}
	}
}
