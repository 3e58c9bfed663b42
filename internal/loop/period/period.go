// Package period opens the periods of limits on hours when they begin, so that what
// is carried over is settled and rows that nothing needs any more are let go. No
// decision waits for it.
package period

import (
	"context"
	"log/slog"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/loop"
)

// Loop is the loop.
type Loop struct {
	Port  loop.Port
	Every time.Duration
	Log   *slog.Logger
}

// Run opens periods until ctx ends.
func (l Loop) Run(ctx context.Context) { loop.Every(ctx, l.Log, "period", l.Every, l.pass) }

func (l Loop) pass(ctx context.Context) error {
	now, ok := l.Port.Now()
	if !ok || len(l.Port.World().Limits.Open(now)) == 0 {
		return nil
	}
	_, err := l.Port.Command(ctx, command.PeriodsDue{})
	return err
}
