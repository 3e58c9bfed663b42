package placement

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"croft.dev/croft/internal/catalog"
)

// track is what is free on one node over time: a step function. Row i holds from
// at[i] until at[i+1], the last one for ever.
type track struct {
	node   string
	models []string // sorted
	shared []shared // devices that jobs have parts of, in the order of their columns
	total  offer    // what is usable at all
	labels map[string]string
	n      int     // its place in the timeline
	at     []int64 // strictly rising; at[0] is the start of the timeline
	free   []int64 // rows of width columns
	ports  *portBook
}

// The columns of a row. Those from devs on are free whole devices, in milli-devices by
// model; then follow the shared devices, with what is used of each.
const (
	cpus = iota
	mems
	shut // maintenance windows: the node is closed while there is any
	devs
)

func (t *track) width() int        { return devs + len(t.models) + len(t.shared) }
func (t *track) row(i int) []int64 { w := t.width(); return t.free[i*w : (i+1)*w : (i+1)*w] }

// end is when row i ends.
func (t *track) end(i int) int64 {
	if i+1 < len(t.at) {
		return t.at[i+1]
	}
	return math.MaxInt64
}

// find is the row that is in force at time.
func (t *track) find(time int64) int {
	return max(0, sort.Search(len(t.at), func(i int) bool { return t.at[i] > time })-1)
}

// cut makes a row begin at time, and returns it; len(at) for the end of time.
func (t *track) cut(time int64) int {
	if time == math.MaxInt64 {
		return len(t.at)
	}
	i := t.find(time)
	if t.at[i] >= time {
		return i
	}
	t.at = slices.Insert(t.at, i+1, time)
	t.free = slices.Insert(t.free, (i+1)*t.width(), t.row(i)...)
	return i + 1
}

// join drops row i if it says the same as the one before.
func (t *track) join(i int) {
	if i > 0 && i < len(t.at) && slices.Equal(t.row(i-1), t.row(i)) {
		t.at = slices.Delete(t.at, i, i+1)
		t.free = slices.Delete(t.free, i*t.width(), (i+1)*t.width())
	}
}

// add takes a use in [from, to), or with sign +1 gives it back.
func (t *track) add(from, to int64, u use, sign int64) {
	if from >= to {
		return
	}
	i := t.cut(from)
	j := t.cut(to)
	for k := i; k < j; k++ {
		t.apply(t.row(k), u, sign)
	}
	t.join(j)
	t.join(i)
	t.ports.add(u.ports, from, to, sign)
}

// gpu is how many whole devices a row has free.
func (t *track) gpu(row []int64) int64 {
	var n int64
	for _, free := range row[devs:t.column(0)] {
		n += max(0, free)
	}
	return n
}

// most is how much of the devices of a row one job like sh can have; of a part, as
// far as whole devices go.
func (t *track) most(row []int64, sh Shape) int64 {
	var n int64
	for i, m := range t.models {
		switch {
		case !catalog.Allows(sh.Model, m):
		case sh.Mixed:
			n += max(0, row[devs+i])
		default:
			n = max(n, row[devs+i])
		}
	}
	return n
}

func (t *track) fits(row []int64, sh Shape) bool {
	return row[cpus] >= sh.CPU && row[mems] >= sh.Mem && row[shut] == 0 &&
		(sh.GPU == 0 || t.most(row, sh) >= sh.GPU || sh.part() && t.hasRoom(row, sh))
}

// hasRoom reports whether a shared device has room for sh, a part.
func (t *track) hasRoom(row []int64, sh Shape) bool {
	for i, d := range t.shared {
		if m := t.models[d.model]; t.roomOn(i, row) >= sh.Of(m) && catalog.Allows(sh.Model, m) {
			return true
		}
	}
	return false
}

// try reports whether sh fits from start to its end. If so, low is what is free
// throughout, else next is the first later time worth trying, the end of time if
// there is none. Low's storage is reused; it says nothing of shared devices.
func (t *track) try(sh Shape, start int64, low []int64) (_ []int64, next int64, ok bool) {
	first := t.find(start)
	if !t.fits(t.row(first), sh) {
		return low, t.end(first), false
	}
	end := after(start, sh.Length())
	if free, ok := t.ports.free(sh.Ports, start, end); !ok {
		return low, free, false
	}
	low = append(low[:0], t.row(first)...)
	for i := first + 1; i < len(t.at) && t.at[i] < end; i++ {
		row := t.row(i)
		if !t.fits(row, sh) {
			return low, t.end(i), false
		}
		for c, n := range row {
			low[c] = min(low[c], n)
		}
	}
	// A job keeps its devices: what counts is what is free throughout, by model or on
	// one that is shared.
	if sh.part() {
		_, ok = t.seat(sh, start, low)
	} else {
		ok = t.fits(low, sh)
	}
	if !ok {
		return low, t.end(first), false
	}
	return low, 0, true
}

// earliest is the first start in [from, until] at which sh fits.
func (t *track) earliest(sh Shape, from, until int64, low []int64) (_ []int64, start int64, ok bool) {
	if !t.total.fits(sh) {
		return low, 0, false
	}
	for start = max(from, t.at[0]); start <= until && start < math.MaxInt64; {
		var next int64
		if low, next, ok = t.try(sh, start, low); ok {
			return low, start, true
		}
		start = next
	}
	return low, 0, false
}

// has reports whether a use is free throughout [from, to).
func (t *track) has(u use, from, to int64) bool {
	for i := t.find(from); i < len(t.at) && t.at[i] < to; i++ {
		row := t.row(i)
		for c, n := range u.row {
			if n > 0 && n > row[c] || row[shut] > 0 {
				return false
			}
		}
	}
	if _, free := t.ports.free(u.ports, from, to); !free || u.part == 0 {
		return free
	}
	_, _, ok := t.joins(u.shared, u.part, from, to)
	return ok
}

// uses is the row of whole devices of these models, and of the rest.
func (t *track) uses(cpu, mem int64, models []catalog.ModelCount) []int64 {
	row := make([]int64, t.column(0))
	row[cpus], row[mems] = cpu, mem
	for _, m := range models {
		if i, ok := slices.BinarySearch(t.models, m.Model); ok {
			row[devs+i] += m.Count
		}
	}
	return row
}

// counts is the whole devices of a row, by model, of a set of models.
func (t *track) counts(row []int64, models string) []catalog.ModelCount {
	var out []catalog.ModelCount
	for i, m := range t.models {
		if n := row[devs+i]; n > 0 && catalog.Allows(models, m) {
			out = append(out, catalog.ModelCount{Model: m, Count: n})
		}
	}
	return out
}

func byNode(t *track, node string) int { return cmp.Compare(t.node, node) }
