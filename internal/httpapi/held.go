package httpapi

import (
	"sync"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// held counts the requests of each user that go on: waits, logs, events, exec
// and attach.
// Each costs the server something at every publication, so one user's are bounded.
type held struct {
	mu sync.Mutex
	by map[int64]int // by user id; zero counts aren't kept
}

// heldPerUser is far above what people and their scripts need: croft run holds
// three for each job that it follows.
const heldPerUser = 1024

// take counts a request of user's in, or refuses it. release counts it out.
func (h *held) take(user int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil {
		h.by = map[int64]int{}
	}
	if h.by[user] >= heldPerUser {
		return fault.New(codes.TooMany, "you follow %d jobs, logs or events at once already: end some of them, or use croft submit and croft ls", heldPerUser)
	}
	h.by[user]++
	return nil
}

func (h *held) release(user int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by[user]--; h.by[user] == 0 {
		delete(h.by, user)
	}
}
