package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxInformational bounds how many answers of 1xx come before the one that counts.
const maxInformational = 32

// errUnanswered is a connection that ended before anything was answered on it.
var errUnanswered = errors.New("upstream: the connection ended before an answer")

// conn is a connection to a server. One request at a time is asked on it.
type conn struct {
	t     *Transport
	host  string
	nc    net.Conn
	raw   syscall.RawConn // nil: it can't be asked whether it is quiet
	poll  [1]unix.PollFd
	look  func(fd uintptr) bool
	still bool // what look saw
	br    *bufio.Reader
	bw    *bufio.Writer
	left  int64 // what may still be read, in bytes
	got   bool  // something was read since the request began
	used  bool  // it has carried a request before
	since time.Time
	until time.Time // its deadline; zero: it has none
}

// question is a request without a body: as it is written, or to be written.
type question struct {
	method  string
	head    []byte // up to the empty line, which ends it
	r       *http.Request
	upgrade bool
}

func (q *question) write(w *bufio.Writer) error {
	if q.r != nil {
		return q.r.Write(w)
	}
	_, err := w.Write(q.head)
	return err
}

// asked is the request that http.ReadResponse reads an answer to.
func (q *question) asked() *http.Request {
	if q.r != nil {
		return q.r
	}
	return &http.Request{Method: q.method}
}

func newConn(t *Transport, host string, nc net.Conn) *conn {
	c := &conn{t: t, host: host, nc: nc}
	if s, ok := nc.(syscall.Conn); ok {
		c.raw, _ = s.SyscallConn() // without, it isn't kept
	}
	c.br, c.bw = bufio.NewReader(c), bufio.NewWriter(nc)
	c.look = func(fd uintptr) bool {
		c.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}
		n, err := unix.Poll(c.poll[:], 0)
		c.still = n == 0 && err == nil
		return true
	}
	return c
}

func (c *conn) close() { _ = c.nc.Close() } // nothing can be done about it

// Read implements io.Reader for br.
func (c *conn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, ErrHeaders
	}
	n, err := c.nc.Read(b[:min(int64(len(b)), c.left)])
	if c.left -= int64(n); n > 0 {
		c.got = true
	}
	return n, err
}

// quiet reports whether the server has neither closed the connection nor sent what nobody
// asked for, which would be taken for the answer to the next request.
func (c *conn) quiet() bool {
	c.still = false
	err := c.raw.Read(c.look)
	return c.still && err == nil
}

// arm gives the server Patience from now on, or up to a quarter more: a deadline that was set
// for the request before and isn't too early is left, since setting one takes a while.
func (c *conn) arm() error {
	if c.t.Patience <= 0 {
		return nil
	}
	now := time.Now()
	if !c.until.Before(now.Add(c.t.Patience)) {
		return nil
	}
	c.until = now.Add(c.t.Patience + c.t.Patience/4)
	return c.nc.SetDeadline(c.until)
}

// disarm takes the deadline off: an answer that goes on may take its time.
func (c *conn) disarm() error {
	c.until = time.Time{}
	return c.nc.SetDeadline(time.Time{})
}

// ask sends a request and reads the answer's headers. An error ends the connection. So does
// the end of the request's context, until the answer's body is closed.
func (c *conn) ask(ctx context.Context, q *question, early func(int, http.Header) error) (*http.Response, error) {
	stop := context.AfterFunc(ctx, c.close)
	c.got = false
	resp, err := c.exchange(q, early)
	if err != nil {
		stop()
		c.close()
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case !c.got && !errors.Is(err, ErrHeaders) && !isTimeout(err):
			err = fmt.Errorf("%w: %w", errUnanswered, err)
		}
		return nil, err
	}
	b := &body{ReadCloser: resp.Body, c: c, stop: stop, ctx: ctx, last: resp.Close}
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		resp.Body = newTunnel(c, stop)
	case resp.Body == http.NoBody:
		b.end(true)
	default:
		resp.Body = b
	}
	return resp, nil
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// exchange writes a request and reads up to the end of the answer's headers.
func (c *conn) exchange(q *question, early func(int, http.Header) error) (*http.Response, error) {
	if err := q.write(c.bw); err != nil {
		return nil, err
	}
	if err := c.bw.Flush(); err != nil {
		return nil, err
	}
	c.left = c.t.Header
	if resp := c.plain(q.method); resp != nil {
		c.left, resp.Request = math.MaxInt64, q.r
		if resp.ContentLength <= int64(c.br.Buffered()) {
			return resp, nil // nothing is waited for any more
		}
		return resp, c.disarm()
	}
	resp, err := c.answer(q, early)
	if err != nil {
		return nil, err
	}
	c.left = math.MaxInt64
	return resp, c.disarm()
}

// answer reads the answer that counts, and tells of those before it (RFC 9110, 15.2).
func (c *conn) answer(q *question, early func(int, http.Header) error) (*http.Response, error) {
	for range maxInformational {
		c.left = c.t.Header
		resp, err := http.ReadResponse(c.br, q.asked())
		switch {
		case err != nil && c.left <= 0: // whatever it makes of what it got
			return nil, ErrHeaders
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			if !q.upgrade {
				return nil, errors.New("upstream: another protocol was answered that nobody asked for")
			}
			return resp, nil
		case resp.StatusCode >= 200:
			return resp, nil
		}
		if early != nil {
			if err := early(resp.StatusCode, resp.Header); err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("upstream: more than %d answers came before one that counts", maxInformational)
}

// body is an answer's. With its end the connection is free.
type body struct {
	io.ReadCloser
	c    *conn
	stop func() bool
	ctx  context.Context // of the request: only to tell why it was cut short
	last bool            // nothing comes after it
	over bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		b.end(true)
	case err != nil:
		b.end(false)
		if b.ctx.Err() != nil {
			err = b.ctx.Err()
		}
	}
	return n, err
}

// Close gives an answer up that wasn't read to its end, and its connection with it.
func (b *body) Close() error {
	b.end(false)
	return nil
}

// end lets the connection go, to be used again if the answer was read whole.
func (b *body) end(whole bool) {
	if b.over {
		return
	}
	b.over = true
	if c := b.c; b.stop() && whole && !b.last && c.raw != nil && c.br.Buffered() == 0 {
		c.t.keep(c)
	} else {
		c.close()
	}
}

// known turns http.Transport's own error into the one of this package.
func known(err error) error {
	if err != nil && strings.Contains(err.Error(), "server response headers exceeded") {
		return fmt.Errorf("%w: %w", ErrHeaders, err)
	}
	return err
}
