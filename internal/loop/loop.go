// Package loop has what the server's loops share. Each loop compares what should
// be with what is and acts on the difference; it may be stopped and started at any
// point, and whatever it missed it finds the next time round.
package loop

import (
	"context"
	"log/slog"
	"time"

	"croft.dev/croft/internal/world"
)

// Port is the part of the server that a loop works through.
type Port interface {
	// World is the newest published snapshot.
	World() *world.World
	// Changed returns a channel that is closed when a newer snapshot than the one
	// that World returns at that moment has been published.
	Changed() <-chan struct{}
	// Command carries out a command as the server itself.
	Command(ctx context.Context, cmd world.Command) (any, error)
	// Now is the world's clock in ns, which never goes back. ok is false while the
	// wall clock has jumped and nothing may be concluded from it.
	Now() (ns int64, ok bool)
}

// Every calls f now and then once per period until ctx ends. A failure is logged
// and tried again the next time.
func Every(ctx context.Context, log *slog.Logger, what string, period time.Duration, f func(context.Context) error) {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			log.Warn("loop failed, will try again", "loop", what, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
