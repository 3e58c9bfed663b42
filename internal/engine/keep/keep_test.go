package keep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/terminal"
)

// keeping makes a keeper of a new directory, within this process.
func keeping(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	l, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	k := terminal.NewKeeper(startShell)
	go accept(l, k)
	t.Cleanup(k.HangUp) // the listener stays, as accept uses it
	return dir
}

func dialed(t *testing.T, dir string, hello terminal.Hello) io.ReadWriteCloser {
	t.Helper()
	conn, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := terminal.WriteJSON(conn, terminal.HelloAs, hello); err != nil {
		t.Fatal(err)
	}
	return conn
}

// shown reads until the output has a text, or to the end.
func shown(t *testing.T, conn io.Reader, until string) (out string, code int) {
	t.Helper()
	for !strings.Contains(out, until) || until == "" {
		kind, data, err := terminal.ReadOne(conn)
		if err != nil {
			t.Fatalf("%v after %q", err, out)
		}
		switch kind {
		case terminal.Output:
			out += string(data)
		case terminal.RefusedFor:
			t.Fatalf("refused: %s", data)
		case terminal.Exit:
			var e terminal.Ended
			if err := json.Unmarshal(data, &e); err != nil {
				t.Fatal(err)
			}
			return out, e.ExitCode
		}
	}
	return out, -1
}

func typed(t *testing.T, conn io.Writer, text string) {
	t.Helper()
	if err := terminal.Write(conn, terminal.Input, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func hello(name string) terminal.Hello {
	return terminal.Hello{Ask: terminal.ToJoin, Name: name, Term: "vt100", Size: terminal.Size{Cols: 91, Rows: 17}}
}

func TestShell(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh")
	t.Setenv("LINES", "99")
	dir := keeping(t)
	conn := dialed(t, dir, hello("main"))
	typed(t, conn, "stty size; echo $TERM-$CROFT_TERMINAL-$LINES.\r")
	shown(t, conn, "17 91\r\nvt100-main-.\r\n")
	// What is left in the background holds the terminal open, and doesn't hold its end up.
	typed(t, conn, "sleep 1000 & exit 7\r")
	if _, code := shown(t, conn, ""); code != 7 {
		t.Errorf("exit code %d", code)
	}
}

func TestHangUp(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh")
	dir := keeping(t)
	for name, tt := range map[string]struct {
		before string
		code   int
	}{
		"a shell":                    {"echo rea''dy\r", 128 + int(unix.SIGHUP)},
		"one that ignores it":        {"trap '' HUP; echo rea''dy\r", 128 + int(unix.SIGKILL)},
		"a program that ignores all": {"trap '' HUP TERM INT; echo rea''dy; sleep 1000\r", 128 + int(unix.SIGKILL)},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			conn := dialed(t, dir, hello(id))
			typed(t, conn, tt.before)
			shown(t, conn, "ready\r\n")
			end := dialed(t, dir, terminal.Hello{Ask: terminal.ToEnd, Name: id})
			if _, code := shown(t, end, ""); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			shown(t, conn, "")
		})
	}
}

// TestAllOfTheOutput: what a shell has written when it ends is shown to its end.
func TestAllOfTheOutput(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh")
	dir := keeping(t)
	conn := dialed(t, dir, hello("main"))
	typed(t, conn, "stty -echo; i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo $i; done; exit 3\r")
	out, code := shown(t, conn, "")
	if code != 3 || !strings.HasSuffix(out, "\r\n4999\r\n5000\r\n") {
		t.Errorf("exit code %d, the end is %q", code, out[max(0, len(out)-40):])
	}
}

// TestTypedBeforeLeaving: what was typed counts, however quickly one has gone.
func TestTypedBeforeLeaving(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh")
	dir := keeping(t)
	for i := range 20 {
		ask := hello(fmt.Sprint("t", i))
		conn := dialed(t, dir, ask)
		kind, data, err := terminal.ReadOne(conn)
		var j terminal.Joined
		if err != nil || kind != terminal.JoinedAs || json.Unmarshal(data, &j) != nil {
			t.Fatalf("%d %q, %v", kind, data, err)
		}
		typed(t, conn, "echo one")
		typed(t, conn, "; echo two")
		typed(t, conn, "; exit 3\r")
		conn.Close()
		ask.ID = j.ID
		if out, code := shown(t, dialed(t, dir, ask), ""); code != 3 {
			t.Errorf("exit code %d after %q", code, out)
		}
	}
}

func TestDialNobody(t *testing.T) {
	other := keeping(t)
	for name, prepare := range map[string]func(dir string) error{
		"no directory": os.Remove,
		"nothing":      func(string) error { return nil },
		"a keeper that has gone": func(dir string) error {
			fd, err := bind(filepath.Join(dir, socket))
			return errors.Join(err, unix.Close(fd))
		},
		"a link to another":   func(dir string) error { return os.Symlink(filepath.Join(other, socket), filepath.Join(dir, socket)) },
		"a file":              func(dir string) error { return os.WriteFile(filepath.Join(dir, socket), nil, 0o600) },
		"a pipe":              func(dir string) error { return unix.Mkfifo(filepath.Join(dir, socket), 0o600) },
		"a directory":         func(dir string) error { return os.Mkdir(filepath.Join(dir, socket), 0o700) },
		"one that says what?": func(dir string) error { return says(dir, "HTTP/1.1 200 OK\r\n\r\n....") },
		"one that says short": func(dir string) error { return says(dir, "croft") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "record")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			conn, err := Dial(dir)
			if err == nil {
				conn.Close()
				t.Fatal("connected")
			}
			gone := map[string]bool{"no directory": true, "nothing": true, "a keeper that has gone": true, "one that says short": true}[name]
			if errors.Is(err, ErrNone) != gone {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("through a link to the directory", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "record")
		if err := os.Symlink(other, link); err != nil {
			t.Fatal(err)
		}
		if _, err := Dial(link); err == nil {
			t.Error("connected")
		}
	})
	t.Run("somebody else's", func(t *testing.T) {
		at, owner, err := find(other)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(at)
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			defer unix.Close(fd)
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: filepath.Join(other, socket)})
		}
		if err != nil {
			t.Fatal(err)
		}
		if listens(fd, owner) != nil || listens(fd, owner+1) == nil {
			t.Error("it isn't told whose it is")
		}
		if os.Geteuid() != 0 || os.Chown(other, 5001, 5001) != nil {
			return // the rest takes root
		}
		if _, err := Dial(other); err == nil || errors.Is(err, ErrNone) {
			t.Errorf("error %v", err)
		}
	})
}

// says makes a socket that says something to the first who connects, and then no more.
func says(dir, text string) error {
	l, err := bind(filepath.Join(dir, socket))
	if err != nil {
		return err
	}
	go func() {
		if fd, _, err := unix.Accept(l); err == nil {
			_, _ = unix.Write(fd, []byte(text))
			unix.Close(fd)
		}
		unix.Close(l)
	}()
	return nil
}

func TestOneKeeper(t *testing.T) {
	dir := keeping(t)
	if _, err := listen(dir); !errors.Is(err, errTaken) {
		t.Errorf("a second one: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if conn, err := Dial(dir); err != nil {
		t.Errorf("the first one after that: %v", err)
	} else {
		conn.Close()
	}
}

func TestFindShell(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"bash", "sh", "fish", "nologin"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct{ shell, path, want string }{
		"his own":           {dir + "/fish", dir, dir + "/fish"},
		"not in the image":  {"/no/such/zsh", dir, dir + "/bash"},
		"nobody may log in": {dir + "/nologin", dir, dir + "/bash"},
		"none":              {"", dir, dir + "/bash"},
		"no path at all":    {"fish", dir, dir + "/bash"},
	} {
		env := map[string]string{"SHELL": tt.shell, "PATH": tt.path}
		if got := findShell(func(k string) string { return env[k] }); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	if err := os.Remove(dir + "/bash"); err != nil {
		t.Fatal(err)
	}
	// bash isn't on PATH then, but may be where programs usually are
	env := map[string]string{"SHELL": "/no/such", "PATH": dir}
	if got := findShell(func(k string) string { return env[k] }); !bytes.Contains([]byte(got), []byte("sh")) {
		t.Errorf("got %q", got)
	}
}
