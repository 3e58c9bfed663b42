package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
)

// paths looks at files as a job's user sees them: the server is root and sees
// more, and a bind would carry a path past the folders above it that the user may
// not enter.
type paths struct{}

// lookPatience is how long a file system may take to answer.
const lookPatience = 10 * time.Second

// Real returns what path leads to, links resolved, if the user may get there and
// read it. The error is a *engine.StartError when he may not.
func (paths) Real(ctx context.Context, u engine.User, path string) (string, error) {
	type answer struct {
		real string
		err  error
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	got := make(chan answer, 1)
	go func() {
		// A thread of its own that takes on the user's identity for files, and is
		// never given back: it ends with this goroutine. No process of the user's
		// has a part in it, so that he can't forge the answer.
		runtime.LockOSThread()
		real, err := realAs(u, path)
		got <- answer{real, err}
	}()
	select {
	case a := <-got:
		return a.real, lookError(u, path, a.err)
	case <-ctx.Done():
		return "", &engine.UnavailableError{Cause: ctx.Err()}
	}
}

// realAs looks a path up with the identity of u on the calling thread, which keeps
// it (see setfsuid(2) and credentials(7): both are a thread's own).
func realAs(u engine.User, path string) (string, error) {
	groups := []uint32{uint32(u.GID)}
	for _, g := range u.Groups {
		groups = append(groups, uint32(g.GID))
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
		return "", errno
	}
	if _, err := unix.SetfsgidRetGid(int(u.GID)); err != nil {
		return "", err
	}
	if _, err := unix.SetfsuidRetUid(int(u.UID)); err != nil {
		return "", err
	}
	// the only way to see that it took effect
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != int(u.UID) {
		return "", errors.Join(errors.New("setfsuid had no effect"), err)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.Faccessat(fd, "", unix.R_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS); err != nil {
		return "", err
	}
	return os.Readlink(fmt.Sprintf("/proc/thread-self/fd/%d", fd))
}

// lookError tells what the user can mend from what nobody knows.
func lookError(u engine.User, path string, err error) error {
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case errors.As(err, &errno) && slices.Contains([]syscall.Errno{unix.ENOENT, unix.EACCES, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG}, errno):
		return &engine.StartError{Message: "mount " + path + ": it isn't there, or " + u.Name + " may not read it"}
	}
	return &engine.UnavailableError{Cause: err}
}

// anyPath is for a virtual fleet, which mounts nothing.
type anyPath struct{}

func (anyPath) Real(_ context.Context, _ engine.User, path string) (string, error) { return path, nil }
