// Package meter keeps money abreast of time: it posts what long jobs have accrued,
// moves device tiles whose payer changed by time alone, and expires grants.
package meter

import (
	"context"
	"log/slog"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Loop is the loop. Post is how often accrued charges are posted.
type Loop struct {
	Port loop.Port
	Post time.Duration
	Log  *slog.Logger
}

// Run meters until ctx ends.
func (l Loop) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		loop.Every(ctx, l.Log, "meter.post", l.Post, l.post)
	}()
	loop.Every(ctx, l.Log, "meter.tiles", time.Second, l.tiles)
	<-done
}

func (l Loop) tiles(ctx context.Context) error {
	now, ok := l.Port.Now()
	if !ok {
		return nil
	}
	w := l.Port.World()
	if Stale(w, now) {
		if _, err := l.Port.Command(ctx, command.TilesDue{}); err != nil {
			return err
		}
	}
	for _, g := range w.Ledger.Grants.All() {
		if !g.Expired && !g.Open(now) {
			if _, err := l.Port.Command(ctx, command.GrantExpire{Grant: g.ID}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stale reports whether some tile's payer has changed by time alone: a maintenance
// window began or ended.
func Stale(w *world.World, now int64) bool {
	for _, m := range w.Placement.Maintenance.All() {
		if m.To <= now {
			return true
		}
		if m.From <= now {
			for _, t := range w.Ledger.Tiles.All() {
				if m.On(t.Node) && t.Cause == ledger.CauseIdle {
					return true
				}
			}
		}
	}
	return false
}

func (l Loop) post(ctx context.Context) error {
	if _, ok := l.Port.Now(); !ok {
		return nil
	}
	var jobs []id.Job
	for _, j := range l.Port.World().Workload.Active.All() {
		if workload.RulesOf(j.State).Charges && j.Attempt.Started != 0 {
			jobs = append(jobs, j.ID)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	_, err := l.Port.Command(ctx, command.Meter{Jobs: jobs})
	return err
}
