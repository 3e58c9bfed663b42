package run

import (
	"context"
	"time"

	"croft.dev/croft/internal/engine"
)

// Some calls an engine can only carry out within the container, where a job may have put
// anything in their way. They have slots of their own, more than the others since they wait
// more than they work, and they give way to what kills the attempt from outside.
const wordsPerSlot = 8

// word begins such a call. r.mu is held.
func (r *Runner) word(ctx context.Context, of string, t *task, call func(context.Context) error) {
	t.leave = r.beginIn(ctx, r.words, of, t, call)
}

// signal has a program signalled, and notes when it was. r.mu is held.
func (r *Runner) signal(ctx context.Context, of string, id engine.StepID, t *task, name string, done *bool) {
	r.word(ctx, of, t, func(ctx context.Context) error {
		err := r.cfg.Engine.Signal(ctx, id, name)
		*done = err == nil
		return err
	})
}

// giveWay ends such a call, and the pause after one that has failed. r.mu is held.
func (t *task) giveWay() {
	if t.leave != nil {
		t.leave()
		t.leave, t.delay, t.retry = nil, 0, time.Time{}
	}
}
