// Package logfile reads, follows and rotates the log files that a container
// runtime writes in the CRI logging format:
//
//	2026-01-02T15:04:05.999999999Z stdout F text
//
// The tag F ends a line of the program's output, P says that the line goes on
// in the next record of the same stream. The format is described in
// https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md.
package logfile

import (
	"bytes"
	"errors"
	"time"

	"croft.dev/croft/internal/engine"
)

// Record is one line of a log file. Text is valid as long as the parsed bytes.
type Record struct {
	At      time.Time
	Stream  engine.Stream
	Partial bool
	Text    []byte
}

var errFormat = errors.New("logfile: not a CRI log record")

// Parse reads one record, given without its newline.
func Parse(line []byte) (Record, error) {
	stamp, rest, ok1 := bytes.Cut(line, []byte{' '})
	stream, rest, ok2 := bytes.Cut(rest, []byte{' '})
	tags, text, ok3 := bytes.Cut(rest, []byte{' '})
	if !ok1 || !ok2 {
		return Record{}, errFormat
	}
	if !ok3 {
		// An empty line, from a runtime that cuts trailing blanks.
		text = nil
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return Record{}, errFormat
	}
	r := Record{At: at, Stream: engine.Stream(stream), Text: text}
	if r.Stream != engine.Stdout && r.Stream != engine.Stderr {
		return Record{}, errFormat
	}
	// Tags are separated by colons; the first is the only one defined.
	tag, _, _ := bytes.Cut(tags, []byte{':'})
	switch string(tag) {
	case "P":
		r.Partial = true
	case "F":
	default:
		return Record{}, errFormat
	}
	return r, nil
}
