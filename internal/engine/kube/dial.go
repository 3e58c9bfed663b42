package kube

//lint:file-ignore SA1019 client-go's connections are of these types

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	streams "k8s.io/apimachinery/pkg/util/httpstream/spdy"
	tunnel "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	upgrade "k8s.io/streaming/pkg/httpstream"

	"croft.dev/croft/internal/engine"
)

// Dial implements engine.Engine, through the API server and the kubelet. Whether anything
// listens is known only once it is spoken to: else the first Read says so.
func (e *Engine) Dial(ctx context.Context, id engine.StepID, port uint16) (net.Conn, error) {
	p, err := e.running(ctx, id)
	if err != nil {
		return nil, err
	}
	return ask(ctx, func(ctx context.Context) (net.Conn, error) { return e.dial(ctx, p, port) })
}

// dial is forward until ctx ends: what comes later is closed.
func (e *Engine) dial(ctx context.Context, p *corev1.Pod, port uint16) (net.Conn, error) {
	type end struct {
		conn net.Conn
		err  error
	}
	got := make(chan end)
	go func() {
		conn, err := e.forward(ctx, p, port)
		select {
		case got <- end{conn, err}:
		case <-ctx.Done():
			if err == nil {
				_ = conn.Close() // nobody has it
			}
		}
	}()
	select {
	case x := <-got:
		return x.conn, x.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connect opens a connection for streams to a Pod's ports. By WebSocket, or by SPDY where
// something on the way knows no WebSockets of this kind. The dialers of package portforward
// would do the same and heed no context.
func (e *Engine) connect(ctx context.Context, p *corev1.Pod) (httpstream.Connection, error) {
	address := e.subresource(p, "portforward", nil).String()
	transport, holder, err := websocket.RoundTripperFor(e.rest)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	socket, err := websocket.Negotiate(transport, holder, req, tunnel.WebsocketsSPDYTunnelingPrefix+portforward.PortForwardProtocolV1Name)
	if err == nil {
		return streams.NewClientConnectionWithPings(portforward.NewTunnelingConnection("client", socket), portforward.PingPeriod)
	}
	if !noWebSockets(err) {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(e.rest)
	if err != nil {
		return nil, err
	}
	if req, err = http.NewRequestWithContext(ctx, http.MethodPost, address, nil); err != nil {
		return nil, err
	}
	c, _, err := spdy.Negotiate(upgrader, &http.Client{Transport: transport}, req, portforward.PortForwardProtocolV1Name)
	return c, err
}

// noWebSockets reports whether an error says that something on the way knows no WebSockets of
// this kind. Package httpstream of apimachinery asks the same of errors of its own.
func noWebSockets(err error) bool {
	return upgrade.IsUpgradeFailure(err) || upgrade.IsHTTPSProxyError(err)
}

// forward opens a connection of its own for one port.
func (e *Engine) forward(ctx context.Context, p *corev1.Pod, port uint16) (net.Conn, error) {
	c, err := e.connect(ctx, p)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	said, err := c.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := c.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(err, said.Close(), c.Close())
	}
	_ = said.Close() // nothing is written there
	near, far := net.Pipe()
	f := &forwarded{Conn: near, port: port}
	go f.carry(far, data, said, c)
	return f, nil
}

// forwarded is a connection to a port.
type forwarded struct {
	net.Conn
	port uint16

	mu  sync.Mutex
	err error // why it ended, if that is known
}

// lingering is how long what was sent last may take to arrive once who dialled has gone: a
// program that doesn't end its side is left then.
const lingering = 10 * time.Second

// carry hands on what comes from either side, until one has ended.
func (f *forwarded) carry(far net.Conn, data, said httpstream.Stream, c httpstream.Connection) {
	go func() {
		_, _ = io.Copy(data, far) // its end is the connection's
		_ = data.Close()
		time.AfterFunc(lingering, func() { _ = c.Close() })
	}()
	told := make(chan struct{})
	go func() {
		defer close(told)
		text, err := io.ReadAll(io.LimitReader(said, 4<<10))
		if err == nil && len(text) > 0 {
			f.fail(&engine.DialError{Port: f.port, Message: whyNot(string(text))})
		}
	}()
	_, _ = io.Copy(far, data) // likewise
	<-told
	_ = far.Close()
	_ = c.Close()
}

// whyNot is what the kubelet says of a port, without what it says of the node.
func whyNot(text string) string {
	if strings.Contains(text, "connection refused") {
		return engine.NothingListens
	}
	return "the connection failed"
}

func (f *forwarded) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// Read implements net.Conn.
func (f *forwarded) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.err != nil {
			err = f.err
		}
	}
	return n, err
}

// SetDeadline implements net.Conn, as SetReadDeadline and SetWriteDeadline do. That the far
// side has ended is for Read and Write to say, which know why: a pipe says it here already.
func (f *forwarded) SetDeadline(t time.Time) error { return unlessEnded(f.Conn.SetDeadline(t)) }

// SetReadDeadline implements net.Conn.
func (f *forwarded) SetReadDeadline(t time.Time) error {
	return unlessEnded(f.Conn.SetReadDeadline(t))
}

// SetWriteDeadline implements net.Conn.
func (f *forwarded) SetWriteDeadline(t time.Time) error {
	return unlessEnded(f.Conn.SetWriteDeadline(t))
}

func unlessEnded(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// Listen implements engine.Engine.
func (e *Engine) Listen(ctx context.Context, id engine.StepID, port uint16) (net.Listener, error) {
	if _, err := e.running(ctx, id); err != nil {
		return nil, err
	}
	return nil, &engine.ListenError{Port: port, Message: "on a cluster nothing is listened on in a job"}
}
