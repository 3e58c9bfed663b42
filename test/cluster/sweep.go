package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const dirPrefix = "croft-kube-"

// bridgePrefix is how the bridges of a cluster's nodes are called, but for a digit.
func bridgePrefix(dir string) string {
	return fmt.Sprintf("%.14s", "ck"+strings.TrimPrefix(filepath.Base(dir), dirPrefix))
}

// sweep takes away clusters whose test is gone.
func sweep() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		owner, err := os.ReadFile(filepath.Join(dir, "owner"))
		if err != nil {
			continue // not a cluster's
		}
		if _, err := os.Stat("/proc/" + string(owner)); err != nil {
			errs = append(errs, clear(dir))
		}
	}
	return errors.Join(errs...)
}

// clear ends all that a cluster runs, whoever started it, and takes away what it has on the
// machine.
func clear(dir string) error {
	errs := []error{end(dir)}
	for _, root := range hierarchies() {
		groups, err := filepath.Glob(filepath.Join(root, filepath.Base(dir)+"-*"))
		errs = append(errs, err)
		for _, g := range groups {
			errs = append(errs, removeGroup(g))
		}
	}
	links, err := net.Interfaces()
	errs = append(errs, err)
	for _, l := range links {
		if prefix := bridgePrefix(dir); strings.HasPrefix(l.Name, prefix) && len(l.Name) == len(prefix)+1 {
			errs = append(errs, run("ip", "link", "del", l.Name))
		}
	}
	if err := errors.Join(append(errs, unmountBelow(dir))...); err != nil {
		return fmt.Errorf("%w (left: %s)", err, dir)
	}
	return os.RemoveAll(dir)
}

// end kills every process whose command line names the folder: the parts of the cluster, and
// the shims of its containers.
func end(dir string) error {
	for range 100 {
		pids, err := naming(dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		<-time.After(50 * time.Millisecond)
	}
	return errors.New("processes of " + dir + " don't end")
}

func naming(dir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if text, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && strings.Contains(string(text), dir+"/") {
			out = append(out, pid)
		}
	}
	return out, nil
}

// removeGroup kills what is in a control group and those below, and removes them.
func removeGroup(group string) error {
	var dirs []string
	err := filepath.WalkDir(group, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	errs := []error{err}
	for i := len(dirs) - 1; i >= 0; i-- {
		errs = append(errs, removeEmpty(dirs[i]))
	}
	return errors.Join(errs...)
}

func removeEmpty(dir string) error {
	var err error
	for range 100 {
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // it may be gone
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL) // likewise
			}
		}
		if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		<-time.After(50 * time.Millisecond)
	}
	return err
}

// unmountBelow unmounts everything in a folder, the last mounted first.
func unmountBelow(dir string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			points = append(points, f[4])
		}
	}
	var errs []error
	for i := len(points) - 1; i >= 0; i-- {
		if err := unix.Unmount(points[i], unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", points[i], err))
		}
	}
	return errors.Join(errs...)
}
