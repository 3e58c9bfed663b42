package workload

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Bounds of an array.
const (
	MaxElements = 1_000_000
	MaxIndex    = 9_999_999
)

// Elements is a set of indices as few ranges, in order and without overlap.
type Elements []Range

// Range is First, First+Step and so on up to Last, which is one of them.
type Range struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	Step  int64 `json:"step"`
}

// Len is how many indices the range has.
func (r Range) Len() int64 { return (r.Last-r.First)/r.Step + 1 }

func (r Range) has(i int64) bool { return r.First <= i && i <= r.Last && (i-r.First)%r.Step == 0 }

// Len is how many indices there are.
func (e Elements) Len() int64 {
	var n int64
	for _, r := range e {
		n += r.Len()
	}
	return n
}

// Has reports whether i is one of them.
func (e Elements) Has(i int64) bool {
	k := e.find(i)
	return k < len(e) && e[k].has(i)
}

// find is where i is, or would be put: the first range that doesn't end before it.
func (e Elements) find(i int64) int {
	return sort.Search(len(e), func(k int) bool { return e[k].Last >= i })
}

// Common is how many indices two sets have in common.
func (e Elements) Common(o Elements) int64 {
	if len(o) == 0 {
		return 0
	}
	var n int64
	for i := range e.All {
		if o.Has(i) {
			n++
		}
	}
	return n
}

// below is how many indices are below i.
func (e Elements) below(i int64) int64 {
	k := e.find(i)
	n := e[:k].Len()
	if k < len(e) && e[k].First < i {
		n += (i-1-e[k].First)/e[k].Step + 1
	}
	return n
}

// First is the first n indices, or all if there are fewer.
func (e Elements) First(n int64) Elements {
	var out Elements
	for _, r := range e {
		if n <= 0 {
			break
		}
		if r.Len() > n {
			r.Last = r.First + (n-1)*r.Step
		}
		n -= r.Len()
		out = append(out, r)
	}
	return out
}

// All yields the indices in order.
func (e Elements) All(yield func(int64) bool) {
	for _, r := range e {
		for i := r.First; i <= r.Last; i += r.Step {
			if !yield(i) {
				return
			}
		}
	}
}

// ParseElements reads "0-99:2,105,107": indices, ranges and ranges with a stride.
func ParseElements(s string) (Elements, error) {
	var out Elements
	var n int64
	for part := range strings.SplitSeq(s, ",") {
		r, err := parseRange(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if n += r.Len(); n > MaxElements {
			return nil, fmt.Errorf("has more than %d elements", MaxElements)
		}
		out = append(out, r)
	}
	if len(out) == 1 {
		return out, nil
	}
	var all []int64
	for i := range out.All {
		all = append(all, i)
	}
	slices.Sort(all)
	return compress(slices.Compact(all)), nil
}

func parseRange(s string) (Range, error) {
	bad := fmt.Errorf("%q isn't an index from 0 to %d or a range: write e.g. 0-99:2,105", clip(s), MaxIndex)
	span, step, strided := strings.Cut(s, ":")
	first, last, ranged := strings.Cut(span, "-")
	r := Range{Step: 1}
	var ok bool
	if r.First, ok = index(first); !ok || strided && !ranged {
		return r, bad
	}
	if r.Last = r.First; ranged {
		if r.Last, ok = index(last); !ok || r.Last < r.First {
			return r, bad
		}
	}
	if strided {
		if r.Step, ok = index(step); !ok || r.Step < 1 {
			return r, bad
		}
	}
	r.Last -= (r.Last - r.First) % r.Step
	if r.Last == r.First {
		r.Step = 1
	}
	return r, nil
}

func index(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return int64(n), err == nil && n <= MaxIndex && len(s) <= 8
}

// String is what ParseElements reads.
func (e Elements) String() string {
	var b strings.Builder
	for i, r := range e {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(r.First, 10))
		if r.Last > r.First {
			b.WriteString("-" + strconv.FormatInt(r.Last, 10))
		}
		if r.Step > 1 {
			b.WriteString(":" + strconv.FormatInt(r.Step, 10))
		}
	}
	return b.String()
}

// compress makes ranges of indices that are in order and each there once.
func compress(all []int64) Elements {
	var out Elements
	for i := 0; i < len(all); {
		k := i + 1
		if k < len(all) {
			step := all[k] - all[i]
			for k+1 < len(all) && all[k+1]-all[k] == step {
				k++
			}
			if n := k - i + 1; n > 2 || step == 1 {
				out = append(out, Range{all[i], all[k], step})
				i = k + 1
				continue
			}
		}
		out = append(out, Range{all[i], all[i], 1})
		i++
	}
	return out
}

// And is what is in both sets.
func (e Elements) And(o Elements) Elements {
	in, _ := e.split(o)
	return in
}

// split parts the set into what is in o and the rest.
func (e Elements) split(o Elements) (in, rest Elements) {
	var a, b []int64
	for i := range e.All {
		if o.Has(i) {
			a = append(a, i)
		} else {
			b = append(b, i)
		}
	}
	slices.Sort(a)
	slices.Sort(b)
	return compress(a), compress(b)
}

// without is the set without one index, in a time that follows from the ranges alone,
// however long those are.
func (e Elements) without(i int64) Elements {
	k := e.find(i)
	if k == len(e) || !e[k].has(i) {
		return e
	}
	out := append(make(Elements, 0, len(e)+1), e[:k]...)
	below, above := e[k].around(i)
	return append(append(append(out, below...), above...), e[k+1:]...)
}

// with is the set with one index more, likewise.
func (e Elements) with(i int64) Elements {
	k := e.find(i)
	out := append(make(Elements, 0, len(e)+2), e[:k]...)
	if k == len(e) || i < e[k].First {
		return append(out.push(Range{i, i, 1}), e[k:]...).meet(len(out))
	}
	if e[k].has(i) {
		return e
	}
	below, above := e[k].around(i)
	return append(append(append(append(out, below...), Range{i, i, 1}), above...), e[k+1:]...)
}

// push puts a range at the end of the set, as part of the last one if it goes on there.
func (e Elements) push(r Range) Elements {
	n := len(e)
	if n == 0 || !e[n-1].goesOn(r) {
		return append(e, r)
	}
	e[n-1] = Range{e[n-1].First, r.Last, r.First - e[n-1].Last}
	return e
}

// meet joins the range at or before k with the one after it, if that goes on there.
func (e Elements) meet(k int) Elements {
	k = min(k, len(e)-1)
	if k > 0 && e[k-1].goesOn(e[k]) {
		k--
	}
	for k+1 < len(e) && e[k].goesOn(e[k+1]) {
		e[k] = Range{e[k].First, e[k+1].Last, e[k+1].First - e[k].Last}
		e = slices.Delete(e, k+1, k+2)
	}
	return e
}

// goesOn reports whether o is r's continuation.
func (r Range) goesOn(o Range) bool {
	step := o.First - r.Last
	return (step == 1 || r.Len() > 1) && (r.Len() == 1 || r.Step == step) && (o.Len() == 1 || o.Step == step)
}

// around is the parts of a range below an index and above it.
func (r Range) around(i int64) (below, above Elements) {
	if last := i - 1 - floorMod(i-1-r.First, r.Step); last >= r.First {
		below = Elements{single(Range{r.First, last, r.Step})}
	}
	if first := i + r.Step - floorMod(i-r.First, r.Step); first <= r.Last {
		above = Elements{single(Range{first, r.Last, r.Step})}
	}
	return below, above
}

func floorMod(a, b int64) int64 { return ((a % b) + b) % b }

// join is what is in either of the sets.
func (e Elements) join(o Elements) Elements {
	if len(e) == 0 {
		return o
	}
	var all []int64
	for i := range e.All {
		all = append(all, i)
	}
	for i := range o.All {
		all = append(all, i)
	}
	slices.Sort(all)
	return compress(slices.Compact(all))
}

// MarshalJSON writes the text form, which is a fraction of the size, and as a list of
// ranges what has none.
func (e Elements) MarshalJSON() ([]byte, error) {
	for _, r := range e {
		if r.First < 0 || r.Last < r.First || r.Last > MaxIndex || r.Step < 1 || (r.Last-r.First)%r.Step != 0 || r.Last == r.First && r.Step != 1 {
			return json.Marshal([]Range(e))
		}
	}
	return json.Marshal(e.String())
}

// UnmarshalJSON reads either.
func (e *Elements) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '"' {
		return json.Unmarshal(b, (*[]Range)(e))
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	*e = nil
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		r, err := parseRange(part)
		if err != nil {
			return err
		}
		*e = append(*e, r)
	}
	return nil
}

func single(r Range) Range {
	if r.First == r.Last {
		r.Step = 1
	}
	return r
}
