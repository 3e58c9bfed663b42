// Package usage keeps in memory what running jobs use of the machine: the newest
// sample, and an hour of minutes. It is telemetry: nothing is charged by it, a restart
// forgets it, and what wasn't seen is unknown, never nothing.
package usage

import (
	"slices"
	"sync"
	"time"

	"croft.dev/croft/internal/id"
)

// Minutes is how many of them are kept of each attempt.
const Minutes = 60

const minute = int64(time.Minute)

// Sample is what an attempt uses at a time.
type Sample struct {
	At     int64  // ns
	CPU    int64  // milli-cores over the minute before; in a minute, over it
	Known  bool   // whether CPU is: it isn't in the first sample
	Memory int64  // bytes; in a minute, the most
	Device Device // the busiest of Devices that is known
	// Devices are those of the attempt, in its order.
	Devices []Device
}

// Device is how busy a device is.
type Device struct {
	UUID   string
	Known  bool
	Busy   int64 // thousandths of the time; in a minute, the most that was seen
	Memory int64 // bytes in use
}

// Seen is what an engine saw of an attempt.
type Seen struct {
	At      int64 // ns
	CPU     int64 // ns of CPU time used since it began
	Memory  int64 // bytes
	Devices []Device
}

// Book is the samples of all attempts that run. It is safe for concurrent use.
type Book struct {
	mu       sync.Mutex
	attempts map[id.Attempt]*series
}

// series is what is kept of one attempt.
type series struct {
	last    Sample
	recent  []Seen   // of the minute before the last one, which is among them
	begun   Seen     // at the begin of the minute under way
	minute  Sample   // so far
	minutes []Sample // complete, the oldest first
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{attempts: make(map[id.Attempt]*series)} }

// Put adds what was seen. What isn't newer than what is known is left out.
func (b *Book) Put(a id.Attempt, s Seen) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.attempts[a]
	if of == nil {
		of = &series{}
		b.attempts[a] = of
	}
	if n := len(of.recent); n == 0 || s.At > of.recent[n-1].At {
		of.put(s)
	}
}

func (s *series) put(seen Seen) {
	// A program that wakes up for a moment uses much in a short time, and little in a minute.
	for len(s.recent) > 1 && seen.At-s.recent[0].At > minute || len(s.recent) > 0 && seen.CPU < s.recent[len(s.recent)-1].CPU {
		s.recent = s.recent[1:]
	}
	var from Seen
	if len(s.recent) > 0 {
		from = s.recent[0]
	}
	s.last = sampleOf(from, seen)
	s.recent = append(s.recent, seen)
	if s.begun.At == 0 {
		s.begun = seen
	}
	if seen.At/minute != s.begun.At/minute {
		s.minute.At = s.begun.At / minute * minute
		s.minutes = append(s.minutes, s.minute)
		if n := len(s.minutes) - Minutes; n > 0 {
			s.minutes = slices.Delete(s.minutes, 0, n)
		}
		s.begun, s.minute = seen, Sample{}
	}
	most := s.minute
	s.minute = sampleOf(s.begun, seen)
	if !s.minute.Known {
		s.minute.CPU, s.minute.Known = s.last.CPU, s.last.Known
	}
	s.minute.Memory = max(s.minute.Memory, most.Memory)
	for i, d := range most.Devices {
		if i < len(s.minute.Devices) && d.Known && (!s.minute.Devices[i].Known || d.Busy > s.minute.Devices[i].Busy) {
			s.minute.Devices[i] = d
		}
	}
	s.minute.Device = busiest(s.minute.Devices)
}

// sampleOf is what was used from one sight to the next. CPU time that has gone back, as
// after the machine was restarted, says nothing.
func sampleOf(from, to Seen) Sample {
	s := Sample{At: to.At, Memory: to.Memory, Device: busiest(to.Devices), Devices: slices.Clone(to.Devices)}
	if passed := to.At - from.At; from.At != 0 && passed > 0 && to.CPU >= from.CPU {
		s.CPU, s.Known = milli(to.CPU-from.CPU, passed), true
	}
	return s
}

// maxCores bounds what can be believed.
const maxCores = 1_000_000

// milli is thousandths of used by passed, without overflow.
func milli(used, passed int64) int64 {
	return min(used/passed, maxCores)*1000 + used%passed/max((passed+999)/1000, 1)
}

func busiest(all []Device) Device {
	var most Device
	for _, d := range all {
		if d.Known && (!most.Known || d.Busy > most.Busy) {
			most = d
		}
	}
	return most
}

// Last returns the newest sample.
func (b *Book) Last(a id.Attempt) (Sample, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.attempts[a]
	if of == nil {
		return Sample{}, false
	}
	return of.last, true
}

// Hour returns the minutes that are kept, the oldest first; the last is the one under way.
func (b *Book) Hour(a id.Attempt) []Sample {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.attempts[a]
	if of == nil {
		return nil
	}
	out := slices.Clone(of.minutes)
	under := of.minute
	under.At = of.begun.At / minute * minute
	return append(out, under)
}

// Keep forgets every attempt that keep doesn't have.
func (b *Book) Keep(keep map[id.Attempt]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for a := range b.attempts {
		if !keep[a] {
			delete(b.attempts, a)
		}
	}
}
