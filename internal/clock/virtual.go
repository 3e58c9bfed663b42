package clock

import (
	"container/heap"
	"sync"
	"time"
)

// Virtual is a clock that stands still until it is advanced. Timers fire in the
// order of their times, those of one time in the order in which they were made,
// so that a run is repeatable. Make one with NewVirtual.
type Virtual struct {
	advancing sync.Mutex // held by the one Advance in progress; taken before mu

	mu     sync.Mutex
	now    time.Time
	made   int64 // timers made so far
	timers timerHeap
}

var _ Clock = (*Virtual)(nil)

// NewVirtual returns a clock that shows start.
func NewVirtual(start time.Time) *Virtual { return &Virtual{now: start} }

// Now implements Clock.
func (v *Virtual) Now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// NewTimer implements Clock.
func (v *Virtual) NewTimer(d time.Duration) *Timer {
	c := make(chan time.Time, 1)
	if d <= 0 {
		c <- v.Now()
		return &Timer{C: c, stop: func() bool { return false }}
	}
	t := v.add(d, func(now time.Time) { c <- now })
	t.C = c
	return t
}

// AfterFunc implements Clock. f must not call Advance. With d not positive f is
// called by the next Advance, also by one of 0.
func (v *Virtual) AfterFunc(d time.Duration, f func()) *Timer {
	return v.add(max(d, 0), func(time.Time) { f() })
}

// Advance moves the clock by d, which must not be negative, and fires what
// becomes due on the way, each at its own time; also what is made meanwhile.
// When it returns, every AfterFunc that was due has returned.
func (v *Virtual) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: Advance by a negative duration")
	}
	v.advancing.Lock()
	defer v.advancing.Unlock()
	end := v.Now().Add(d)
	for v.fireNext(end) {
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = end
}

// Next returns when the next timer fires; ok is false if there is none. A
// simulation advances from one such time to the next.
func (v *Virtual) Next() (at time.Time, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.timers) == 0 {
		return time.Time{}, false
	}
	return v.timers[0].at, true
}

// fireNext fires the first timer due by end.
func (v *Virtual) fireNext(end time.Time) bool {
	v.mu.Lock()
	if len(v.timers) == 0 || v.timers[0].at.After(end) {
		v.mu.Unlock()
		return false
	}
	t := heap.Pop(&v.timers).(*virtualTimer)
	v.now = t.at
	v.mu.Unlock() // fire may make and stop timers
	t.fire(t.at)
	return true
}

func (v *Virtual) add(d time.Duration, fire func(now time.Time)) *Timer {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.made++
	t := &virtualTimer{at: v.now.Add(d), seq: v.made, fire: fire}
	heap.Push(&v.timers, t)
	return &Timer{stop: func() bool { return v.remove(t) }}
}

func (v *Virtual) remove(t *virtualTimer) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t.index < 0 {
		return false
	}
	heap.Remove(&v.timers, t.index)
	return true
}

// virtualTimer is a timer of a Virtual. index is its place in the heap, -1 once
// it has left it.
type virtualTimer struct {
	at    time.Time
	seq   int64
	fire  func(now time.Time)
	index int
}

// timerHeap is a heap.Interface of timers by time, then by seq.
type timerHeap []*virtualTimer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	t := x.(*virtualTimer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
