package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Words that make croft-init become one of the three.
const (
	AsLauncher = "--host"  // FILES
	AsShim     = "--shim"  // FILES
	AsProgram  = "--enter" // told by descriptor 3
)

// third is the descriptor that the launcher and the shim answer on, and the program is
// told on.
const third = 3

// answer is what the server is told of a start, by the launcher or by the shim.
type answer struct {
	Error string // the machine's fault: it may be tried again
}

// Start has the shim of a step started by the program at initPath, and returns once the
// step's program has begun, or its end is noted. An error says that neither is so as far
// as is known.
func Start(ctx context.Context, initPath string, f Files) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := &exec.Cmd{
		Path: initPath, Args: []string{"croft-init", AsLauncher, f.Path()}, Env: []string{}, Dir: "/",
		ExtraFiles: []*os.File{w}, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) })
	defer stop()
	var a answer
	err = json.NewDecoder(io.LimitReader(r, 64<<10)).Decode(&a)
	// The launcher has ended by now, or does at once: it waits for nothing.
	werr := cmd.Wait()
	switch {
	case a.Error != "":
		return errors.New(a.Error)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("the shim doesn't answer: %w", errors.Join(err, werr))
	}
	return nil
}

// tell answers the server, if it is still there.
func tell(err error) {
	server := os.NewFile(third, "server")
	var a answer
	if err != nil {
		a.Error = err.Error()
	}
	_ = json.NewEncoder(server).Encode(a) // it may have gone
	server.Close()
}

// Launch is the launcher: it leaves the control group that it was started in, which may be
// a service's that is stopped, and starts the shim. The shim isn't the server's child then,
// and leaves no zombie there.
func Launch(f Files) error {
	err := launch(f)
	if err != nil {
		tell(err)
	}
	return err
}

func launch(f Files) error {
	spec, err := f.ReadSpec()
	if err != nil {
		return err
	}
	if err := spec.Shims.Join(); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = syscall.ForkExec("/proc/self/exe", []string{"croft-shim", AsShim, f.Path()}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=2", "GOGC=50"}, Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), third},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	return err
}

// Run starts a program by the program at initPath, with these files as its own, and returns
// its process. It is in its control group and is the user when ready is called; only if that
// succeeds does it become the command. The error is a *NotRunError when the command can't
// be run, whoever tries.
func Run(initPath string, p Program, stdio [3]uintptr, terminal bool, ready func() error) (pid int, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	talk := os.NewFile(uintptr(pair[0]), "program")
	defer talk.Close()
	pid, err = syscall.ForkExec(initPath, []string{"croft-init", AsProgram}, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{stdio[0], stdio[1], stdio[2], uintptr(pair[1])},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: terminal},
	})
	if cerr := syscall.Close(pair[1]); err == nil && cerr != nil {
		err = cerr
	}
	if err != nil {
		return 0, err
	}
	return pid, order(talk, p, ready)
}

// order tells a program what it is and hears what became of it.
func order(talk io.ReadWriter, p Program, ready func() error) error {
	if err := json.NewEncoder(talk).Encode(p); err != nil {
		return fmt.Errorf("telling the program: %w", err)
	}
	answers := json.NewDecoder(talk)
	var r report
	if err := answers.Decode(&r); err != nil {
		return fmt.Errorf("the program doesn't answer: %w", err)
	}
	if err := r.err(); err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err // it ends when the conversation does
	}
	if _, err := talk.Write([]byte(goAhead)); err != nil {
		return fmt.Errorf("the program has gone: %w", err)
	}
	// The descriptor is closed when it becomes the command, and says nothing then.
	err := answers.Decode(&r)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the program doesn't answer: %w", err)
	}
	return r.err()
}
