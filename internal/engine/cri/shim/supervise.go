package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine/record"
)

// Supervise is the shim. It returns when the step has ended, or at once if there is nothing
// to be done.
func Supervise(f Files) error {
	unix.CloseOnExec(third)
	s := &supervisor{files: f, signals: make(chan os.Signal, 64)}
	// Caught before anybody knows this process: one that comes early is passed on later.
	signal.Notify(s.signals)
	begun, err := s.begin()
	tell(err)
	if err != nil || !begun {
		return err
	}
	return s.end()
}

// supervisor is a shim at work.
type supervisor struct {
	files   Files
	spec    Spec
	lock    *os.File // held until this process ends
	signals chan os.Signal
	output  *output
	pid     int
	started time.Time
	failure *NotRunError
}

// begin starts the program, unless that was done once.
func (s *supervisor) begin() (begun bool, err error) {
	if s.lock, err = s.files.lock(); errors.Is(err, errTaken) {
		return false, nil // which the server sees, too
	} else if err != nil {
		return false, err
	}
	state, err := s.files.Look()
	if err != nil || !state.Begun.IsZero() || state.Exit != nil {
		return false, err
	}
	if err := introduce(s.lock); err != nil {
		return false, err
	}
	if s.spec, err = s.files.ReadSpec(); err != nil {
		return false, err
	}
	// What the program leaves behind becomes this process's to reap.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return false, err
	}
	if s.output, err = openOutput(s.spec.Log); err != nil {
		return false, err
	}
	return s.run()
}

// run starts the program and returns whether it, or its failure, is the step's.
func (s *supervisor) run() (bool, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return false, err
	}
	defer null.Close()
	stdout, err := s.output.pipe("stdout")
	if err != nil {
		return false, err
	}
	defer stdout.Close()
	stderr, err := s.output.pipe("stderr")
	if err != nil {
		return false, err
	}
	defer stderr.Close()
	s.pid, err = Run("/proc/self/exe", s.spec.Program, [3]uintptr{null.Fd(), stdout.Fd(), stderr.Fd()}, false, s.note)
	if errors.As(err, &s.failure) {
		if s.started.IsZero() {
			err = s.note()
		} else {
			err = nil
		}
		fmt.Fprintln(stderr, "croft: "+s.failure.Message)
	}
	if err != nil {
		s.reap()
		return false, err
	}
	return true, nil
}

// note says for good that the program begins now: whatever happens, it isn't started
// another time.
func (s *supervisor) note() error {
	s.started = time.Now()
	return s.files.write(s.files.begun(), s.started)
}

// end waits for the program's end, ends what is left of it, and notes how it was.
func (s *supervisor) end() error {
	status := s.wait()
	// However long that takes: while something of it is left, its devices are in use.
	if err := s.spec.Program.Group.KillAll(context.Background(), func() { s.reap() }); err != nil {
		return err
	}
	s.output.finish()
	x := Exit{Code: status.ExitStatus(), OOMKills: s.spec.Program.Group.OOMKills(), Started: s.started, Finished: time.Now()}
	switch {
	case s.failure != nil:
		x.Code, x.Failure = s.failure.Code, s.failure.Message
	case status.Signaled():
		x.Code = 128 + int(status.Signal())
	}
	return s.leave(x)
}

// leave notes the end. A disk that is full has room again some day; until then the step
// isn't over, since nobody would know how it ended.
func (s *supervisor) leave(x Exit) error {
	const first, last = 100 * time.Millisecond, 10 * time.Second
	for wait := first; ; wait = min(2*wait, last) {
		err := s.files.write(s.files.exit(), x)
		if err == nil || errors.Is(err, fs.ErrNotExist) { // its folder was taken away
			return err
		}
		<-time.After(wait)
	}
}

// wait passes signals on to the program's process group until the program has ended. All in
// one place, so that none is sent to a group whose number may be another's by now.
func (s *supervisor) wait() syscall.WaitStatus {
	for {
		if status, ended := s.reap(); ended {
			return status
		}
		switch sig := (<-s.signals).(syscall.Signal); sig {
		case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE:
			// Ours: children are looked at, SIGURG is the Go scheduler's.
		default:
			_ = syscall.Kill(-s.pid, sig) // it may have ended
		}
	}
}

// reap takes note of every child that has ended, and returns how the program did if it is
// among them.
func (s *supervisor) reap() (status syscall.WaitStatus, ended bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err == syscall.ECHILD:
			// Without children the program has ended; a wrong code is better than to wait
			// for ever.
			if !ended {
				status = syscall.WaitStatus(record.ExitNotExecutable << 8)
			}
			return status, true
		case err != nil || pid <= 0:
			return status, ended
		case pid == s.pid:
			status, ended = ws, true
		}
	}
}
