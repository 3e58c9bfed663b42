package cri

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
)

func TestFullOf(t *testing.T) {
	const gib = 1 << 18 // blocks of 4 KiB
	tests := map[string]struct {
		st   unix.Statfs_t
		want string
	}{
		"room":             {unix.Statfs_t{Frsize: 4096, Blocks: 50 * gib, Bfree: gib, Bavail: gib, Files: 9, Ffree: 1}, ""},
		"none":             {unix.Statfs_t{Frsize: 4096, Blocks: 50 * gib, Files: 9, Ffree: 1}, "50.0 GiB of 50.0 GiB"},
		"but for root":     {unix.Statfs_t{Frsize: 4096, Blocks: 50 * gib, Bfree: gib, Files: 9, Ffree: 1}, "49.0 GiB of 50.0 GiB"},
		"next to none":     {unix.Statfs_t{Frsize: 4096, Blocks: 384, Bfree: 255, Bavail: 255}, "0.5 MiB of 1.5 MiB"},
		"no more files":    {unix.Statfs_t{Frsize: 4096, Blocks: gib, Bfree: gib, Bavail: gib, Files: 9}, "9 of 9 files"},
		"one without size": {unix.Statfs_t{Frsize: 4096}, ""},
	}
	for name, tt := range tests {
		if got := fullOf(&tt.st); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestFullHome starts a step whose user's home is full, and enters it: both work, and the
// user is told.
func TestFullHome(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	home := filepath.Join(shared.dir, "full-"+e.instance[:8])
	if err := errors.Join(os.Mkdir(home, 0o755), unix.Mount("tmpfs", home, "tmpfs", 0, "size=2m,mode=755,uid=5001")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(home, unix.MNT_DETACH), os.Remove(home)); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(home, "much"), make([]byte, 3<<20), 0o666); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling it: %v", err)
	}
	for job, a := range map[int64]engine.Allocation{1: e.script(1, ""), 2: withUserns(e.script(2, ""), 0, 0)} {
		a.User.Home, a.Command = "/home/alice", []string{"sh", "-c", "echo $HOME; echo x >$HOME/x || echo none left; echo ready; sleep 600"}
		a.Mounts = []engine.Mount{{Source: home, Target: "/home/alice", Within: []string{home}}}
		if err := e.Start(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		e.awaitOutput(a.Attempt.Primary(), "none left")
		e.awaitOutput(a.Attempt.Primary(), "ready")
		var w logBuffers
		if err := e.Logs(t.Context(), a.Attempt.Primary(), engine.LogOptions{Tail: -1}, &w); err != nil {
			t.Fatal(err)
		}
		if want := []byte("croft: " + home + " is full, 2.0 MiB of 2.0 MiB: remove something before you write there\n"); !bytes.Contains(w.err.Bytes(), want) {
			t.Errorf("job %d was told %q", job, &w.err)
		}
		var out bytes.Buffer
		code, err := e.Exec(t.Context(), a.Attempt.Primary(), engine.ExecRequest{Command: []string{"sh", "-c", "cd && du -s . && echo entered"}, Stdout: &out, Stderr: &out})
		if code != 0 || err != nil || !bytes.Contains(out.Bytes(), []byte("entered")) {
			t.Errorf("entering: %d, %v, %q", code, err, &out)
		}
	}
}
