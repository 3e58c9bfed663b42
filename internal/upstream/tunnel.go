package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// tunnel is what a connection is once another protocol is spoken on it.
type tunnel struct {
	net.Conn
	ahead *bufio.Reader // what came with the answer; nil: nothing is left of it
	stop  func() bool
}

// newTunnel makes one of a connection, which is given up as such.
func newTunnel(c *conn, stop func() bool) *tunnel {
	t := &tunnel{Conn: c.nc, stop: stop}
	if c.br.Buffered() > 0 {
		t.ahead = c.br
	}
	return t
}

// Read implements io.Reader.
func (t *tunnel) Read(b []byte) (int, error) {
	if t.ahead == nil {
		return t.Conn.Read(b)
	}
	n, err := t.ahead.Read(b[:min(len(b), t.ahead.Buffered())])
	if t.ahead.Buffered() == 0 {
		t.ahead = nil
	}
	return n, err
}

// Close implements io.Closer.
func (t *tunnel) Close() error {
	t.stop()
	return t.Conn.Close()
}

// CloseWrite says that nothing more is sent.
func (t *tunnel) CloseWrite() error {
	if c, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return http.ErrNotSupported
}

// WriteTo implements io.WriterTo, with which io.Copy carries what the server sends.
func (t *tunnel) WriteTo(w io.Writer) (int64, error) {
	if t.ahead == nil {
		return carry(w, t.Conn)
	}
	b, err := t.ahead.Peek(t.ahead.Buffered())
	if err != nil {
		return 0, err
	}
	n, err := w.Write(b)
	if err != nil {
		return int64(n), err
	}
	t.ahead = nil
	rest, err := carry(w, t.Conn)
	return int64(n) + rest, err
}

// ReadFrom implements io.ReaderFrom, with which io.Copy carries what is sent to the server.
func (t *tunnel) ReadFrom(r io.Reader) (int64, error) { return carry(t.Conn, r) }

// pieces are for bytes on their way through tunnels.
var pieces = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// carry copies until the end. From a socket it takes a buffer only when there is something
// to read: thousands of WebSockets are open that say nothing.
func carry(dst io.Writer, src io.Reader) (int64, error) {
	if s, ok := src.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return carryRaw(dst, raw)
		}
	}
	buf := pieces.Get().(*[32 << 10]byte)
	defer pieces.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, buf[:])
}

func carryRaw(dst io.Writer, src syscall.RawConn) (total int64, err error) {
	var buf *[32 << 10]byte
	var n int
	var failed error
	read := func(fd uintptr) bool {
		buf = pieces.Get().(*[32 << 10]byte)
		for {
			if n, failed = unix.Read(int(fd), buf[:]); !errors.Is(failed, unix.EINTR) {
				break
			}
		}
		if errors.Is(failed, unix.EAGAIN) {
			pieces.Put(buf)
			return false
		}
		return true
	}
	for {
		if err := src.Read(read); err != nil {
			return total, err
		}
		if failed == nil && n > 0 {
			n, failed = dst.Write(buf[:n])
			total += int64(n)
			pieces.Put(buf)
			if failed != nil {
				return total, failed
			}
			continue
		}
		pieces.Put(buf)
		return total, os.NewSyscallError("read", failed)
	}
}
