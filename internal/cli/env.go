package cli

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	v1 "croft.dev/croft/api/v1"
)

// Env is all that a command takes from its surroundings.
type Env struct {
	Args   []string // the program's name first
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	// Environ is all that Getenv knows, as NAME=VALUE.
	Environ func() []string
	UID     int
	Dir     string // working directory
	Host    string // the machine's name
	Now     func() time.Time
	Zone    *time.Location // the viewer's
	Term    Terminal
	// Signals delivers the given signals until stop is called.
	Signals func(sigs ...os.Signal) (c <-chan os.Signal, stop func())
	// Program finds a program that belongs to this one.
	Program func(name string) (string, error)
	// Browser has the user's browser open an address.
	Browser func(url string) error
	// Own tells whether the other end of a connection on loopback is the user's own.
	Own func(remote, local string) bool
	// Exec replaces this process; it returns only on failure.
	Exec func(path string, args []string) error
}

// Terminal says which streams are a terminal, and drives it.
type Terminal struct {
	In, Out, Err bool
	Size         func() (v1.TerminalSize, bool)
	// Secret reads a line without showing it.
	Secret func() (string, error)
	// Raw hands every key to the program until restore is called.
	Raw func() (restore func(), err error)
}

// System returns the surroundings of the running process.
func System() Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "" // removed under us; only -v and discovery need it
	}
	host, err := os.Hostname()
	if err != nil {
		host = "" // only the list of sessions says it
	}
	return Env{
		Args:    os.Args,
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Getenv:  os.Getenv,
		Environ: os.Environ,
		UID:     os.Getuid(),
		Dir:     dir,
		Host:    host,
		Now:     time.Now,
		Zone:    time.Local,
		Term:    systemTerminal(),
		Signals: notify,
		Program: findProgram,
		Browser: startBrowser,
		Own:     ownConnection,
		Exec: func(path string, args []string) error {
			return syscall.Exec(path, args, os.Environ())
		},
	}
}

func systemTerminal() Terminal {
	in, out := int(os.Stdin.Fd()), int(os.Stdout.Fd())
	return Terminal{
		In:  term.IsTerminal(in),
		Out: term.IsTerminal(out),
		Err: term.IsTerminal(int(os.Stderr.Fd())),
		Size: func() (v1.TerminalSize, bool) {
			cols, rows, err := term.GetSize(out)
			return v1.TerminalSize{Cols: cols, Rows: rows}, err == nil && cols > 0
		},
		Secret: func() (string, error) { return readSecret(in) },
		Raw: func() (func(), error) {
			state, err := term.MakeRaw(in)
			if err != nil {
				return nil, err
			}
			return func() { _ = term.Restore(in, state) }, nil
		},
	}
}

// readSecret turns the terminal's echo off while it reads a line. Ended in the
// middle of it, the program must not leave the terminal like that.
func readSecret(in int) (string, error) {
	before, err := term.GetState(in)
	if err != nil {
		return "", err
	}
	c, stop := notify(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	defer close(done)
	defer stop()
	go func() {
		select {
		case <-c:
			_ = term.Restore(in, before)
			os.Exit(exitInterrupted)
		case <-done:
		}
	}()
	b, err := term.ReadPassword(in)
	return string(b), err
}

func notify(sigs ...os.Signal) (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, sigs...)
	return c, func() { signal.Stop(c) }
}

// findProgram looks next to this program first, so that a build in a checkout
// runs its own server and not an installed one.
func findProgram(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if p, err := exec.LookPath(siblingPath(self, name)); err == nil {
			return p, nil
		}
	}
	return exec.LookPath(name)
}
