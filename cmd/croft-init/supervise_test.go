package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"croft.dev/croft/internal/engine/record"
)

func TestFitEnvironment(t *testing.T) {
	for name, tc := range map[string]struct{ home, shell, wantHome, wantShell string }{
		"both there":     {os.TempDir(), "/bin/sh", os.TempDir(), "/bin/sh"},
		"both missing":   {"/no/such/home", "/no/such/shell", "/", "/bin/sh"},
		"home is empty":  {"", "/bin/sh", "/", "/bin/sh"},
		"home is a file": {"/etc/passwd", "/bin/sh", "/", "/bin/sh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", tc.home)
			t.Setenv("SHELL", tc.shell)
			fitEnvironment()
			if h, s := os.Getenv("HOME"), os.Getenv("SHELL"); h != tc.wantHome || s != tc.wantShell {
				t.Errorf("HOME %q, SHELL %q; want %q, %q", h, s, tc.wantHome, tc.wantShell)
			}
		})
	}
}

// A program begins where it is said to; and if its home isn't there, where the container does.
func TestEnterWorkdir(t *testing.T) {
	dir := t.TempDir()
	t.Chdir("/")
	for want, argv := range map[string][]string{dir: {"sh", "-c", "[ $PWD = " + dir + " ]"}, "/no/such/folder": {"sh", "-c", "[ $PWD = / ]"}} {
		t.Chdir("/")
		t.Setenv(record.Workdir, want)
		t.Setenv("HOME", "/no/such/folder")
		if got := supervise(argv, options{}); got != 0 {
			t.Errorf("%s: it begins elsewhere", want)
		}
	}
}

// TestSupervise runs commands as croft-init does; that it passes signals on and
// reaps is tested with containers, in engine/cri.
func TestSupervise(t *testing.T) {
	for name, tc := range map[string]struct {
		argv []string
		want int
	}{
		"success":    {[]string{"true"}, 0},
		"failure":    {[]string{"sh", "-c", "exit 42"}, 42},
		"by signal":  {[]string{"sh", "-c", "kill -KILL $$"}, 137},
		"not found":  {[]string{"no-such-command"}, 127},
		"not a file": {[]string{"/"}, 126},
	} {
		t.Run(name, func(t *testing.T) {
			if got := supervise(tc.argv, options{}); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want options
		argv []string
		ok   bool
	}{
		"a command":       {[]string{"--", "sh", "-c", "--note"}, options{}, []string{"sh", "-c", "--note"}, true},
		"with all":        {[]string{"--note", "hear", "--attach", "2s", "--", "sh"}, options{note: "hear", patience: 2 * time.Second}, []string{"sh"}, true},
		"a note like one": {[]string{"--note", "--", "--", "sh"}, options{note: "--"}, []string{"sh"}, true},
		"no command":      {[]string{"--note", "x", "--"}, options{note: "x"}, nil, false},
		"no duration":     {[]string{"--attach", "soon", "--", "sh"}, options{}, nil, false},
		"something else":  {[]string{"sh", "-c"}, options{}, nil, false},
		"an option's end": {[]string{"--note"}, options{}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, argv, ok := parse(tc.args)
			if o != tc.want || !slices.Equal(argv, tc.argv) || ok != tc.ok {
				t.Errorf("%+v %q %v", o, argv, ok)
			}
		})
	}
}
