package bind

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// IDs are a user's and a group's number.
type IDs struct{ UID, GID int64 }

// Namespace returns a user namespace for Tree.Map, in which files of from are to's and
// those of everybody else are nobody's. No process is in it: it ends with the file.
func Namespace(from, to IDs) (*os.File, error) {
	runtime.LockOSThread() // the child ends with its parent's thread, which traces it
	defer runtime.UnlockOSThread()
	// The child is stopped by its tracer before the first instruction of the program,
	// which therefore doesn't matter, and killed.
	child, err := os.StartProcess("/proc/self/exe", []string{"namespace"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, Ptrace: true, Pdeathsig: syscall.SIGKILL,
		UidMappings: one(from.UID, to.UID), GidMappings: one(from.GID, to.GID),
	}})
	if err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", child.Pid))
	_ = child.Kill()
	_, _ = child.Wait() // how it ended means nothing
	if err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	return ns, nil
}

// one maps one id: "inside" is what the file system has, "outside" what is seen.
func one(from, to int64) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{ContainerID: int(from), HostID: int(to), Size: 1}}
}

// TryIDMap says whether the file system at path can be mapped, by mapping a copy of
// its mount that nobody sees. The error is ErrNoIDMap when it can't.
func TryIDMap(path string) error {
	ns, err := Namespace(IDs{0, 0}, IDs{1, 1})
	if err != nil {
		return err
	}
	defer ns.Close()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	t, err := clone(f, 0)
	if err != nil {
		return err
	}
	defer t.Close()
	return t.Map(ns)
}
