package cri

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/terminal"
)

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
		var out, errs bytes.Buffer
		code, err := e.Exec(t.Context(), a.Attempt.Primary(), engine.ExecRequest{Command: []string{"sh", "-c", "cd && du -s . && echo entered"}, Stdout: &out, Stderr: &errs})
		if code != 0 || err != nil || !bytes.Contains(out.Bytes(), []byte("entered")) {
			t.Errorf("entering: %d, %v, %q, %q", code, err, &out, &errs)
		}
		out.Reset()
		errs.Reset()
		code, err = e.Exec(t.Context(), a.Attempt.Primary(), engine.ExecRequest{Shell: true, Command: []string{"sh", "-c", "echo history in [$HISTFILE]"}, Stdout: &out, Stderr: &errs})
		if code != 0 || err != nil || !tellsOfHome(errs.Bytes()) || !bytes.Contains(out.Bytes(), []byte("history in []")) {
			t.Errorf("a shell: %d, %v, %q, %q", code, err, &out, &errs)
		}
		if got := e.typed(a.Attempt.Primary(), "echo history in [$HISTFILE]; exit\n"); !tellsOfHome(got) || !bytes.Contains(got, []byte("history in []")) {
			t.Errorf("a terminal shows %q", got)
		}
	}
}

// tellsOfHome reports whether somebody is told that his home is full, and by what.
func tellsOfHome(text []byte) bool {
	return bytes.Contains(text, []byte("croft: your home /home/alice is full, 2.0 MiB of 2.0 MiB: ")) && bytes.Contains(text, []byte("  much"))
}

// typed is what a new terminal shows in which something is typed.
func (e *testEngine) typed(step engine.StepID, text string) []byte {
	e.t.Helper()
	conn, err := e.Terminals(e.t.Context(), step, true)
	if err != nil {
		e.t.Fatal(err)
	}
	defer conn.Close()
	if err := errors.Join(
		terminal.WriteJSON(conn, terminal.HelloAs, terminal.Hello{Ask: terminal.ToJoin, Name: "full"}), terminal.Write(conn, terminal.Input, []byte(text)),
	); err != nil {
		e.t.Fatal(err)
	}
	var out []byte
	for {
		ended := false
		err := terminal.Read(conn, func(kind byte, data []byte) error {
			if kind == terminal.Output || kind == terminal.Screen {
				out = append(out, data...)
			}
			ended = kind == terminal.Exit
			return nil
		})
		if err != nil || ended {
			return out
		}
	}
}
