package main

import (
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"croft.dev/croft/internal/engine/record"
)

// TestAwaitInput looks at what is left of the input for the command.
func TestAwaitInput(t *testing.T) {
	for name, tc := range map[string]struct {
		before   string // given at once
		promised bool   // by the host, and given later
		want     string // what is left, with what comes afterwards
		mine     bool   // croft-init has taken the turn
	}{
		"attached":     {before: "\x06abc", want: "abcdef"},
		"ended":        {before: "\x06", want: "def"},
		"nobody comes": {want: "def", mine: true},
		"promised":     {promised: true, want: "def"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			in := asInput(t)
			write(t, in, tc.before)
			if tc.promised {
				if mine, err := record.TakeTurn(dir); !mine || err != nil {
					t.Fatalf("TakeTurn: %v, %v", mine, err)
				}
				time.AfterFunc(20*time.Millisecond, func() { _, _ = in.WriteString("\x06") })
			}
			awaitInput(dir, time.Millisecond)
			write(t, in, "def")
			in.Close()
			if got, err := io.ReadAll(input{}); err != nil || string(got) != tc.want {
				t.Errorf("left is %q, %v; want %q", got, err, tc.want)
			}
			if first, err := record.TakeTurn(dir); err != nil || first == (tc.mine || tc.promised) {
				t.Errorf("the turn was there to take: %v, %v", first, err)
			}
		})
	}
}

func write(t *testing.T, f *os.File, text string) {
	t.Helper()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// asInput puts a pipe in the place of standard input for the test.
func asInput(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	was, err := syscall.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Dup3(int(r.Fd()), 0, 0); err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() {
		_ = syscall.Dup3(was, 0, 0)
		_ = syscall.Close(was)
	})
	return w
}

// input reads descriptor 0 as a command would, past what package os keeps of it.
type input struct{}

func (input) Read(b []byte) (int, error) {
	n, err := syscall.Read(0, b)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}
