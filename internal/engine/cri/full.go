package cri

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine/room"
)

// fullness says how full the file system of an open file is, if there is no room left in it;
// with a quota for the file's project, that is what the kernel tells of. A full home is no
// reason not to start: only there can its user make room. A file system that doesn't answer
// isn't waited for.
func fullness(ctx context.Context, f *os.File) string {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	said := make(chan string, 1)
	go func() {
		defer unix.Close(fd)
		var st unix.Statfs_t
		if err := unix.Fstatfs(fd, &st); err != nil {
			said <- ""
			return
		}
		said <- room.Full(&st)
	}()
	select {
	case text := <-said:
		return text
	case <-ctx.Done():
		return ""
	}
}
