package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "croft.dev/croft/api/v1"
)

// A login is kept where later commands find it, for its owner alone, and a logout
// forgets it.
func TestLogin(t *testing.T) {
	f := &fake{answers: map[string]any{
		"POST /v1/login":  v1.Session{ID: "9", User: "ada", Expires: *day(2026, 12, 8), Secret: "croft_secret"},
		"POST /v1/logout": struct{}{},
	}}
	b := newBench(t, f)
	home := t.TempDir()
	b.vars["XDG_CONFIG_HOME"], b.vars["USER"] = home, "ada"
	b.app.env.Stdin = strings.NewReader("correct horse\n")
	if code := b.run("login", "https://croft.example.org/", "--stdin"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.stderr)
	}
	if got, want := b.stdout.String(), "logged in to https://croft.example.org as ada until 2026-12-08\n"; got != want {
		t.Errorf("printed %q", got)
	}
	if want := `POST /v1/login {"user":"ada","password":"correct horse","name":"desk"}`; len(f.requests()) != 1 || f.requests()[0] != want {
		t.Errorf("asked %q", f.requests())
	}
	for _, name := range []string{"server", "token"} {
		fi, err := os.Stat(filepath.Join(home, "croft", name))
		if err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
	server := v1.Discover(b.app.env.Getenv, "/")
	if server != "https://croft.example.org" || v1.DiscoverToken(b.app.env.Getenv, server) != "croft_secret" {
		t.Errorf("found the server %s", server)
	}
	if got := v1.DiscoverToken(b.app.env.Getenv, server+"/"); got != "croft_secret" {
		t.Errorf("the same server, written otherwise, is given %q", got)
	}
	if got := v1.DiscoverToken(b.app.env.Getenv, "https://elsewhere.example.org"); got != "" {
		t.Errorf("another server is given %q", got)
	}
	if code := b.run("logout"); code != 0 || v1.DiscoverToken(b.app.env.Getenv, server) != "" {
		t.Errorf("logout: exit %d: %s", code, b.stderr)
	}
}

// A wrong password is told as such; to log in is no advice then.
func TestWrongPassword(t *testing.T) {
	b := newBench(t, &fake{answers: map[string]any{"POST /v1/login": &v1.Problem{Status: 401, Code: "unauthenticated", Detail: "the user or the password is wrong"}}})
	b.vars["XDG_CONFIG_HOME"] = t.TempDir()
	b.app.env.Stdin = strings.NewReader("guess\n")
	code := b.run("login", "https://croft.example.org", "-u", "ada", "--stdin")
	if got := b.stderr.String(); code != 125 || got != "croft: the user or the password is wrong\n" {
		t.Errorf("exit %d: %q", code, got)
	}
}

// On a terminal a new password is asked for twice, and never shown.
func TestPasswdOnATerminal(t *testing.T) {
	f := &fake{answers: map[string]any{"GET /v1/me": me, "PUT /v1/users/ada/password": v1.PasswordChanged{}}}
	for name, tt := range map[string]struct {
		typed []string
		asked int
		code  int
	}{
		"the same twice": {[]string{"correct horse", "correct horse"}, 2, 0},
		"not the same":   {[]string{"correct horse", "correct house"}, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f.asked = nil
			b := newBench(t, f)
			b.app.env.Term.In = true
			b.app.env.Term.Secret = func() (string, error) {
				text := tt.typed[0]
				tt.typed = tt.typed[1:]
				return text, nil
			}
			if code := b.run("passwd"); code != tt.code || len(f.requests()) != tt.asked {
				t.Errorf("exit %d, asked %q: %s", code, f.requests(), b.stderr)
			}
			if strings.Contains(b.stdout.String()+b.stderr.String(), "correct") {
				t.Errorf("shown: %s%s", b.stdout, b.stderr)
			}
		})
	}
}
