package logfile

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// watcher tells of changes in the directory of a log. Where the kernel can't watch (no
// more inotify instances for this user) it tells nothing, and the caller polls.
type watcher struct {
	wake   chan struct{} // something was written; nil: nothing is ever told
	closed chan struct{} // whoever wrote the log has closed it
	stop   func()
}

func watch(path string) watcher {
	none := watcher{stop: func() {}}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return none
	}
	const events = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVED_FROM | unix.IN_CLOSE_WRITE
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(path), events); err != nil {
		unix.Close(fd)
		return none
	}
	// A non-blocking descriptor goes to the runtime's poller, so that Close ends
	// the Read below.
	f := os.NewFile(uintptr(fd), "inotify")
	w := watcher{wake: make(chan struct{}, 1), closed: make(chan struct{}, 1), stop: func() { f.Close() }}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			if err != nil {
				return
			}
			tell(w.wake)
			if closes(buf[:n], filepath.Base(path)) {
				tell(w.closed)
			}
		}
	}()
	return w
}

// patience is how long to wait, after the exit, for the log to be closed: hardly where that
// wouldn't be told, or where the exit was before anybody watched.
func (w watcher) patience(done <-chan struct{}) time.Duration {
	select {
	case <-done:
		return poll
	default:
	}
	if w.wake == nil {
		return poll
	}
	return lastWrites
}

// settle waits until the log is closed, for so long at most.
func (w watcher) settle(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.closed:
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// closes reports whether a file of that name was closed, in events as inotify(7) has them.
func closes(events []byte, name string) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(events[4:])
		size := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[unix.SizeofInotifyEvent:]
		size = min(size, len(events))
		if of := strings.TrimRight(string(events[:size]), "\x00"); mask&unix.IN_CLOSE_WRITE != 0 && of == name {
			return true
		}
		events = events[size:]
	}
	return false
}
