// Package cgroup makes and removes the control groups above the containers: one
// for each attempt, with the job's memory limit, in every hierarchy of cgroup v1
// or in the unified one of v2. The groups below it are the runtime's.
//
// It touches nothing outside of the parent group that it is given.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Version of the control group interface in use.
type Version int

// The versions. On a hybrid machine, where the controllers are v1's, it is V1.
const (
	V1 Version = 1
	V2 Version = 2
)

// Tree is where groups are made.
type Tree struct {
	version Version
	// roots are the mount points: one in v2, one for each hierarchy in v1, that of
	// a hybrid machine's unified hierarchy included: the runtime makes groups there
	// too.
	roots []string
}

// Limits of a group. Zero leaves a limit alone.
type Limits struct {
	CPU    int64 // milli-cores
	Memory int64 // bytes, also for memory and swap together
	Pids   int64 // processes and threads
}

// Detect finds the machine's hierarchies.
func Detect() (*Tree, error) {
	const mount = "/sys/fs/cgroup"
	var st unix.Statfs_t
	if err := unix.Statfs(mount, &st); err != nil {
		return nil, fmt.Errorf("cgroup: %s: %w", mount, err)
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		return &Tree{version: V2, roots: []string{mount}}, nil
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	roots := parseMountinfo(string(text))
	if len(roots) == 0 {
		return nil, errors.New("cgroup: no hierarchy is mounted")
	}
	return &Tree{version: V1, roots: roots}, nil
}

// parseMountinfo returns the mount points of the hierarchies in text, whose form
// is proc_pid_mountinfo(5)'s.
func parseMountinfo(text string) []string {
	var roots []string
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(tail) < 1 || tail[0] != "cgroup" && tail[0] != "cgroup2" {
			continue
		}
		roots = append(roots, fields[4])
	}
	return roots
}

// Version returns the interface's version.
func (t *Tree) Version() Version { return t.version }

// Create makes group (an absolute path below the mount points, "/croft/job-1")
// with its ancestors in every hierarchy and sets the limits. It is idempotent.
// Groups may be made beneath it, and in v2 therefore no process may be in it.
func (t *Tree) Create(group string, lim Limits) error {
	if err := t.CreateLeaf(group, lim); err != nil {
		return err
	}
	for _, root := range t.roots {
		if t.version == V2 {
			enableControllers(filepath.Join(root, group))
		}
	}
	return nil
}

// CreateLeaf is Create for a group that processes are put into, and none beneath it.
func (t *Tree) CreateLeaf(group string, lim Limits) error {
	for _, root := range t.roots {
		if err := t.mkdirAll(root, group); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	if t.version == V2 {
		return t.limitV2(group, lim)
	}
	return t.limitV1(group, lim)
}

// mkdirAll makes each directory from root down to group and makes it usable:
// controllers enabled above it (v2), cpuset copied from above (v1).
func (t *Tree) mkdirAll(root, group string) error {
	dir := root
	for part := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
		if t.version == V2 {
			enableControllers(dir)
		}
		parent := dir
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if t.version == V1 {
			if err := inheritCPUSet(parent, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// enableControllers hands each controller that dir has on to its children. One
// that can't be is left: the limit that needs it will say so.
func enableControllers(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, c := range strings.Fields(string(text)) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0)
	}
}

// inheritCPUSet fills an empty cpuset: a v1 group without one takes no process.
func inheritCPUSet(parent, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another controller's hierarchy
		}
		if err != nil {
			return err
		}
		if len(strings.TrimSpace(string(own))) > 0 {
			continue
		}
		above, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), above, 0); err != nil {
			return err
		}
	}
	return nil
}

// cpuPeriod of the CFS quota in microseconds, the kernel's default, and the least
// quota that it takes.
const (
	cpuPeriod = 100_000
	leastCPU  = 1000
)

// quota is what may be used of each period, in microseconds.
func (l Limits) quota() int64 { return max(l.CPU*cpuPeriod/1000, leastCPU) }

func (t *Tree) limitV2(group string, lim Limits) error {
	dir := filepath.Join(t.roots[0], group)
	if lim.CPU > 0 {
		if err := writeText(dir, "cpu.max", fmt.Sprintf("%d %d", lim.quota(), cpuPeriod)); err != nil {
			return err
		}
	}
	if lim.Memory > 0 {
		if err := write(dir, "memory.max", lim.Memory); err != nil {
			return err
		}
		// No swap: a job must not slow the machine down before it is ended. The
		// file is missing where the kernel accounts no swap.
		if err := write(dir, "memory.swap.max", 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if lim.Pids > 0 {
		return write(dir, "pids.max", lim.Pids)
	}
	return nil
}

func (t *Tree) limitV1(group string, lim Limits) error {
	for _, root := range t.roots {
		dir := filepath.Join(root, group)
		if lim.CPU > 0 && exists(dir, "cpu.cfs_quota_us") {
			if err := errors.Join(write(dir, "cpu.cfs_period_us", cpuPeriod), write(dir, "cpu.cfs_quota_us", lim.quota())); err != nil {
				return err
			}
		}
		if lim.Memory > 0 && exists(dir, "memory.limit_in_bytes") {
			if err := limitMemoryV1(dir, lim.Memory); err != nil {
				return err
			}
		}
		if lim.Pids > 0 && exists(dir, "pids.max") {
			if err := write(dir, "pids.max", lim.Pids); err != nil {
				return err
			}
		}
	}
	return nil
}

func limitMemoryV1(dir string, bytes int64) error {
	// Without hierarchical accounting the containers beneath would escape.
	if exists(dir, "memory.use_hierarchy") {
		_ = write(dir, "memory.use_hierarchy", 1)
	}
	const memory, both = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	if !exists(dir, both) {
		return write(dir, memory, bytes)
	}
	// The limit on memory may never pass that on both together, so the order
	// depends on the direction of the change.
	if err := write(dir, memory, bytes); err == nil {
		return write(dir, both, bytes)
	}
	if err := write(dir, both, bytes); err != nil {
		return err
	}
	return write(dir, memory, bytes)
}

// Remove deletes group with all groups beneath it, which must be without
// processes. One that is already gone is no error.
func (t *Tree) Remove(group string) error {
	var errs []error
	for _, root := range t.roots {
		if err := removeTree(filepath.Join(root, group)); err != nil {
			errs = append(errs, fmt.Errorf("cgroup: %w", err))
		}
	}
	return errors.Join(errs...)
}

// RemoveEmpty removes the group itself in every hierarchy, unless there is anything
// in it.
func (t *Tree) RemoveEmpty(group string) error {
	var errs []error
	for _, root := range t.roots {
		err := unix.Rmdir(filepath.Join(root, group))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && err != unix.EBUSY && err != unix.ENOTEMPTY {
			errs = append(errs, fmt.Errorf("cgroup: %s: %w", group, err))
		}
	}
	return errors.Join(errs...)
}

func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// OOMKills returns how many processes in group and beneath it the kernel has
// killed for want of memory. In v1 groups count only for themselves, so that the
// groups that still exist are summed.
func (t *Tree) OOMKills(group string) int64 {
	var sum int64
	for _, root := range t.roots {
		dir := filepath.Join(root, group)
		if t.version == V2 {
			return field(filepath.Join(dir, "memory.events"), "oom_kill")
		}
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				sum += field(filepath.Join(path, "memory.oom_control"), "oom_kill")
			}
			return nil
		})
	}
	return sum
}

// Contains reports whether the process is in group or beneath it.
func (t *Tree) Contains(group string, pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	return err == nil && Within(string(text), group)
}

// Within reports whether text, the contents of /proc/PID/cgroup, places the
// process in group or beneath it.
func Within(text, group string) bool {
	group = "/" + strings.Trim(group, "/")
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[2] == group || strings.HasPrefix(parts[2], group+"/") {
			return true
		}
	}
	return false
}

// field returns the value after name in a file of "name value" lines, or 0.
func field(path, name string) int64 {
	n, _ := fieldOf(path, name)
	return n
}

// fieldOf is field that also says whether there is one.
func fieldOf(path, name string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

func write(dir, name string, n int64) error { return writeText(dir, name, strconv.FormatInt(n, 10)) }

func writeText(dir, name, text string) error {
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return nil
}
