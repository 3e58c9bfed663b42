package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "croft.dev/croft/api/v1"
)

var gate = v1.SSHGate{
	Listens: true, Host: "127.0.0.1", Port: 2222, Alias: "croft-0a1b2c3d",
	HostKeys: []string{"ssh-ed25519 AAAA", "ecdsa-sha2-nistp256 BBBB"},
}

// TestSSH: what this machine's ssh is called with.
func TestSSH(t *testing.T) {
	tests := map[string]struct {
		line string
		with any // the gate's answer
		none bool
	}{
		"shell":    {line: "croft ssh 118"},
		"command":  {line: "croft ssh train -- nvidia-smi -L"},
		"ports":    {line: "croft ssh -N -L 8888:localhost:8888 -D 1080 -R 9000:localhost:9000 118.2"},
		"server":   {line: "croft --server http://localhost:7370/100%25 ssh -t 118 top"},
		"nothing":  {line: "croft ssh"},
		"injected": {line: "croft ssh $(id)"},
		"option":   {line: "croft ssh -- -oProxyCommand=id"},
		"no-ssh":   {line: "croft ssh 118", none: true},
		"off":      {line: "croft ssh 118", with: &v1.Problem{Status: 503, Code: "unavailable", Detail: "this server lets nobody in by SSH"}},
	}
	used := map[string]bool{}
	for name, test := range tests {
		used[name+".golden"] = true
		t.Run(name, func(t *testing.T) {
			f := &fake{answers: map[string]any{"GET /v1/ssh": gate}}
			if test.with != nil {
				f.answers["GET /v1/ssh"] = test.with
			}
			b := newBench(t, f)
			home := t.TempDir()
			b.vars["HOME"] = home
			if test.none {
				b.app.env.Program = func(string) (string, error) { return "", errors.New("none") }
			}
			words := strings.Split(test.line, " ")
			code := b.runAs(words[0], words[1:]...)
			text := strings.Replace(transcript(test.line, b, code, f.requests()), "$ croft ", "$ ", 1)
			golden(t, "ssh/"+name, strings.ReplaceAll(text, home, "HOME"))
		})
	}
	noOrphans(t, "testdata/ssh", used)
}

// TestSSHConfig: it is there once, before all else, whatever was there before.
func TestSSHConfig(t *testing.T) {
	f := &fake{answers: map[string]any{"GET /v1/ssh": gate}}
	home := t.TempDir()
	run := func(args ...string) *bench {
		t.Helper()
		b := newBench(t, f)
		b.vars["HOME"] = home
		if code := b.run(append([]string{"ssh-config"}, args...)...); code != 0 {
			t.Fatalf("exit %d: %s", code, b.stderr.String())
		}
		return b
	}
	golden(t, "ssh-config", strings.ReplaceAll(run().stdout.String(), home, "HOME"))
	run("--write")
	path := filepath.Join(home, ".ssh", "config")
	first, err := os.ReadFile(path)
	if err != nil || strings.Count(string(first), "Host *.croft") != 1 {
		t.Fatalf("%s, %v", first, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	// It is kept elsewhere, with what else the user has, and stays a link.
	kept := filepath.Join(home, "dotfiles")
	if err := errors.Join(os.WriteFile(kept, []byte("Host *\n  User ada\n"), 0o644), os.Remove(path), os.Symlink(kept, path)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		run("--write")
	}
	got, err := os.ReadFile(kept)
	if want := string(first) + "\nHost *\n  User ada\n"; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	known, err := os.ReadFile(filepath.Join(home, ".config", "croft", "ssh_known_hosts"))
	if want := "croft-0a1b2c3d ssh-ed25519 AAAA\ncroft-0a1b2c3d ecdsa-sha2-nistp256 BBBB\n"; err != nil || string(known) != want {
		t.Errorf("known hosts: %q, %v", known, err)
	}
	// A block whose end is missing is left to its owner.
	if err := os.WriteFile(kept, []byte(sshBegin+"\nHost x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, f)
	b.vars["HOME"] = home
	if code := b.run("ssh-config", "--write"); code == 0 || !strings.Contains(b.stderr.String(), "is missing in it") {
		t.Errorf("exit %d: %s", code, b.stderr.String())
	}
}

// Keys of other servers stay when one's are renewed.
func TestHostKeysOfSeveralServers(t *testing.T) {
	b := newBench(t, &fake{})
	b.vars["HOME"] = t.TempDir()
	other := v1.SSHGate{Alias: "croft-ffff", HostKeys: []string{"ssh-ed25519 CCCC"}}
	renewed := v1.SSHGate{Alias: gate.Alias, HostKeys: []string{"ssh-ed25519 DDDD"}}
	var path string
	for _, g := range []v1.SSHGate{gate, other, renewed} {
		var err error
		if path, err = b.app.keepHostKeys(&g); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if want := "croft-0a1b2c3d ssh-ed25519 DDDD\ncroft-ffff ssh-ed25519 CCCC\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
