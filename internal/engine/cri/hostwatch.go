package cri

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
)

// watchHosts publishes the changes of host steps until ctx ends; what it returns waits for
// that. Where the kernel can't watch, listings show them.
func (h *hub) watchHosts(ctx context.Context) (wait func()) {
	file, err := h.e.watchHostDir()
	if err != nil {
		h.e.log.Warn("programs on the machine can't be watched, their ends are seen later", "error", err)
		return func() {}
	}
	stop := context.AfterFunc(ctx, func() { file.Close() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer stop()
		buf := make([]byte, 16<<10)
		for {
			n, err := file.Read(buf)
			if err != nil {
				return // closed
			}
			for _, name := range eventNames(buf[:n]) {
				if st, ok := h.e.fromHostEvent(name); ok {
					h.publish(st)
				}
			}
		}
	}()
	return func() { <-done }
}

// watchHostDir has the kernel report what shims leave in their directory: a rename is a
// program's begin or end, and a file that was open for writing is closed by a shim's end.
func (e *Engine) watchHostDir() (*os.File, error) {
	if err := os.MkdirAll(e.hostDir(), 0o700); err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, e.hostDir(), unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	// Closing a file that doesn't block ends a Read.
	return os.NewFile(uintptr(fd), "inotify"), nil
}

// eventNames are the names of the files that inotify(7) reports in buf.
func eventNames(buf []byte) []string {
	var names []string
	const header = unix.SizeofInotifyEvent
	for len(buf) >= header {
		// The length is the last of four numbers of 32 bits.
		size := int(binary.NativeEndian.Uint32(buf[header-4:]))
		if size < 0 || len(buf) < header+size {
			break
		}
		names = append(names, unix.ByteSliceToString(buf[header:header+size]))
		buf = buf[header+size:]
	}
	return names
}

// fromHostEvent is the status of the step that a file belongs to, if the event says
// something new about it.
func (e *Engine) fromHostEvent(name string) (engine.Status, bool) {
	base := strings.TrimSuffix(name, filepath.Ext(name))
	id, ok := parseStepID(base)
	if !ok || !e.owns(id.Attempt) {
		return engine.Status{}, false
	}
	h, err := e.hostStep(id)
	if errors.Is(err, fs.ErrNotExist) || h.labels[labelInstance] != e.cfg.Instance {
		return engine.Status{}, false
	}
	if err == nil && strings.HasSuffix(name, ".shim") && h.Exit != nil {
		return engine.Status{}, false // the end was an event of its own
	}
	st, serr := e.hostStatus(id, h)
	if err := errors.Join(err, serr); err != nil {
		e.log.Warn("a program's state can't be read", "step", id.String(), "error", err)
		return engine.Status{}, false
	}
	return st, true
}
