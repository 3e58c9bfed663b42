package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"

	"croft.dev/croft/internal/engine"
)

// Dial implements engine.Engine. What is at the other end is the fleet's Config.Serve, and
// the connection ends with the step.
func (c *conn) Dial(ctx context.Context, id engine.StepID, port uint16) (net.Conn, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
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
		return nil, &engine.DialError{Port: port, Message: "the machine's ports aren't the job's own"}
	case f.listeners[listening{id.Attempt, port}] != nil:
		return f.listeners[listening{id.Attempt, port}].dial()
	case !slices.Contains(a.program.Ports, port):
		return nil, &engine.DialError{Port: port, Message: engine.NothingListens}
	}
	ours, theirs := net.Pipe()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer theirs.Close()
		f.serve(theirs, clone(a.Allocation), port)
	}()
	go f.hangUp(a, ours, gone)
	return ours, nil
}

// hangUp ends a connection with the step.
func (f *Fleet) hangUp(a *step, c net.Conn, gone <-chan struct{}) {
	for {
		f.mu.Lock()
		ended, changed := a.phase == engine.PhaseExited, a.changed
		f.mu.Unlock()
		if ended {
			c.Close()
			return
		}
		select {
		case <-changed:
		case <-gone:
			return
		}
	}
}

// Hello answers requests of HTTP with what was asked for.
func Hello(c net.Conn, a engine.Allocation, port uint16) {
	l := &once{conn: c, done: make(chan struct{})}
	s := http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprintf(w, "hello from %s, port %d: %s %s\n", a.Name, port, r.Method, r.RequestURI)
		}),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed || s == http.StateHijacked {
				l.Close()
			}
		},
	}
	_ = s.Serve(l) // until the connection has ended
}

// once is a listener to which one connection comes.
type once struct {
	mu   sync.Mutex
	conn net.Conn
	over sync.Once
	done chan struct{}
}

func (o *once) Accept() (net.Conn, error) {
	o.mu.Lock()
	c := o.conn
	o.conn = nil
	o.mu.Unlock()
	if c != nil {
		return c, nil
	}
	<-o.done
	return nil, errors.New("sim: there is one connection")
}

func (o *once) Close() error { o.over.Do(func() { close(o.done) }); return nil }

func (o *once) Addr() net.Addr { return &net.UnixAddr{Name: "sim", Net: "unix"} }
