package people

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Command runs a program and returns its standard output and exit code. The error
// says that it couldn't be run to its end or wrote too much; a code other than 0
// is none. It ends the program when ctx ends.
type Command func(ctx context.Context, name string, args ...string) (out string, code int, err error)

// Exit codes of getent(1).
const (
	getentOK       = 0
	getentNoUse    = 1 // unknown database, or arguments missing
	getentNotFound = 2
	getentNoEnum   = 3
)

// ask puts q to the machine.
func (d *Directory) ask(ctx context.Context, q query) (text string, found bool, err error) {
	args := []string{q.database}
	if q.key != "" {
		args = append(args, q.key)
	}
	out, code, err := d.cfg.Run(ctx, "getent", args...)
	if q.database == "initgroups" && (err == nil && code == getentNoUse || errors.Is(err, exec.ErrNotFound)) {
		// Not every C library's getent has this one.
		out, code, err = d.cfg.Run(ctx, "id", "-G", q.key)
	}
	switch {
	case err != nil:
		return "", false, err
	case code == getentOK || q.key == "" && (code == getentNotFound || code == getentNoEnum):
		return out, true, nil
	case code == getentNotFound:
		return "", false, nil
	}
	return "", false, fmt.Errorf("exit code %d", code)
}

// maxOutput bounds what a command may write: the largest site's list of users.
const maxOutput = 32 << 20

// run is the Command of this machine. A process that hangs in the kernel, on a
// dead NFS server say, isn't ended even by SIGKILL; then it returns late.
func run(ctx context.Context, name string, args ...string) (string, int, error) {
	out := &bounded{left: maxOutput}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	cmd.Stdout = out
	cmd.WaitDelay = 500 * time.Millisecond
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", 0, errNoAnswer
	case out.left < 0: // what the program made of it doesn't matter
		return "", 0, errTooMuch
	case errors.As(err, &exit) && exit.Exited():
		return out.text.String(), exit.ExitCode(), nil
	case err != nil:
		return "", 0, err
	}
	return strings.ToValidUTF8(out.text.String(), "?"), 0, nil
}

// bounded is a buffer that refuses more than its bound.
type bounded struct {
	text bytes.Buffer // not embedded: its ReadFrom would go round the bound
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooMuch
	}
	return b.text.Write(p)
}
