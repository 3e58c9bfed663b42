// Package renew keeps rolling deposits ahead of the jobs that they pay for, and tells the
// users of those whose deposits can't be renewed. Stopping them is the clock's: package expire.
package renew

import (
	"context"
	"log/slog"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/workload"
)

// Loop is the loop.
type Loop struct {
	Port loop.Port
	// Tell writes a line to the terminals that are open in a job; nil: there are none.
	Tell func(job id.Job, line string)
	Log  *slog.Logger
}

const period = time.Second

// Run renews until ctx ends.
func (l Loop) Run(ctx context.Context) {
	loop.Every(ctx, l.Log, "renew", period, func(ctx context.Context) error { l.Once(ctx); return nil })
}

// Once renews what is due. Nothing is asked of the world for jobs that wait for money, unless
// some has come. While the wall clock has jumped it does nothing.
func (l Loop) Once(ctx context.Context) {
	now, ok := l.Port.Now()
	if !ok {
		return
	}
	w := l.Port.World()
	for _, j := range w.Workload.Active.All() {
		if !j.Attempt.Rolls() || !command.TopUpDue(w.View(now), j) {
			continue
		}
		got, err := l.Port.Command(ctx, command.JobTopUp{Job: j.ID, N: j.Attempt.N})
		if err != nil {
			if ctx.Err() == nil {
				l.Log.Warn("could not renew a deposit, will try again", "job", int64(j.ID), "error", err)
			}
			continue
		}
		after, ok := got.(*workload.Job)
		if warned := ok && j.Attempt.Short == 0 && after.Attempt.Short != 0; warned && l.Tell != nil {
			l.Tell(j.ID, "croft: job "+j.Name()+": "+after.Message)
		}
	}
}
