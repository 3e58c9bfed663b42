// Package clock is time for the parts of Croft that act by themselves: loops and
// the virtual fleet. System is the machine's time, Virtual is moved by hand, and
// Guard turns the readings of the machine into the time of the world. Domain
// packages use none of it: they are told the time.
package clock

import "time"

// Clock tells the time and waits for it. All methods may be called concurrently.
type Clock interface {
	// Now returns the present.
	Now() time.Time
	// NewTimer returns a timer that sends the time on C once d has passed; at once
	// if d isn't positive. A receiver that comes late still finds it.
	NewTimer(d time.Duration) *Timer
	// AfterFunc calls f once d has passed. System calls it in a goroutine of its
	// own; Virtual calls it before Advance returns.
	AfterFunc(d time.Duration, f func()) *Timer
}

// Timer is a wait that is to come.
type Timer struct {
	// C receives the time once; nil for a timer made by AfterFunc.
	C    <-chan time.Time
	stop func() bool
}

// Stop prevents the timer from firing and reports whether it did.
func (t *Timer) Stop() bool { return t.stop() }

// System is the machine's clock.
type System struct{}

var _ Clock = System{}

// Now implements Clock.
func (System) Now() time.Time { return time.Now() }

// NewTimer implements Clock.
func (System) NewTimer(d time.Duration) *Timer {
	t := time.NewTimer(d)
	return &Timer{C: t.C, stop: t.Stop}
}

// AfterFunc implements Clock.
func (System) AfterFunc(d time.Duration, f func()) *Timer {
	return &Timer{stop: time.AfterFunc(d, f).Stop}
}
