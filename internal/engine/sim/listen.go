package sim

import (
	"context"
	"net"
	"slices"
	"sync"

	"croft.dev/croft/internal/engine"
)

// listening is a port of an attempt.
type listening struct {
	attempt engine.AttemptID
	port    uint16
}

// Listen implements engine.Engine. Who comes there comes by Dial.
func (c *conn) Listen(ctx context.Context, id engine.StepID, port uint16) (net.Listener, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	if port != 0 && port < engine.FirstPort {
		return nil, &engine.ListenError{Port: port, Message: engine.PortPrivileged}
	}
	f := c.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	a := c.step(id)
	if a == nil || a.removed {
		return nil, &engine.NotFoundError{Attempt: id.Attempt}
	}
	f.settle(a)
	switch err := f.contact(a); {
	case err != nil:
		return nil, err
	case a.phase != engine.PhaseRunning:
		return nil, &engine.NotFoundError{Attempt: id.Attempt}
	case a.Host || a.Pod.HostNetwork:
		return nil, &engine.ListenError{Port: port, Message: "the machine's ports aren't the job's own"}
	}
	if port == 0 {
		for port = 32768; f.listeners[listening{id.Attempt, port}] != nil; port++ {
		}
	}
	at := listening{id.Attempt, port}
	if f.listeners[at] != nil || slices.Contains(a.program.Ports, port) {
		return nil, &engine.ListenError{Port: port, Message: engine.PortTaken}
	}
	l := &listener{fleet: f, at: at, come: make(chan net.Conn), closed: make(chan struct{})}
	if f.listeners == nil {
		f.listeners = map[listening]*listener{}
	}
	f.listeners[at] = l
	return l, nil
}

// listener is one on a port of an attempt.
type listener struct {
	fleet  *Fleet
	at     listening
	come   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// dial connects to it, as soon as that is taken.
func (l *listener) dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		select {
		case l.come <- theirs:
		case <-l.closed:
			theirs.Close()
		}
	}()
	return ours, nil
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.come:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.fleet.mu.Lock()
		defer l.fleet.mu.Unlock()
		delete(l.fleet.listeners, l.at)
	})
	return nil
}

func (l *listener) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(l.at.port)}
}
