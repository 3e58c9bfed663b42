package main

import (
	"os"
	"strings"
	"syscall"

	"croft.dev/croft/internal/engine/cri/record"
)

// defaultPath is what a container without PATH gets, as other runtimes do.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookPath finds command as execvp(3) does: a name with a slash is taken as it
// is; otherwise the first executable in PATH wins, and one that is there but
// not executable decides between "not executable" and "not found".
func lookPath(command string) (string, record.Failure) {
	if strings.Contains(command, "/") {
		return command, probe(command)
	}
	path := os.Getenv("PATH")
	if path == "" {
		path = defaultPath
	}
	failure := record.NotFound
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		full := dir + "/" + command
		switch probe(full) {
		case record.None:
			return full, record.None
		case record.NotExecutable:
			failure = record.NotExecutable
		}
	}
	return "", failure
}

func probe(path string) record.Failure {
	st, err := os.Stat(path)
	if err != nil {
		return failureOf(err)
	}
	const executable = 1 // X_OK of access(2)
	if st.IsDir() || syscall.Access(path, executable) != nil {
		return record.NotExecutable
	}
	return record.None
}

func failureOf(err error) record.Failure {
	if os.IsNotExist(err) {
		return record.NotFound
	}
	return record.NotExecutable
}

func code(f record.Failure) int {
	if f == record.NotFound {
		return record.ExitNotFound
	}
	return record.ExitNotExecutable
}

func message(command string, f record.Failure) string {
	if f == record.NotFound {
		return command + ": command not found in the image"
	}
	return command + ": cannot be executed (permission, or not a program for this machine)"
}
