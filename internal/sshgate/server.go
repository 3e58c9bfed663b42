package sshgate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/sequencer"
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

// Engine is what running jobs are entered with.
type Engine interface {
	Exec(ctx context.Context, step engine.StepID, req engine.ExecRequest) (exitCode int, err error)
	Dial(ctx context.Context, step engine.StepID, port uint16) (net.Conn, error)
	Listen(ctx context.Context, step engine.StepID, port uint16) (net.Listener, error)
}

// Deps is what a Server is made of.
type Deps struct {
	Sequencer Sequencer
	Reader    *query.Reader
	Engine    Engine
	HostKeys  []ssh.Signer
	Host      string             // by which users reach the server; empty: not known
	Presence  *presence.Registry // who is in which job
	Now       func() int64       // ns since the epoch
	Logger    *slog.Logger
}

// The bounds of what one may open, and of how long getting in may take. Strangers have
// the least.
const (
	handshakeTime    = 20 * time.Second
	authTries        = 6
	handshakesByHost = 64
	handshakes       = 256
	connsByUser      = 64
	conns            = 1024
	keepalivePeriod  = 30 * time.Second
	keepalivePatient = 90 * time.Second
	recheckPeriod    = 5 * time.Second
)

// Server serves SSH. Make it with New.
type Server struct {
	Deps
	arriving tally[string] // handshakes by where they come from
	inside   tally[int64]  // connections by user
	listens  atomic.Pointer[net.Addr]
	closing  context.Context
	close    context.CancelFunc
	conns    sync.WaitGroup
}

// New returns a Server.
func New(d Deps) (*Server, error) {
	if d.Sequencer == nil || d.Reader == nil || d.Engine == nil || d.Now == nil || d.Presence == nil || len(d.HostKeys) == 0 {
		return nil, errors.New("sshgate: a dependency is missing")
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{Deps: d, arriving: tally[string]{each: handshakesByHost, all: handshakes}, inside: tally[int64]{each: connsByUser, all: conns}}
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Serve lets in who comes to ln until Close. The error is ln's, and nil after Close.
func (s *Server) Serve(ln net.Listener) error {
	stop := context.AfterFunc(s.closing, func() { ln.Close() })
	defer stop()
	for {
		nc, err := ln.Accept()
		switch {
		case s.closing.Err() != nil:
			if err == nil {
				nc.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // out of descriptors, or one that went away
			s.Logger.Warn("a connection over SSH can't be taken", "error", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.closing.Done():
			}
			continue
		}
		s.conns.Go(func() { s.stranger(nc) })
	}
}

// Close ends every connection, and returns when they are gone.
func (s *Server) Close() {
	s.close()
	s.conns.Wait()
}

// stranger serves a connection of somebody who has to show a key.
func (s *Server) stranger(nc net.Conn) {
	defer nc.Close()
	from := hostOf(nc.RemoteAddr())
	if !s.arriving.take(from) {
		s.Logger.Warn("too many strangers over SSH at once", "from", from)
		return
	}
	sc, in, err := s.greet(nc, s.publicKeys())
	s.arriving.release(from)
	if err != nil {
		s.Logger.Debug("nobody got in over SSH", "from", from, "error", err)
		return
	}
	s.serve(sc, in)
}

// arrived is a connection whose handshake is done.
type arrived struct {
	*ssh.ServerConn
	channels <-chan ssh.NewChannel
	requests <-chan *ssh.Request
}

// greet makes the handshake, and returns where it leads.
func (s *Server) greet(nc net.Conn, cfg *ssh.ServerConfig) (arrived, *entrance, error) {
	stop := context.AfterFunc(s.closing, func() { nc.Close() })
	defer stop()
	// A connection that has no deadlines is closed when its time is over.
	late := time.AfterFunc(handshakeTime, func() { nc.Close() })
	defer late.Stop()
	sc, channels, requests, err := ssh.NewServerConn(nc, cfg)
	if err != nil {
		return arrived{}, nil, err
	}
	in, ok := sc.Permissions.ExtraData[entranceKey{}].(*entrance)
	if !ok {
		return arrived{}, nil, errors.Join(errors.New("let in without an entrance"), sc.Close())
	}
	return arrived{sc, channels, requests}, in, nil
}

// config is what all connections have in common. Of the ciphers that every client has,
// those that the machine's processor computes come alone: a client's own preference would
// choose one that costs several times as much.
func (s *Server) config() *ssh.ServerConfig {
	cfg := &ssh.ServerConfig{MaxAuthTries: authTries, ServerVersion: "SSH-2.0-Croft"}
	cfg.Ciphers = []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM}
	cfg.MACs = []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM}
	for _, k := range s.HostKeys {
		cfg.AddHostKey(k)
	}
	return cfg
}

// hostOf is an address's host; a socket's is this machine.
func hostOf(a net.Addr) string {
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return "127.0.0.1"
}

// engineStep names a step as the engine does.
func (s *Server) engineStep(job id.Job, attempt, n int32) engine.StepID {
	name := id.Attempt{Job: job, N: attempt}.Engine(s.Sequencer.World().Site.Instance)
	return engine.StepID{Attempt: engine.AttemptID(name), N: int(n)}
}

// tally counts what goes on by whom, up to a bound for each and one for all.
type tally[K comparable] struct {
	each, all int

	mu    sync.Mutex
	by    map[K]int // zero counts aren't kept
	total int
}

// take counts one in, if there is room.
func (t *tally[K]) take(k K) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[K]int{}
	}
	if t.total >= t.all || t.by[k] >= t.each {
		return false
	}
	t.by[k]++
	t.total++
	return true
}

// release counts one out.
func (t *tally[K]) release(k K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total--
	if t.by[k]--; t.by[k] == 0 {
		delete(t.by, k)
	}
}
