// Package reserve keeps reservations abreast of time: it books windows that are near
// enough, begins them, and closes those that are past. A window that couldn't be booked
// is tried again until it begins.
package reserve

import (
	"context"
	"log/slog"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Loop is the loop.
type Loop struct {
	Port  loop.Port
	Retry time.Duration                           // how often a window that couldn't be booked is tried again
	Want  func(ctx context.Context, image string) // fetches an image if it isn't there
	Log   *slog.Logger

	tried int64 // ns
}

// Run keeps reservations until ctx ends.
func (l *Loop) Run(ctx context.Context) { loop.Every(ctx, l.Log, "reserve", time.Second, l.pass) }

func (l *Loop) pass(ctx context.Context) error {
	now, ok := l.Port.Now()
	if !ok {
		return nil
	}
	w := l.Port.World()
	for _, image := range w.Placement.Images(now) {
		l.Want(ctx, image)
	}
	if !stale(w, now) && !l.retry(w, now) {
		return nil
	}
	l.tried = now
	_, err := l.Port.Command(ctx, command.ReservationsDue{})
	return err
}

// stale reports whether a step of some reservation is due, or a job waits in one that is
// over.
func stale(w *world.World, now int64) bool {
	for _, b := range w.Placement.Bookings.All() {
		if b.Due() <= now {
			return true
		}
	}
	for _, r := range w.Placement.Reservations.All() {
		if r.Due() <= now {
			return true
		}
	}
	for in := range w.Workload.Reservations() {
		if _, live := w.Placement.Reservations.Get(in); live {
			continue
		}
		for j := range w.Workload.Within(in) {
			if !workload.RulesOf(j.State).Running {
				return true
			}
		}
	}
	return false
}

// retry reports whether it is time to try again what couldn't be booked.
func (l *Loop) retry(w *world.World, now int64) bool {
	if now-l.tried < int64(l.Retry) {
		return false
	}
	for _, b := range w.Placement.Bookings.All() {
		if b.Failed != "" && b.From > now {
			return true
		}
	}
	return false
}
