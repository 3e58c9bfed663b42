package record

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// The gate keeps the command from beginning before the runtime has settled that
// the container runs. When the caller of a container's start dies, the runtime gives
// the start up and kills what it has begun; behind a closed gate that is
// croft-init alone, and the container can be made anew.

// gateFile, in Dir, is made by the host to open the gate.
const gateFile = "go"

// OpenGate lets the command begin. An open gate is no error; dir is as seen from
// the host.
func OpenGate(dir string) error {
	_, err := create(dir, gateFile)
	return err
}

// create makes an empty file and reports whether it wasn't there.
func create(dir, name string) (bool, error) {
	f, err := os.OpenFile(dir+"/"+name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// A command without a terminal that waits for somebody to attach begins once Attached
// has come through its input. Whether that will come, or croft-init has waited for long
// enough, is for whoever takes the turn first to say: the byte must not reach the command.

// Attached is the byte.
const Attached = 6

// turnFile, in Dir, is made by who takes the turn.
const turnFile = "attached"

// TakeTurn reports whether the caller is the first to.
func TakeTurn(dir string) (bool, error) { return create(dir, turnFile) }

// LeaveTurn gives it back.
func LeaveTurn(dir string) error { return os.Remove(dir + "/" + turnFile) }

// WaitGate returns once the gate of dir is open, at once if there is no dir.
func WaitGate(dir string) error {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if _, err := syscall.InotifyAddWatch(fd, dir, syscall.IN_CREATE); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	// Looked for after the watch began, so that none is missed.
	for buf := make([]byte, 4096); ; {
		_, err := os.Lstat(dir + "/" + gateFile)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, err := syscall.Read(fd, buf); err != nil && err != syscall.EINTR {
			return err
		}
	}
}
