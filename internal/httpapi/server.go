package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// Sequencer decides commands and publishes worlds; *sequencer.Sequencer does.
type Sequencer interface {
	// Do returns a *fault.Error, or ctx's error when nothing was done.
	Do(ctx context.Context, a sequencer.Actor, cmd world.Command, k sequencer.Key) (sequencer.Answer, error)
	World() *world.World
	// Watch returns a channel that is closed at the next publication.
	Watch() <-chan struct{}
}

// Engine is what running jobs are looked into with.
type Engine interface {
	Logs(ctx context.Context, step engine.StepID, opts engine.LogOptions, w engine.LogWriter) error
	Exec(ctx context.Context, step engine.StepID, req engine.ExecRequest) (exitCode int, err error)
	Attach(ctx context.Context, step engine.StepID, req engine.AttachRequest) error
	Terminals(ctx context.Context, step engine.StepID, start bool) (io.ReadWriteCloser, error)
	Volumes(ctx context.Context, uid int64) ([]engine.Volume, error)
	RemoveVolume(ctx context.Context, uid int64, name string) error
}

// People resolves users as the machine does. Answers may be cached for seconds.
type People interface {
	// NameOf returns the name that the machine gives uid; "" when it has none.
	NameOf(ctx context.Context, uid int64) (string, error)
	// Lookup returns whom the machine knows by name; false when nobody.
	Lookup(ctx context.Context, name string) (Person, bool, error)
}

// Person is a user of the machine.
type Person struct {
	UID  int64
	Home string // host path
}

// Apps gives out addresses of applications at which somebody is known without a login.
type Apps interface {
	// URL is good once, until a time in ns. next is a path below the application's address.
	URL(user id.User, token id.Token, app address.App, next string) (url string, until int64, err error)
	// Page is likewise for a page of the server's own, by its path.
	Page(user id.User, token id.Token, path string) (url string, until int64, err error)
}

// Check is something that must be well for the server to be ready.
type Check struct {
	Name string
	OK   func(ctx context.Context) error
}

// Deps is what a Server is made of.
type Deps struct {
	Sequencer Sequencer
	Reader    *query.Reader
	Engine    Engine
	People    People
	Now       func() int64 // ns since the epoch
	Logger    *slog.Logger
	Metrics   *Metrics
	Ready     []Check
	// Hosts are the host names besides loopback that requests over TCP may name.
	Hosts []string
	// Reused is told when a uid that is bound to user has another name now (empty:
	// none). May be nil.
	Reused func(user tenancy.User, now string)
	// Random makes token secrets; nil: crypto/rand.
	Random io.Reader
	Login  Login
	// Saving says how far an image is that is being saved, by its name; nil: nothing does.
	Saving func(ref string) (engine.Progress, bool)
	// Presence counts who is in a job, and has those told who are; nil: one of its own.
	Presence *presence.Registry
	// Apps leads to applications of jobs; nil: there is no way to any.
	Apps Apps
	// Storage says what is in folders, and bounds it.
	Storage Storage
	// Queues are those of a cluster's batch scheduler; nil: there is none.
	Queues Queues
	// Templates of workspaces, the site's own.
	Templates []v1.Template
	// Registries checks and seals logins to registries of images; nil: there are none.
	Registries Registries
	// Hooks makes secrets of webhooks; nil: the site has none.
	Hooks Hooks
	// SSH lets people into jobs by SSH; nil: nobody.
	SSH SSH
}

// Server answers requests. Make it with New.
type Server struct {
	Deps
	handler  http.Handler
	closing  context.Context
	close    context.CancelFunc
	requests atomic.Int64 // numbers requests, for the log
	failures failures
	guesses  *guesses
	held     held
	slowest  time.Duration // with a message to one who is attached
	recheck  time.Duration // how often a request that goes on is looked at, whether it may
}

// New returns a Server.
func New(d Deps) (*Server, error) {
	if d.Sequencer == nil || d.Reader == nil || d.Engine == nil || d.People == nil || d.Now == nil {
		return nil, errors.New("httpapi: a dependency is missing")
	}
	if d.Presence == nil {
		d.Presence = presence.New(d.Now)
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Metrics == nil {
		d.Metrics = NewMetrics(d.Sequencer, nil)
	}
	if d.Random == nil {
		d.Random = rand.Reader
	}
	if d.Reused == nil {
		d.Reused = func(tenancy.User, string) {}
	}
	s := &Server{Deps: d, guesses: newGuesses(), recheck: 5 * time.Second, slowest: slowest}
	s.closing, s.close = context.WithCancel(context.Background())
	var err error
	s.handler, err = s.routes()
	return s, err
}

// Handler answers every path of the API.
func (s *Server) Handler() http.Handler { return s.handler }

// Close ends the requests that would go on: waits, logs, events, exec and attach. The
// Shutdown of a server made by HTTP does it by itself.
func (s *Server) Close() { s.close() }

func (s *Server) routes() (http.Handler, error) {
	mux := http.NewServeMux()
	for _, op := range operations() {
		mux.Handle(op.method+" "+op.path, s.observed(op.path, s.operation(op)))
	}
	doc, err := document()
	if err != nil {
		return nil, err
	}
	for path, h := range map[string]http.HandlerFunc{
		"/v1/openapi.yaml": content("application/yaml", doc.yaml),
		"/v1/openapi.json": content("application/json", doc.json),
		"/healthz":         content("text/plain; charset=utf-8", []byte("ok\n")),
		"/readyz":          s.readyz,
		"/metrics":         s.Metrics.handler().ServeHTTP,
	} {
		mux.Handle("GET "+path, s.observed(path, s.open(h)))
	}
	mux.Handle("/", s.observed("other", s.open(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, fault.New(codes.NotFound, "no such path, or not with this method"))
	})))
	return mux, nil
}

// open serves a path that needs no caller.
func (s *Server) open(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.hostAllowed(r); err != nil {
			s.fail(w, r, err)
			return
		}
		h(w, r)
	}
}

func content(kind string, b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(b) // a reader that went away
	}
}

// readyz says which parts work. Why one doesn't is in the log: anybody may ask here.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	var text strings.Builder
	status := http.StatusOK
	for _, c := range s.Ready {
		word := "ok"
		if err := c.OK(ctx); err != nil {
			word, status = "failing", http.StatusServiceUnavailable
			s.Logger.Warn("not ready", "part", c.Name, "error", err)
		}
		fmt.Fprintf(&text, "%s: %s\n", c.Name, word)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text.String()) // a reader that went away
}

// until asks done after every publication until it says yes or fails, or ctx ends.
func (s *Server) until(ctx context.Context, done func() (bool, error)) error {
	for {
		changed := s.Sequencer.Watch() // before looking, so that nothing is missed
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
