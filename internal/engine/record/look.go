package record

import (
	"os"
	"strings"
	"syscall"
)

// DefaultPath is what a program without PATH gets, as other runtimes do.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// LookPath finds command on path, or DefaultPath, as execvp(3) does: a name with a slash
// is taken as it is; otherwise the first executable wins, and one that is there but not
// executable decides between "not executable" and "not found".
func LookPath(command, path string) (string, Failure) {
	if strings.Contains(command, "/") {
		return command, Probe(command)
	}
	if path == "" {
		path = DefaultPath
	}
	failure := NotFound
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		full := dir + "/" + command
		switch Probe(full) {
		case None:
			return full, None
		case NotExecutable:
			failure = NotExecutable
		}
	}
	return "", failure
}

// Probe says why path can't be executed.
func Probe(path string) Failure {
	st, err := os.Stat(path)
	if err != nil {
		return FailureOf(err)
	}
	const executable = 1 // X_OK of access(2)
	if st.IsDir() || syscall.Access(path, executable) != nil {
		return NotExecutable
	}
	return None
}

// FailureOf says what an error of stat(2) or execve(2) means.
func FailureOf(err error) Failure {
	if os.IsNotExist(err) {
		return NotFound
	}
	return NotExecutable
}

// Code is the exit code that stands for a failure.
func (f Failure) Code() int {
	if f == NotFound {
		return ExitNotFound
	}
	return ExitNotExecutable
}

// Message says in a program's output what became of command, which is looked for in the
// place that is named.
func (f Failure) Message(command, where string) string {
	if f == NotFound {
		return command + ": command not found " + where
	}
	return command + ": cannot be executed (permission, or not a program for this machine)"
}
