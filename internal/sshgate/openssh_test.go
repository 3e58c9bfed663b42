package sshgate

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/internal/sftp"
)

// TestMain is the SFTP server, too, which in a container is croft-init.
func TestMain(m *testing.M) {
	if os.Getenv("CROFT_TEST_SFTP") == "" {
		os.Exit(m.Run())
	}
	if err := sftp.Serve(os.Stdin, os.Stdout); err != nil {
		os.Exit(1)
	}
}

// openSSH is OpenSSH's client with ada's key, and a job "train" that it knows as that.
type openSSH struct {
	*harness
	dir string
}

func newOpenSSH(t *testing.T) openSSH {
	t.Helper()
	for _, program := range []string{"ssh", "scp", "sftp", "rsync"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s isn't installed: run hack/setup --test", program)
		}
	}
	h := newHarness(t)
	h.run("ada", "train")
	dir := t.TempDir()
	block, err := ssh.MarshalPrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)), "")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(h.addr)
	known := fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(h.gate.HostKeys[0].PublicKey()))
	config := fmt.Sprintf(`Host train
  HostName %s
  Port %s
  User train
  IdentityFile %[3]s/id
  IdentitiesOnly yes
  UserKnownHostsFile %[3]s/known
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  LogLevel ERROR
`, host, port, dir)
	for name, text := range map[string]string{"id": string(pem.EncodeToMemory(block)), "known": known, "config": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return openSSH{h, dir}
}

// call runs one of its programs.
func (o openSSH) call(stdin, program string, args ...string) (stdout, stderr string, code int) {
	o.Helper()
	cmd := exec.Command(program, append([]string{"-F", filepath.Join(o.dir, "config")}, args...)...)
	cmd.Dir = o.dir
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	_ = cmd.Run() // the code says it
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestOpenSSH(t *testing.T) {
	o := newOpenSSH(t)
	big := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	if err := os.WriteFile(filepath.Join(o.dir, "big"), big, 0o640); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		stdin  string
		argv   []string
		code   int
		stdout string
	}{
		"a command":            {"", []string{"ssh", "train", "echo", "a  b", "$((1+1))"}, 0, "a b 2\n"},
		"its code":             {"", []string{"ssh", "train", "exit 9"}, 9, ""},
		"no command":           {"echo by shell; exit 4", []string{"ssh", "-T", "train"}, 4, "by shell\n"},
		"without an input":     {"", []string{"ssh", "-n", "train", "cat"}, 0, ""},
		"a script on stdin":    {"x=1\necho $x\nexit 5\n", []string{"ssh", "train", "sh"}, 5, "1\n"},
		"much by its input":    {string(big), []string{"ssh", "train", "cat >" + o.dir + "/in; wc -c <" + o.dir + "/in"}, 0, fmt.Sprintln(len(big))},
		"scp there":            {"", []string{"scp", "-q", "-p", "big", "train:" + o.dir + "/there"}, 0, ""},
		"scp -O":               {"", []string{"scp", "-q", "-O", "big", "train:" + o.dir + "/old"}, 0, ""},
		"scp here":             {"", []string{"scp", "-q", "train:" + o.dir + "/big", "here"}, 0, ""},
		"scp of nothing":       {"", []string{"scp", "-q", "train:" + o.dir + "/none", "none"}, 1, ""},
		"sftp":                 {"put big " + o.dir + "/sftp\n", []string{"sftp", "-q", "-b", "-", "train"}, 0, "sftp> put big " + o.dir + "/sftp\n"},
		"a port of another's":  {"", []string{"ssh", "-W", "10.0.0.1:22", "train"}, 255, ""},
		"a subsystem of none":  {"", []string{"ssh", "-s", "train", "netconf"}, 255, ""},
		"another user's words": {"", []string{"ssh", "-l", "root", "train", "id"}, 255, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := o.call(tt.stdin, tt.argv[0], tt.argv[1:]...)
			if code != tt.code || stdout != tt.stdout {
				t.Errorf("code %d, %q, %q; want %d, %q", code, stdout, stderr, tt.code, tt.stdout)
			}
		})
	}
	for _, name := range []string{"there", "old", "here", "sftp"} {
		if got, err := os.ReadFile(filepath.Join(o.dir, name)); err != nil || !bytes.Equal(got, big) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestRsync(t *testing.T) {
	o := newOpenSSH(t)
	from, to := filepath.Join(o.dir, "from"), filepath.Join(o.dir, "to")
	if err := os.MkdirAll(filepath.Join(from, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "a/b/c"), []byte("c"), 0o640); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		cmd := exec.Command("rsync", "-a", "-e", "ssh -F "+o.dir+"/config", from+"/", "train:"+to)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if got, err := os.ReadFile(filepath.Join(to, "a/b/c")); err != nil || string(got) != "c" {
		t.Errorf("%q, %v", got, err)
	}
}

// An editor's way: one connection for everything, a script by its input, and a SOCKS proxy
// by which it talks to what the script has left running.
func TestEditor(t *testing.T) {
	o := newOpenSSH(t)
	port := o.echo()
	control := filepath.Join(o.dir, "control")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socks := ln.Addr().String()
	ln.Close()
	if _, stderr, code := o.call("", "ssh", "-M", "-S", control, "-f", "-N", "-D", socks, "train"); code != 0 {
		t.Fatalf("%d: %s", code, stderr)
	}
	defer o.call("", "ssh", "-S", control, "-O", "exit", "train")
	for i := range 5 {
		script := fmt.Sprintf("uname >/dev/null; echo run %d $SSH_CONNECTION >&2; echo listening\n", i)
		if stdout, stderr, code := o.call(script, "ssh", "-S", control, "-T", "train", "bash"); code != 0 || stdout != "listening\n" {
			t.Errorf("%d: %q, %q", code, stdout, stderr)
		}
	}
	nc, err := net.Dial("tcp", socks)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	// SOCKS 5 (RFC 1928): no log-in, then CONNECT to a name.
	request := append([]byte{5, 1, 0, 5, 1, 0, 3, 9}, "localhost"...)
	if _, err := nc.Write(append(request, byte(port>>8), byte(port))); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 2+10)
	if _, err := io.ReadFull(nc, answer); err != nil || answer[3] != 0 {
		t.Fatalf("the proxy answers %v, %v", answer, err)
	}
	_, _ = nc.Write([]byte("over the proxy"))
	_ = nc.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(nc); string(got) != "over the proxy" {
		t.Errorf("got %q, %v", got, err)
	}
}
