package workload

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/table"
)

// ArraySpec asks for a job of many elements, which differ by their index alone.
type ArraySpec struct {
	Elements Elements `json:"elements,omitempty"`
	Most     int64    `json:"most,omitempty"` // running at once; 0: no bound
}

// ParseArray reads "0-99:2,105%10".
func ParseArray(s string) (ArraySpec, error) {
	var a ArraySpec
	if s == "" {
		return a, nil
	}
	list, most, bounded := strings.Cut(s, "%")
	if bounded {
		n, err := strconv.ParseInt(most, 10, 32)
		if err != nil || n < 1 {
			return a, fmt.Errorf("%q after %% isn't a number of elements that may run at once", clip(most))
		}
		a.Most = n
	}
	var err error
	if a.Elements, err = ParseElements(list); err != nil {
		return a, err
	}
	if len(a.Elements) > maxRanges {
		return a, fmt.Errorf("has %d ranges: at most %d", len(a.Elements), maxRanges)
	}
	return a, nil
}

// String is what ParseArray reads.
func (a ArraySpec) String() string {
	s := a.Elements.String()
	if a.Most > 0 {
		s += "%" + strconv.FormatInt(a.Most, 10)
	}
	return s
}

// Jobs is how many jobs the spec stands for.
func (s Spec) Jobs() int64 { return max(1, s.Array.Elements.Len()) }

// Array is how far a job of many elements is. An element that waits is no job of its
// own yet: it is an index in Pending, so that a hundred thousand cost no more than one.
// It becomes a job when it starts, and what is left of it when it has ended is a count.
type Array struct {
	Pending Elements     `json:"pending,omitempty"`
	Ready   Elements     `json:"ready,omitempty"`  // of an array that waits element by element: those of Pending that may start
	Lost    Elements     `json:"lost,omitempty"`   // likewise: those of Pending that can't any more, and end next
	Active  int64        `json:"active,omitempty"` // elements that are jobs and haven't ended
	Ended   []Tally      `json:"ended,omitempty"`  // by outcome
	Failed  Elements     `json:"failed,omitempty"` // that ended otherwise than completed: the first to do so
	More    int64        `json:"more,omitempty"`   // so many of them aren't listed
	Moved   money.Micros `json:"moved,omitempty"`  // of the deposit, to elements that started
	// What elements that have ended were charged, and what of their deposits came back.
	Charged  money.Micros `json:"charged,omitempty"`
	Returned money.Micros `json:"returned,omitempty"`
}

// String shows all of it, for whoever prints or compares a row.
func (a *Array) String() string {
	if a == nil {
		return "-"
	}
	return fmt.Sprintf("%+v", *a)
}

// Tally counts elements by outcome.
type Tally struct {
	Outcome codes.Outcome `json:"outcome"`
	Count   int64         `json:"count"`
}

// maxRanges bounds what a row holds of an array.
const maxRanges = 1024

// Room reports whether an element may start, as far as the array itself goes.
func (j *Job) Room() bool {
	return j.Array == nil || len(j.ready()) > 0 && (j.Spec.Array.Most == 0 || j.Array.Active < j.Spec.Array.Most)
}

// ready are the elements that wait for nothing but their turn.
func (j *Job) ready() Elements {
	if _, corresponds := j.Spec.After.Corresponds(); corresponds {
		return j.Array.Ready
	}
	return j.Array.Pending
}

// Ready reports whether an element waits for nothing but its turn.
func (j *Job) Ready(index int64) bool { return j.ready().Has(index) }

// Before is how many elements are next before one that waits.
func (j *Job) Before(index int64) int64 { return j.ready().below(index) }

// Waits is how many jobs wait in the row.
func (j *Job) Waits() int64 {
	if j.Array == nil {
		return 1
	}
	return j.Array.Pending.Len()
}

// Whole is the array that the job is an element of, else the job itself.
func (j *Job) Whole() id.Job { return cmp.Or(j.Of, j.ID) }

// Row is the row that the job waits in: that of its array for an element that is no job
// yet, else its own.
func (j *Job) Row() id.Job {
	k, _, _ := j.ID.Array()
	return k
}

// Name is how people call the job: 118, or 118_7 for an element.
func (j *Job) Name() string {
	if j.Of != 0 {
		return fmt.Sprintf("%d_%d", j.Of, j.Index)
	}
	return strconv.FormatInt(int64(j.ID), 10)
}

// Element is an element that waits as the job that it becomes, under number k. It takes
// its share of the deposit along.
func (j *Job) Element(k id.Job, index int64) *Job {
	e := *j
	e.ID, e.Of, e.Index, e.Array, e.Key = k, j.ID, index, nil, ""
	e.Spec.Array = ArraySpec{}
	e.Spec.After, e.Met = j.lasting()
	e.State, e.Hold, e.Message = Queued, NoHold, ""
	e.Sources = j.Share(1)
	e.Deposit, e.Charged, e.Returned, e.Refunded = 0, 0, 0, 0
	for _, p := range e.Sources {
		e.Deposit += p.Left
	}
	return &e
}

// Share is what n of the elements that wait have of the deposit, by source: the same
// each, and the last what is left.
func (j *Job) Share(n int64) []Part {
	waits := j.Waits()
	if n >= waits {
		return slices.Clone(j.Sources)
	}
	var left money.Micros
	for _, p := range j.Sources {
		left += p.Left
	}
	want := left / money.Micros(waits) * money.Micros(n)
	var out []Part
	for _, p := range j.Sources {
		take := min(p.Left, want)
		want -= take
		out = append(out, Part{Source: p.Source, Left: take})
	}
	return out
}

// Take takes a share out of the deposit.
func (j *Job) Take(share []Part) {
	j.Sources = slices.Clone(j.Sources)
	for i, p := range share {
		j.Sources[i].Left -= p.Left
	}
}

// Starts notes that an element has become a job.
func (j *Job) Starts(index int64) {
	a := *j.Array
	a.Pending, a.Ready, a.Active = a.Pending.without(index), a.Ready.without(index), a.Active+1
	j.Array = &a
}

// Drops takes elements that wait out of the array, as ended so.
func (j *Job) Drops(which Elements, o codes.Outcome) (n int64) {
	a := *j.Array
	var in Elements
	if which == nil {
		in, a.Pending, a.Ready, a.Lost = a.Pending, nil, nil, nil
	} else {
		in, a.Pending = a.Pending.split(which)
		_, a.Ready = a.Ready.split(in)
		_, a.Lost = a.Lost.split(in)
	}
	n = in.Len()
	a.tally(o, n)
	if len(a.Failed)+len(in) <= maxRanges && a.Failed.Len()+n <= 4*maxRanges {
		for i := range in.All {
			a.Failed = a.Failed.with(i)
		}
	} else {
		a.More += n
	}
	j.Array = &a
	return n
}

// Fragmented reports that what waits has become too many ranges for a row. Of an array
// that waits element by element others decide what is left: it is bounded by its size.
func (j *Job) Fragmented() bool { return len(j.Array.Pending) > max(maxRanges, maxCorresponding/2) }

// Ends notes that an element has ended.
func (j *Job) Ends(e *Job) {
	a := *j.Array
	a.Active--
	a.Charged += e.Charged
	a.Returned += e.Returned + e.Refunded
	a.tally(e.Outcome, 1)
	if e.Outcome != codes.Completed {
		if len(a.Failed) < maxRanges {
			a.Failed = a.Failed.with(e.Index)
		} else {
			a.More++
		}
	}
	j.Array = &a
}

func (a *Array) tally(o codes.Outcome, n int64) {
	if n == 0 {
		return
	}
	i, ok := slices.BinarySearchFunc(a.Ended, o, func(t Tally, o codes.Outcome) int { return cmp.Compare(t.Outcome, o) })
	a.Ended = slices.Clone(a.Ended)
	if !ok {
		a.Ended = slices.Insert(a.Ended, i, Tally{Outcome: o})
	}
	a.Ended[i].Count += n
}

// Over reports whether no element waits or runs, and as what the array ends: completed
// if all have, cancelled if the others were, else failed.
func (a *Array) Over() (codes.Outcome, bool) {
	if len(a.Pending) > 0 || a.Active > 0 {
		return "", false
	}
	out := codes.Completed
	for _, t := range a.Ended {
		switch {
		case t.Outcome == codes.Completed:
		case t.Outcome == codes.Cancelled && out != codes.Failed:
			out = codes.Cancelled
		default:
			out = codes.Failed
		}
	}
	return out, true
}

// maxAhead bounds the elements of one array that a look at the queue sees as jobs; the
// next look sees those after them.
const maxAhead = 256

// Next yields the elements of a waiting array that may be next, as the jobs that they
// would become, under numbers for the moment.
func (j *Job) Next(yield func(*Job) bool) {
	most := int64(maxAhead)
	if n := j.Spec.Array.Most; n > 0 {
		most = min(most, n-j.Array.Active)
	}
	for i := range j.ready().All {
		if most--; most < 0 {
			return
		}
		e := j.Element(id.Element(j.ID, i), i)
		if !yield(e) {
			return
		}
		j = j.withoutPromise()
	}
}

// withoutPromise is the array as those after its first element see it.
func (j *Job) withoutPromise() *Job {
	if j.Promise == 0 && j.Claim == 0 {
		return j
	}
	c := *j
	c.Promise, c.Claim = 0, 0
	return &c
}

// First is the element that is next.
func (j *Job) First() *Job {
	for e := range j.Next {
		return e
	}
	return j
}

// ElementsOf yields the elements of an array that are jobs and haven't ended.
func (s *State) ElementsOf(array id.Job) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for k, e := range s.elements.From(table.Pair(int64(array), 0)) {
			if k >= table.Pair(int64(array)+1, 0) {
				return
			}
			if j, ok := s.Jobs.Get(e); ok && !yield(j) {
				return
			}
		}
	}
}

// Element is an element of an array that is a job and hasn't ended.
func (s *State) Element(array id.Job, index int64) (*Job, bool) {
	k, ok := s.elements.Get(table.Pair(int64(array), index))
	if !ok {
		return nil, false
	}
	return s.Jobs.Get(k)
}

// Stands reports whether a job, or an element by its number, hasn't ended.
func (s *State) Stands(k id.Job) bool {
	array, index, element := k.Array()
	if !element {
		_, ok := s.Jobs.Get(k)
		return ok
	}
	if _, ok := s.Element(array, index); ok {
		return true
	}
	j, ok := s.Jobs.Get(array)
	return ok && j.Array != nil && j.Array.Pending.Has(index)
}
