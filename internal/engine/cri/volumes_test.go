package cri

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
)

// TestVolumes has two jobs of a user use a volume one after the other, as the user and as
// root in a user namespace, and another's of the same name be another; it is removed once
// no job has it.
func TestVolumes(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	with := func(a engine.Allocation) engine.Allocation {
		a.Mounts = []engine.Mount{{Volume: "cache", Target: "/v"}}
		return a
	}
	if got := e.run(with(e.script(1, "stat -c '%u %a' /v; echo one >/v/one"))); got.stdout != "5001 700\n" || got.status.ExitCode != 0 {
		t.Fatalf("%q, %+v, stderr %q", got.stdout, got.status, got.stderr)
	}
	second := with(withUserns(e.script(2, "stat -c %u /v /v/one; cat /v/one; echo two >/v/two; sleep 600"), 0, 0))
	if err := e.Start(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	other := with(e.script(3, "ls /v"))
	other.User.UID, other.User.Name = 5002, "bob"
	if got := e.run(other); got.stdout != "" || got.status.ExitCode != 0 {
		t.Errorf("another's: %q, %+v", got.stdout, got.status)
	}
	if err := e.Stop(t.Context(), second.Attempt); err != nil {
		t.Fatal(err)
	}
	if got := e.wait(t.Context(), second.Attempt.Primary()); got.stdout != "0\n0\none\n" {
		t.Errorf("the second: %q, %q", got.stdout, got.stderr)
	}
	var used *engine.VolumeInUseError
	if err := e.RemoveVolume(t.Context(), 5001, "cache"); !errors.As(err, &used) {
		t.Errorf("removed while a job has it: %v", err)
	}
	e.discardAll()
	list, err := e.Volumes(t.Context(), 5001)
	if err != nil || len(list) != 1 || list[0].Name != "cache" || list[0].Size < 8<<10 || list[0].InUse {
		t.Errorf("%+v, %v", list, err)
	}
	if err := e.RemoveVolume(t.Context(), 5001, "cache"); err != nil {
		t.Error(err)
	}
	var none *engine.NoVolumeError
	for _, name := range []string{"cache", "../5002/cache", "", ".", ".."} {
		if err := e.RemoveVolume(t.Context(), 5001, name); !errors.As(err, &none) {
			t.Errorf("%q: %v", name, err)
		}
	}
	theirs, err := e.Volumes(t.Context(), 5002)
	if diff := cmp.Diff([]string{"cache"}, []string{theirs[0].Name}); diff != "" || err != nil {
		t.Errorf("another's: %v, %v", diff, err)
	}
}

// TestVolumeIsNoLink has somebody who could write there put a link in a volume's place, and
// a server die while it deletes one.
func TestVolumeIsNoLink(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	left := filepath.Join(e.cfg.VolumeDir, gone+"5001-x-1", "deep")
	if err := errors.Join(os.MkdirAll(e.volumesOf(5001), 0o700), os.Symlink("/etc", filepath.Join(e.volumesOf(5001), "etc")), os.MkdirAll(left, 0o700)); err != nil {
		t.Fatal(err)
	}
	a := e.script(1, "ls /v")
	for _, name := range []string{"etc", "a/b", ".."} {
		a.Mounts = []engine.Mount{{Volume: name, Target: "/v"}}
		if err := e.Start(t.Context(), a); err == nil {
			t.Errorf("%s was mounted", name)
		}
	}
	if err := e.sweepVolumes(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is there still: %v", err)
	}
	e.discardUnlisted()
}
