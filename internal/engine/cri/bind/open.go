package bind

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// As is the identity with which a path is looked up.
type As struct {
	UID, GID int64
	Groups   []int64 // supplementary ones
}

// Open opens what path leads to for as, links followed, if as may get there and read
// it. The file stands for the place alone (O_PATH): nothing of its contents is opened,
// so that a pipe or a device is waited for by nobody. The error is the system's.
//
// A file system that doesn't answer is waited for as long as ctx lasts.
func Open(ctx context.Context, as As, path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, unix.ENOENT
	}
	type answer struct {
		file *os.File
		err  error
	}
	got := make(chan answer)
	go func() {
		// A thread of its own that takes on the identity for files, and is never given
		// back: it ends with this goroutine. No process of the user's has a part in it,
		// so that he can't forge the answer.
		runtime.LockOSThread()
		f, err := openAs(as, path)
		select {
		case got <- answer{f, err}:
		case <-ctx.Done():
			f.Close()
		}
	}()
	select {
	case a := <-got:
		return a.file, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// openAs opens path with the identity of as on the calling thread, which keeps it
// (see setfsuid(2) and credentials(7): both are a thread's own).
func openAs(as As, path string) (*os.File, error) {
	groups := []uint32{uint32(as.GID)}
	for _, g := range as.Groups {
		groups = append(groups, uint32(g))
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
		return nil, errno
	}
	if _, err := unix.SetfsgidRetGid(int(as.GID)); err != nil {
		return nil, err
	}
	if _, err := unix.SetfsuidRetUid(int(as.UID)); err != nil {
		return nil, err
	}
	// the only way to see that it took effect
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != int(as.UID) {
		return nil, errors.Join(errors.New("setfsuid had no effect"), err)
	}
	// As a folder first: only so is what an automounter keeps there mounted.
	fd, err := openPath(path, unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOTDIR) {
		fd, err = openPath(path, 0)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	if err := unix.Faccessat(fd, "", unix.R_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func openPath(path string, flags uint64) (int, error) {
	// /proc has links that lead past all that is checked on the way
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	return unix.Openat2(unix.AT_FDCWD, path, &how)
}

// Place is where f lies now, as a path without links.
func Place(f *os.File) (string, error) {
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
}
