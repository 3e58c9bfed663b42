package table

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A table is a map in key order, and its copy stays what it was.
func TestTableIsAnOrderedMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tab Table[int64, int]
		want := map[int64]int{}
		put := func(n int) {
			for range n {
				k := rapid.Int64Range(0, 50).Draw(t, "key")
				if rapid.Bool().Draw(t, "set") {
					v := rapid.Int().Draw(t, "row")
					tab.Set(k, v)
					want[k] = v
				} else {
					tab.Delete(k)
					delete(want, k)
				}
			}
		}
		put(30)
		before, was := tab.Copy(), maps.Clone(want)
		put(30)
		check(t, &tab, want)
		check(t, &before, was)
	})
}

func check(t *rapid.T, tab *Table[int64, int], want map[int64]int) {
	var keys []int64
	for k, v := range tab.All() {
		if want[k] != v {
			t.Fatalf("row %d is %d, want %d", k, v, want[k])
		}
		keys = append(keys, k)
	}
	if !slices.Equal(keys, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("keys %v of %v", keys, want)
	}
	before := rapid.Int64Range(-1, 52).Draw(t, "before")
	var back []int64
	for k := range tab.Back(before) {
		back = append(back, k)
	}
	slices.Reverse(back)
	if end, _ := slices.BinarySearch(keys, before); !slices.Equal(back, keys[:end]) {
		t.Fatalf("keys %v below %d of %v", back, before, keys)
	}
}

// Rank counts what is less, also for what isn't there, and copies are independent.
func TestSetRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfDistinct(rapid.IntRange(0, 1000), func(n int) int { return n }).Draw(t, "elements")
		s := NewSet(func(a, b int) bool { return a < b })
		for _, k := range in {
			s.Add(k)
		}
		c := s.Copy()
		c.Add(-1)
		k := rapid.IntRange(0, 1000).Draw(t, "k")
		want := 0
		for _, e := range in {
			if e < k {
				want++
			}
		}
		if got := s.Rank(k); got != want || c.Rank(k) != want+1 || s.Len() != len(in) {
			t.Fatalf("rank %d, want %d; copy %d", got, want, c.Rank(k))
		}
	})
}

// Get, At and Seek agree with the elements in order.
func TestSetInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfDistinct(rapid.IntRange(0, 300), func(n int) int { return n }).Draw(t, "elements")
		s := NewSet(func(a, b int) bool { return a < b })
		for _, k := range in {
			s.Add(k)
		}
		slices.Sort(in)
		for i, k := range in {
			if got, ok := s.At(i); !ok || got != k {
				t.Fatalf("element %d is %d, want %d", i, got, k)
			}
		}
		k := rapid.IntRange(0, 300).Draw(t, "k")
		from, found := slices.BinarySearch(in, k)
		if got, ok := s.Get(k); ok != found || ok && got != k {
			t.Fatalf("%d: %d, %v", k, got, ok)
		}
		var rest []int
		c := s.Seek(k)
		for e, ok := c.Next(); ok; e, ok = c.Next() {
			rest = append(rest, e)
		}
		if !slices.Equal(rest, in[from:]) {
			t.Fatalf("from %d: %v of %v", k, rest, in)
		}
		if _, ok := c.Next(); ok {
			t.Fatal("there is more after the end")
		}
	})
}

func TestPairOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<62)
		a, b, c, d := n.Draw(t, "a"), n.Draw(t, "b"), n.Draw(t, "c"), n.Draw(t, "d")
		if got, want := cmp.Compare(Pair(a, b), Pair(c, d)), cmp.Or(cmp.Compare(a, c), cmp.Compare(b, d)); got != want {
			t.Fatalf("(%d,%d) to (%d,%d) is %d, want %d", a, b, c, d, got, want)
		}
	})
}
