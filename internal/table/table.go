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
//
// The tree holds pointers: all tables with a kind of key then share one
// instantiation of it, where every package would else compile one for each row type
// that it touches, and a copied node is small.
type Table[K cmp.Ordered, V any] struct{ m btree.Map[K, *V] }

// Copy returns an independent table in constant time.
func (t *Table[K, V]) Copy() Table[K, V] {
	var c Table[K, V]
	c.m = *t.m.Copy()
	return c
}

// Get returns the row at key.
func (t *Table[K, V]) Get(key K) (row V, ok bool) { return rowOf(t.m.Get(key)) }

// Set puts the row at key and returns the row that was there.
func (t *Table[K, V]) Set(key K, row V) (was V, ok bool) { return rowOf(t.m.Set(key, &row)) }

// Delete removes the row at key and returns it.
func (t *Table[K, V]) Delete(key K) (was V, ok bool) { return rowOf(t.m.Delete(key)) }

func rowOf[V any](p *V, ok bool) (row V, _ bool) {
	if !ok {
		return row, false
	}
	return *p, true
}

// Len is the number of rows.
func (t *Table[K, V]) Len() int { return t.m.Len() }

// Last returns the row with the greatest key.
func (t *Table[K, V]) Last() (K, V, bool) {
	k, p, ok := t.m.Max()
	row, _ := rowOf(p, ok)
	return k, row, ok
}

// All yields rows in key order.
func (t *Table[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.m.Scan(func(k K, p *V) bool { return yield(k, *p) }) }
}

// From yields rows with a key of at least from, in key order.
func (t *Table[K, V]) From(from K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.m.Ascend(from, func(k K, p *V) bool { return yield(k, *p) }) }
}

// Back yields rows with a key below before, the greatest key first.
func (t *Table[K, V]) Back(before K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		t.m.Descend(before, func(k K, p *V) bool { return k == before || yield(k, *p) })
	}
}

// At returns the i-th row in key order, from 0.
func (t *Table[K, V]) At(i int) (K, V, bool) {
	k, p, ok := t.m.GetAt(i)
	row, _ := rowOf(p, ok)
	return k, row, ok
}

// Pair is a key for two ids that orders by the first, then the second; those below zero
// come last.
func Pair(a, b int64) string {
	var k [16]byte
	binary.BigEndian.PutUint64(k[:8], uint64(a))
	binary.BigEndian.PutUint64(k[8:], uint64(b))
	return string(k[:])
}

// First is the first id of a Pair.
func First(pair string) int64 { return int64(binary.BigEndian.Uint64([]byte(pair[:8]))) }
