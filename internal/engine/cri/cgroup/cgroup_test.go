package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMountinfo(t *testing.T) {
	const text = `25 30 0:22 / /proc rw - proc proc rw
31 30 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw,mode=755
32 31 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw
33 31 0:28 / /sys/fs/cgroup/memory rw shared:11 - cgroup cgroup rw,memory
34 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:12 - cgroup cgroup rw,cpu,cpuacct
broken line
`
	want := []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu,cpuacct"}
	if diff := cmp.Diff(want, parseMountinfo(text)); diff != "" {
		t.Errorf("roots (-want +got):\n%s", diff)
	}
}

func TestWithin(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want bool
	}{
		"v2 beneath":        {"0::/croft/job-1/abc\n", true},
		"v2 itself":         {"0::/croft/job-1\n", true},
		"v1 one hierarchy":  {"4:memory:/croft/job-1/abc\n3:cpu:/\n", true},
		"longer name":       {"0::/croft/job-11\n", false},
		"deeper elsewhere":  {"0::/system.slice/croft/job-1\n", false},
		"colon in the path": {"0::/croft/job-1/a:b\n", true},
		"empty":             {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Within(tc.text, "croft/job-1"); got != tc.want {
				t.Errorf("Within = %v, want %v", got, tc.want)
			}
		})
	}
}

// TestV2Files runs the unified layout against a directory that looks like it.
func TestV2Files(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "cgroup.controllers"), "cpu memory pids\n")
	tree := &Tree{version: V2, roots: []string{root}}
	if err := tree.Create("/croft/job-1", Limits{CPU: 1500, Memory: 1 << 20, Pids: 100}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"cgroup.subtree_control":      "+pids", // the last one written
		"croft/job-1/cpu.max":         "150000 100000",
		"croft/job-1/memory.max":      strconv.Itoa(1 << 20),
		"croft/job-1/memory.swap.max": "0",
		"croft/job-1/pids.max":        "100",
	} {
		got, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || string(got) != want {
			t.Errorf("%s = %q, %v, want %q", file, got, err, want)
		}
	}
	put(t, filepath.Join(root, "croft/job-1/memory.events"), "low 0\noom 3\noom_kill 2\n")
	if got := tree.OOMKills("/croft/job-1"); got != 2 {
		t.Errorf("OOMKills = %d, want 2", got)
	}
}

// TestReal makes a group on this machine, puts a process in and takes it away.
func TestReal(t *testing.T) {
	tree, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	top := "/croft-test-" + strconv.Itoa(os.Getpid())
	group := top + "/job-1"
	t.Cleanup(func() {
		if err := tree.Remove(top); err != nil {
			t.Error(err)
		}
	})
	for range 2 { // idempotent
		if err := tree.Create(group, Limits{CPU: 10, Memory: 64 << 20, Pids: 128}); err != nil {
			t.Fatal(err)
		}
	}
	if tree.Contains(group, os.Getpid()) {
		t.Error("this process is said to be in a group that it never entered")
	}
	for range 2 {
		if err := tree.Remove(group); err != nil {
			t.Error(err)
		}
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add("33 31 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
	f.Add(" - \n - cgroup")
	f.Fuzz(func(t *testing.T, text string) {
		for _, root := range parseMountinfo(text) {
			if root == "" {
				t.Error("empty mount point")
			}
		}
	})
}

func FuzzWithin(f *testing.F) {
	f.Add("0::/croft/job-1\n", "croft/job-1")
	f.Fuzz(func(t *testing.T, text, group string) { Within(text, group) })
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
