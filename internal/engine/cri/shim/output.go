package shim

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine/cri/logfile/rotation"
)

// output writes what a program prints to its log. Only root can open that, so that neither
// the user nor a file server that doesn't know root has a part in it.
type output struct {
	log    Log
	copies sync.WaitGroup
	pipes  []*os.File

	mu   sync.Mutex
	file *os.File
	size int64
}

// openOutput opens the log, so that a step whose log can't be written doesn't begin.
func openOutput(log Log) (*output, error) {
	o := &output{log: log}
	return o, o.open()
}

func (o *output) open() error {
	file, err := os.OpenFile(o.log.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o640)
	if err != nil {
		return err
	}
	st, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	o.file, o.size = file, st.Size()
	return nil
}

// pipe returns the end that a program writes a stream into.
func (o *output) pipe(stream string) (*os.File, error) {
	// Only this end doesn't block: a program must not be told to try again.
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, err
	}
	r, w := os.NewFile(uintptr(fds[0]), stream), os.NewFile(uintptr(fds[1]), stream)
	o.pipes = append(o.pipes, r)
	o.copies.Go(func() { o.copy(stream, r) })
	return w, nil
}

// rest is how long the last of the output may take when no process is left that could
// write it: somebody else may have been handed the pipe, and keep it.
const rest = 250 * time.Millisecond

// finish writes what is left and closes the log.
func (o *output) finish() {
	for _, r := range o.pipes {
		_ = r.SetReadDeadline(time.Now().Add(rest)) // else it would be for ever
	}
	o.copies.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		o.file.Close()
	}
}

// Sizes in bytes: a record is cut at maxLine, as runtimes do.
const (
	chunk   = 32 << 10
	maxLine = 16 << 10
)

// copy writes a stream as records until it ends.
func (o *output) copy(stream string, r *os.File) {
	defer r.Close()
	l := lines{stream: stream}
	buf := make([]byte, chunk)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			o.write(l.add(time.Now(), buf[:n]))
		}
		if err != nil {
			o.write(l.last(time.Now()))
			return
		}
	}
}

// write appends records. What can't be written is lost, and the program isn't held up: a
// full disk is nothing that it could mend.
func (o *output) write(records []byte) {
	if len(records) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil && o.open() != nil {
		return
	}
	n, err := o.file.Write(records)
	o.size += int64(n)
	if err != nil && n > 0 {
		_, _ = io.WriteString(o.file, "\n") // so that the next record isn't torn as well
	}
	if o.size < o.log.Max {
		return
	}
	if done, err := rotation.Rotate(o.log.Path, o.log.Max, time.Now()); err != nil || !done {
		return // tried again with the next record
	}
	o.file.Close()
	o.file = nil
	_ = rotation.Prune(o.log.Path, o.log.Keep) // likewise
}

// lines turns a stream into records of the CRI's log format, see logfile.
type lines struct {
	stream string
	open   []byte // the beginning of a line
}

// add returns the records of the lines that end in data, and of what is too long to wait
// for its end.
func (l *lines) add(at time.Time, data []byte) (records []byte) {
	for len(data) > 0 {
		line, after, ended := bytes.Cut(data, []byte{'\n'})
		if room := maxLine - len(l.open); len(line) > room {
			l.open = append(l.open, line[:room]...)
			records = l.record(records, at, "P")
			data = data[room:]
			continue
		}
		l.open = append(l.open, line...)
		data = after
		if ended {
			records = l.record(records, at, "F")
		}
	}
	return records
}

// last returns the record of a line that has no end.
func (l *lines) last(at time.Time) []byte {
	if len(l.open) == 0 {
		return nil
	}
	return l.record(nil, at, "P")
}

func (l *lines) record(records []byte, at time.Time, tag string) []byte {
	records = at.UTC().AppendFormat(records, time.RFC3339Nano)
	for _, part := range []string{" ", l.stream, " ", tag, " "} {
		records = append(records, part...)
	}
	records = append(append(records, l.open...), '\n')
	l.open = l.open[:0]
	return records
}
