// Package gateway leads browsers and programs to the web applications of running jobs: at a
// name of each one's own, or by path below the server's. It holds no rules: whoever comes is
// known by a cookie of that very host or by a token, and what he may is asked of the world
// at every request, and as long as a connection stays open.
//
// Nothing but a port that a job names is ever connected to, by the engine, in the job's own
// network.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/seal"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/upstream"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Sequencer decides commands and publishes worlds; *sequencer.Sequencer does.
type Sequencer interface {
	Do(ctx context.Context, a sequencer.Actor, cmd world.Command, k sequencer.Key) (sequencer.Answer, error)
	World() *world.World
	Watch() <-chan struct{}
}

// Engine connects to ports of jobs.
type Engine interface {
	Dial(ctx context.Context, step engine.StepID, port uint16) (net.Conn, error)
}

// Logins knows who comes, as the API does.
type Logins interface {
	// Allowed refuses a request that names a host that isn't this server's.
	Allowed(r *http.Request) error
	// Passwords reports whether any are taken.
	Passwords() bool
	// LogIn opens a session for who knows a user's password, at the pace that guesses allow.
	// The error is a *fault.Error.
	LogIn(r *http.Request, user, password, name string) (tenancy.Token, error)
	// ByLinks is the session of a user's browsers that come in by links for which he has shown
	// none; it lasts until a time in ns, at least.
	ByLinks(ctx context.Context, user id.User, until int64) (id.Token, error)
	// LogOut ends the session that p came by, if it did.
	LogOut(ctx context.Context, p access.Principal) error
	// Bearer is whom a token of this server in the header Authorization stands for. ours is
	// false when there is none: what is there is an application's own.
	Bearer(r *http.Request) (p access.Principal, ours bool, err error)
	// Known is a user as of now, by the token or session that was shown before; false when
	// that isn't good any more.
	Known(ctx context.Context, user id.User, token id.Token) (access.Principal, bool)
	// From is where a request comes from, for logs and for applications.
	From(r *http.Request) string
}

// Limits bound what is open at once, and how long an application may take.
type Limits struct {
	PerJob  int           // requests and WebSockets of a job's applications
	PerUser int           // of a user
	Header  time.Duration // until an application has answered with its headers
}

// Deps is what a Server is made of.
type Deps struct {
	Site      address.Site
	Sequencer Sequencer
	Engine    Engine
	Logins    Logins
	Terminals Terminals
	Tickets   *Tickets
	Key       seal.Key // of cookies
	Now       func() int64
	Logger    *slog.Logger
	Presence  *presence.Registry
	Limits    Limits
	// Progress says how far a job's start is, in few words; may be nil.
	Progress func(job id.Job) string
	// StopsAt is when an idle attempt is stopped if it stays so, in ns; may be nil.
	StopsAt func(id.Attempt) int64
}

// Server leads to applications. Make it with New.
type Server struct {
	Deps
	cookie   string // the name of its cookies
	live     *live
	entries  *entries
	opened   *opened
	upstream *upstream.Transport
	proxy    *httputil.ReverseProxy
	buffers  buffers
	heads    sync.Pool // *[]byte: requests as they are written
	pages    *http.ServeMux
}

// New returns a Server.
func New(d Deps) (*Server, error) {
	if d.Sequencer == nil || d.Engine == nil || d.Logins == nil || d.Terminals == nil || d.Tickets == nil || d.Now == nil || d.Presence == nil {
		return nil, errors.New("gateway: a dependency is missing")
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Progress == nil {
		d.Progress = func(id.Job) string { return "" }
	}
	if d.StopsAt == nil {
		d.StopsAt = func(id.Attempt) int64 { return 0 }
	}
	s := &Server{Deps: d, cookie: cookieName(d.Site), live: newLive(d.Limits), entries: newEntries(), opened: newOpened()}
	s.newProxy()
	s.pages = http.NewServeMux()
	s.pages.HandleFunc("GET /{$}", s.home)
	s.pages.HandleFunc("GET /login", s.loginPage)
	s.pages.HandleFunc("POST /login", s.login)
	s.pages.HandleFunc("POST /logout", s.logout)
	s.pages.HandleFunc("GET /open/{app}", s.open)
	s.pages.HandleFunc(ticketPath, func(w http.ResponseWriter, r *http.Request) { s.redeem(w, r, address.App{}) })
	return s, s.terminalPages()
}

// recheck is how often rights that end by the clock are looked at.
const recheck = 5 * time.Second

// settle is how long changes are gathered before rights are looked at again.
const settle = 20 * time.Millisecond

// Run ends connections whose right has ended, until ctx ends; then all of them.
func (s *Server) Run(ctx context.Context) {
	defer s.Close()
	look := time.NewTicker(recheck)
	defer look.Stop()
	for {
		changed := s.Sequencer.Watch() // before looking, so that nothing is missed
		w, now := s.Sequencer.World(), s.Now()
		s.live.end(func(g group) bool { return !g.may(w, now) })
		s.upstream.Sweep(running(w))
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return
		}
	}
}

// running reports of hosts of URLs whether they are of jobs that run: connections to others
// aren't kept, and with them the network that they are in.
func running(w *world.World) func(host string) bool {
	return func(host string) bool {
		attempt, _, _ := strings.Cut(host, ".")
		words := strings.Split(attempt, "-")
		if len(words) < 2 {
			return false
		}
		k, ok := id.ParseJob(words[len(words)-2])
		if !ok {
			return false
		}
		j, ok := w.Workload.Jobs.Get(k)
		return ok && j.State == workload.Running && attempt == id.Attempt{Job: k, N: j.Attempt.N}.Engine(w.Site.Instance)
	}
}

// Close ends all connections to applications that are open now.
func (s *Server) Close() { s.live.end(func(group) bool { return true }) }

// Over answers what is for applications and browsers, and leaves all else to the API.
func (s *Server) Over(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, at := s.Site.ByHost(r.Host); at != address.Elsewhere {
			s.route(w, r, a, "", at)
			return
		}
		if a, base, at := s.Site.ByPath(r.URL.EscapedPath(), s.named); at != address.Elsewhere {
			if err := s.Logins.Allowed(r); err != nil {
				s.refuse(w, r, err)
				return
			}
			s.route(w, r, a, base, at)
			return
		}
		if _, pattern := s.pages.Handler(r); pattern != "" && !s.Site.None() {
			if err := s.Logins.Allowed(r); err != nil {
				s.refuse(w, r, err)
				return
			}
			s.pages.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// named reports whether a job has an application of that name beside its first.
func (s *Server) named(job id.Job, name string) bool {
	j, ok := s.Sequencer.World().Workload.Jobs.Get(job)
	if !ok || len(j.Spec.Apps) == 0 {
		return false
	}
	for _, a := range j.Spec.Apps[1:] {
		if a.Name == name {
			return true
		}
	}
	return false
}
