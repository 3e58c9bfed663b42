package app

import (
	"fmt"
	"sync"
	"time"

	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/quantity"
)

// jumpLimit is by how much the wall clock may outrun the monotonic one before
// expiry pauses.
const jumpLimit = 5 * time.Minute

// worldClock is the guarded time of the world, for all who ask.
type worldClock struct {
	mu    sync.Mutex
	guard *clock.Guard
	read  func() clock.Reading
	last  clock.Instant
}

func newWorldClock(newest int64) *worldClock {
	return &worldClock{guard: clock.NewGuard(newest, jumpLimit), read: clock.Readings()}
}

// Now is the world's time in ns; ok is false while the wall clock has jumped.
func (c *worldClock) Now() (ns int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = c.guard.Observe(c.read())
	return c.last.Now, !c.last.Jumped
}

// Nanos is Now for those who don't conclude anything from it.
func (c *worldClock) Nanos() int64 {
	ns, _ := c.Now()
	return ns
}

// Confirm declares that the wall clock is right.
func (c *worldClock) Confirm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = c.guard.Confirm(c.read())
}

// Words says how the clock is, for status.
func (c *worldClock) Words() string {
	if _, ok := c.Now(); ok {
		return "ok"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("the machine's clock jumped ahead by %s: nothing expires until it is confirmed (systemctl reload croft) or set right", quantity.FormatDuration(c.last.Ahead))
}
