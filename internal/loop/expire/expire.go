// Package expire moves running jobs along their clocks: the user's signal ahead
// of the limit, SIGTERM at it, SIGKILL after the grace. While the wall clock has
// jumped it does nothing.
package expire

import (
	"context"
	"log/slog"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/loop"
)

// Loop is the loop.
type Loop struct {
	Port loop.Port
	Log  *slog.Logger
}

// idle is how long the loop sleeps at most: a clock may have been confirmed.
const idle = 5 * time.Second

// Run expires jobs until ctx ends.
func (l Loop) Run(ctx context.Context) {
	for {
		changed := l.Port.Changed()
		next := l.pass(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		case <-changed:
		}
	}
}

// pass takes every step that is due and returns how long it is to the next.
func (l Loop) pass(ctx context.Context) time.Duration {
	now, ok := l.Port.Now()
	next := int64(idle)
	if !ok {
		return idle
	}
	for _, j := range l.Port.World().Workload.Active.All() {
		due := j.Due()
		if due == 0 {
			continue
		}
		if due > now {
			next = min(next, due-now)
			continue
		}
		if _, err := l.Port.Command(ctx, command.JobDue{Job: j.ID}); err != nil && ctx.Err() == nil {
			l.Log.Warn("could not expire a job, will try again", "job", int64(j.ID), "error", err)
			next = min(next, int64(time.Second))
		}
	}
	return time.Duration(next)
}
