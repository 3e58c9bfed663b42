package bind

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// IDs are a user's and a group's number.
type IDs struct{ UID, GID int64 }

// Range is so many ids from First on.
type Range struct{ First, Size int64 }

// Namespace returns a user namespace for Tree.Map, in which files of from are to's and
// those of everybody else stay theirs, but for hidden ids, which nobody's files may have.
// No process is in it: it ends with the file.
//
// That others' ids are mapped at all is what makes the rights hold that everybody has, and
// those of an owner whose folder has another group: the kernel lets nobody write to what
// has an owner or a group without a name in the mount (HAS_UNMAPPED_ID in fs/namei.c).
func Namespace(from, to IDs, hidden Range) (*os.File, error) {
	runtime.LockOSThread() // the child ends with its parent's thread, which traces it
	defer runtime.UnlockOSThread()
	// The child is stopped by its tracer before the first instruction of the program,
	// which therefore doesn't matter, and killed.
	child, err := os.StartProcess("/proc/self/exe", []string{"namespace"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, Ptrace: true, Pdeathsig: syscall.SIGKILL,
		UidMappings: lines(from.UID, to.UID, hidden), GidMappings: lines(from.GID, to.GID, hidden),
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

// lines map from to to, and every other id to itself that isn't hidden: in the words of
// the kernel, "inside" is what the file system has, "outside" what is seen.
func lines(from, to int64, hidden Range) []syscall.SysProcIDMap {
	const end = 1<<32 - 1 // which is no id
	out := []syscall.SysProcIDMap{{ContainerID: int(from), HostID: int(to), Size: 1}}
	same := func(first, after int64) {
		if first < after {
			out = append(out, syscall.SysProcIDMap{ContainerID: int(first), HostID: int(first), Size: int(after - first)})
		}
	}
	apart := []Range{{from, 1}, {to, 1}, hidden}
	slices.SortFunc(apart, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	at := int64(0)
	for _, r := range apart {
		same(at, r.First)
		at = max(at, r.First+r.Size)
	}
	same(at, end)
	return out
}

// TryIDMap says whether the file system at path can be mapped, by mapping a copy of
// its mount that nobody sees. The error is ErrNoIDMap when it can't.
func TryIDMap(path string) error {
	ns, err := Namespace(IDs{0, 0}, IDs{1, 1}, Range{})
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
