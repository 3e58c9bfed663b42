// Package record is the note that croft-init leaves about how the user's
// process ended, and the place where both sides agree on its form and path; and
// the gate at which croft-init waits before it starts that process.
//
// The note lies on a small tmpfs that the user may write to, so the reader
// bounds what it takes, follows no link, and trusts it only for things by which
// a user could at most harm himself: that an exit with code 137 was the out of
// memory killer's doing, and why a command could not be run at all.
//
// The package imports nothing beyond the standard library: croft-init links it.
package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Paths inside the container.
const (
	// Root is the folder that is Croft's own.
	Root = "/.croft"
	// InitPath is where croft-init is bound.
	InitPath = "/.croft/init"
	// Exec makes croft-init become a command beside a primary; Feed has it stay, for one
	// with an input; Shell has it tell first what whoever begins a shell is to know.
	Exec, Feed, Shell = "--exec", "--feed", "--shell"
	// SFTP makes croft-init an SFTP server, in place of all other arguments.
	SFTP = "--sftp"
	// Workdir is the variable that says where croft-init goes before anything else, where that
	// is for the user to go and not for what makes the container.
	Workdir = "CROFT_WORKDIR"
	// Dir is the directory on the small tmpfs.
	Dir = "/.croft/run"
	// File is the name of the note in Dir.
	File = "exit"
)

// Beside is the command line for a command beside a primary: a person's shell at a terminal,
// one that is fed an input otherwise, or neither.
func Beside(command []string, shell, fed bool) []string {
	how := Exec
	switch {
	case shell: // its terminal stays open by its input
		how = Shell
	case fed:
		how = Feed
	}
	return append([]string{InitPath, how, "--"}, command...)
}

// Failure says why the command never ran.
type Failure string

// The failures.
const (
	None          Failure = ""
	NotFound      Failure = "not_found"      // no such command in PATH
	NotExecutable Failure = "not_executable" // there, but it can't be executed
)

// Exit codes that croft-init gives for a command that never ran, as POSIX
// shells do.
const (
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// Unnoted is the exit code of a step of which croft-init has left no note, by the one that
// croft-init itself ended with. As process 1 it survives the default of a signal and ends with
// the Go runtime's own code, if it is told to terminate before it listens.
func Unnoted(code int) int {
	const unheard, terminated = 2, 128 + int(syscall.SIGTERM)
	if code == unheard {
		return terminated
	}
	return code
}

// Record is the note.
type Record struct {
	Code     int     // exit code: 128+n for death by signal n
	Signal   int     // 0 when it ended by itself
	OOMKills int64   // oom_kill events in the container's cgroup while it ran
	Failure  Failure // why it never ran, if so
}

// maxSize bounds what a reader takes, in bytes.
const maxSize = 256

// Format returns the note's text.
func (r Record) Format() string {
	return fmt.Sprintf("code %d\nsignal %d\noom_kill %d\nfailure %s\n", r.Code, r.Signal, r.OOMKills, r.Failure)
}

// Parse reads a note. Anything that Format would not write is an error.
func Parse(text string) (Record, error) {
	if len(text) > maxSize {
		return Record{}, errors.New("record: too long")
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	keys := []string{"code", "signal", "oom_kill", "failure"}
	if len(lines) != len(keys) {
		return Record{}, errors.New("record: wrong number of lines")
	}
	var r Record
	for i, key := range keys {
		value, ok := strings.CutPrefix(lines[i], key+" ")
		if !ok {
			return Record{}, fmt.Errorf("record: line %d is not %s", i+1, key)
		}
		if err := r.set(key, value); err != nil {
			return Record{}, err
		}
	}
	return r, nil
}

func (r *Record) set(key, value string) error {
	if key == "failure" {
		switch f := Failure(value); f {
		case None, NotFound, NotExecutable:
			r.Failure = f
			return nil
		}
		return errors.New("record: unknown failure")
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("record: bad %s", key)
	}
	switch key {
	case "code":
		if n > 255 {
			return errors.New("record: bad code")
		}
		r.Code = int(n)
	case "signal":
		if n > 64 {
			return errors.New("record: bad signal")
		}
		r.Signal = int(n)
	case "oom_kill":
		r.OOMKills = n
	}
	return nil
}

// Write leaves the note in dir, by rename, so that a reader sees all or nothing.
func Write(dir string, r Record) error {
	tmp := dir + "/." + File
	if err := os.WriteFile(tmp, []byte(r.Format()), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, dir+"/"+File)
}

// Read reads the note from dir as seen from the host. The directory's contents
// are the user's: a link, a pipe or a device in the note's place is refused
// without waiting on it.
func Read(dir string) (Record, error) {
	f, err := os.OpenFile(dir+"/"+File, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Record{}, err
	}
	if !st.Mode().IsRegular() {
		return Record{}, errors.New("record: not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return Record{}, err
	}
	return Parse(string(text))
}
