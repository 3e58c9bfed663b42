package cri

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"croft.dev/croft/internal/engine"
)

// attemptLocks let one call at a time change an attempt as a whole, and while none does,
// one at a time change each of its further steps. The zero value is ready.
type attemptLocks struct {
	mu   sync.Mutex
	held map[string]*heldLock
}

type heldLock struct {
	*semaphore.Weighted
	users int
}

// whole is the weight of a call that is alone.
const whole = 1 << 30

// lock waits for the attempt's lock or the end of ctx.
func (l *attemptLocks) lock(ctx context.Context, id engine.AttemptID) (unlock func(), err error) {
	return l.acquire(ctx, string(id), whole)
}

// lockStep waits for the lock of a step, and for the calls that change its attempt as a
// whole.
func (l *attemptLocks) lockStep(ctx context.Context, id engine.StepID) (unlock func(), err error) {
	attempt, err := l.acquire(ctx, string(id.Attempt), 1)
	if err != nil {
		return nil, err
	}
	step, err := l.acquire(ctx, id.String(), whole)
	if err != nil {
		attempt()
		return nil, err
	}
	return func() { step(); attempt() }, nil
}

func (l *attemptLocks) acquire(ctx context.Context, name string, weight int64) (release func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[string]*heldLock)
	}
	h := l.held[name]
	if h == nil {
		h = &heldLock{Weighted: semaphore.NewWeighted(whole)}
		l.held[name] = h
	}
	h.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(l.held, name)
		}
	}
	if err = ctx.Err(); err == nil {
		err = h.Acquire(ctx, weight)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return func() { h.Release(weight); leave() }, nil
}
