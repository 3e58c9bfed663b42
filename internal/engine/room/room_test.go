package room

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestFull(t *testing.T) {
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
		if got := Full(&tt.st); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// fill makes a home with links that lead out of it, or round in it.
func fill(t *testing.T, home string, size int) {
	t.Helper()
	out := t.TempDir()
	err := errors.Join(
		os.MkdirAll(filepath.Join(home, ".cache/pip/a"), 0o755), os.MkdirAll(filepath.Join(home, "data"), 0o755), os.MkdirAll(filepath.Join(home, "bad\x1b[31m"), 0o755),
		os.WriteFile(filepath.Join(home, ".cache/pip/a/wheel"), make([]byte, size), 0o644), os.WriteFile(filepath.Join(home, "data/x"), make([]byte, size/4), 0o644),
		os.WriteFile(filepath.Join(out, "large"), make([]byte, 4<<20), 0o644), os.Symlink(out, filepath.Join(home, "out")), os.Symlink(home, filepath.Join(home, "data/round")),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// TestLargest adds up what is in a home and nothing that is elsewhere, and stops.
func TestLargest(t *testing.T) {
	home := t.TempDir()
	fill(t, home, 1<<20)
	all, cut := largest(home, 1000, time.Now().Add(time.Hour))
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprint(e.name, " ", e.files))
	}
	if len(all) != 4 || all[0].name != ".cache" || all[1].name != "data" || all[0].files != 4 || all[1].files != 3 || cut {
		t.Errorf("%v, cut: %v", got, cut)
	}
	if all[0].bytes < 1<<20 || all[0].bytes > 2<<20 || all[2].bytes > 1<<20 {
		t.Errorf("%s takes %d, %s %d", all[0].name, all[0].bytes, all[2].name, all[2].bytes)
	}
	if _, cut := largest(home, 5, time.Now().Add(time.Hour)); !cut {
		t.Error("it doesn't stop after so many")
	}
	if _, cut := largest(home, 1000, time.Now()); !cut {
		t.Error("it doesn't stop after some time")
	}
}

// TestNotice: one with room isn't spoken of, one without is, with what takes it.
func TestNotice(t *testing.T) {
	for _, home := range []string{"", "relative", "/nowhere"} {
		if got := Notice(home); got != "" {
			t.Errorf("%q: %s", home, got)
		}
	}
	home := t.TempDir()
	if err := unix.Mount("tmpfs", home, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(home, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	fill(t, home, 1<<20)
	if err := os.WriteFile(filepath.Join(home, "much"), make([]byte, 2<<20), 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Fatal("it isn't full:", err)
	}
	got := Notice(home)
	for _, want := range []string{"croft: your home " + home + " is full, 2.0 MiB of 2.0 MiB: remove something", "1.0 MiB        4 files  .cache\n", `"bad\x1b[31m"`} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.ContainsRune(got, 0x1b) || strings.Count(got, "\n") > 2+shown {
		t.Errorf("%q", got)
	}
}
