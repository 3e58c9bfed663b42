package sshgate

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/presence"
)

// echo is a program that listens in the job, and gives back what it gets to its end.
func (h *harness) echo() uint16 {
	h.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				b, _ := io.ReadAll(nc) // to the end, which comes before the answer
				_, _ = nc.Write(b)
			}()
		}
	}()
	return uint16(ln.Addr().(*net.TCPAddr).Port)
}

type tcpipPayload struct {
	Host       string
	Port       uint32
	Origin     string
	OriginPort uint32
}

func TestForwarding(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	port := h.echo()
	c := h.login("train", 1)
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "LOCALHOST."} {
		nc, err := c.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		in, out := sha256.New(), sha256.New()
		go func() {
			_, _ = io.Copy(io.MultiWriter(nc, in), io.LimitReader(rand.Reader, 4<<20))
			_ = nc.(interface{ CloseWrite() error }).CloseWrite()
		}()
		if n, err := io.Copy(out, nc); n != 4<<20 || err != nil || !bytes.Equal(in.Sum(nil), out.Sum(nil)) {
			t.Errorf("%s: %d bytes, %v", host, n, err)
		}
		nc.Close()
	}
	if got := h.messages(); strings.Count(strings.Join(got, "\n"), "ssh forwarding") != 1 {
		t.Errorf("noted %q", got)
	}
	if seen := h.present.Of(h.job("train").ID)[presence.SSH]; seen.Open != 1 {
		t.Errorf("seen %+v", seen)
	}
}

// The gate is no way to the machine's services, nor to anybody else's.
func TestForwardingElsewhere(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	port := uint32(h.echo())
	c := h.login("train", 1)
	for _, host := range []string{
		"0.0.0.0", "::", "", "*", "169.254.169.254", "10.0.0.1", "192.168.1.1", "example.org", "localhost.example.org", "127.0.0.1.example.org",
		"2130706433", "0x7f.1", "::ffff:10.0.0.1", "localhost\x00.org", "/run/croft/croft.sock",
	} {
		if _, _, err := c.OpenChannel("direct-tcpip", ssh.Marshal(tcpipPayload{host, port, "127.0.0.1", 1})); err == nil || !strings.Contains(err.Error(), "only the job's own localhost") {
			t.Errorf("%q: %v", host, err)
		}
		if ok, _, err := c.SendRequest("tcpip-forward", true, ssh.Marshal(place{host, 0})); err != nil || ok != (host == "" || host == "*" || host == "0.0.0.0" || host == "::") {
			t.Errorf("listening at %q: %v, %v", host, ok, err)
		}
	}
	for name, payload := range map[string][]byte{
		"port 0": ssh.Marshal(tcpipPayload{"localhost", 0, "", 0}), "port 65536": ssh.Marshal(tcpipPayload{"localhost", 65536, "", 0}), "nothing": nil, "nonsense": {0xff, 0xff, 0xff, 0xff},
	} {
		if _, _, err := c.OpenChannel("direct-tcpip", payload); err == nil {
			t.Errorf("%s is dialed", name)
		}
	}
	if _, _, err := c.OpenChannel("direct-streamlocal@openssh.com", ssh.Marshal(struct{ A, B string }{"/run/croft/croft.sock", ""})); err == nil {
		t.Error("a socket is reached")
	}
	if len(h.engine.dialed) > 0 {
		t.Errorf("dialed %v", h.engine.dialed)
	}
}

func TestNothingListens(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	var refused *ssh.OpenChannelError
	if _, err := h.login("train", 1).Dial("tcp", addr); !errors.As(err, &refused) || refused.Reason != ssh.ConnectionFailed || !strings.Contains(refused.Message, "nothing listens there") {
		t.Errorf("got %v", err)
	}
}

// echo answers each connection with what it says.
func echo(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(nc, nc)
			nc.Close()
		}()
	}
}

// What listens in the job leads to the client, until either of them has enough.
func TestRemoteForwarding(t *testing.T) {
	h := newHarness(t)
	k := h.run("ada", "train")
	c := h.login("train", 1)
	ln, err := c.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	go echo(ln)
	talk := func() (string, error) {
		nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return "", err
		}
		defer nc.Close()
		_, _ = io.WriteString(nc, "hello")
		_ = nc.(*net.TCPConn).CloseWrite()
		b, err := io.ReadAll(nc)
		return string(b), err
	}
	for range 3 {
		if got, err := talk(); got != "hello" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if ok, _, err := c.SendRequest("tcpip-forward", true, ssh.Marshal(place{"localhost", uint32(port)})); ok || err != nil {
		t.Errorf("twice: %v, %v", ok, err)
	}
	if ok, _, err := c.SendRequest("cancel-tcpip-forward", true, ssh.Marshal(place{"localhost", 9})); ok || err != nil {
		t.Errorf("an end of nothing: %v, %v", ok, err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	h.eventually("the port to be closed", func() bool { _, err := talk(); return err != nil })

	if ln, err = c.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	port = ln.Addr().(*net.TCPAddr).Port
	h.end(k)
	h.eventually("the port to go with the job", func() bool { _, err := talk(); return err != nil })
}

func TestPortsAreBounded(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	c := h.login("train", 1)
	for i := range maxListeners + 1 {
		if ok, _, err := c.SendRequest("tcpip-forward", true, ssh.Marshal(place{"localhost", 0})); err != nil || ok != (i < maxListeners) {
			t.Fatalf("the %d. is answered %v, %v", i+1, ok, err)
		}
	}
}

// Who may no longer enter forwards nothing more, and what is open ends.
func TestForwardingEnds(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	port := h.echo()
	c := h.login("train", 1)
	nc, err := c.Dial("tcp", fmt.Sprintf("localhost:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	h.as("ada", command.SSHKeyRemove{User: "ada", Fingerprint: ssh.FingerprintSHA256(signer(1).PublicKey())})
	if b, err := io.ReadAll(nc); len(b) > 0 {
		t.Errorf("got %q, %v", b, err)
	}
	h.eventually("the connection to end", func() bool {
		_, err := c.Dial("tcp", fmt.Sprintf("localhost:%d", port))
		return err != nil
	})
}

func FuzzPayloads(f *testing.F) {
	f.Add(ssh.Marshal(tcpipPayload{"localhost", 80, "127.0.0.1", 1}))
	f.Add(ssh.Marshal(place{"", 0}))
	f.Add(ssh.Marshal(struct {
		T          string
		A, B, C, D uint32
		M          string
	}{"xterm", 80, 24, 0, 0, ""}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if host, port, ok := parseDirect(payload); ok && (port == 0 || loopback(host, false) && strings.ContainsAny(host, "/\x00 ")) {
			t.Errorf("%q, %d", host, port)
		}
		parsePlace(payload)
		parsePTY(payload)
		parseSize(payload)
		parseString(payload)
		if whole, step, ok := splitStep(string(payload)); ok && (step < 1 || whole == "") {
			t.Errorf("%q, %d", whole, step)
		}
	})
}
