// Package memnet is a network in memory for tests: a listener whose connections
// are pipes, which can go away and come back as a server does that restarts. It
// works within a testing/synctest bubble, where real sockets don't.
package memnet

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// Net is a network with one server on it.
type Net struct {
	mu      sync.Mutex
	handler http.Handler
	server  *http.Server
	ln      *listener
	dials   int
}

// New returns a network whose server, when it is up, answers with h.
func New(h http.Handler) *Net { return &Net{handler: h} }

// Up starts the server.
func (n *Net) Up() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ln != nil {
		return
	}
	n.ln = &listener{conns: make(chan net.Conn), done: make(chan struct{})}
	n.server = &http.Server{Handler: n.handler}
	go func(s *http.Server, ln net.Listener) { _ = s.Serve(ln) }(n.server, n.ln)
}

// Down breaks every connection and refuses new ones, as after kill -9.
func (n *Net) Down() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ln == nil {
		return
	}
	_ = n.ln.Close()
	_ = n.server.Close()
	n.ln, n.server = nil, nil
}

// Dials is how many connections were made.
func (n *Net) Dials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

// Client returns an HTTP client whose every connection is to the server.
func (n *Net) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: n.dial, MaxIdleConnsPerHost: 64}}
}

func (n *Net) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	ln := n.ln
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	if ln == nil {
		return nil, refused
	}
	client, server := net.Pipe()
	select {
	case ln.conns <- server:
		n.mu.Lock()
		n.dials++
		n.mu.Unlock()
		return client, nil
	case <-ln.done:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "mem" }
func (addr) String() string  { return "mem" }
