package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Group is one control group as a process sees it that is to enter it or to end what is
// in it: its directories, one in each hierarchy. In this form it can be handed to
// another program.
type Group []string

// Group returns a group that CreateLeaf has made.
func (t *Tree) Group(name string) Group {
	var g Group
	for _, root := range t.roots {
		g = append(g, filepath.Join(root, name))
	}
	return g
}

const procs = "cgroup.procs"

// Join moves the calling process into the group, all its threads.
func (g Group) Join() error {
	for _, dir := range g {
		if err := writeText(dir, procs, "0"); err != nil {
			return err
		}
	}
	return nil
}

// Processes lists the processes in the group. One that is just moving in is there
// already: it counts in whichever hierarchy it has reached.
func (g Group) Processes() ([]int, error) {
	var all []int
	for _, dir := range g {
		text, err := os.ReadFile(filepath.Join(dir, procs))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV):
			continue // removed, perhaps while it was read
		case err != nil:
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			// 0 is a process of another PID namespace, which none of ours can be.
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
				all = append(all, pid)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// kill sends SIGKILL to every process in the group and returns how many there were.
// Frozen meanwhile, none of them can make another.
func (g Group) kill() (int, error) {
	g.freeze(true)
	defer g.freeze(false)
	all, err := g.Processes()
	for _, pid := range all {
		if kerr := unix.Kill(pid, unix.SIGKILL); kerr != nil && !errors.Is(kerr, unix.ESRCH) {
			err = errors.Join(err, fmt.Errorf("cgroup: kill %d: %w", pid, kerr))
		}
	}
	return len(all), err
}

// freeze stops what is in the group, or lets it go on. Where the kernel can't, killing is
// only slower: more have to be killed than were there.
func (g Group) freeze(on bool) {
	v1, v2 := "THAWED", "0"
	if on {
		v1, v2 = "FROZEN", "1"
	}
	for _, dir := range g {
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte(v1), 0)
		_ = os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte(v2), 0)
	}
}

// KillAll kills what is in the group until nothing is, or ctx ends. between, which may be
// nil, is called after each round, for a caller that has to reap.
func (g Group) KillAll(ctx context.Context, between func()) error {
	const first, last = time.Millisecond, 50 * time.Millisecond
	for wait := first; ; wait = min(2*wait, last) {
		left, err := g.kill()
		if between != nil {
			between()
		}
		if left == 0 {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return errors.Join(fmt.Errorf("cgroup: %d processes don't end: %w", left, ctx.Err()), err)
		case <-t.C:
		}
	}
}

// OOMKills returns how many processes of the group itself the kernel has killed for want
// of memory.
func (g Group) OOMKills() int64 {
	for _, dir := range g {
		for _, file := range []string{"memory.oom_control", "memory.events"} {
			if exists(dir, file) {
				return field(filepath.Join(dir, file), "oom_kill")
			}
		}
	}
	return 0
}
