// Package shim runs a program on the machine itself, outside of any container, as a
// job's user and within a control group. It is croft-init that becomes the three
// processes this takes:
//
//   - the launcher, a child of the server's, which leaves the server's control group,
//     starts the shim and ends;
//   - the shim, root's, which outlives the server: it starts the program, writes its log,
//     passes signals on, ends what the program leaves behind and notes how it ended;
//   - the program itself, at first as croft-init: it enters its control group, becomes the
//     user and is replaced by the command.
//
// The server and the shim know of each other by files alone, see Files, so that a server
// may be killed at any time and find its programs again.
package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine/cri/cgroup"
)

// Files are those of one step: what they have in common of their path. They lie in a
// directory that nobody but root may enter, so that all in them is to be trusted.
type Files string

func (f Files) spec() string  { return string(f) + ".spec" }  // the server's order
func (f Files) shim() string  { return string(f) + ".shim" }  // locked by the shim while it lives
func (f Files) begun() string { return string(f) + ".begun" } // the program may have run
func (f Files) exit() string  { return string(f) + ".exit" }  // how it ended

// Path is what the files' paths begin with, as the launcher is told.
func (f Files) Path() string { return string(f) }

// Spec is what the server orders. It holds the job's environment.
type Spec struct {
	Labels  map[string]string // the server's own
	Program Program
	Shims   cgroup.Group // of the shim itself
	Log     Log
}

// Program is a command and what it runs as.
type Program struct {
	Argv   []string
	Env    []string // NAME=VALUE, all of it
	Dir    string   // entered as the user; empty: Home, or / if that can't be
	Home   string
	UID    int
	GID    int
	Groups []int
	Group  cgroup.Group
	// OOMScore makes it a likelier victim when the machine runs out of memory, see
	// proc_pid_oom_score_adj(5).
	OOMScore int
}

// Log says where output goes, in the CRI's form, and when the file is rotated.
type Log struct {
	Path string
	Max  int64 // bytes
	Keep int   // rotated files
}

// Exit is how a program ended.
type Exit struct {
	Code     int    // 128+n for a signal
	OOMKills int64  // processes of it that the kernel killed for want of memory
	Failure  string // why it never ran, for the user; empty: it ran
	Lost     bool   // its shim vanished, and nobody saw its end
	Started  time.Time
	Finished time.Time
}

// Order leaves the server's order for the shim to come.
func (f Files) Order(s Spec) error { return f.write(f.spec(), s) }

// ReadSpec returns the order.
func (f Files) ReadSpec() (Spec, error) {
	var s Spec
	return s, read(f.spec(), &s)
}

// Ordered is an error unless there is an order.
func (f Files) Ordered() error {
	_, err := os.Lstat(f.spec())
	return err
}

// note is the shim's, in the file that it holds locked.
type note struct {
	PID   int
	Start uint64 // of the process, in ticks since the machine's
	Boot  string
}

// State is what the files say of a step.
type State struct {
	Alive bool      // its shim lives
	Begun time.Time // zero: the program has not begun, and does so only if Alive
	Exit  *Exit     // nil: it has not ended, or nobody knows
}

// Look reads the state. Nothing but the files is looked at.
func (f Files) Look() (State, error) {
	// In the order in which a shim leaves its traces, so that one which has begun, has no
	// shim and no exit has really lost its shim.
	var s State
	err := read(f.begun(), &s.Begun)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if s.Alive, err = f.alive(); err != nil {
		return s, err
	}
	s.Exit = new(Exit)
	err = read(f.exit(), s.Exit)
	if errors.Is(err, fs.ErrNotExist) {
		s.Exit, err = nil, nil
	}
	return s, err
}

// alive reports whether a shim holds its lock, without taking it.
func (f Files) alive() (bool, error) {
	file, err := os.Open(f.shim())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, fmt.Errorf("%s: %w", f.shim(), err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

// errTaken says that a shim of the step lives already.
var errTaken = errors.New("the step has a shim")

// lock makes this process the step's shim, for as long as it lives and keeps the file.
func (f Files) lock() (*os.File, error) {
	file, err := os.OpenFile(f.shim(), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	// An open file's lock, not a process's: it isn't lost when another descriptor of the
	// same file is closed.
	err = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = errTaken
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// introduce writes the shim's note about itself.
func introduce(file *os.File) error {
	self, err := identify(os.Getpid())
	if err != nil {
		return err
	}
	text, err := json.Marshal(self)
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt(text, 0)
	}
	return err
}

// Signal sends a signal to the shim, which passes it on to the program's process group. A
// step without a shim is no error.
func (f Files) Signal(sig unix.Signal) error {
	alive, err := f.alive()
	if err != nil || !alive {
		return err
	}
	var n note
	if err := read(f.shim(), &n); err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(n.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// Looked at after the process was pinned: its number can't be reused now.
	if now, err := identify(n.PID); err != nil || now != n {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// identify tells a process from any other that has had its number or will.
func identify(pid int) (note, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return note{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return note{}, err
	}
	start, err := startTime(string(stat))
	return note{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, err
}

// startTime is the 22nd field of proc_pid_stat(5)'s text. The second, a name, may hold
// anything.
func startTime(stat string) (uint64, error) {
	_, after, ok := cutLast(stat, ")")
	fields := strings.Fields(after)
	if !ok || len(fields) < 20 {
		return 0, errors.New("shim: a process's stat is cut short")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Settle notes an end that no shim has noted, and returns the one that is noted now. A step
// that has none and has not begun then never will.
func (f Files) Settle(x Exit) (Exit, error) {
	tmp, err := f.temporary(x)
	if err != nil {
		return x, err
	}
	defer os.Remove(tmp)
	if err := os.Link(tmp, f.exit()); !errors.Is(err, fs.ErrExist) {
		return x, err
	}
	return x, read(f.exit(), &x)
}

// Remove deletes the files, the order last: it is what the step is found by.
func (f Files) Remove() error {
	for _, name := range []string{f.exit(), f.begun(), f.shim(), f.spec()} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Steps lists the files of all steps in a directory, by name.
func Steps(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".spec"); ok {
			names = append(names, name)
		}
	}
	return names, err
}

// write leaves a value in a file, all or nothing, and there to stay when the machine's
// power fails.
func (f Files) write(path string, v any) error {
	tmp, err := f.temporary(v)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncDir(filepath.Dir(path))
}

// temporary is a new file that holds the value.
func (f Files) temporary(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(filepath.Dir(string(f)), ".new-") // with mode 0600
	if err != nil {
		return "", err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func read(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
