package placement

import (
	"math"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/quantity"
)

// A device that jobs have parts of is a column of its own on a track, which says how
// much of it is used. As long as that is nothing, the device counts among the whole
// ones of its model; so a part that is planned on a device of its own makes one whole
// device fewer from its start to its end, and another that overlaps it in time may
// join it there. Which device a column is follows when the first of its parts starts.
//
// Parts are packed as GPU Packing does in Weng et al., "MLaaS in the Wild" (NSDI 2022)
// and "Beware of Fragmentation" (ATC 2023): onto the device that is shared already and
// has least left over, and only then onto a whole one.

// shared is the device of a column.
type shared struct {
	uuid  string // "" as long as no job has a part of it
	label string // what the last pass called it, see Promise.Shared
	model int    // its place among the track's models
}

// use is what a job takes of a node's rows.
type use struct {
	row    []int64 // of the columns before those of shared devices
	shared int     // the shared device that it has a part of
	part   int64   // milli-devices; 0: its devices are whole, and in row
	ports  Ports
}

// apply takes a use out of a row, or with sign +1 gives it back.
func (t *track) apply(row []int64, u use, sign int64) {
	for c, n := range u.row {
		row[c] += sign * n
	}
	if u.part == 0 {
		return
	}
	used, whole := &row[t.column(u.shared)], &row[devs+t.shared[u.shared].model]
	if sign < 0 && *used == 0 {
		*whole -= quantity.Device
	}
	if *used -= sign * u.part; sign > 0 && *used == 0 {
		*whole += quantity.Device
	}
}

// column is where a row says how much of a shared device is used.
func (t *track) column(shared int) int { return devs + len(t.models) + shared }

// open finds a column for a device of a model: one in which nothing is used at any
// time, or a new one.
func (t *track) open(model int) int {
	for i, d := range t.shared {
		if d.model == model && d.uuid == "" && !t.used(i) {
			t.shared[i].label = ""
			return i
		}
	}
	w := t.width()
	free := make([]int64, 0, len(t.at)*(w+1))
	for i := range t.at {
		free = append(append(free, t.row(i)...), 0)
	}
	t.free, t.shared = free, append(t.shared, shared{model: model})
	return len(t.shared) - 1
}

// used reports whether a shared device is in use at any time.
func (t *track) used(shared int) bool {
	for i := range t.at {
		if t.row(i)[t.column(shared)] > 0 {
			return true
		}
	}
	return false
}

// sharedBy finds the column of a device by what a predicate says of it.
func (t *track) sharedBy(is func(shared) bool) (int, bool) {
	i := slices.IndexFunc(t.shared, is)
	return i, i >= 0
}

// joins reports whether a part fits a shared device throughout [from, to), what is
// then left over of it when it is fullest, and whether anybody else uses it then.
func (t *track) joins(shared int, part, from, to int64) (left int64, others, ok bool) {
	at, whole := t.column(shared), devs+t.shared[shared].model
	left = quantity.Device - part
	for i := t.find(from); i < len(t.at) && t.at[i] < to; i++ {
		switch row := t.row(i); {
		case row[at] == 0 && row[whole] < quantity.Device:
			return 0, false, false
		case row[at] > 0:
			others = true
			left = min(left, quantity.Device-part-row[at])
		}
	}
	return left, others, left >= 0
}

// seat is where a part goes on a node.
type seat struct {
	shared int // -1: a whole device of the model, which it opens
	model  int
	left   int64 // of the device, when it is fullest
}

// seat chooses the device for sh, a part, from start on; low is what is free
// throughout.
func (t *track) seat(sh Shape, start int64, low []int64) (seat, bool) {
	best := seat{left: math.MaxInt64}
	end := after(start, sh.Length())
	for i, d := range t.shared {
		if !catalog.Allows(sh.Model, t.models[d.model]) {
			continue
		}
		if left, others, ok := t.joins(i, sh.Of(t.models[d.model]), start, end); ok && others && left < best.left {
			best = seat{i, d.model, left}
		}
	}
	if best.left < math.MaxInt64 {
		return best, true
	}
	for _, m := range split(t.counts(low, sh.Model), Shape{GPU: quantity.Device, Model: sh.Model}) {
		i, _ := slices.BinarySearch(t.models, m.Model)
		return seat{-1, i, quantity.Device - sh.Of(m.Model)}, true
	}
	return seat{}, false
}

// roomOn is how much of a shared device is free in a row.
func (t *track) roomOn(shared int, row []int64) int64 {
	if used := row[t.column(shared)]; used > 0 {
		return quantity.Device - used
	}
	return 0
}
