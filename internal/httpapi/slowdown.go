package httpapi

import (
	"hash/maphash"
	"sync"
	"time"
)

// slowdown bounds how often something may fail, by a key that callers choose, in
// memory that they can't fill: so many times at once, then once in a while. It is a
// count-min sketch (Cormode and Muthukrishnan 2005) of the times that GCRA keeps
// (ITU-T I.371): keys share slots, and the slot that others share the least speaks.
// Whoever shares all of his slots with somebody else who fails waits with him.
type slowdown struct {
	burst int64
	every int64 // ns

	mu   sync.Mutex
	seed maphash.Seed
	at   [slowRows][slowSlots]int64 // ns; when a slot will be as if nothing had failed
}

const (
	slowRows  = 3
	slowSlots = 4096
)

func newSlowdown(burst int64, every time.Duration) *slowdown {
	return &slowdown{burst: burst, every: int64(every), seed: maphash.MakeSeed()}
}

// take counts a failure of key in, or says how long it has to wait, in ns. Take
// before it is known how it goes, and give back when it went well: of many at once
// no more than so many go through. What is given back is what this one added, slot by
// slot: who shares a slot gains nothing by it.
func (s *slowdown) take(key string, now int64) (give func(), wait int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := s.slots(key)
	at := s.until(slots, now)
	if wait := at - now - (s.burst-1)*s.every; wait > 0 {
		return nil, wait
	}
	var added [slowRows]int64
	for row, i := range slots {
		from := max(s.at[row][i], now)
		added[row] = max(at+s.every-from, 0)
		s.at[row][i] = from + added[row]
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for row, i := range slots {
			s.at[row][i] -= added[row]
		}
	}, 0
}

// until is when all failures of the slots will be forgotten. A clock that was set
// back must not keep anybody waiting for longer than a full burst.
func (s *slowdown) until(slots [slowRows]uint64, now int64) int64 {
	most := now + s.burst*s.every
	at := most
	for row, i := range slots {
		at = min(at, s.at[row][i])
		s.at[row][i] = min(s.at[row][i], most)
	}
	return max(at, now)
}

func (s *slowdown) slots(key string) (out [slowRows]uint64) {
	sum := maphash.String(s.seed, key)
	for row := range out {
		out[row] = sum % slowSlots
		sum /= slowSlots
	}
	return out
}
