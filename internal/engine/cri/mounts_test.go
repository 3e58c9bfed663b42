package cri

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/bind"
)

// ownFolder is a folder of the user's that others may get to.
func ownFolder(t *testing.T, u engine.User) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "croft-mounts")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, int(u.UID), int(u.GID))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestMounts has a file, a folder that is read-only with all below it, and one in which
// another file system is mounted.
func TestMounts(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.script(1, `cat /file; echo x 2>/dev/null >/ro/below/x || echo ro refused; touch /ro/x 2>/dev/null || echo above too; echo x >/rw/below/x && echo rw written`)
	dir := ownFolder(t, a.User)
	below := filepath.Join(dir, "below")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("text\n"), 0o644), os.Mkdir(below, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", below, "tmpfs", 0, "mode=777"); err != nil {
		t.Fatal(err)
	}
	defer bind.Detach(below)
	a.Mounts = []engine.Mount{
		{Source: filepath.Join(dir, "file"), Target: "/file", Within: []string{dir}},
		{Source: dir, Target: "/ro", ReadOnly: true, Within: []string{dir}},
		{Source: dir, Target: "/rw", Within: []string{dir}},
	}
	got := e.run(a)
	if want := "text\nro refused\nabove too\nrw written\n"; got.stdout != want {
		t.Errorf("%q, want %q; stderr %s", got.stdout, want, got.stderr)
	}
	if left, err := filepath.Glob(e.scratch(a.Attempt).mountPoint(0)); err != nil || len(left) != 1 {
		t.Fatalf("%v, %v", left, err)
	}
	for i := range a.Mounts {
		if on, err := bind.Mounted(e.scratch(a.Attempt).mountPoint(i)); on || err != nil {
			t.Errorf("mount %d is still there outside of the container: %v", i, err)
		}
	}
}

// TestMountsSurviveTheServer has the server die between making a container and starting
// it, and the user swap what he mounts for a link meanwhile: the container has what was
// checked when it was made.
func TestMountsSurviveTheServer(t *testing.T) {
	t.Parallel()
	first := newEngine(t)
	a := first.script(1, "cat /data/who")
	dir := ownFolder(t, a.User)
	for _, name := range []string{"own", "other"} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), os.WriteFile(filepath.Join(dir, name, "who"), []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	a.Mounts = []engine.Mount{{Source: filepath.Join(dir, "own"), Target: "/data", Within: []string{dir}}}
	first.halfStart(a, 2)
	if err := errors.Join(os.Rename(filepath.Join(dir, "own"), filepath.Join(dir, "was")), os.Symlink("other", filepath.Join(dir, "own"))); err != nil {
		t.Fatal(err)
	}
	if got := open(t, first.cfg).run(a); strings.TrimSpace(got.stdout) != "own" {
		t.Errorf("stdout %q, stderr %q", got.stdout, got.stderr)
	}
}

// TestStepsMounts refuses a step whose mount leads out of what may be, beside one that
// doesn't, and leaves nothing mounted of either.
func TestStepsMounts(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.script(1, "sleep 600")
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	dir := ownFolder(t, a.User)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("text\n"), 0o644), os.Symlink("/etc", filepath.Join(dir, "out"))); err != nil {
		t.Fatal(err)
	}
	s := a.Primary()
	s.N, s.Command = 2, []string{"cat", "/data/file"}
	s.Mounts = []engine.Mount{{Source: dir, Target: "/data", Within: []string{dir}}}
	if err := e.StartStep(t.Context(), a, s); err != nil {
		t.Fatal(err)
	}
	if got := e.wait(t.Context(), engine.StepID{Attempt: a.Attempt, N: 2}); got.stdout != "text\n" {
		t.Errorf("stdout %q, stderr %q", got.stdout, got.stderr)
	}
	s.N, s.Mounts = 3, append(s.Mounts, engine.Mount{Source: filepath.Join(dir, "out"), Target: "/etc2", Within: []string{dir}})
	var refused *engine.StartError
	if err := e.StartStep(t.Context(), a, s); !errors.As(err, &refused) || !strings.Contains(refused.Message, "leads out") {
		t.Errorf("%v", err)
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(text), e.scratch(a.Attempt).step(2).mountPoints()) {
		t.Errorf("mounts are left: %v\n%s", err, text)
	}
}

// TestTmpfs fills an empty folder that counts in the step's memory, as the user and as
// root in a user namespace.
func TestTmpfs(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	const look = `df -k /t | tail -1 | awk '{print $2}'; stat -c '%u %a' /t; touch /t/f && chmod 700 /t/f && dd if=/dev/zero of=/t/all bs=1M count=40 2>/dev/null; wc -c </t/all`
	for job, tc := range []struct {
		as   func(engine.Allocation) engine.Allocation
		size int64
		want string
		oom  bool
	}{
		{func(a engine.Allocation) engine.Allocation { return a }, 8 << 20, "8192\n5001 1777\n8388608\n", false},
		{func(a engine.Allocation) engine.Allocation { return withUserns(a, 0, 0) }, 8 << 20, "8192\n0 1777\n8388608\n", false},
		{func(a engine.Allocation) engine.Allocation { a.Memory = 16 << 20; return a }, 64 << 20, "65536\n5001 1777\n", true},
	} {
		a := tc.as(e.script(int64(job+1), look))
		a.Mounts = []engine.Mount{{Target: "/t", Tmpfs: tc.size}}
		if got := e.run(a); !tc.oom && got.stdout != tc.want || tc.oom && (!strings.HasPrefix(got.stdout, tc.want) || !got.status.OutOfMemory && got.status.ExitCode == 0) {
			t.Errorf("%d: %q, %+v, stderr %q", job, got.stdout, got.status, got.stderr)
		}
	}
}

// TestOptionalMounts has a step run without what isn't there or isn't its user's, and say
// so, as the user and as root in a user namespace; variables come with what is there.
func TestOptionalMounts(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	dir := t.TempDir()
	open, shut, lab := filepath.Join(dir, "open"), filepath.Join(dir, "shut"), filepath.Join(dir, "lab")
	for d, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o755, open: 0o755, shut: 0o700, lab: 0o750} {
		if err := errors.Join(os.MkdirAll(d, mode), os.Chmod(d, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(open, "x"), []byte("data\n"), 0o644), os.Chown(lab, 0, 7001)); err != nil {
		t.Fatal(err)
	}
	with := func(a engine.Allocation) engine.Allocation {
		for _, d := range []string{"none", "shut", "open", "lab"} {
			path := filepath.Join(dir, d)
			a.Mounts = append(a.Mounts, engine.Mount{Source: path, Target: "/shared/" + d, ReadOnly: true, Within: []string{path}, Optional: "folder /shared/" + d, Env: map[string]string{"HAS_" + d: "yes", "GREETING": "theirs"}})
		}
		a.Env = map[string]string{"GREETING": "mine"}
		return a
	}
	const script = `cat /shared/open/x; ls /shared; env | grep -E '^(HAS_|GREETING)' | sort; touch /shared/open/y 2>/dev/null || echo read-only`
	const gone = "croft: folder /shared/none isn't mounted: it isn't there, or you may not read it\ncroft: folder /shared/shut isn't mounted: it isn't there, or you may not read it\n"
	const out = "data\nlab\nopen\nGREETING=mine\nHAS_lab=yes\nHAS_open=yes\nread-only\n"
	if got := e.run(with(e.script(1, script))); got.stdout != out || got.stderr != gone {
		t.Errorf("%q\n%q, %+v", got.stdout, got.stderr, got.status)
	}
	const byGroup = "croft: folder /shared/lab is open to alice by the group lab, which there is none of with fake root: run without for it\n"
	if got := e.run(with(withUserns(e.script(2, script), 0, 0))); got.stdout != out || got.stderr != gone+byGroup {
		t.Errorf("as root: %q\n%q, %+v", got.stdout, got.stderr, got.status)
	}
}
