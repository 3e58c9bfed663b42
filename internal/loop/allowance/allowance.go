// Package allowance gives accounts what their allowances say when a period begins. What was
// missed while the server was down, or the clock had jumped, is found the next time round.
package allowance

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

// How long the loop sleeps at most, since rules change and clocks are confirmed, and after a
// failure.
const (
	idle  = 5 * time.Second
	retry = time.Second
)

// Run gives what is due until ctx ends.
func (l Loop) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.pass(ctx)):
		}
	}
}

// pass gives all that is due and returns how long it is to the next.
func (l Loop) pass(ctx context.Context) time.Duration {
	now, ok := l.Port.Now()
	if !ok {
		return idle
	}
	due, at := command.AllowancesDue(l.Port.World(), now)
	next := idle
	if at != 0 {
		next = min(next, time.Duration(at-now))
	}
	for _, k := range due {
		if _, err := l.Port.Command(ctx, command.AllowanceDue{Allowance: k}); err != nil && ctx.Err() == nil {
			l.Log.Warn("could not give an allowance, will try again", "allowance", int64(k), "error", err)
			next = min(next, retry)
		}
	}
	return next
}
