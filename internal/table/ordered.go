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
