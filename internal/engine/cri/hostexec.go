package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/shim"
	"croft.dev/croft/internal/engine/record"
)

// execHost runs a command beside a host step's program: as the same user, in the same
// control group, with the same environment and working directory. It is a child of this
// process, and is killed with the step.
func (e *Engine) execHost(ctx context.Context, id engine.StepID, h hostStep, req engine.ExecRequest) (int, error) {
	if h.Exit != nil || h.Begun.IsZero() || !h.Alive {
		return 0, &engine.NotFoundError{Attempt: id.Attempt}
	}
	spec, err := e.hostFiles(id).ReadSpec()
	if err != nil {
		return 0, fmt.Errorf("cri: exec: %w", err)
	}
	p := spec.Program
	p.Argv = req.Command
	if req.SFTP {
		p.Argv = []string{e.cfg.InitPath, record.SFTP}
	}
	if req.TTY && p.Getenv("TERM") == "" {
		p.Env = append(p.Env, "TERM=xterm")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if req.TTY && req.Stdin != nil {
		req.Stdin = engine.Typed(ctx, req.Stdin)
	}
	s, err := openStdio(req, p.UID)
	if err != nil {
		return 0, fmt.Errorf("cri: exec: %w", err)
	}
	defer s.close()
	pid, err := shim.Run(e.cfg.InitPath, p, s.child, req.TTY, func() error { return ctx.Err() })
	s.closeChild()
	if not := new(shim.NotRunError); errors.As(err, &not) {
		_, _ = io.WriteString(s.complain, "croft: "+not.Message+"\n") // whoever asked may be gone
		_, err := waitProcess(pid)
		return not.Code, err
	}
	if err != nil {
		if pid > 0 {
			_ = unix.Kill(pid, unix.SIGKILL)
			_, werr := waitProcess(pid)
			err = errors.Join(err, werr)
		}
		return 0, fmt.Errorf("cri: exec: %w", err)
	}
	// What was asked for by somebody who has gone ends, and what it has started in its
	// session with it.
	stop := context.AfterFunc(ctx, func() { _ = unix.Kill(-pid, unix.SIGKILL) })
	s.carry()
	code, err := waitProcess(pid)
	stop()
	s.finish()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return code, err
}

// waitProcess waits for a child's end and returns its exit code.
func waitProcess(pid int) (int, error) {
	for {
		var ws unix.WaitStatus
		_, err := unix.Wait4(pid, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("cri: exec: %w", err)
		case ws.Signaled():
			return 128 + int(ws.Signal()), nil
		default:
			return ws.ExitStatus(), nil
		}
	}
}

// stdio connects a command on the machine with whoever asked for it.
type stdio struct {
	req      engine.ExecRequest
	child    [3]uintptr // the command's own
	theirs   []*os.File // that those are of
	in       *os.File   // what it reads is written here
	terminal int        // the descriptor of that, with a terminal
	outs     []*os.File // what it writes is read here
	sinks    []io.Writer
	complain io.Writer
	copies   sync.WaitGroup
	done     chan struct{}
}

// openStdio makes a pseudo terminal, or a pipe for each stream.
func openStdio(req engine.ExecRequest, uid int) (*stdio, error) {
	s := &stdio{req: req, done: make(chan struct{}), complain: or(req.Stderr)}
	if req.TTY {
		s.complain = or(req.Stdout)
		return s, s.openTerminal(uid)
	}
	var err error
	if req.Stdin == nil {
		var null *os.File
		if null, err = os.Open(os.DevNull); err == nil {
			s.theirs = append(s.theirs, null)
		}
	} else {
		s.in, err = s.pipe(true)
	}
	for _, w := range []io.Writer{req.Stdout, req.Stderr} {
		if err != nil {
			s.close()
			return nil, err
		}
		var r *os.File
		if r, err = s.pipe(false); err == nil {
			s.outs, s.sinks = append(s.outs, r), append(s.sinks, or(w))
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	for i, f := range s.theirs {
		s.child[i] = f.Fd()
	}
	return s, nil
}

// pipe makes a pipe; the command's end blocks, as programs expect, and ours doesn't.
func (s *stdio) pipe(reads bool) (ours *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	own, their := fds[0], fds[1]
	if reads {
		own, their = their, own
	}
	s.theirs = append(s.theirs, os.NewFile(uintptr(their), "pipe"))
	if err := unix.SetNonblock(own, true); err != nil {
		return nil, errors.Join(err, unix.Close(own))
	}
	return os.NewFile(uintptr(own), "pipe"), nil
}

// openTerminal makes a pseudo terminal (pty(7)).
func (s *stdio) openTerminal(uid int) error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	s.terminal, s.in = fd, os.NewFile(uintptr(fd), "terminal")
	s.outs, s.sinks = []*os.File{s.in}, []io.Writer{or(s.req.Stdout)}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	var own *os.File
	if err == nil {
		own, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		err = own.Chown(uid, -1)
	}
	if err != nil {
		s.close()
		return err
	}
	s.theirs = []*os.File{own}
	s.child = [3]uintptr{own.Fd(), own.Fd(), own.Fd()}
	return nil
}

// closeChild closes what the command alone is to have.
func (s *stdio) closeChild() {
	for _, f := range s.theirs {
		f.Close()
	}
	s.theirs = nil
}

func (s *stdio) close() {
	s.closeChild()
	for _, f := range append(s.outs, s.in) {
		if f != nil {
			f.Close()
		}
	}
}

// carry copies in both directions until the streams end.
func (s *stdio) carry() {
	if s.req.Stdin != nil {
		go func() { // it may wait for the user for ever
			_, _ = io.Copy(s.in, s.req.Stdin)
			if !s.req.TTY {
				s.in.Close()
			}
		}()
	}
	for i, r := range s.outs {
		s.copies.Go(func() { _, _ = io.Copy(s.sinks[i], r) })
	}
	if s.req.TTY && s.req.Resize != nil {
		go s.resize()
	}
}

func (s *stdio) resize() {
	for {
		select {
		case size, ok := <-s.req.Resize:
			if !ok {
				return
			}
			// A terminal that has gone has no size.
			_ = unix.IoctlSetWinsize(s.terminal, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
		case <-s.done:
			return
		}
	}
}

// afterEnd is how long output may take that what the command has left behind still writes.
const afterEnd = 250 * time.Millisecond

// finish takes what is left of the output.
func (s *stdio) finish() {
	close(s.done)
	for _, r := range s.outs {
		_ = r.SetReadDeadline(time.Now().Add(afterEnd)) // else it would be for ever
	}
	s.copies.Wait()
}
