package cri

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// leastRoom is what a file system must have left not to be called full, in bytes.
const leastRoom = 1 << 20

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
		said <- fullOf(&st)
	}()
	select {
	case text := <-said:
		return text
	case <-ctx.Done():
		return ""
	}
}

// fullOf reads what a file system says of itself. One without sizes, as network and virtual
// ones may be, isn't full.
func fullOf(st *unix.Statfs_t) string {
	size := uint64(st.Frsize)
	switch {
	case st.Blocks > 0 && st.Bavail*size < leastRoom:
		return fmt.Sprintf("%s of %s", gibibytes((st.Blocks-st.Bfree)*size), gibibytes(st.Blocks*size))
	case st.Files > 0 && st.Ffree == 0:
		return fmt.Sprintf("%d of %d files", st.Files, st.Files)
	}
	return ""
}

// gibibytes is an amount for people, to a tenth.
func gibibytes(n uint64) string {
	unit, name := uint64(1<<30), "GiB"
	if n < unit {
		unit, name = 1<<20, "MiB"
	}
	return fmt.Sprintf("%d.%d %s", n/unit, n%unit*10/unit, name)
}
