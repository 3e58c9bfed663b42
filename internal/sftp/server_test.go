package sftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain is the server, too: what OpenSSH's client is given for one.
func TestMain(m *testing.M) {
	if os.Getenv("CROFT_TEST_SFTP") == "" {
		os.Exit(m.Run())
	}
	if err := Serve(os.Stdin, os.Stdout); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// client runs commands of OpenSSH's sftp in dir, and returns what it says.
func client(t *testing.T, dir string, commands ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("sftp"); err != nil {
		t.Fatal("sftp isn't installed: run hack/setup --test")
	}
	cmd := exec.Command("sftp", "-q", "-b", "-", "-D", os.Args[0])
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CROFT_TEST_SFTP=1", "HOME="+dir)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestWithOpenSSH(t *testing.T) {
	dir := t.TempDir()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20/16*5+3)
	write(t, dir, "big", string(big), 0o640)
	write(t, dir, "script", "#!/bin/sh\n", 0o755)
	out, err := client(t, dir,
		"mkdir up", "put big up/big", "put -p script up/script", "get up/big down", "rename up/big up/bigger", "symlink bigger up/link", "ln up/bigger up/hard",
		"chmod 600 up/hard", "ls -l up", "ls up", "df up", "mkdir up/empty", "rmdir up/empty", "rm up/link", "cd up", "pwd", "lpwd", "cd", "pwd")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"-rw-------", "lrwxrwxrwx", "link", "hard", "Remote working directory: " + dir + "/up\n", "Avail", "sftp> cd\nsftp> pwd\nRemote working directory: " + dir + "\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("nowhere %q:\n%s", want, out)
		}
	}
	for _, name := range []string{"down", "up/bigger", "up/hard"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, big) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "up/script")); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("script: %v, %v", st, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "up/link")); err == nil {
		t.Error("the link is still there")
	}
}

// An upload that was cut off goes on where it ended.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "whole", strings.Repeat("x", 300_000)+"end", 0o600)
	write(t, dir, "part", strings.Repeat("x", 100_000), 0o600)
	if out, err := client(t, dir, "reput whole part"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "part")); err != nil || len(got) != 300_003 || !bytes.HasSuffix(got, []byte("xend")) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func write(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

// asked is one packet.
func asked(kind byte, fields func(reply) reply) []byte {
	return fields(newReply(kind, 7)).whole()
}

// talk sends packets after a greeting and returns the answers' types, with the code of a
// status.
func talk(t *testing.T, packets ...[]byte) ([][2]int, error) {
	t.Helper()
	in := bytes.NewBuffer([]byte{0, 0, 0, 5, typeInit, 0, 0, 0, 3})
	for _, p := range packets {
		in.Write(p)
	}
	var out bytes.Buffer
	err := Serve(in, &out)
	var got [][2]int
	for out.Len() > 0 {
		p, err := readPacket(&out, nil)
		if err != nil {
			t.Fatal(err)
		}
		code := -1
		if p[0] == typeStatus {
			code = int(binary.BigEndian.Uint32(p[5:]))
		}
		got = append(got, [2]int{int(p[0]), code})
	}
	return got, err
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "there", "x", 0o600)
	write(t, dir, "other", "y", 0o600)
	in := func(name string) string { return filepath.Join(dir, name) }
	path := func(kind byte, names ...string) []byte {
		return asked(kind, func(r reply) reply {
			for _, n := range names {
				r = r.string(n)
			}
			return r
		})
	}
	tests := map[string]struct {
		packet []byte
		code   int
	}{
		"no such file":        {path(typeStat, in("none")), statusNoSuchFile},
		"below a file":        {path(typeLstat, in("there/x")), statusNoSuchFile},
		"rename onto another": {path(typeRename, in("there"), in("other")), statusFailure},
		"rename what isn't":   {path(typeRename, in("none"), in("new")), statusNoSuchFile},
		"remove a folder":     {path(typeRemove, dir), statusFailure},
		"rmdir a file":        {path(typeRmdir, in("there")), statusNoSuchFile},
		"rmdir a full one":    {path(typeRmdir, dir), statusFailure},
		"mkdir twice":         {asked(typeMkdir, func(r reply) reply { return r.string(dir).attrs(attrs{}) }), statusFailure},
		"create what is there": {asked(typeOpen, func(r reply) reply {
			return r.string(in("there")).uint32(openWrite | openCreate | openExcl).attrs(attrs{})
		}), statusFailure},
		"read no handle":       {asked(typeRead, func(r reply) reply { return r.string("9").uint64(0).uint32(10) }), statusFailure},
		"close no handle":      {path(typeClose, "9"), statusFailure},
		"list no handle":       {path(typeReaddir, "9"), statusFailure},
		"an unknown type":      {path(99, "x"), statusUnsupported},
		"an unknown extension": {path(typeExtended, "make-coffee@example.org"), statusUnsupported},
		"a torn one":           {asked(typeOpen, func(r reply) reply { return r.uint32(1 << 30) }), statusBadMessage},
		"a torn rename":        {path(typeRename, in("there")), statusBadMessage},
		"a torn mkdir":         {path(typeMkdir, in("torn")), statusBadMessage},
		"permissions of a link": {asked(typeExtended, func(r reply) reply {
			return r.string("lsetstat@openssh.com").string(in("l")).attrs(attrs{flags: hasMode, mode: 0o777})
		}), statusUnsupported},
	}
	if err := os.Symlink("there", in("l")); err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		got, err := talk(t, tt.packet)
		if err != nil || len(got) != 2 || got[1] != [2]int{typeStatus, tt.code} {
			t.Errorf("%s: answered %v, %v; want a status %d", name, got, err, tt.code)
		}
	}
	if _, err := os.Stat(in("torn")); err == nil {
		t.Error("half a request made a folder")
	}
}

func TestHandlesAreBounded(t *testing.T) {
	dir := t.TempDir()
	open := asked(typeOpendir, func(r reply) reply { return r.string(dir) })
	var packets [][]byte
	for range maxHandles + 1 {
		packets = append(packets, open)
	}
	got, err := talk(t, packets...)
	if err != nil || got[maxHandles][0] != typeHandle || got[maxHandles+1] != [2]int{typeStatus, statusFailure} {
		t.Errorf("%v, %v", got[maxHandles:], err)
	}
}

func TestNonsenseEndsIt(t *testing.T) {
	for name, in := range map[string]string{
		"no greeting": "\x00\x00\x00\x05\x03\x00\x00\x00\x03", "text": "GET / HTTP/1.1\r\n", "a huge one": "\xff\xff\xff\xff", "an empty one": "\x00\x00\x00\x00", "a short one": "\x00\x00\x00\x01\x01",
	} {
		if err := Serve(strings.NewReader(in), io.Discard); err == nil {
			t.Errorf("%s is served", name)
		}
	}
	if err := Serve(strings.NewReader(""), io.Discard); err != nil {
		t.Errorf("a client that goes: %v", err)
	}
	if err := Serve(strings.NewReader("\x00\x00\x00\x05\x01\x00\x00\x00\x03"), broken{}); err != nil {
		t.Errorf("a client that went: %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// Whatever comes, the server neither falls over nor answers what can't be read. Paths are
// made harmless: they are in a folder that isn't there.
func FuzzServe(f *testing.F) {
	f.Add([]byte{0, 0, 0, 9, typeStat, 0, 0, 0, 1, 0, 0, 0, 0})
	f.Add(asked(typeExtended, func(r reply) reply { return r.string("limits@openssh.com") }))
	f.Add(asked(typeRead, func(r reply) reply { return r.string("1").uint64(1 << 63).uint32(1 << 31) }))
	f.Add(asked(typeSetstat, func(r reply) reply { return r.string("x").uint32(hasExtended).uint32(1 << 31) }))
	f.Fuzz(func(t *testing.T, packet []byte) {
		r := &request{b: packet}
		r.attrs()
		_ = r.string()
		if len(packet) < 6 || bytes.IndexByte([]byte{typeStat, typeLstat, typeRead, typeReaddir, typeRealpath}, packet[4]) >= 0 {
			in := append([]byte{0, 0, 0, 5, typeInit, 0, 0, 0, 3}, packet...)
			var out bytes.Buffer
			_ = Serve(bytes.NewReader(in), &out)
			for out.Len() > 0 {
				if _, err := readPacket(&out, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
