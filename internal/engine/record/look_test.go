package record

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
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
	path := dir + "/none:" + dir + "/a:" + dir + "/b"
	for name, tc := range map[string]struct {
		command string
		want    string
		failure Failure
	}{
		"first in PATH":               {"tool", dir + "/a/tool", None},
		"one that isn't a program":    {"data", dir + "/b/data", None},
		"not executable anywhere":     {"only", "", NotExecutable},
		"not there":                   {"nope", "", NotFound},
		"a path":                      {dir + "/b/tool", dir + "/b/tool", None},
		"a path that isn't there":     {dir + "/c/tool", dir + "/c/tool", NotFound},
		"a path that isn't a program": {dir + "/a/only", dir + "/a/only", NotExecutable},
		"a directory":                 {dir + "/a", dir + "/a", NotExecutable},
	} {
		t.Run(name, func(t *testing.T) {
			got, failure := LookPath(tc.command, path)
			if got != tc.want || failure != tc.failure {
				t.Errorf("LookPath(%q) = %q, %q; want %q, %q", tc.command, got, failure, tc.want, tc.failure)
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
			if got := FailureOf(tc.err).Code(); got != tc.want {
				t.Errorf("code %d, want %d", got, tc.want)
			}
		})
	}
}
