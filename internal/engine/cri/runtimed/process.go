package runtimed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processState is what is remembered of the runtime's process.
type processState struct {
	PID        int    `json:"pid"`
	Digest     string `json:"config_digest"`
	Foreground bool   `json:"foreground,omitempty"` // run by a service manager
}

func (r *Runtime) statePath() string { return r.path("process.json") }

func (r *Runtime) save(s processState) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeFile(r.statePath(), text, 0o644)
}

// running returns the runtime's process if it is alive. A process id may have
// been given to another program since, so the command line must name our
// configuration.
func (r *Runtime) running() (processState, bool) {
	var s processState
	text, err := os.ReadFile(r.statePath())
	if err != nil || json.Unmarshal(text, &s) != nil || s.PID <= 0 {
		return processState{}, false
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.PID))
	if err != nil || !slices.Contains(strings.Split(string(cmdline), "\x00"), r.configPath()) {
		return processState{}, false
	}
	return s, true
}

// PID returns the process id of the runtime, or 0 when it doesn't run.
func (r *Runtime) PID() int {
	s, ok := r.running()
	if !ok {
		return 0
	}
	return s.PID
}

// MemlockUnlimited reports whether containers may lock any amount of memory: the
// runtime may raise the limit, or its own is unlimited and inherited.
func (r *Runtime) MemlockUnlimited() bool {
	if mayRaiseLimits() {
		return true
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", r.PID()))
	return err == nil && memlockUnlimited(string(text))
}

// memlockUnlimited reads the hard limit from proc_pid_limits(5)'s text.
func memlockUnlimited(limits string) bool {
	for line := range strings.Lines(limits) {
		if v, ok := strings.CutPrefix(line, "Max locked memory"); ok {
			f := strings.Fields(v)
			return len(f) >= 2 && f[1] == "unlimited"
		}
	}
	return false
}

// Stop ends the runtime's process. Containers run on.
func (r *Runtime) Stop(ctx context.Context) error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	s, ok := r.running()
	if !ok {
		return nil
	}
	return r.terminate(ctx, s.PID)
}

// terminate ends the process and waits until it is gone.
func (r *Runtime) terminate(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("runtimed: process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	for _, step := range []struct {
		sig  unix.Signal
		wait time.Duration
	}{{unix.SIGTERM, 10 * time.Second}, {unix.SIGKILL, 5 * time.Second}} {
		if err := unix.PidfdSendSignal(fd, step.sig, nil, 0); errors.Is(err, unix.ESRCH) {
			return nil
		} else if err != nil {
			return fmt.Errorf("runtimed: process %d: %w", pid, err)
		}
		gone, err := waitGone(ctx, fd, step.wait)
		if gone || err != nil {
			return err
		}
	}
	return fmt.Errorf("runtimed: process %d doesn't end", pid)
}

// waitGone waits until the process of the pidfd has ended: it becomes readable
// then.
func waitGone(ctx context.Context, fd int, d time.Duration) (bool, error) {
	deadline := time.Now().Add(d)
	for time.Now().Before(deadline) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 100)
		if n > 0 {
			return true, nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	return false, nil
}

// Destroy stops every container of this runtime, the runtime itself, and takes
// away its bridge, firewall rules, mounts and volatile state. Data below Dir
// (images, configuration) stays.
func (r *Runtime) Destroy(ctx context.Context) error {
	var errs []error
	if _, ok := r.running(); ok {
		errs = append(errs, r.removeSandboxes(ctx), r.Stop(ctx))
	}
	errs = append(errs,
		r.killShims(ctx),
		r.removeFirewall(ctx),
		removeBridge(r.cfg.Bridge),
		unmountBelow(r.cfg.RunDir),
		unmountBelow(r.path("root")),
	)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("runtimed: %w", err)
	}
	return os.RemoveAll(r.cfg.RunDir)
}

// killShims ends the shims that the runtime has lost, with what they run: when the
// caller of a start is killed at the wrong moment, one may stay behind that no
// listing shows.
func (r *Runtime) killShims(ctx context.Context) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		cmdline, err := os.ReadFile(dir + "/cmdline")
		args := strings.Split(string(cmdline), "\x00")
		if err != nil || filepath.Base(args[0]) != "containerd-shim-runc-v2" || !slices.Contains(args, r.Socket()) {
			continue
		}
		// the shim last: it reaps its children
		for _, pid := range append(childrenOf(dir), filepath.Base(dir)) {
			errs = append(errs, kill(ctx, pid))
		}
	}
	return errors.Join(errs...)
}

// childrenOf lists the children of the process with that directory in /proc: each
// of its threads has its own.
func childrenOf(dir string) []string {
	var pids []string
	lists, _ := filepath.Glob(dir + "/task/*/children") // the pattern is a good one
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		pids = append(pids, strings.Fields(string(text))...)
	}
	return pids
}

// kill kills a process and waits until it is gone.
func kill(ctx context.Context, text string) error {
	pid, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	if gone, err := waitGone(ctx, fd, 5*time.Second); err != nil || !gone {
		return errors.Join(err, fmt.Errorf("process %d doesn't end", pid))
	}
	return nil
}

// unmountBelow unmounts everything mounted beneath dir, the deepest first.
func unmountBelow(dir string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			points = append(points, fields[4])
		}
	}
	var errs []error
	for _, p := range slices.Backward(points) {
		if err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// writeFile replaces the file at path in one step.
func writeFile(path string, text []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("runtimed: %w", err)
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, text, mode); err != nil {
		return fmt.Errorf("runtimed: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("runtimed: %w", err)
	}
	return nil
}
