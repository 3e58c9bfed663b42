// Package remote carries the streams of programs that run elsewhere, by Kubernetes' protocol
// for them, which runtimes and API servers speak.
package remote

//lint:file-ignore SA1019 client-go's connections are of these types

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	streaming "k8s.io/streaming/pkg/httpstream/spdy"

	"croft.dev/croft/internal/engine"
)

// ErrCut says that the streams ended and nobody said how the program did.
var ErrCut = errors.New("the stream was cut off")

// Executor carries the streams of one program over SPDY. Over WebSockets an API server says
// that all went well when it loses the kubelet, so that they are no substitute.
type Executor struct {
	remotecommand.Executor
	told *listener
	line *line
}

// New is an executor of what an address, asked by config, has.
func New(config *rest.Config, address *url.URL) (*Executor, error) {
	line := new(line)
	transport, upgrader, err := roundTripper(config, line)
	if err != nil {
		return nil, err
	}
	told := &listener{Upgrader: upgrader}
	e, err := remotecommand.NewSPDYExecutorForTransports(transport, told, http.MethodPost, address)
	if err != nil {
		return nil, err
	}
	return &Executor{e, told, line}, nil
}

// ping is how often the other side must show that it is still there.
const ping = 5 * time.Second

// roundTripper is client-go's for SPDY, but for the line.
func roundTripper(config *rest.Config, line *line) (http.RoundTripper, spdy.Upgrader, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, nil, err
	}
	proxy := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxy = config.Proxy
	}
	t, err := streaming.NewRoundTripperWithConfig(streaming.RoundTripperConfig{TLS: tls, Proxier: proxy, PingPeriod: ping})
	if err != nil {
		return nil, nil, err
	}
	t.Dialer = line.dialer()
	wrapped, err := rest.HTTPWrappersForConfig(config, t)
	return wrapped, spdy.NewUpgraderForStreaming(t), err
}

// StreamWithContext implements remotecommand.Executor. ErrCut is among its errors.
func (e *Executor) StreamWithContext(ctx context.Context, opts remotecommand.StreamOptions) error {
	defer context.AfterFunc(ctx, e.line.hangUp)()
	err := e.Executor.StreamWithContext(ctx, opts)
	switch {
	case ctx.Err() != nil && err != nil:
		return ctx.Err()
	case err == nil && !e.told.heard.Load():
		return ErrCut
	}
	return err
}

// listener notes that the other side has said how a program ended. A connection that is cut
// off looks like a good end to the client of the protocol, exit code 0.
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

// Sizes hands a terminal's sizes on, until ctx, which is the stream's, ends.
func Sizes(ctx context.Context, from <-chan engine.Size) remotecommand.TerminalSizeQueue {
	return sizes{ctx, from}
}

type sizes struct {
	ctx  context.Context // Next has no other way to get it
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
