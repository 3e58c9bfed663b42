package remote

import (
	"net"
	"sync"
	"syscall"
)

// line is what an executor's connections go over. client-go waits for the answer to its first
// request past the end of the context; who hangs up ends that, too.
type line struct {
	mu    sync.Mutex
	conns []syscall.RawConn
}

// dialer makes the connections.
func (l *line) dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, c)
		return nil
	}}
}

// hangUp ends what is read from and written to the connections.
func (l *line) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		// one that is closed already answers with an error
		_ = c.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
	}
}
