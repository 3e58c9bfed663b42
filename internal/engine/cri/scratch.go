package cri

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/bind"
	"croft.dev/croft/internal/engine/cri/cgroup"
)

// scratch is an attempt's directory below StateDir, or a further step's within that.
type scratch string

func (e *Engine) scratch(id engine.AttemptID) scratch {
	return scratch(filepath.Join(e.cfg.StateDir, "attempts", string(id)))
}

// of a step; the primary's are right in the attempt's directory
func (s scratch) passwd() string  { return filepath.Join(string(s), "passwd") }
func (s scratch) record() string  { return filepath.Join(string(s), "record") } // a tmpfs
func (s scratch) stopped() string { return filepath.Join(string(s), "stopped") }
func (s scratch) given() string   { return filepath.Join(string(s), "input-given") }

// of the attempt, for all its steps
func (s scratch) group() string { return filepath.Join(string(s), "group") }
func (s scratch) hosts() string { return filepath.Join(string(s), "hosts") }
func (s scratch) shm() string   { return filepath.Join(string(s), "shm") } // a tmpfs
func (s scratch) steps() string { return filepath.Join(string(s), "steps") }

// step is the directory of one of the attempt's steps.
func (s scratch) step(n int) scratch {
	if n == engine.PrimaryStep {
		return s
	}
	return scratch(filepath.Join(s.steps(), strconv.Itoa(n)))
}

// mounted lists what is mounted in an attempt's directory.
func (s scratch) mounted() ([]string, error) {
	var out []string
	for _, pattern := range []string{filepath.Join("steps", "*", "record"), filepath.Join("steps", "*", "mounts", "*"), filepath.Join("mounts", "*")} {
		found, err := filepath.Glob(filepath.Join(string(s), pattern))
		if err != nil {
			return nil, fmt.Errorf("cri: %w", err)
		}
		out = append(out, found...)
	}
	return append(out, s.shm(), s.record()), nil
}

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
	if err := os.MkdirAll(s.shm(), 0o711); err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	if err := os.MkdirAll(e.logDir(a.Attempt), 0o750); err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	if err := writeOnce(s.group(), a.User.GroupFile()); err != nil {
		return err
	}
	machine, err := os.ReadFile("/etc/hosts")
	if err != nil {
		machine = nil // a machine without one resolves names elsewhere
	}
	hosts := string(machine)
	if name := hostnameOf(a); name != "" {
		hosts = hostsFile(name, hosts)
	}
	if err := writeOnce(s.hosts(), hosts); err != nil {
		return err
	}
	// Pages of a tmpfs are charged to the control group that touches them first,
	// so that shared memory counts in the job's memory, of which it may be half.
	if err := mountTmpfs(s.shm(), fmt.Sprintf("size=%d,mode=1777", a.Memory/2)); err != nil {
		return err
	}
	if a.Host {
		return nil
	}
	return e.prepareStep(a, a.Primary())
}

// prepareStep makes what one step has for itself.
func (e *Engine) prepareStep(a engine.Allocation, step engine.Step) error {
	s := e.scratch(a.Attempt).step(step.N)
	if err := os.MkdirAll(s.record(), 0o711); err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	if err := writeOnce(s.passwd(), passwdFile(a.User, step.Mounts)); err != nil {
		return err
	}
	owner := bind.IDs{UID: a.User.UID, GID: a.User.GID}
	if a.Userns != nil {
		owner = outside(a.Userns)
	}
	if err := mountTmpfs(s.record(), fmt.Sprintf("size=%d,nr_inodes=16,mode=0700", recordSize)); err != nil {
		return err
	}
	// also of one that was made before it turned out that there is no user namespace
	if err := os.Lchown(s.record(), int(owner.UID), int(owner.GID)); err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	return nil
}

// shareCPU bounds the CPU that the steps of an attempt use together. While there is but the
// primary its own container's bound does, and the sandbox starts unhindered: with little CPU
// that takes most of the time until a job's program begins.
func (e *Engine) shareCPU(a engine.Allocation) error {
	if !e.facts.JobCgroups {
		return nil
	}
	if err := e.cg.Create(e.cgroupOf(a.Attempt), cgroup.Limits{CPU: a.CPU}); err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	return nil
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

func mountTmpfs(dir, options string) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
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
	if err := e.forgetHosts(id); err != nil {
		return err
	}
	if err := s.unmount(); err != nil {
		return err
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

// unmount takes away what is mounted in an attempt's directory.
func (s scratch) unmount() error {
	dirs, err := s.mounted()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := bind.Detach(dir); err != nil {
			return fmt.Errorf("cri: %w", err)
		}
	}
	return nil
}

// markStopped notes that a step was stopped before its process began: the runtime
// has no state for that.
func (e *Engine) markStopped(id engine.StepID) error {
	s := e.scratch(id.Attempt).step(id.N)
	if err := os.MkdirAll(string(s), 0o711); err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	f, err := os.OpenFile(s.stopped(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	return f.Close()
}

func (e *Engine) stopMarked(id engine.StepID) bool {
	_, ok := e.stoppedAt(id)
	return ok
}

func (e *Engine) stoppedAt(id engine.StepID) (time.Time, bool) {
	st, err := os.Lstat(e.scratch(id.Attempt).step(id.N).stopped())
	if err != nil {
		return time.Time{}, false
	}
	return st.ModTime(), true
}
