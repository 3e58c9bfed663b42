// Package images makes sure that a waiting job's image is on the machine before
// its devices are assigned, so that nobody pays for a pull. Pulls are few at a
// time and shared by all jobs that want the same image.
package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Engine is the part of an engine that images come from.
type Engine interface {
	Image(ctx context.Context, ref string) (engine.Image, bool, error)
	Pull(ctx context.Context, req engine.PullRequest, progress func(engine.Progress)) (engine.Image, error)
}

// Config of a Store. Retry is how long a failed attempt to reach the runtime or
// the registry is left alone; Patience is how long a pull may take; Trust is for how long
// a user who was let have a private image isn't asked for again.
type Config struct {
	Engine   Engine
	Port     loop.Port
	Parallel int
	Retry    time.Duration
	Patience time.Duration
	Trust    time.Duration
	// Open returns the password that a credential holds sealed; nil: there are none.
	Open  func(tenancy.Credential) (string, error)
	Ready func() // called whenever an image has become ready; nil: nobody cares
	Log   *slog.Logger
}

// Store knows which images are there and fetches those that aren't.
type Store struct {
	cfg   Config
	slots chan struct{}
	ready chan struct{} // has a token when something became ready

	mu    sync.Mutex
	known map[key]*entry
}

// What a job may say of pulling.
const (
	pullMissing = "missing"
	pullAlways  = "always"
	pullNever   = "never"
)

// key is what jobs share: a reference and what they say of pulling it, so that
// one that says never fails no other. With pull=always it is one job's, and where it
// matters who asks, one user's.
type key struct {
	ref, pull string
	user      id.User // 0: whoever asks
	asker
}

// asker is a job, or a further step of one.
type asker struct {
	job  id.Job
	step int32 // 0: the job
}

type entry struct {
	id       string    // digest; empty while unknown
	until    time.Time // when to ask again whether the user may have it; zero: never
	busy     bool
	retry    time.Time
	progress engine.Progress
	pulling  bool
	note     string
	askers   map[asker]bool
	wanted   bool // before any job asks
}

// New returns a store that knows nothing yet.
func New(cfg Config) *Store {
	return &Store{cfg: cfg, slots: make(chan struct{}, max(cfg.Parallel, 1)), ready: make(chan struct{}, 1), known: map[key]*entry{}}
}

// Ready has an element whenever an image has become ready.
func (s *Store) Ready() <-chan struct{} { return s.ready }

func (s *Store) keyOf(j *workload.Job) key {
	return s.keyFor(j.Spec.Image, j.Spec.Pull, j.User, asker{job: j.Whole()})
}

func (s *Store) keyFor(ref, pull string, user id.User, by asker) key {
	k := key{ref: ref, pull: pull}
	if pull == pullAlways {
		k.asker = by
	}
	if s.personal(ref, user) {
		k.user = user
	}
	return k
}

// Have returns the digest of j's image if it is known to be there. If it isn't,
// it begins to look for it, and to fetch it. A program on the machine needs none.
func (s *Store) Have(ctx context.Context, j *workload.Job) (digest string, ok bool) {
	if j.Spec.Host() {
		return "", true
	}
	return s.have(ctx, s.keyOf(j), asker{job: j.Whole()})
}

// HaveStep is Have for a further step of a job.
func (s *Store) HaveStep(ctx context.Context, step *workload.Step) (digest string, ok bool) {
	if step.Spec.Host {
		return "", true
	}
	k, by := s.keyOfStep(step)
	return s.have(ctx, k, by)
}

func (s *Store) keyOfStep(step *workload.Step) (key, asker) {
	by := asker{step.Job, step.N}
	var user id.User
	if j, ok := s.cfg.Port.World().Workload.Jobs.Get(step.Job); ok {
		user = j.User
	}
	return s.keyFor(step.Spec.Image, step.Spec.Pull, user, by), by
}

func (s *Store) have(ctx context.Context, k key, by asker) (digest string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(k)
	if e.id != "" && !e.until.IsZero() && !time.Now().Before(e.until) {
		e.id = ""
	}
	if e.id != "" {
		return e.id, true
	}
	e.askers[by] = true
	s.begin(ctx, k, e)
	return "", false
}

// Want fetches an image before any job asks for it. One that can't be had is tried
// again at later calls.
func (s *Store) Want(ctx context.Context, ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{ref: ref, pull: pullMissing}
	e := s.entry(k)
	if e.wanted = true; e.id == "" {
		s.begin(ctx, k, e)
	}
}

// Coming says how far an image is that was wanted: "ready", "pulling 40%", what is in
// the way, or "" for one that nobody wanted.
func (s *Store) Coming(ref string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := s.known[key{ref: ref, pull: pullMissing}]; {
	case e == nil:
		return ""
	case e.id != "":
		return "ready"
	default:
		return cmp.Or(e.coming(), "looking for it")
	}
}

func (s *Store) entry(k key) *entry {
	e := s.known[k]
	if e == nil {
		e = &entry{askers: map[asker]bool{}}
		s.known[k] = e
	}
	return e
}

// begin looks for an image, and fetches it, unless that is under way or was just tried.
func (s *Store) begin(ctx context.Context, k key, e *entry) {
	if !e.busy && !time.Now().Before(e.retry) {
		e.busy = true
		go s.fetch(ctx, k, e)
	}
}

// Still asks the engine whether an image that Have returned is still there; if it
// was collected in between, it is forgotten, so that it is fetched again.
func (s *Store) Still(ctx context.Context, j *workload.Job) bool {
	if j.Spec.Host() {
		return true
	}
	_, ok, err := s.cfg.Engine.Image(ctx, j.Spec.Image)
	if err == nil && !ok {
		s.mu.Lock()
		delete(s.known, s.keyOf(j))
		s.mu.Unlock()
	}
	return err == nil && ok
}

// Forget drops what is only known for a job that started or ended.
func (s *Store) Forget(j id.Job) { s.forget(func(by asker) bool { return by == asker{job: j} }) }

// ForgetStep drops what is only known for a step that started or ended.
func (s *Store) ForgetStep(j id.Job, n int32) {
	s.forget(func(by asker) bool { return by == asker{j, n} })
}

func (s *Store) forget(whom func(asker) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.known {
		for by := range e.askers {
			if whom(by) {
				delete(e.askers, by)
			}
		}
		if k.pull == pullAlways && whom(k.asker) && !e.busy {
			delete(s.known, k)
		}
	}
}

// Progress says how far the pull for a waiting job is, "" when there is none.
func (s *Store) Progress(j *workload.Job) string { return s.progressOf(s.keyOf(j)) }

// StepProgress is Progress for a further step of a job.
func (s *Store) StepProgress(step *workload.Step) string {
	k, _ := s.keyOfStep(step)
	return s.progressOf(k)
}

func (s *Store) progressOf(k key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[k]; e != nil && e.id == "" {
		return e.coming()
	}
	return ""
}

// coming says how far an image is that isn't there.
func (e *entry) coming() string {
	switch {
	case e.pulling && e.progress.Total > 0:
		return fmt.Sprintf("pulling %d%%", min(100*e.progress.Done/e.progress.Total, 100))
	case e.pulling:
		return "pulling"
	}
	return e.note
}

func (s *Store) fetch(ctx context.Context, k key, e *entry) {
	img, err := s.get(ctx, k, e)
	s.mu.Lock()
	e.busy, e.pulling = false, false
	var failed []asker
	var perr *engine.PullError
	switch {
	case err == nil:
		if e.id, e.note = img.ID, ""; k.user != 0 {
			e.until = time.Now().Add(s.cfg.Trust)
		}
	case errors.As(err, &perr):
		for by := range e.askers {
			failed = append(failed, by)
		}
		e.askers = map[asker]bool{}
		if e.retry, e.note = time.Now().Add(s.cfg.Retry), perr.Message; !e.wanted {
			delete(s.known, k)
		}
	default:
		e.retry, e.note = time.Now().Add(s.cfg.Retry), "image: the runtime or the registry doesn't answer, trying again"
		time.AfterFunc(s.cfg.Retry, s.signal)
	}
	s.mu.Unlock()
	for _, by := range failed {
		s.fail(ctx, by, k.ref, perr)
	}
	s.signal()
}

func (s *Store) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
	if s.cfg.Ready != nil {
		s.cfg.Ready()
	}
}

func (s *Store) get(ctx context.Context, k key, e *entry) (engine.Image, error) {
	if full, local := asset.Local(k.ref); local {
		return s.local(ctx, full, k)
	}
	private := s.private(k.ref)
	if k.pull != pullAlways && !private {
		img, ok, err := s.cfg.Engine.Image(ctx, k.ref)
		if err != nil || ok {
			return img, err
		}
	}
	switch {
	case k.pull == pullNever && private:
		return engine.Image{}, &engine.PullError{Ref: k.ref, Denied: true, Message: "it is private, and with pull: never its registry can't be asked whether you may have it"}
	case k.pull == pullNever:
		return engine.Image{}, &engine.PullError{Ref: k.ref, NotFound: true, Message: "it isn't on this machine and the job says pull: never"}
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
	return s.pull(ctx, k, e)
}

// fail ends a waiting job or step whose image can't be had.
func (s *Store) fail(ctx context.Context, by asker, ref string, err *engine.PullError) {
	message := "image " + ref + ": " + err.Message
	cmd := world.Command(command.JobFail{Job: by.job, Message: message})
	if by.step != 0 {
		cmd = command.StepFail{Job: by.job, N: by.step, Message: message}
	}
	if _, cerr := s.cfg.Port.Command(ctx, cmd); cerr != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("could not record that an image can't be had", "job", int64(by.job), "step", by.step, "error", cerr)
	}
}
