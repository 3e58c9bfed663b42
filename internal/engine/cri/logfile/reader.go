package logfile

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/logfile/rotation"
)

// Ended tells a follower whether the container has exited, so that no more will
// be written, and is closed or gets a value when that changes.
type Ended interface {
	// Done is closed once the container has exited.
	Done() <-chan struct{}
}

// maxRecord bounds the memory for one record in bytes; the runtime cuts long
// lines at 16 KiB. What is longer is handed on in pieces.
const maxRecord = 256 << 10

// poll is the longest time between a write and its delivery where the file
// can't be watched, and the time given to whoever writes it for the last lines
// where it isn't known when he has closed it.
const poll = 25 * time.Millisecond

// lastWrites is the time that is given where that is known.
const lastWrites = 2 * time.Second

// Read writes the log at path, the rotated files before it included, to w. With
// Follow it goes on until ended says so and everything is read, or ctx ends. A
// log that doesn't exist (yet) is an empty one.
func Read(ctx context.Context, path string, opts engine.LogOptions, ended Ended, w engine.LogWriter) error {
	r := &reader{path: path, since: opts.Since, w: w}
	start, err := r.begin(opts.Tail)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.open(start.file, start.offset); err != nil {
		return err
	}
	if !opts.Follow {
		if err := r.readAll(ctx); err != nil {
			return err
		}
		return r.w.Flush()
	}
	return r.follow(ctx, ended)
}

// reader is at one place of one file of a log.
type reader struct {
	path    string
	since   time.Time
	w       engine.LogWriter
	file    *os.File
	in      *bufio.Reader
	pending []byte // of a record whose newline isn't written yet
	started bool   // something as late as since was seen
}

func (r *reader) close() {
	if r.file != nil {
		r.file.Close()
	}
}

// open goes to offset in name; a missing file leaves the reader without one.
func (r *reader) open(name string, offset int64) error {
	r.close()
	r.file, r.pending = nil, nil
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		f.Close()
		return err
	}
	r.file = f
	r.in = bufio.NewReaderSize(f, 64<<10)
	return nil
}

// readAll reads to the end of the newest file.
func (r *reader) readAll(ctx context.Context) error {
	for {
		if err := r.drain(ctx); err != nil {
			return err
		}
		next, err := r.next()
		if err != nil || next == "" {
			return err
		}
		if err := r.finish(ctx); err != nil {
			return err
		}
		if err := r.open(next, 0); err != nil {
			return err
		}
	}
}

func (r *reader) follow(ctx context.Context, ended Ended) error {
	wake, stop := watch(r.path)
	defer stop()
	timer := time.NewTimer(poll)
	defer timer.Stop()
	done := ended.Done()
	last := false // the container had exited before the read that follows
	for {
		if err := r.readAll(ctx); err != nil {
			return err
		}
		if last {
			return errors.Join(r.flush(), r.w.Flush())
		}
		if err := r.w.Flush(); err != nil {
			return err
		}
		// Where lines come one by one, this is what makes a few of them a piece.
		if err := pause(ctx, rest); err != nil {
			return err
		}
		timer.Reset(r.pause(wake))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			done = nil
			if err := r.settle(ctx); err != nil {
				return err
			}
			last = true
		case <-wake:
		case <-timer.C:
		}
	}
}

// pause is how long to wait for a wake-up: rotation moves the file away from
// under the watch, so that even a watched log is looked at now and then.
func (r *reader) pause(wake <-chan struct{}) time.Duration {
	if wake == nil {
		return poll
	}
	return 20 * poll
}

// finish reads the rest of a file that has a successor. The runtime may still
// write what it had in hand to the old one when the new one appears.
func (r *reader) finish(ctx context.Context) error {
	if r.file == nil {
		return nil
	}
	st, err := r.file.Stat()
	if err != nil || time.Since(st.ModTime()) > time.Second {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	return r.drain(ctx)
}

// rest is the time between two looks at a file that grows.
const rest = 2 * time.Millisecond

// settle gives the runtime time for its last writes: it declares the container exited a
// moment before the last line is in the file.
func (r *reader) settle(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < lastWrites; {
		done, known := false, false
		if r.file != nil {
			done, known = written(r.file)
		}
		switch {
		case done:
			return nil
		case !known:
			return pause(ctx, poll)
		}
		if err := pause(ctx, rest); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// drain reads to the end of the open file.
func (r *reader) drain(ctx context.Context) error {
	if r.file == nil {
		return nil
	}
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		chunk, err := r.in.ReadSlice('\n')
		if err == nil && len(r.pending) == 0 {
			if err := r.deliver(chunk[:len(chunk)-1]); err != nil {
				return err
			}
			continue
		}
		r.pending = append(r.pending, chunk...)
		switch {
		case err == nil, len(r.pending) > maxRecord:
			line := r.pending
			if err == nil {
				line = line[:len(line)-1]
			}
			r.pending = r.pending[:0]
			if err := r.deliver(line); err != nil {
				return err
			}
		case errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// flush hands on a last record without newline: the runtime died writing it.
func (r *reader) flush() error {
	if len(r.pending) == 0 {
		return nil
	}
	line := r.pending
	r.pending = nil
	return r.deliver(line)
}

// deliver hands one record on. A line that isn't one (a torn write after a full
// disk) is dropped: its time and stream are unknown.
func (r *reader) deliver(line []byte) error {
	rec, err := Parse(line)
	if err != nil {
		return nil
	}
	if !r.started && rec.At.Before(r.since) {
		return nil
	}
	r.started = true
	if rec.Partial {
		return r.w.WriteLog(rec.At, rec.Stream, rec.Text)
	}
	// Parse's text ends where the newline was, which is free to be put back only
	// in a copy: the buffer's next byte belongs to the next record.
	text := make([]byte, len(rec.Text)+1)
	copy(text, rec.Text)
	text[len(rec.Text)] = '\n'
	return r.w.WriteLog(rec.At, rec.Stream, text)
}

// next returns the file after the one that is open, or "" when that is the
// newest. The open one is known by its inode, since rotation renames it.
func (r *reader) next() (string, error) {
	const looks = 10 // one that somebody has moved away isn't looked for for ever
	for n := 1; ; n++ {
		next, again, err := r.after()
		if !again || err != nil || n == looks {
			return next, err
		}
	}
}

// after is next by one look at the directory, or again where the open file has got
// another name in the meantime.
func (r *reader) after() (next string, again bool, err error) {
	files, err := rotation.Files(r.path)
	if err != nil || len(files) == 0 {
		return "", false, err
	}
	if r.file == nil {
		return files[0], false, nil
	}
	open, err := r.file.Stat()
	if err != nil {
		return "", false, err
	}
	for i, name := range files {
		st, err := os.Stat(name)
		if err != nil || !os.SameFile(open, st) {
			continue
		}
		if i+1 == len(files) {
			return "", false, nil
		}
		return files[i+1], false, nil
	}
	if st, ok := open.Sys().(*syscall.Stat_t); ok && st.Nlink > 0 {
		return files[0], true, nil
	}
	// Rotated out of existence while it was read.
	return files[0], false, nil
}
