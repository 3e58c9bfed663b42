package logfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// written reports whether nobody has a file open for writing any more: only then does the
// kernel give a lease for reading (fcntl(2), F_SETLEASE), which is given back at once. It
// isn't known where the file system has no leases.
func written(f *os.File) (done, known bool) {
	c, err := f.SyscallConn()
	if err != nil {
		return false, false
	}
	if cerr := c.Control(func(fd uintptr) {
		if _, err = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); err == nil {
			_, err = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		}
	}); cerr != nil {
		return false, false
	}
	return err == nil, err == nil || errors.Is(err, unix.EAGAIN)
}
