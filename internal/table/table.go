// Package table is the copy-on-write table that the domain's states are made of:
// rows by key in key order, with a snapshot that costs nothing.
package table

import (
	"cmp"
	"encoding/binary"
	"iter"

	"github.com/tidwall/btree"
)

// Table holds rows of V by key K in key order. Rows are replaced, never changed
// in place, so that a copy stays what it was. The zero value is ready.
type Table[K cmp.Ordered, V any] struct{ m btree.Map[K, V] }

// Copy returns an independent table in constant time.
func (t *Table[K, V]) Copy() Table[K, V] {
	var c Table[K, V]
	c.m = *t.m.Copy()
	return c
}

// Get returns the row at key.
func (t *Table[K, V]) Get(key K) (V, bool) { return t.m.Get(key) }

// Set puts the row at key and returns the row that was there.
func (t *Table[K, V]) Set(key K, row V) (V, bool) { return t.m.Set(key, row) }

// Delete removes the row at key and returns it.
func (t *Table[K, V]) Delete(key K) (V, bool) { return t.m.Delete(key) }

// Len is the number of rows.
func (t *Table[K, V]) Len() int { return t.m.Len() }

// Last returns the row with the greatest key.
func (t *Table[K, V]) Last() (K, V, bool) { return t.m.Max() }

// All yields rows in key order.
func (t *Table[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.m.Scan(yield) }
}

// From yields rows with a key of at least from, in key order.
func (t *Table[K, V]) From(from K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.m.Ascend(from, yield) }
}

// At returns the i-th row in key order, from 0.
func (t *Table[K, V]) At(i int) (K, V, bool) { return t.m.GetAt(i) }

// Pair is a key for two non-negative ids that orders by the first, then the second.
func Pair(a, b int64) string {
	var k [16]byte
	binary.BigEndian.PutUint64(k[:8], uint64(a))
	binary.BigEndian.PutUint64(k[8:], uint64(b))
	return string(k[:])
}
