package app

import (
	"context"
	"errors"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/httpapi"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/world"
)

// port is the server as its loops see it.
type port struct {
	seq   *sequencer.Sequencer
	clock *worldClock
}

var _ loop.Port = port{}

func (p port) World() *world.World      { return p.seq.World() }
func (p port) Changed() <-chan struct{} { return p.seq.Watch() }
func (p port) Now() (int64, bool)       { return p.clock.Now() }

func (p port) Command(ctx context.Context, cmd world.Command) (any, error) {
	a, err := p.seq.Do(ctx, sequencer.Actor{System: true}, cmd, sequencer.Key{})
	return a.Result, err
}

// timedStore tells the metrics how long commits take.
type timedStore struct {
	*store.Store
	metrics func() *httpapi.Metrics
}

func (s *server) timed() timedStore {
	return timedStore{s.store, func() *httpapi.Metrics { return s.metrics }}
}

// Commit is the store's, timed.
func (t timedStore) Commit(ctx context.Context, batches []store.Batch) error {
	begun := time.Now()
	err := t.Store.Commit(ctx, batches)
	if m := t.metrics(); m != nil && err == nil {
		m.Committed(len(batches), time.Since(begun))
	}
	return err
}

// storeError words what an administrator can mend.
func storeError(err error) error {
	switch {
	case errors.Is(err, store.ErrLocked):
		return fault.New(codes.Conflict, "another croft server is using this data directory or database: stop it first, or give another one with --data")
	case errors.Is(err, store.ErrNewerSchema):
		return fault.New(codes.Conflict, "the database was written by a newer croft: run that version, or restore a backup from before")
	}
	return err
}
