package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"

	"croft.dev/croft/internal/engine/record"
)

// winsize is struct winsize of ioctl_tty(2).
type winsize struct{ rows, cols, x, y uint16 }

// terminalSize is the size of the terminal that standard input is, if it is one.
func terminalSize() (winsize, bool) {
	var w winsize
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&w)))
	return w, errno == 0
}

// awaitAttach returns once somebody is attached, so that what the program writes is
// seen from the first byte on, or after patience.
func awaitAttach(dir string, patience time.Duration) {
	if _, ok := terminalSize(); ok {
		awaitTerminal(patience)
	} else {
		awaitInput(dir, patience)
	}
}

// awaitTerminal waits until the terminal has a size: it gets it from the first who
// attaches.
func awaitTerminal(patience time.Duration) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	late := time.After(patience)
	for {
		if w, ok := terminalSize(); !ok || w.cols > 0 {
			return
		}
		select {
		case <-changed:
		case <-late:
			return
		}
	}
}

// promised is how long to wait for a byte that the host has said will come.
const promised = 5 * time.Minute

// awaitInput waits for the byte that the host sends before somebody's input.
func awaitInput(dir string, patience time.Duration) {
	if !readable(patience) {
		if mine, err := record.TakeTurn(dir); mine || err != nil || !readable(promised) {
			return
		}
	}
	for {
		if _, err := syscall.Read(0, make([]byte, 1)); err != syscall.EINTR {
			return
		}
	}
}

// readable waits until there is something to read from standard input, or its end.
func readable(patience time.Duration) bool {
	for end := time.Now().Add(patience); ; {
		left := syscall.NsecToTimeval(max(time.Until(end), 0).Nanoseconds())
		n, err := syscall.Select(1, &syscall.FdSet{Bits: [16]int64{1}}, nil, nil, &left)
		if err != syscall.EINTR {
			return n > 0
		}
	}
}
