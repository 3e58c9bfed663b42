package cri

import (
	"context"
	"sync"

	"croft.dev/croft/internal/engine"
)

// attemptLocks let one call at a time change an attempt. The zero value is ready.
type attemptLocks struct {
	mu   sync.Mutex
	held map[engine.AttemptID]*attemptLock
}

type attemptLock struct {
	token chan struct{} // holds one value while unlocked
	users int
}

// lock waits for the attempt's lock or the end of ctx.
func (l *attemptLocks) lock(ctx context.Context, id engine.AttemptID) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[engine.AttemptID]*attemptLock)
	}
	a := l.held[id]
	if a == nil {
		a = &attemptLock{token: make(chan struct{}, 1)}
		a.token <- struct{}{}
		l.held[id] = a
	}
	a.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.users--; a.users == 0 {
			delete(l.held, id)
		}
	}
	if err := ctx.Err(); err != nil {
		leave()
		return nil, err
	}
	select {
	case <-a.token:
		return func() { a.token <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
