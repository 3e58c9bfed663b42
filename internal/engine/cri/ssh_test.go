package cri

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"croft.dev/croft/internal/engine"
)

// greeting is what an SFTP client says first, and asked for the folder that it is in.
var greeting = append([]byte{0, 0, 0, 5, 1, 0, 0, 0, 3}, 0, 0, 0, 10, 16, 0, 0, 0, 1, 0, 0, 0, 1, '.')

// TestSFTP finds an SFTP server in an image that has none, and beside a program on the
// machine: it serves where the step's own programs begin.
func TestSFTP(t *testing.T) {
	e := newEngine(t)
	a := e.script(1, "echo ready; exec sleep 600")
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	e.awaitOutput(a.Attempt.Primary(), "ready")
	var out, stderr bytes.Buffer
	code, err := e.Exec(t.Context(), a.Attempt.Primary(), engine.ExecRequest{SFTP: true, Stdin: bytes.NewReader(greeting), Stdout: &out, Stderr: &stderr})
	if err != nil || code != 0 || stderr.Len() > 0 {
		t.Fatalf("code %d, %v: %s", code, err, stderr.String())
	}
	var got [][]byte
	for out.Len() > 4 {
		n := binary.BigEndian.Uint32(out.Next(4))
		got = append(got, out.Next(int(n)))
	}
	if len(got) != 2 || got[0][0] != 2 || got[1][0] != 104 || !bytes.Contains(got[1], []byte("/")) {
		t.Errorf("answered %q", got)
	}
}

// TestListen leads out of a job what its programs say to a port of its own loopback.
func TestListen(t *testing.T) {
	e := newEngine(t)
	a := e.script(1, "echo ready; exec sleep 600")
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	id := a.Attempt.Primary()
	e.awaitOutput(id, "ready")
	ln, err := e.Listen(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(nc, "HTTP/1.0 200 OK\r\n\r\nhello\n")
			nc.Close()
		}
	}()
	var page strings.Builder
	code, err := e.Exec(t.Context(), id, engine.ExecRequest{Command: []string{"nc", "127.0.0.1", ln.Addr().String()[len("127.0.0.1:"):]}, Stdout: &page})
	if err != nil || code != 0 || !strings.HasSuffix(page.String(), "hello\n") {
		t.Errorf("from inside: %d, %v, %q", code, err, page.String())
	}
	if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		c.Close()
		t.Error("it is the machine's own port")
	}
	var refused *engine.ListenError
	if _, err := e.Listen(t.Context(), id, port); !errors.As(err, &refused) || refused.Message != engine.PortTaken {
		t.Errorf("twice: %v", err)
	}
	if _, err := e.Listen(t.Context(), id, 80); !errors.As(err, &refused) || refused.Message != engine.PortPrivileged {
		t.Errorf("80: %v", err)
	}
}

// TestMuchInput gives a command more than fits into any buffer on the way, and its end.
func TestMuchInput(t *testing.T) {
	e := newEngine(t)
	a := e.script(1, "echo ready; exec sleep 600")
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	id := a.Attempt.Primary()
	e.awaitOutput(id, "ready")
	const size = 3_000_000
	for name, in := range map[string]io.Reader{"at once": bytes.NewReader(make([]byte, size)), "by and by": io.LimitReader(dripping{}, size)} {
		var out strings.Builder
		code, err := e.Exec(t.Context(), id, engine.ExecRequest{Command: []string{"sh", "-c", "cat >/tmp/in; wc -c </tmp/in"}, Stdin: in, Stdout: &out})
		if err != nil || code != 0 || strings.TrimSpace(out.String()) != "3000000" {
			t.Errorf("%s: %d, %v, %s bytes", name, code, err, out.String())
		}
	}
}

// dripping gives a little at a time.
type dripping struct{}

func (dripping) Read(b []byte) (int, error) {
	n := min(len(b), 10_000)
	clear(b[:n])
	return n, nil
}
