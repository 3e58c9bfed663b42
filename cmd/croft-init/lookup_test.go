package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"croft.dev/croft/internal/engine/cri/record"
)

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/tool": 0o755, "b/tool": 0o755, "a/data": 0o644, "b/data": 0o755, "a/only": 0o644} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+"/none:"+dir+"/a:"+dir+"/b")
	for name, tc := range map[string]struct {
		command string
		want    string
		failure record.Failure
	}{
		"first in PATH":               {"tool", dir + "/a/tool", record.None},
		"one that isn't a program":    {"data", dir + "/b/data", record.None},
		"not executable anywhere":     {"only", "", record.NotExecutable},
		"not there":                   {"nope", "", record.NotFound},
		"a path":                      {dir + "/b/tool", dir + "/b/tool", record.None},
		"a path that isn't there":     {dir + "/c/tool", dir + "/c/tool", record.NotFound},
		"a path that isn't a program": {dir + "/a/only", dir + "/a/only", record.NotExecutable},
		"a directory":                 {dir + "/a", dir + "/a", record.NotExecutable},
	} {
		t.Run(name, func(t *testing.T) {
			got, failure := lookPath(tc.command)
			if got != tc.want || failure != tc.failure {
				t.Errorf("lookPath(%q) = %q, %q; want %q, %q", tc.command, got, failure, tc.want, tc.failure)
			}
		})
	}
}

func TestFailureCodes(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"not there":      {syscall.ENOENT, 127},
		"no permission":  {syscall.EACCES, 126},
		"not a program":  {syscall.ENOEXEC, 126},
		"something else": {errors.New("x"), 126},
	} {
		t.Run(name, func(t *testing.T) {
			if got := code(failureOf(tc.err)); got != tc.want {
				t.Errorf("code %d, want %d", got, tc.want)
			}
		})
	}
}

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
		"with all":        {[]string{"--note", "hear", "--attach", "2s", "--", "sh"}, options{"hear", 2 * time.Second}, []string{"sh"}, true},
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
