package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestBeside looks for another process of the control group that this one is in. Nothing is
// signalled here: the group is whoever's who runs the tests.
func TestBeside(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	all, err := beside()
	if err != nil || !slices.Contains(all, c.Process.Pid) || slices.Contains(all, os.Getpid()) {
		t.Errorf("%v, %v; without %d, with %d", all, err, os.Getpid(), c.Process.Pid)
	}
	began := func(pid int) uint64 {
		s, _ := statOf(pid)
		return s.began
	}
	if parent := slices.Index(all, os.Getppid()); parent >= 0 && parent > slices.Index(all, c.Process.Pid) || began(c.Process.Pid) < began(os.Getpid()) {
		t.Errorf("%v isn't by age", all)
	}
	if s, alive := statOf(c.Process.Pid); !alive || s.parent != os.Getpid() {
		t.Errorf("%+v, %v", s, alive)
	}
	if err := c.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = c.Wait() // it was killed
	if _, alive := statOf(c.Process.Pid); alive {
		t.Error("it lives")
	}
}

// What is the first to need a step's folder makes it: nothing else does of an image's own command.
func TestFolderIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "1")
	if got := claimInput(dir); got != claimed && got != claimedTurn {
		t.Errorf("the first: %d", got)
	}
	if got := claimInput(dir); got != taken {
		t.Errorf("another: %d", got)
	}
}

// Who the user is is written as the server says it.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CROFT_PASSWD", "alice:x:5001:6001::/tmp:/bin/sh\n")
	t.Setenv("CROFT_GROUP", "lab:x:6001:\n")
	if err := install(dir, nil); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"passwd": os.Getenv("CROFT_PASSWD"), "group": os.Getenv("CROFT_GROUP")} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
}
