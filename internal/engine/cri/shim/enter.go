package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine/record"
)

// goAhead is said to a program that is ready.
const goAhead = "go\n"

// report is what a program says of itself before it is the command.
type report struct {
	Failure string // why it can't be run, for the user
	Code    int    // the exit code that stands for that
	Error   string // the machine's fault
}

func (r report) err() error {
	switch {
	case r.Failure != "":
		return &NotRunError{Message: r.Failure, Code: r.Code}
	case r.Error != "":
		return errors.New(r.Error)
	}
	return nil
}

// NotRunError says that a command can't be run. Its text is for the user.
type NotRunError struct {
	Message string
	Code    int
}

func (e *NotRunError) Error() string { return e.Message }

// Enter becomes the command that it is told on the third descriptor, or ends.
func Enter() {
	talk := os.NewFile(third, "parent")
	unix.CloseOnExec(third)
	err := enter(talk)
	r := report{Error: err.Error()}
	if not := new(NotRunError); errors.As(err, &not) {
		r = report{Failure: not.Message, Code: not.Code}
	}
	_ = json.NewEncoder(talk).Encode(r) // nobody is left to be told otherwise
	os.Exit(record.ExitNotExecutable)
}

// enter returns only if it fails.
func enter(talk io.ReadWriter) error {
	// Who a process is belongs to a thread. This one stays, and is the only one after
	// execve(2).
	runtime.LockOSThread()
	// What is caught is back at its default in the command; what was ignored by whoever
	// started the server would stay ignored.
	signal.Notify(make(chan os.Signal, 1))

	in := json.NewDecoder(talk)
	var p Program
	if err := in.Decode(&p); err != nil {
		return err
	}
	if p.UID == 0 || p.GID == 0 || len(p.Argv) == 0 {
		return errors.New("a program can't be root's, and needs a command")
	}
	if err := settle(p); err != nil {
		return err
	}
	if err := p.Group.Join(); err != nil {
		return err
	}
	if err := become(p); err != nil {
		return err
	}
	if err := p.chdir(); err != nil {
		return err
	}
	path, failure := record.LookPath(p.Argv[0], p.Getenv("PATH"))
	if failure != record.None {
		return notRun(p.Argv[0], failure)
	}
	if err := json.NewEncoder(talk).Encode(report{}); err != nil {
		return err
	}
	word := make([]byte, len(goAhead))
	if _, err := io.ReadFull(talk, word); err != nil {
		return err // whoever asked for it has gone
	}
	return notRun(p.Argv[0], record.FailureOf(unix.Exec(path, p.Argv, p.Env)))
}

func notRun(command string, f record.Failure) error {
	return &NotRunError{Message: f.Message(command, "on this machine"), Code: f.Code()}
}

// Getenv is a variable's value in the program's environment.
func (p Program) Getenv(name string) string {
	for _, kv := range p.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// chdir enters the working directory as the user.
func (p Program) chdir() error {
	if p.Dir == "" {
		if p.Home != "" && unix.Chdir(p.Home) == nil {
			return nil
		}
		return unix.Chdir("/")
	}
	if err := unix.Chdir(p.Dir); err != nil {
		return &NotRunError{Message: fmt.Sprintf("the working directory %s can't be entered: %v", p.Dir, err), Code: record.ExitNotExecutable}
	}
	return nil
}

// settle makes what a program inherits what a login would, as far as root has to do it.
func settle(p Program) error {
	unix.Umask(0o022)
	// The server's own descriptors, should one have been left open, are none of its business.
	if err := unix.CloseRange(third, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("closing descriptors: %w", err)
	}
	// A kernel without keys has none to be inherited.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("leaving the server's keyring: %w", err)
	}
	for _, l := range []struct {
		resource  int
		soft, max uint64 // at most; hard limits are the server's
	}{
		{unix.RLIMIT_NOFILE, 1024, 512 << 10},
		{unix.RLIMIT_CORE, 0, unix.RLIM_INFINITY},
		{unix.RLIMIT_MEMLOCK, unix.RLIM_INFINITY, unix.RLIM_INFINITY}, // RDMA and pinned buffers need it
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.resource, &now); err != nil {
			return err
		}
		now.Max = min(now.Max, l.max)
		now.Cur = min(now.Max, l.soft)
		if err := unix.Setrlimit(l.resource, &now); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(p.OOMScore)), 0)
}

// become makes the calling thread the user's, with no way back: no capability, and none
// to be had by executing anything.
func become(p Program) error {
	for c := range uintptr(64) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); errors.Is(err, unix.EINVAL) && c > 0 {
			break // the kernel has no more
		} else if err != nil {
			return fmt.Errorf("dropping capabilities: %w", err)
		}
	}
	// These are RawSyscalls, since Go's own change all threads.
	groups := make([]uint32, 1, len(p.Groups)+1)
	groups[0] = uint32(p.GID)
	for _, g := range p.Groups {
		groups = append(groups, uint32(g))
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
		return fmt.Errorf("becoming the user: groups: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(p.GID), uintptr(p.GID), uintptr(p.GID)); errno != 0 {
		return fmt.Errorf("becoming the user: group: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(p.UID), uintptr(p.UID), uintptr(p.UID)); errno != 0 {
		return fmt.Errorf("becoming the user: %w", errno)
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbidding new privileges: %w", err)
	}
	if r, e, s := unix.Getresuid(); r != p.UID || e != p.UID || s != p.UID {
		return errors.New("becoming the user had no effect")
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETUID, 0, 0, 0); errno == 0 {
		return errors.New("the user could become root again")
	}
	return nil
}
