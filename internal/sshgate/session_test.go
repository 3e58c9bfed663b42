package sshgate

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
)

// ran is how a command ended.
func ran(err error) int {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitStatus()
	}
	return -1
}

func TestSessions(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	c := h.login("train", 1)
	tests := map[string]struct {
		line, stdin    string
		env            map[string]string
		code           int
		stdout, stderr string
	}{
		"a command":           {line: "echo hello", stdout: "hello\n"},
		"streams apart":       {line: "echo out; echo err >&2", stdout: "out\n", stderr: "err\n"},
		"its code":            {line: "exit 7", code: 7},
		"a signal":            {line: "kill -9 $$", code: 137},
		"its input":           {line: "cat", stdin: "a\x00b\r\n\xff", stdout: "a\x00b\r\n\xff"},
		"quotes are kept":     {line: `printf '%s|' "a b" 'c$d'`, stdout: "a b|c$d|"},
		"several lines":       {line: "echo a\necho b", stdout: "a\nb\n"},
		"a shell":             {stdin: "echo shell\nexit 3\n", stdout: "shell\n", code: 3},
		"the environment":     {line: "echo $LANG $LC_ALL ${PAGER:-none}", env: map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "a b;c"}, stdout: "de_DE.UTF-8 a b;c none\n"},
		"where it comes from": {line: "set -- $SSH_CONNECTION; echo $# $1", stdout: "4 127.0.0.1\n"},
		"not found":           {line: "/no/such/program 2>/dev/null", code: 127},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := h.session(c)
			var stdout, stderr bytes.Buffer
			s.Stdin, s.Stdout, s.Stderr = strings.NewReader(tt.stdin), &stdout, &stderr
			for k, v := range tt.env {
				if err := s.Setenv(k, v); err != nil {
					t.Errorf("%s: %v", k, err)
				}
			}
			var err error
			if tt.line == "" {
				if err = s.Shell(); err == nil {
					err = s.Wait()
				}
			} else {
				err = s.Run(tt.line)
			}
			if ran(err) != tt.code || stdout.String() != tt.stdout || stderr.String() != tt.stderr {
				t.Errorf("code %v, stdout %q, stderr %q; want %d, %q, %q", err, stdout.String(), stderr.String(), tt.code, tt.stdout, tt.stderr)
			}
		})
	}
}

// Much goes through in both directions without a byte lost or changed.
func TestMuchGoesThrough(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	s := h.session(h.login("train", 1))
	in, out := sha256.New(), sha256.New()
	s.Stdin, s.Stdout = io.TeeReader(io.LimitReader(rand.Reader, 32<<20), in), out
	if err := s.Run("cat"); err != nil || !bytes.Equal(in.Sum(nil), out.Sum(nil)) {
		t.Errorf("%v, %x, %x", err, in.Sum(nil), out.Sum(nil))
	}
}

func TestTerminal(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	h.engine.set(func(ctx context.Context, _ engine.StepID, req engine.ExecRequest) (int, error) {
		if !req.TTY {
			return 1, nil
		}
		for {
			select {
			case size := <-req.Resize:
				fmt.Fprintf(req.Stdout, "%dx%d\n", size.Cols, size.Rows)
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
	})
	s := h.session(h.login("train", 1))
	if err := s.RequestPty("xterm-256color", 24, 80, ssh.TerminalModes{ssh.ECHO: 1}); err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	want := "80x24\n"
	for _, next := range []string{"132x50\n", "65535x1\n", ""} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(out, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
		var cols, rows int
		if want = next; next != "" {
			_, _ = fmt.Sscanf(next, "%dx%d", &cols, &rows)
			if err := s.WindowChange(rows, cols+map[bool]int{true: 9}[cols == 65535]); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.present.Tell(1, "stops soon")
	told := make([]byte, len("\r\nstops soon\r\n"))
	if _, err := io.ReadFull(out, told); err != nil || string(told) != "\r\nstops soon\r\n" {
		t.Errorf("told %q, %v", told, err)
	}
	if got := h.engine.last().Command; !strings.Contains(got[2], `export TERM="${`) || !strings.Contains(strings.Join(got[4:], " "), "xterm-256color") {
		t.Errorf("asked for %q", got)
	}
}

// What isn't served is refused, and the session goes on.
func TestRefusedRequests(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	c := h.login("train", 1)
	s := h.session(c)
	for name, payload := range map[string][]byte{
		"auth-agent-req@openssh.com": nil, "x11-req": {0}, "subsystem": ssh.Marshal(struct{ S string }{"netconf"}), "break": {0, 0, 0, 1}, "nonsense": nil,
		"pty-req": {0, 0, 0, 9, 1}, "exec": {0, 0, 0, 0}, "window-change": {1},
		"env": ssh.Marshal(struct{ K, V string }{"LD_PRELOAD", "/x"}), "signal": ssh.Marshal(struct{ S string }{"KILL"}),
	} {
		if ok, err := s.SendRequest(name, true, payload); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	if out, err := s.Output("echo on"); err != nil || string(out) != "on\n" {
		t.Errorf("%q, %v", out, err)
	}
	for _, kind := range []string{"x11", "auth-agent@openssh.com", "tun@openssh.com", ""} {
		if _, _, err := c.OpenChannel(kind, nil); err == nil {
			t.Errorf("a channel %q is opened", kind)
		}
	}
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); !ok || err != nil {
		t.Errorf("a keepalive is answered %v, %v", ok, err)
	}
	if ok, _, err := c.SendRequest("no-such-thing", true, nil); ok || err != nil {
		t.Errorf("an unknown request is answered %v, %v", ok, err)
	}
}

// Every way in leaves a row in the log before it begins.
func TestEntriesAreInTheLog(t *testing.T) {
	h := newHarness(t)
	k := h.run("ada", "train")
	var before []string
	h.engine.set(func(context.Context, engine.StepID, engine.ExecRequest) (int, error) {
		before = append(before, h.messages()...)
		return 0, nil
	})
	c := h.login("train", 1)
	for line, want := range map[string]string{"": "ssh shell", "rsync --server . /tmp/secret": "ssh exec rsync …", "id": "ssh exec id", "TOKEN=secret x": "ssh exec …"} {
		before = nil
		s := h.session(c)
		var err error
		if line == "" {
			if err = s.Shell(); err == nil {
				err = s.Wait()
			}
		} else {
			err = s.Run(line)
		}
		if got := before[len(before)-1]; err != nil || got != want {
			t.Errorf("%q: %v, noted %q, want %q", line, err, got, want)
		}
	}
	// Who is let in no longer finds nobody who runs anything.
	h.engine.set(func(context.Context, engine.StepID, engine.ExecRequest) (int, error) {
		t.Error("something is run that isn't noted")
		return 0, nil
	})
	h.as("ada", command.JobStop{Job: k, Grace: hour})
	s := h.session(c)
	var stderr bytes.Buffer
	s.Stderr = &stderr
	if err := s.Run("id"); ran(err) != 255 || !strings.Contains(stderr.String(), "isn't running: it is stopping") {
		t.Errorf("%v, %q", err, stderr.String())
	}
}
