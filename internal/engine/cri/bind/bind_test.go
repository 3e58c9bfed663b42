package bind

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("runs as root only, as the server does")
	}
}

// folder is a directory that others than root may get to, which t.TempDir isn't.
func folder(t *testing.T) string {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("/tmp", "croft-bind")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// mkdir makes a folder of somebody's.
func mkdir(t *testing.T, path string, owner IDs, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, mode), os.Chown(path, int(owner.UID), int(owner.GID))); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string, owner IDs, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chown(path, int(owner.UID), int(owner.GID)), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

// attached mounts what the user opens at a place of its own.
func attached(t *testing.T, as As, path string, change func(*Tree) error) string {
	t.Helper()
	f, err := Open(t.Context(), as, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree, err := Clone(f)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if err := change(tree); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(folder(t), "at")
	if err := tree.Attach(at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Detach(at); err != nil {
			t.Error(err)
		}
		if on, err := Mounted(at); on || err != nil {
			t.Errorf("still mounted: %v, %v", on, err)
		}
	})
	if on, err := Mounted(at); !on || err != nil {
		t.Fatalf("mounted: %v, %v", on, err)
	}
	return at
}

var (
	ada = As{UID: 5001, GID: 6001}
	bob = IDs{5002, 6002}
)

// A path that is swapped after it was opened is not what is mounted.
func TestSwappedAfterTheCheck(t *testing.T) {
	dir := folder(t)
	mkdir(t, filepath.Join(dir, "own"), IDs{5001, 6001}, 0o700)
	write(t, filepath.Join(dir, "own", "mine"), "mine", IDs{5001, 6001}, 0o600)
	mkdir(t, filepath.Join(dir, "others"), bob, 0o755)
	f, err := Open(t.Context(), ada, filepath.Join(dir, "own"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = errors.Join(os.Rename(filepath.Join(dir, "own"), filepath.Join(dir, "was")), os.Symlink("others", filepath.Join(dir, "own")))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Clone(f)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	at := filepath.Join(t.TempDir(), "at")
	if err := tree.Attach(at); err != nil {
		t.Fatal(err)
	}
	defer Detach(at)
	if text, err := os.ReadFile(filepath.Join(at, "mine")); string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}

// A file, and a folder with another file system below it, neither of which may be
// written to, whoever asks.
func TestRestricted(t *testing.T) {
	dir := folder(t)
	mkdir(t, filepath.Join(dir, "below"), IDs{}, 0o755)
	if err := unix.Mount("tmpfs", filepath.Join(dir, "below"), "tmpfs", 0, "mode=777"); err != nil {
		t.Fatal(err)
	}
	defer Detach(filepath.Join(dir, "below"))
	write(t, filepath.Join(dir, "file"), "text", IDs{}, 0o644)
	restrict := func(tree *Tree) error { return tree.Restrict(true) }
	for name, path := range map[string]string{"the folder": attached(t, ada, dir, restrict) + "/new", "what is below": attached(t, ada, dir, restrict) + "/below/new", "a file": attached(t, ada, dir+"/file", restrict)} {
		if err := os.WriteFile(path, nil, 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: %v", name, err)
		}
	}
	at := attached(t, ada, dir, func(tree *Tree) error { return tree.Restrict(false) })
	if err := os.WriteFile(filepath.Join(at, "below", "new"), nil, 0o600); err != nil {
		t.Error(err)
	}
}

// The user's files are somebody else's in the mount, and the other way round; those of
// others stay theirs, and everybody has the rights there that everybody has.
func TestMapped(t *testing.T) {
	dir := folder(t)
	mkdir(t, filepath.Join(dir, "own"), IDs{5001, 6001}, 0o755)
	write(t, filepath.Join(dir, "own", "mine"), "", IDs{5001, 6001}, 0o600)
	write(t, filepath.Join(dir, "own", "his"), "", bob, 0o600)
	mkdir(t, filepath.Join(dir, "own", "project"), IDs{5001, 7001}, 0o755)
	mkdir(t, filepath.Join(dir, "own", "for-all"), IDs{0, 0}, 0o1777)
	to := IDs{1_900_000_000, 1_900_000_007}
	ns, err := Namespace(IDs{5001, 6001}, to, Range{1_900_000_000, 65536})
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	at := attached(t, ada, filepath.Join(dir, "own"), func(tree *Tree) error { return tree.Map(ns) })
	touch := exec.Command("touch", filepath.Join(at, "new"), filepath.Join(at, "project", "new"), filepath.Join(at, "for-all", "new"))
	touch.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(to.UID), Gid: uint32(to.GID)}}
	if out, err := touch.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for path, want := range map[string]IDs{
		filepath.Join(at, "mine"): to, filepath.Join(at, "his"): bob, filepath.Join(dir, "own", "new"): {5001, 6001},
		filepath.Join(dir, "own", "project", "new"): {5001, 6001}, filepath.Join(dir, "own", "for-all", "new"): {5001, 6001},
	} {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || (IDs{int64(st.Uid), int64(st.Gid)}) != want {
			t.Errorf("%s is %d:%d's, want %v: %v", path, st.Uid, st.Gid, want, err)
		}
	}
	if err := os.Chown(filepath.Join(at, "mine"), 1_900_000_001, 1_900_000_007); !errors.Is(err, unix.EOVERFLOW) {
		t.Errorf("given to somebody whom the file system can't name: %v", err)
	}
}

// A file system that can't map says so, also when it is below one that can.
func TestNoIDMap(t *testing.T) {
	dir := folder(t)
	mkdir(t, filepath.Join(dir, "below"), IDs{}, 0o755)
	if err := unix.Mount("proc", filepath.Join(dir, "below"), "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer Detach(filepath.Join(dir, "below"))
	for path, want := range map[string]error{dir: nil, filepath.Join(dir, "below"): ErrNoIDMap} {
		if err := TryIDMap(path); !errors.Is(err, want) {
			t.Errorf("%s alone: %v, want %v", path, err, want)
		}
	}
	f, err := Open(t.Context(), ada, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree, err := Clone(f)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	ns, err := Namespace(IDs{5001, 6001}, IDs{1, 1}, Range{})
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := tree.Map(ns); !errors.Is(err, ErrNoIDMap) {
		t.Errorf("with what is below: %v", err)
	}
}
