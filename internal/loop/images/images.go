// Package images makes sure that a waiting job's image is on the machine before
// its devices are assigned, so that nobody pays for a pull. Pulls are few at a
// time and shared by all jobs that want the same image.
package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/workload"
)

// Engine is the part of an engine that images come from.
type Engine interface {
	Image(ctx context.Context, ref string) (engine.Image, bool, error)
	Pull(ctx context.Context, req engine.PullRequest, progress func(engine.Progress)) (engine.Image, error)
}

// Config of a Store. Retry is how long a failed attempt to reach the runtime or
// the registry is left alone; Patience is how long a pull may take.
type Config struct {
	Engine   Engine
	Port     loop.Port
	Parallel int
	Retry    time.Duration
	Patience time.Duration
	Log      *slog.Logger
}

// Store knows which images are there and fetches those that aren't.
type Store struct {
	cfg   Config
	slots chan struct{}
	ready chan struct{} // has a token when something became ready

	mu    sync.Mutex
	known map[key]*entry
}

// key is what jobs share: a reference and what they say of pulling it, so that
// one that says never fails no other. With pull=always it is one job's.
type key struct {
	ref, pull string
	job       id.Job
}

type entry struct {
	id       string // digest; empty while unknown
	busy     bool
	retry    time.Time
	progress engine.Progress
	pulling  bool
	note     string
	jobs     map[id.Job]bool
}

// New returns a store that knows nothing yet.
func New(cfg Config) *Store {
	return &Store{cfg: cfg, slots: make(chan struct{}, max(cfg.Parallel, 1)), ready: make(chan struct{}, 1), known: map[key]*entry{}}
}

// Ready has an element whenever an image has become ready.
func (s *Store) Ready() <-chan struct{} { return s.ready }

func keyOf(j *workload.Job) key {
	k := key{ref: j.Spec.Image, pull: j.Spec.Pull}
	if k.pull == "always" {
		k.job = j.ID
	}
	return k
}

// Have returns the digest of j's image if it is known to be there. If it isn't,
// it begins to look for it, and to fetch it.
func (s *Store) Have(ctx context.Context, j *workload.Job) (digest string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := keyOf(j)
	e := s.known[k]
	if e == nil {
		e = &entry{jobs: map[id.Job]bool{}}
		s.known[k] = e
	}
	if e.id != "" {
		return e.id, true
	}
	e.jobs[j.ID] = true
	if !e.busy && !time.Now().Before(e.retry) {
		e.busy = true
		go s.fetch(ctx, k, e, j.Spec.Pull)
	}
	return "", false
}

// Still asks the engine whether an image that Have returned is still there; if it
// was collected in between, it is forgotten, so that it is fetched again.
func (s *Store) Still(ctx context.Context, j *workload.Job) bool {
	_, ok, err := s.cfg.Engine.Image(ctx, j.Spec.Image)
	if err == nil && !ok {
		s.mu.Lock()
		delete(s.known, keyOf(j))
		s.mu.Unlock()
	}
	return err == nil && ok
}

// Forget drops what is only known for a job that started or ended.
func (s *Store) Forget(j id.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.known {
		delete(e.jobs, j)
		if k.job == j && !e.busy {
			delete(s.known, k)
		}
	}
}

// Progress says how far the pull for a waiting job is, "" when there is none.
func (s *Store) Progress(j *workload.Job) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.known[keyOf(j)]
	switch {
	case e == nil || e.id != "":
		return ""
	case e.pulling && e.progress.Total > 0:
		return fmt.Sprintf("pulling %d%%", min(100*e.progress.Done/e.progress.Total, 100))
	case e.pulling:
		return "pulling"
	}
	return e.note
}

func (s *Store) fetch(ctx context.Context, k key, e *entry, policy string) {
	img, err := s.get(ctx, k, e, policy)
	s.mu.Lock()
	e.busy, e.pulling = false, false
	var failed []id.Job
	var perr *engine.PullError
	switch {
	case err == nil:
		e.id, e.note = img.ID, ""
	case errors.As(err, &perr):
		for j := range e.jobs {
			failed = append(failed, j)
		}
		delete(s.known, k)
	default:
		e.retry, e.note = time.Now().Add(s.cfg.Retry), "image: the runtime or the registry doesn't answer, trying again"
		time.AfterFunc(s.cfg.Retry, s.signal)
	}
	s.mu.Unlock()
	for _, j := range failed {
		s.fail(ctx, j, k.ref, perr)
	}
	s.signal()
}

func (s *Store) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *Store) get(ctx context.Context, k key, e *entry, policy string) (engine.Image, error) {
	if policy != "always" {
		img, ok, err := s.cfg.Engine.Image(ctx, k.ref)
		if err != nil || ok {
			return img, err
		}
		if policy == "never" {
			return img, &engine.PullError{Ref: k.ref, NotFound: true, Message: "it isn't on this machine and the job says pull: never"}
		}
	}
	s.cfg.Log.Info("pulling image", "image", k.ref)
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return engine.Image{}, ctx.Err()
	}
	defer func() { <-s.slots }()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	s.mu.Lock()
	e.pulling = true
	s.mu.Unlock()
	return s.cfg.Engine.Pull(ctx, engine.PullRequest{Ref: k.ref}, func(p engine.Progress) {
		s.mu.Lock()
		e.progress = p
		s.mu.Unlock()
	})
}

// fail ends a waiting job whose image can't be had.
func (s *Store) fail(ctx context.Context, j id.Job, ref string, err *engine.PullError) {
	if _, cerr := s.cfg.Port.Command(ctx, command.JobFail{Job: j, Message: "image " + ref + ": " + err.Message}); cerr != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("could not record that an image can't be had", "job", int64(j), "error", cerr)
	}
}
