package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	"croft.dev/croft/internal/engine"
)

// streams are what a stream of the runtime carries; those that are nil aren't asked for.
type streams struct {
	tty            bool
	stdin          io.Reader
	stdout, stderr io.Writer
	resize         <-chan engine.Size
}

// stream carries an exec or an attach over the runtime's streaming server.
func stream(ctx context.Context, address string, s streams) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("cri: stream: %w", err)
	}
	// Whoever reaches the streaming server with the address has the streams: it must
	// not be on the network.
	if ip := net.ParseIP(u.Hostname()); (ip == nil || !ip.IsLoopback()) && u.Hostname() != "localhost" {
		return fmt.Errorf("cri: stream: the runtime's streaming server listens on %s, not on loopback", u.Hostname())
	}
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{})
	if err != nil {
		return fmt.Errorf("cri: stream: %w", err)
	}
	told := &listener{Upgrader: upgrader}
	executor, err := remotecommand.NewSPDYExecutorForTransports(transport, told, "POST", u)
	if err != nil {
		return fmt.Errorf("cri: stream: %w", err)
	}
	opts := remotecommand.StreamOptions{Stdin: s.stdin, Stdout: s.stdout, Tty: s.tty}
	if !s.tty {
		opts.Stderr = s.stderr
	}
	if s.tty && s.resize != nil {
		opts.TerminalSizeQueue = sizes{ctx: ctx, from: s.resize}
	}
	err = executor.StreamWithContext(ctx, opts)
	switch {
	case err == nil && told.heard.Load():
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return &engine.UnavailableError{Cause: errors.New("the runtime's stream was cut off")}
	}
	return fmt.Errorf("cri: stream: %w", err)
}

// listener notes that the runtime has said how a stream ended. A connection that is cut
// off looks like a good end to the client of the streaming protocol, exit code 0.
type listener struct {
	spdy.Upgrader
	heard atomic.Bool
}

// NewConnection implements spdy.Upgrader.
func (l *listener) NewConnection(resp *http.Response) (httpstream.Connection, error) {
	c, err := l.Upgrader.NewConnection(resp)
	if err != nil {
		return nil, err
	}
	return heardConnection{c, l}, nil
}

type heardConnection struct {
	httpstream.Connection
	by *listener
}

// CreateStream implements httpstream.Connection. How it ended comes on the stream "error".
func (c heardConnection) CreateStream(headers http.Header) (httpstream.Stream, error) {
	kind := headers.Get("streamType")
	s, err := c.Connection.CreateStream(headers)
	if err != nil || kind != "error" {
		return s, err
	}
	return heardStream{s, c.by}, nil
}

type heardStream struct {
	httpstream.Stream
	by *listener
}

func (s heardStream) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b)
	if n > 0 {
		s.by.heard.Store(true)
	}
	return n, err
}

func or(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// sizes hands a terminal's sizes on.
type sizes struct {
	ctx  context.Context
	from <-chan engine.Size
}

// Next implements remotecommand.TerminalSizeQueue.
func (s sizes) Next() *remotecommand.TerminalSize {
	select {
	case size, ok := <-s.from:
		if !ok {
			return nil
		}
		return &remotecommand.TerminalSize{Width: size.Cols, Height: size.Rows}
	case <-s.ctx.Done():
		return nil
	}
}
