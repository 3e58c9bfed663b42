// Package netns reaches into the network namespace of another process (network_namespaces(7)).
// A socket belongs to the namespace that it was made in, so a thread enters only for as
// long as that takes.
package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace. It lives at least until Close.
type Namespace struct{ file *os.File }

// Open returns the namespace of a process.
func Open(pid int) (*Namespace, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	return &Namespace{f}, nil
}

// Close lets go of it. Connections into it go on.
func (n *Namespace) Close() error { return n.file.Close() }

// Own reports whether it is the one that this process is in.
func (n *Namespace) Own() (bool, error) {
	own, err := os.Stat("/proc/self/ns/net")
	if err != nil {
		return false, err
	}
	this, err := n.file.Stat()
	if err != nil {
		return false, err
	}
	return os.SameFile(own, this), nil
}

// Do calls f on a thread that is in the namespace. Programs that f starts are in it, too.
func (n *Namespace) Do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		back, err := n.inside(f)
		if back {
			runtime.UnlockOSThread()
		} // else the goroutine ends with its thread, which nothing else may ever run on
		done <- err
	}()
	return <-done
}

// own is the calling thread's namespace.
const own = "/proc/thread-self/ns/net"

// inside reports whether the thread is back where it was.
func (n *Namespace) inside(f func() error) (back bool, err error) {
	home, err := os.Open(own)
	if err != nil {
		return true, err
	}
	defer home.Close()
	if err := enter(n.file); err != nil {
		return true, err
	}
	err = f()
	if gone := enter(home); gone != nil {
		return false, errors.Join(err, gone)
	}
	was, err1 := home.Stat()
	is, err2 := os.Stat(own)
	return err1 == nil && err2 == nil && os.SameFile(was, is), err
}

// enter takes the calling thread into a namespace.
func enter(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Setns(int(fd), unix.CLONE_NEWNET) }); err != nil {
		return err
	}
	return os.NewSyscallError("setns", failed)
}

// Dial connects to a TCP port in the namespace.
func (n *Namespace) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	family, addr := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		family, addr = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	var fd int
	err := n.Do(func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		return os.NewSyscallError("socket", err)
	})
	if err != nil {
		return nil, err
	}
	err = unix.Connect(fd, addr)
	f := os.NewFile(uintptr(fd), "tcp "+to.String())
	defer f.Close()
	if errors.Is(err, unix.EINPROGRESS) {
		err = connected(ctx, f)
	}
	if err != nil {
		return nil, os.NewSyscallError("connect", err)
	}
	return net.FileConn(f)
}

// Listen listens on a TCP port in the namespace.
func (n *Namespace) Listen(ctx context.Context, at netip.AddrPort) (ln net.Listener, err error) {
	err = n.Do(func() error {
		var config net.ListenConfig
		ln, err = config.Listen(ctx, "tcp", at.String())
		return err
	})
	return ln, err
}

// connected waits until a connection is made or has failed.
func connected(ctx context.Context, f *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		var code int
		if code, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); failed != nil {
			return true
		}
		if code != 0 {
			failed = unix.Errno(code)
			return true
		}
		_, pending := unix.Getpeername(int(fd))
		return pending == nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(err, failed)
}
