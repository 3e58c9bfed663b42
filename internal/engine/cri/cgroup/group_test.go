package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// member, in the environment, makes the test binary enter the group of that name and
// become a shell that runs memberCode.
const (
	member     = "CROFT_TEST_MEMBER"
	memberCode = "CROFT_TEST_MEMBER_CODE"
)

func TestMain(m *testing.M) {
	if dirs := os.Getenv(member); dirs != "" {
		if err := Group(strings.Split(dirs, ":")).Join(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		err := unix.Exec("/bin/sh", []string{"sh", "-c", os.Getenv(memberCode)}, []string{"PATH=/usr/bin:/bin"})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// inGroup is a command that runs shell code in a group.
func inGroup(g Group, code string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), member+"="+strings.Join(g, ":"), memberCode+"="+code)
	return cmd
}

// realGroup makes a group on this machine.
func realGroup(t *testing.T, tree *Tree, lim Limits) (string, Group) {
	t.Helper()
	top := "/croft-test-" + strconv.Itoa(os.Getpid()) + "-" + strings.ReplaceAll(t.Name(), "/", "-")
	group := top + "/job-1/step-1"
	t.Cleanup(func() {
		if err := tree.Remove(top); err != nil {
			t.Error(err)
		}
	})
	if err := tree.CreateLeaf(group, lim); err != nil {
		t.Fatal(err)
	}
	return group, tree.Group(group)
}

func detect(t *testing.T) *Tree {
	t.Helper()
	tree, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestKillAll ends programs that make others as fast as they can, in sessions of their own.
func TestKillAll(t *testing.T) {
	tree := detect(t)
	_, g := realGroup(t, tree, Limits{CPU: 1000, Memory: 256 << 20, Pids: 200})
	cmd := inGroup(g, `trap "" TERM HUP INT; echo in; b() { b & setsid sh -c 'sleep 100' & b; }; b 2>/dev/null`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := g.KillAll(ctx, nil); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
	if left, err := g.Processes(); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := g.KillAll(ctx, nil); err != nil {
		t.Errorf("an empty group: %v", err)
	}
}

func TestOutOfMemoryIsCounted(t *testing.T) {
	tree := detect(t)
	_, g := realGroup(t, tree, Limits{Memory: 16 << 20})
	if n := g.OOMKills(); n != 0 {
		t.Errorf("%d kills before anything ran", n)
	}
	if err := inGroup(g, `x=0123456789abcdef; while :; do x=$x$x; done`).Run(); err == nil {
		t.Error("it got all the memory it wanted")
	}
	if n := g.OOMKills(); n != 1 {
		t.Errorf("%d kills, want 1", n)
	}
}

// TestOnlyDevices opens nodes of a real machine: of those whose numbers are allowed, of
// those that anybody has, and another. With the devices controller, and with the filter
// of cgroup v2, which works in the unified hierarchy of a hybrid machine as well.
func TestOnlyDevices(t *testing.T) {
	tree := detect(t)
	trees := map[string]*Tree{fmt.Sprintf("v%d", tree.version): tree}
	if unified := "/sys/fs/cgroup/unified"; tree.version == V1 && exists(unified, procs) {
		trees["v2"] = &Tree{version: V2, roots: []string{unified}}
	}
	const kmsg, mem = 11, 1 // minor numbers of major 1
	dir := t.TempDir()
	for name, minor := range map[string]int{"given": kmsg, "other": mem} {
		if err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR|0o666, int(unix.Mkdev(1, uint32(minor)))); err != nil {
			t.Fatal(err)
		}
	}
	for name, tree := range trees {
		t.Run(name, func(t *testing.T) {
			group, g := realGroup(t, tree, Limits{})
			for range 2 { // idempotent
				if err := tree.OnlyDevices(group, []Device{{Major: 1, Minor: kmsg}, {Block: true, Major: 999, Minor: AnyMinor}}); err != nil {
					t.Fatal(err)
				}
			}
			out, err := inGroup(g, `cd '`+dir+`'
				for d in given other /dev/null /dev/urandom; do if (: < $d) 2>/dev/null; then echo $d; fi; done
				mknod made c 1 3 2>/dev/null && echo made`).CombinedOutput()
			if got := strings.Fields(string(out)); !cmp.Equal(got, []string{"given", "/dev/null", "/dev/urandom"}) {
				t.Errorf("it could open %q, %v", got, err)
			}
		})
	}
}

// TestV2Group runs the unified layout against a directory that looks like it.
func TestV2Group(t *testing.T) {
	tree := &Tree{version: V2, roots: []string{t.TempDir()}}
	if err := tree.CreateLeaf("/croft/step-1", Limits{}); err != nil {
		t.Fatal(err)
	}
	g := tree.Group("/croft/step-1")
	put(t, filepath.Join(g[0], procs), "0\n12\n7\n")
	put(t, filepath.Join(g[0], "memory.events"), "oom 3\noom_kill 2\n")
	if got, err := g.Processes(); err != nil || !cmp.Equal(got, []int{7, 12}) || g.OOMKills() != 2 {
		t.Errorf("processes %v, %v, kills %d", got, err, g.OOMKills())
	}
	if err := g.Join(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(g[0], procs)); err != nil || string(got) != "0" {
		t.Errorf("joined by %q, %v", got, err)
	}
}

// run is what the kernel does with a filter.
func run(p []instruction, kind, access, major, minor uint32) uint32 {
	context := map[int16]uint32{fieldAccess: access<<16 | kind, fieldMajor: major, fieldMinor: minor}
	var r [11]uint32
	for i := 0; ; i++ {
		switch in := p[i]; in.op {
		case opLoad:
			r[in.dst] = context[in.off]
		case opMove:
			r[in.dst] = uint32(in.imm)
		case opAnd:
			r[in.dst] &= uint32(in.imm)
		case opJumpNot:
			if r[in.dst] != uint32(in.imm) {
				i += int(in.off)
			}
		case opJumpSet:
			if r[in.dst]&uint32(in.imm) != 0 {
				i += int(in.off)
			}
		case opExit:
			return r[0]
		}
	}
}

func TestFilterProgram(t *testing.T) {
	p := filterProgram([]Device{{Major: 195, Minor: 1}, {Major: 231, Minor: AnyMinor}, {Block: true, Major: 8, Minor: 0}})
	for name, tc := range map[string]struct{ kind, access, major, minor, want uint32 }{
		"given":              {typeChar, 6, 195, 1, 1},
		"its neighbour":      {typeChar, 6, 195, 0, 0},
		"any minor":          {typeChar, 2, 231, 77, 1},
		"a block device":     {typeBlock, 2, 8, 0, 1},
		"not as a character": {typeChar, 2, 8, 0, 0},
		"not as a block":     {typeBlock, 2, 195, 1, 0},
		"made":               {typeChar, 1, 195, 1, 0},
		"another":            {typeChar, 2, 10, 232, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := run(p, tc.kind, tc.access, tc.major, tc.minor); got != tc.want {
				t.Errorf("answers %d, want %d", got, tc.want)
			}
		})
	}
	if p := filterProgram(nil); run(p, typeChar, 2, 1, 3) != 0 {
		t.Error("an empty list allows something")
	}
}
