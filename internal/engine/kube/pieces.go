package kube

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"

	"croft.dev/croft/internal/engine"
)

// piece is a line of a log with its newline, or a part of one that is long. Its text is valid
// until the next of its source is read.
type piece struct {
	at     time.Time
	stream engine.Stream
	text   []byte
	more   bool // it goes on with the line of the one before
}

// open reports whether the line goes on in the next piece, or has no newline.
func (p piece) open() bool { return !bytes.HasSuffix(p.text, []byte("\n")) }

// size is what it takes of the memory, about.
func (p piece) size() int { return len(p.text) + 64 }

// maxPiece bounds a piece, in bytes.
const maxPiece = 64 << 10

// source reads lines that begin with their times, in pieces.
type source struct {
	in     *bufio.Reader
	stream engine.Stream
	close  func()

	at     time.Time // of the line that was read last
	within bool      // that goes on
	ahead  *piece    // looked at, and not taken yet
}

func newSource(r io.Reader, stream engine.Stream, close func()) *source {
	return &source{in: bufio.NewReaderSize(r, maxPiece), stream: stream, close: close}
}

// next is the next piece; more is false if there is none.
func (s *source) next() (x piece, more bool, err error) {
	if x, more, err = s.look(); more {
		s.ahead = nil
	}
	return x, more, err
}

// look is next, and leaves it there.
func (s *source) look() (x piece, more bool, err error) {
	if s.ahead != nil {
		return *s.ahead, true, nil
	}
	text, err := s.in.ReadSlice('\n')
	switch {
	case len(text) > 0: // an error comes again
	case err == nil, errors.Is(err, io.EOF):
		return piece{}, false, nil
	default:
		return piece{}, false, &engine.UnavailableError{Cause: err}
	}
	x = piece{stream: s.stream, text: text, more: s.within}
	if !x.more {
		stamp, rest, _ := bytes.Cut(text, []byte(" "))
		if s.at, err = time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
			x.text = rest
		}
	}
	x.at, s.within = s.at, x.open()
	s.ahead = &x
	return x, true, nil
}

// merge takes lines of several sources by their times, each line in one go.
func merge(all []*source, each func(piece) error) error {
	for {
		var first *source
		var oldest piece
		for _, s := range all {
			x, more, err := s.look()
			if err != nil {
				return err
			}
			if more && (first == nil || x.at.Before(oldest.at)) {
				first, oldest = s, x
			}
		}
		if first == nil {
			return nil
		}
		for {
			x, more, err := first.next()
			if err != nil {
				return err
			}
			if !more {
				break
			}
			if err := each(x); err != nil {
				return err
			}
			if !x.open() {
				break
			}
		}
	}
}

// maxTail bounds what is held of the end of a log, in bytes.
const maxTail = 16 << 20

// lastLines writes the last n lines, as far as they are held, once it is flushed.
type lastLines struct {
	engine.LogWriter
	n     int
	held  []piece
	lines int // that have their newline
	size  int
}

// WriteLog implements engine.LogWriter.
func (l *lastLines) WriteLog(at time.Time, stream engine.Stream, data []byte) error {
	x := piece{at: at, stream: stream, text: bytes.Clone(data)}
	l.add(x, 1)
	l.held = append(l.held, x)
	for len(l.held) > 0 && (l.count() > l.n || l.size > maxTail) {
		l.add(l.held[0], -1)
		l.held[0] = piece{} // its text goes
		l.held = l.held[1:]
	}
	return nil
}

func (l *lastLines) add(x piece, by int) {
	l.size += by * x.size()
	if !x.open() {
		l.lines += by
	}
}

// count is how many lines are held, the last perhaps without its newline.
func (l *lastLines) count() int {
	if n := len(l.held); n > 0 && l.held[n-1].open() {
		return l.lines + 1
	}
	return l.lines
}

// Flush implements engine.LogWriter.
func (l *lastLines) Flush() error {
	for _, x := range l.held {
		if err := l.LogWriter.WriteLog(x.at, x.stream, x.text); err != nil {
			return err
		}
	}
	l.held, l.lines, l.size = nil, 0, 0
	return l.LogWriter.Flush()
}
