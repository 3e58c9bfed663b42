// Package upstream carries requests to servers that are near, over HTTP/1.1. A request
// without a body goes, and its answer comes, on the goroutine that asks, over a connection
// that was kept: http.Transport hands each over between three, which costs as much as all
// else. What has a body is left to that one, since it may be answered before it is sent.
package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"
)

// ErrHeaders is an answer whose headers are larger than they may be.
var ErrHeaders = errors.New("upstream: the answer's headers are too large")

// Config says how servers are reached.
type Config struct {
	// Dial connects to the host of a URL, as it is written there.
	Dial func(ctx context.Context, host string) (net.Conn, error)
	// Header bounds the headers of an answer, in bytes.
	Header int64
	// Patience is how long a server may take until it has answered with its headers.
	Patience time.Duration
	// Idle is how many connections to one host are kept, and IdleFor how long.
	Idle    int
	IdleFor time.Duration
}

// Transport is an http.RoundTripper. Make it with New.
type Transport struct {
	Config
	bodies *http.Transport

	mu   sync.Mutex
	idle map[string][]*conn // by host; the one that was used last is at the end
}

// New returns a Transport without any connections.
func New(c Config) *Transport {
	return &Transport{Config: c, idle: map[string][]*conn{}, bodies: &http.Transport{
		DialContext:            func(ctx context.Context, _, host string) (net.Conn, error) { return c.Dial(ctx, host) },
		DisableCompression:     true,
		DisableKeepAlives:      true, // a server that leaves a body unread would take it for another request
		ResponseHeaderTimeout:  c.Patience,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: c.Header,
	}}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !Bare(r) {
		resp, err := t.bodies.RoundTrip(r)
		return resp, known(err)
	}
	var early func(int, http.Header) error
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.Got1xxResponse != nil {
		early = func(code int, h http.Header) error { return trace.Got1xxResponse(code, textproto.MIMEHeader(h)) }
	}
	return t.ask(r.Context(), r.URL.Host, &question{method: r.Method, r: r, upgrade: r.Header.Get("Upgrade") != ""}, early)
}

// Ask asks a host by a request that Bare is true of and that is written already: head is its
// first line and its headers, with the empty line. Answers of 1xx before the one that counts
// are told to early, which may be nil.
func (t *Transport) Ask(ctx context.Context, host, method string, head []byte, early func(code int, h http.Header) error) (*http.Response, error) {
	return t.ask(ctx, host, &question{method: method, head: head}, early)
}

func (t *Transport) ask(ctx context.Context, host string, q *question, early func(int, http.Header) error) (*http.Response, error) {
	c, err := t.take(ctx, host)
	if err != nil {
		return nil, err
	}
	resp, err := c.ask(ctx, q, early)
	if c.used && errors.Is(err, errUnanswered) {
		// It was given up by the server just now. A new one isn't, so this ends.
		if c, err = t.dial(ctx, host); err == nil {
			resp, err = c.ask(ctx, q, early)
		}
	}
	return resp, err
}

// Bare reports whether a request has no body and, asked twice, does no more than once.
func Bare(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return (r.Body == nil || r.Body == http.NoBody) && len(r.Trailer) == 0 && r.Header.Get("Expect") == ""
	}
	return false
}

// take returns a connection to a host.
func (t *Transport) take(ctx context.Context, host string) (*conn, error) {
	for {
		c := t.pop(host)
		switch {
		case c == nil:
			return t.dial(ctx, host)
		case c.arm() == nil && c.quiet(): // in this order: with a deadline that is over nothing can be looked at
			return c, nil
		}
		c.close() // the server has closed it, or says what nobody asked for
	}
}

func (t *Transport) dial(ctx context.Context, host string) (*conn, error) {
	nc, err := t.Dial(ctx, host)
	if err != nil {
		return nil, err
	}
	c := newConn(t, host, nc)
	if err := c.arm(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (t *Transport) pop(host string) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.idle[host]
	if len(all) == 0 {
		return nil
	}
	last := len(all) - 1
	c := all[last]
	if all[last] = nil; last == 0 {
		delete(t.idle, host)
	} else {
		t.idle[host] = all[:last]
	}
	return c
}

// keep has a connection used again, unless there are enough.
func (t *Transport) keep(c *conn) {
	c.used, c.since = true, time.Now()
	t.mu.Lock()
	full := len(t.idle[c.host]) >= t.Idle
	if !full {
		t.idle[c.host] = append(t.idle[c.host], c)
	}
	t.mu.Unlock()
	if full {
		c.close()
	}
}

// Sweep closes the connections that have been idle for too long, and those to hosts that
// stays doesn't want kept. It is to be called now and then.
func (t *Transport) Sweep(stays func(host string) bool) {
	before := time.Now().Add(-t.IdleFor)
	var over []*conn
	t.mu.Lock()
	for host, all := range t.idle {
		n := 0
		if stays(host) {
			for n = len(all); n > 0 && all[len(all)-n].since.Before(before); {
				n--
			}
		}
		over = append(over, all[:len(all)-n]...)
		if rest := all[len(all)-n:]; n == 0 {
			delete(t.idle, host)
		} else {
			t.idle[host] = append(all[:0:0], rest...)
		}
	}
	t.mu.Unlock()
	for _, c := range over {
		c.close()
	}
}

// CloseIdleConnections closes all connections that nothing is asked on.
func (t *Transport) CloseIdleConnections() {
	t.Sweep(func(string) bool { return false })
	t.bodies.CloseIdleConnections()
}
