// Package sequencer is the one writer of the world. It takes commands, decides a
// batch of them on a copy of the world, commits what they change in one
// transaction, publishes the copy and answers the callers. It knows what a command
// is and nothing of any particular one.
package sequencer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/world"
)

// Store is what the sequencer needs of the database.
type Store interface {
	// Commit writes all of the batches or none; see store.Store.
	Commit(ctx context.Context, batches []store.Batch) error
	// Head tells where the log ends, once no commit is under way any more.
	Head(ctx context.Context) (store.Head, error)
}

// Config is what a sequencer is made of.
type Config struct {
	World *world.World // as loaded; the sequencer's own from here on
	Head  store.Head   // that it was loaded at
	Store Store
	// Clock is the guarded time in ns since the epoch. Only Run calls it.
	Clock func() int64
	// MaxBatch is the most commands in one transaction; 0: 256.
	MaxBatch int
	Logger   *slog.Logger
	// DeadLetters is given a line of JSON for every command that failed inside.
	// May be nil.
	DeadLetters io.Writer
}

// Actor is on whose behalf a command comes.
type Actor struct {
	User   id.User
	Token  id.Token // that the user showed; 0: none
	System bool     // one of the server's own loops
	Name   string   // of the loop; empty: "system". A user's is the user's row's
}

// Key makes a command idempotent. The zero Key doesn't.
type Key struct {
	Name string // the caller's; unique per actor and kind of command
	Body []byte // what was asked, to tell a repetition from another request
}

// Answer is what a command came to.
type Answer struct {
	Result   any
	Seq      int64      // log row; 0: nothing happened
	At       int64      // ns; time of the decision
	Replayed *world.Key // set when the key had been used for the same request before
}

// Sequencer decides commands one after the other. Make it with New and run Run.
type Sequencer struct {
	store    Store
	clock    func() int64
	maxBatch int
	log      *slog.Logger
	dead     io.Writer

	queue  chan *request
	gate   sync.RWMutex // read-locked by callers while they queue
	closed bool         // no new commands

	current   *world.World // owned by Run
	head      store.Head   // of current
	unsettled *batch       // may or may not have been committed

	published atomic.Pointer[world.World]
	ring      *ring
}

// New returns a sequencer at rest.
func New(cfg Config) *Sequencer {
	s := &Sequencer{
		store: cfg.Store, clock: cfg.Clock, maxBatch: cfg.MaxBatch, log: cfg.Logger, dead: cfg.DeadLetters,
		queue:   make(chan *request, 1024),
		current: cfg.World, head: cfg.Head, ring: newRing(cfg.Head.Seq),
	}
	if s.maxBatch == 0 {
		s.maxBatch = 256
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.dead == nil {
		s.dead = io.Discard
	}
	s.current.Seq, s.current.Now = cfg.Head.Seq, max(s.current.Now, cfg.Head.At)
	s.published.Store(s.current.Copy())
	return s
}

// World returns the newest committed world. It is a snapshot: read it, don't
// change it.
func (s *Sequencer) World() *world.World { return s.published.Load() }

// Watch returns a channel that is closed when the next world has been published.
// Take it before World, so that no world is missed.
func (s *Sequencer) Watch() <-chan struct{} { return s.ring.watch() }

// errUnavailable is the answer when the outcome isn't known or the store is away.
func errUnavailable() error {
	return fault.New(codes.Unavailable, "the server can't record anything right now; try again")
}

func errInternal() error { return fault.New(codes.Internal, "the request failed inside the server") }

// request is a command in the queue.
type request struct {
	actor  Actor
	cmd    world.Command
	key    string // joined; empty: none
	digest string
	state  atomic.Int32
	done   chan reply
}

// The states of a request: the caller may give up until it is picked.
const (
	queued int32 = iota
	picked
	givenUp
)

type reply struct {
	answer Answer
	err    error
}

// Do has a command decided and returns when it is committed. The error is a
// *fault.Error, or ctx's when the caller gave up in time: then nothing was done.
// Once the command is being decided Do stays until the outcome is known.
func (s *Sequencer) Do(ctx context.Context, actor Actor, cmd world.Command, key Key) (Answer, error) {
	r := &request{actor: actor, cmd: cmd, done: make(chan reply, 1)}
	if key.Name != "" {
		r.key, r.digest = joinKey(actor, cmd.Kind(), key)
	}
	if err := s.enqueue(ctx, r); err != nil {
		return Answer{}, err
	}
	select {
	case got := <-r.done:
		return got.answer, got.err
	case <-ctx.Done():
		if r.state.CompareAndSwap(queued, givenUp) {
			return Answer{}, ctx.Err()
		}
		got := <-r.done
		return got.answer, got.err
	}
}

func (s *Sequencer) enqueue(ctx context.Context, r *request) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return errUnavailable()
	}
	select {
	case s.queue <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run decides commands until ctx ends, then those that are queued already, and
// returns nil. It returns an error when this server may not go on:
// store.ErrDeposed, or store.ErrStale when somebody else wrote to the log. It may
// be called once.
func (s *Sequencer) Run(ctx context.Context) error {
	for {
		select {
		case r := <-s.queue:
			if err := s.turn(r); err != nil {
				return errors.Join(err, s.drain(func(r *request) error {
					r.done <- reply{err: errUnavailable()}
					return nil
				}))
			}
		case <-ctx.Done():
			return s.drain(s.turn)
		}
	}
}

// drain closes the queue and deals with what is in it, and with what callers who
// were before the gate still put there.
func (s *Sequencer) drain(with func(*request) error) error {
	gone := make(chan struct{})
	go func() {
		s.gate.Lock()
		defer s.gate.Unlock()
		s.closed = true
		close(gone)
	}()
	var failed error
	deal := func(r *request) {
		if failed != nil {
			r.done <- reply{err: errUnavailable()}
		} else if err := with(r); err != nil {
			failed = err
		}
	}
	for {
		select {
		case r := <-s.queue:
			deal(r)
		case <-gone:
			for {
				select {
				case r := <-s.queue:
					deal(r)
				default:
					return failed
				}
			}
		}
	}
}

// turn takes what is waiting, up to a batch, and processes it.
func (s *Sequencer) turn(first *request) error {
	reqs := make([]*request, 0, min(1+len(s.queue), s.maxBatch))
	for r := first; ; {
		if r.state.CompareAndSwap(queued, picked) {
			reqs = append(reqs, r)
		}
		if len(reqs) == s.maxBatch {
			break
		}
		select {
		case r = <-s.queue:
			continue
		default:
		}
		break
	}
	if len(reqs) == 0 {
		return nil
	}
	return s.process(reqs)
}
