package logfile

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// watch returns a channel that gets a value soon after something was written
// into the directory of path, and a function that ends the watch. Where the
// kernel can't watch (no more inotify instances for this user) the channel is
// nil, and the caller polls.
func watch(path string) (<-chan struct{}, func()) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, func() {}
	}
	const events = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVED_FROM
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(path), events); err != nil {
		unix.Close(fd)
		return nil, func() {}
	}
	// A non-blocking descriptor goes to the runtime's poller, so that Close ends
	// the Read below.
	f := os.NewFile(uintptr(fd), "inotify")
	wake := make(chan struct{}, 1)
	go func() {
		buf := make([]byte, 4096)
		for {
			if _, err := f.Read(buf); err != nil {
				return
			}
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}()
	return wake, func() { f.Close() }
}
