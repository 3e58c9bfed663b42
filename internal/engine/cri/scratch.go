package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
)

// scratch is an attempt's directory below StateDir.
type scratch string

func (e *Engine) scratch(id engine.AttemptID) scratch {
	return scratch(filepath.Join(e.cfg.StateDir, "attempts", string(id)))
}

func (s scratch) passwd() string  { return filepath.Join(string(s), "passwd") }
func (s scratch) group() string   { return filepath.Join(string(s), "group") }
func (s scratch) hosts() string   { return filepath.Join(string(s), "hosts") }
func (s scratch) shm() string     { return filepath.Join(string(s), "shm") }    // a tmpfs
func (s scratch) record() string  { return filepath.Join(string(s), "record") } // a tmpfs
func (s scratch) stopped() string { return filepath.Join(string(s), "stopped") }

// recordSize bounds what the user can put beside init's note, in bytes.
const recordSize = 64 << 10

// prepare makes everything that the attempt needs outside of the runtime.
func (e *Engine) prepare(a engine.Allocation) error {
	if e.facts.JobCgroups {
		if err := e.cg.Create(e.cgroupOf(a.Attempt), e.limits(a)); err != nil {
			return fmt.Errorf("cri: %w", err)
		}
	}
	s := e.scratch(a.Attempt)
	// 0711: the bind mounts are reached through it by root only, and nobody else
	// has a reason to list it.
	for _, dir := range []string{string(s), s.shm(), s.record()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("cri: %w", err)
		}
	}
	if err := os.MkdirAll(e.logDir(a.Attempt), 0o750); err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	if err := writeOnce(s.passwd(), passwdFile(a)); err != nil {
		return err
	}
	if err := writeOnce(s.group(), groupFile(a.User)); err != nil {
		return err
	}
	machine, err := os.ReadFile("/etc/hosts")
	if err != nil {
		machine = nil // a machine without one resolves names elsewhere
	}
	if err := writeOnce(s.hosts(), hostsFile(hostname(a.Name, a.Job), string(machine))); err != nil {
		return err
	}
	// Pages of a tmpfs are charged to the control group that touches them first,
	// so that shared memory counts in the job's memory, of which it may be half.
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := mountTmpfs(s.shm(), flags, fmt.Sprintf("size=%d,mode=1777", a.Memory/2)); err != nil {
		return err
	}
	return mountTmpfs(s.record(), flags, fmt.Sprintf("size=%d,nr_inodes=16,mode=0700,uid=%d,gid=%d", recordSize, a.User.UID, a.User.GID))
}

// writeOnce writes a file that a container may already have bound: replacing it
// would have no effect there.
func writeOnce(path, text string) error {
	if st, err := os.Stat(path); err == nil && st.Size() == int64(len(text)) {
		return nil
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	return nil
}

func mountTmpfs(dir string, flags uintptr, options string) error {
	mounted, err := isTmpfs(dir)
	if err != nil || mounted {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		return fmt.Errorf("cri: mount tmpfs on %s: %w", dir, err)
	}
	return nil
}

// isTmpfs reports whether a file system is mounted on dir: its device differs
// from its parent's. (StateDir itself may lie on a tmpfs.)
func isTmpfs(dir string) (bool, error) {
	var own, above unix.Stat_t
	if err := unix.Lstat(dir, &own); err != nil {
		return false, fmt.Errorf("cri: %s: %w", dir, err)
	}
	if err := unix.Lstat(filepath.Dir(dir), &above); err != nil {
		return false, fmt.Errorf("cri: %s: %w", dir, err)
	}
	return own.Dev != above.Dev, nil
}

// release takes away what prepare made, the log directory excepted.
func (e *Engine) release(id engine.AttemptID) error {
	s := e.scratch(id)
	for _, dir := range []string{s.shm(), s.record()} {
		if err := unmount(dir); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(string(s)); err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	if e.facts.JobCgroups {
		if err := e.cg.Remove(e.cgroupOf(id)); err != nil {
			return fmt.Errorf("cri: %w", err)
		}
	}
	return nil
}

func unmount(dir string) error {
	for {
		err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		switch {
		case err == nil: // perhaps mounted twice
		case errors.Is(err, unix.EINVAL), errors.Is(err, fs.ErrNotExist):
			return nil
		default:
			return fmt.Errorf("cri: unmount %s: %w", dir, err)
		}
	}
}

// markStopped notes that an attempt was stopped before its process began: the
// runtime has no state for that.
func (e *Engine) markStopped(id engine.AttemptID) error {
	s := e.scratch(id)
	if err := os.MkdirAll(string(s), 0o711); err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	f, err := os.OpenFile(s.stopped(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	return f.Close()
}

func (e *Engine) stopMarked(id engine.AttemptID) bool {
	_, ok := e.stoppedAt(id)
	return ok
}

func (e *Engine) stoppedAt(id engine.AttemptID) (time.Time, bool) {
	st, err := os.Lstat(e.scratch(id).stopped())
	if err != nil {
		return time.Time{}, false
	}
	return st.ModTime(), true
}
