package record_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine/record"
)

func TestWriteRead(t *testing.T) {
	for name, want := range map[string]record.Record{
		"clean end":     {},
		"exit code":     {Code: 3},
		"out of memory": {Code: 137, Signal: 9, OOMKills: 2},
		"no command":    {Code: 127, Failure: record.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := record.Write(dir, want); err != nil {
				t.Fatal(err)
			}
			got, err := record.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadHostile puts in the note's place what a user might.
func TestReadHostile(t *testing.T) {
	good := record.Record{Code: 137, OOMKills: 1}.Format()
	for name, plant := range map[string]func(path string) error{
		"link": func(path string) error {
			target := filepath.Join(filepath.Dir(path), "target")
			if err := os.WriteFile(target, []byte(good), 0o644); err != nil {
				return err
			}
			return os.Symlink(target, path)
		},
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"huge":      func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o644) },
		"long": func(path string) error {
			return os.WriteFile(path, []byte(good+strings.Repeat("x", 300)), 0o644)
		},
		"negative": func(path string) error {
			return os.WriteFile(path, []byte("code 137\nsignal 9\noom_kill -1\nfailure \n"), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := plant(filepath.Join(dir, record.File)); err != nil {
				t.Fatal(err)
			}
			if r, err := record.Read(dir); err == nil {
				t.Errorf("read %+v, want an error", r)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(record.Record{Code: 137, Signal: 9, OOMKills: 1}.Format())
	f.Add(record.Record{Code: 127, Failure: record.NotFound}.Format())
	f.Add("code 1\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := record.Parse(text)
		if err != nil {
			return
		}
		again, err := record.Parse(r.Format())
		if err != nil || again != r {
			t.Errorf("parsed %+v, formatted and parsed again %+v, %v", r, again, err)
		}
	})
}

func TestUnnoted(t *testing.T) {
	for code, want := range map[int]int{0: 0, 1: 1, 2: 143, 137: 137, 143: 143} {
		if got := record.Unnoted(code); got != want {
			t.Errorf("Unnoted(%d) = %d, want %d", code, got, want)
		}
	}
}
