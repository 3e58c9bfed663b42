// Package expire moves jobs along their clocks: those that waited for a time into the
// queue, and to their end those that can't start any more; running ones by the user's
// signal ahead of the limit, SIGTERM at it, SIGKILL after the grace. It closes requests that
// nobody has decided in time. While the wall clock has jumped it does nothing.
package expire

import (
	"context"
	"log/slog"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/world"
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
	w := l.Port.World()
	for j := range w.Workload.Timed() {
		if due := j.Due(); due > now {
			next = min(next, due-now)
			break
		}
		l.due(ctx, j.ID, &next)
	}
	for _, s := range w.Workload.Steps.All() {
		switch due := s.Due(); {
		case due == 0:
		case due > now:
			next = min(next, due-now)
		default:
			l.do(ctx, command.StepDue{Job: s.Job, N: s.N}, "job", int64(s.Job), &next)
		}
	}
	for r := range w.Approvals.Opened() {
		if r.Expires > now {
			next = min(next, r.Expires-now)
			break
		}
		l.do(ctx, command.RequestExpire{Request: r.ID}, "request", int64(r.ID), &next)
	}
	return time.Duration(next)
}

// due has a job's next step taken; one that can't be recorded is tried again soon.
func (l Loop) due(ctx context.Context, k id.Job, next *int64) {
	l.do(ctx, command.JobDue{Job: k}, "job", int64(k), next)
}

func (l Loop) do(ctx context.Context, cmd world.Command, what string, k int64, next *int64) {
	if _, err := l.Port.Command(ctx, cmd); err != nil && ctx.Err() == nil {
		l.Log.Warn("could not expire a "+what+", will try again", what, k, "error", err)
		*next = min(*next, int64(time.Second))
	}
}
