package table

import (
	"iter"

	"github.com/tidwall/btree"
)

// Set is a copy-on-write ordered set whose elements compare by a function, for
// indexes with a composite key. Make it with NewSet.
type Set[K any] struct {
	t    *btree.BTreeG[K]
	less func(a, b K) bool
}

// NewSet returns an empty set ordered by less.
func NewSet[K any](less func(a, b K) bool) Set[K] {
	return Set[K]{t: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true}), less: less}
}

// Copy returns an independent set in constant time.
func (s Set[K]) Copy() Set[K] { return Set[K]{t: s.t.Copy(), less: s.less} }

// Add inserts k.
func (s Set[K]) Add(k K) { s.t.Set(k) }

// Remove deletes k.
func (s Set[K]) Remove(k K) { s.t.Delete(k) }

// Len is the number of elements.
func (s Set[K]) Len() int { return s.t.Len() }

// All yields the elements in order.
func (s Set[K]) All() iter.Seq[K] {
	return func(yield func(K) bool) { s.t.Scan(yield) }
}

// From yields the elements not less than k, in order.
func (s Set[K]) From(k K) iter.Seq[K] {
	return func(yield func(K) bool) { s.t.Ascend(k, yield) }
}

// Rank is the number of elements that are less than k, in O(log² n).
func (s Set[K]) Rank(k K) int {
	lo, hi := 0, s.t.Len()
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if at, _ := s.t.GetAt(mid); s.less(at, k) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Get returns the element that is neither less nor greater than k.
func (s Set[K]) Get(k K) (K, bool) { return s.t.Get(k) }

// At returns the i-th element, from 0.
func (s Set[K]) At(i int) (K, bool) { return s.t.GetAt(i) }

// Cursor walks through a set that isn't changed meanwhile, where many are walked
// through side by side.
type Cursor[K any] struct {
	it     btree.IterG[K]
	at, ok bool // it stands at an element that Next hasn't returned
}

// Seek returns a cursor whose first Next is the first element that isn't less than k.
func (s Set[K]) Seek(k K) *Cursor[K] {
	c := &Cursor[K]{it: s.t.Iter(), at: true}
	c.ok = c.it.Seek(k)
	return c
}

// Next goes on to the next element and returns it.
func (c *Cursor[K]) Next() (k K, ok bool) {
	if !c.at {
		c.ok = c.ok && c.it.Next()
	}
	if c.at = false; !c.ok {
		return k, false
	}
	return c.it.Item(), true
}
