package kube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"croft.dev/croft/internal/engine"
)

// logPath is where the log of a step is kept whose Pod has gone: the last part of it there, and
// what of it came before in a file beside it.
func (e *Engine) logPath(id engine.StepID) string {
	return filepath.Join(e.cfg.LogDir, string(id.Attempt), strconv.Itoa(id.N)+".log")
}

const (
	before = ".before" // a file that is full
	part   = ".part"   // one that isn't complete
)

// archive keeps the logs of a Pod that is to go.
func (e *Engine) archive(ctx context.Context, p *corev1.Pod) error {
	for _, s := range statuses(p, e) {
		path := e.logPath(s.ID())
		if _, err := os.Stat(path); err == nil {
			continue
		}
		k, err := newKeeper(path, e.cfg.LogMax)
		if err != nil {
			return fmt.Errorf("kube: %w", err)
		}
		err = e.keep(ctx, p, s, k)
		if cerr := k.close(); err == nil && cerr != nil {
			err = fmt.Errorf("kube: %w", cerr)
		}
		if err != nil {
			return err
		}
		if err := os.Rename(path+part, path); err != nil {
			return fmt.Errorf("kube: %w", err)
		}
	}
	return nil
}

// logPatience is how long a log is tried to be had of a node that doesn't give it.
const logPatience = time.Hour

// keep has a step's log written. What can't be had is tried again for as long as its node may
// come back; what can't be had any more is said in the log.
func (e *Engine) keep(ctx context.Context, p *corev1.Pod, s engine.Status, k *keeper) error {
	_, there := e.node(s.Node)
	var err error
	switch lost := e.lost(s.Node); {
	case lost && !made(p, s.Step): // nothing ran
		return nil
	case lost: // asking would only take until that has shown itself
		err = &engine.UnavailableError{Cause: errors.New("nothing is heard of the node " + s.Node + ", which has the log")}
	default:
		err = e.past(ctx, p, s.Step, engine.LogOptions{Tail: -1}, k)
	}
	late := time.Since(latest(s.Finished, e.since)) > logPatience
	switch none := new(engine.NotFoundError); {
	case err == nil || k.err != nil || ctx.Err() != nil:
		return err
	case there && !late && !errors.As(err, &none):
		return err
	}
	e.log.Warn("a log is lost with its node", "step", s.ID().String(), "node", s.Node, "error", err)
	return k.WriteLog(latest(s.Finished, k.last), engine.Stderr, []byte("croft: what follows of this log is lost: its node doesn't give it any more\n"))
}

// made reports whether a step has had a container, as far as its node has said.
func made(p *corev1.Pod, n int) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses), func(c corev1.ContainerStatus) bool {
		return c.Name == containerName(n) && c.ContainerID != ""
	})
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// keeper writes a log to files: each piece of a line with its time and stream before it. There
// are two at most, of which each has half of what is kept; what was before the first is gone,
// which that says in its first line.
type keeper struct {
	path string
	max  int64 // bytes of a file

	f    *os.File
	w    *bufio.Writer
	size int64
	last time.Time // of what was written last
	err  error     // of a file
}

// newKeeper begins a log anew.
func newKeeper(path string, most int64) (*keeper, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	if err := os.Remove(path + before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	k := &keeper{path: path, max: most / 2}
	return k, k.create()
}

func (k *keeper) create() (err error) {
	k.size = 0
	if k.f, err = os.OpenFile(k.path+part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640); err == nil {
		k.w = bufio.NewWriter(k.f)
	}
	return err
}

// cut is the stream of the line that says so.
const cut engine.Stream = "cut"

// WriteLog implements engine.LogWriter.
func (k *keeper) WriteLog(at time.Time, stream engine.Stream, data []byte) error {
	if k.err == nil && k.size >= k.max {
		if k.err = k.turn(); k.err == nil {
			k.write(at, cut, []byte("croft: what was before this isn't kept: the log is too long\n"))
		}
	}
	k.write(at, stream, data)
	return k.err
}

func (k *keeper) write(at time.Time, stream engine.Stream, data []byte) {
	if k.err != nil {
		return
	}
	end := ""
	if !bytes.HasSuffix(data, []byte("\n")) {
		end = "\x00\n"
	}
	var n int
	n, k.err = fmt.Fprintf(k.w, "%s %s %s%s", at.UTC().Format(time.RFC3339Nano), stream, data, end)
	k.size += int64(n)
	k.last = latest(k.last, at)
}

// turn goes on with a new file.
func (k *keeper) turn() error {
	if err := k.close(); err != nil {
		return err
	}
	if err := os.Rename(k.path+part, k.path+before); err != nil {
		return err
	}
	return k.create()
}

// Flush implements engine.LogWriter.
func (k *keeper) Flush() error { return k.w.Flush() }

func (k *keeper) close() error { return errors.Join(k.w.Flush(), k.f.Close()) }

// kept reads the log of a Pod that is gone.
func (e *Engine) kept(ctx context.Context, id engine.StepID, opts engine.LogOptions, w engine.LogWriter) error {
	if !attemptName.MatchString(string(id.Attempt)) {
		return &engine.NotFoundError{Attempt: id.Attempt}
	}
	path := e.logPath(id)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &engine.NotFoundError{Attempt: id.Attempt}
	}
	if opts.Tail >= 0 {
		w = &lastLines{LogWriter: w, n: opts.Tail}
	}
	d := decoder{since: opts.Since, w: w}
	for _, path := range []string{path + before, path} {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = d.read(ctx, f)
			_ = f.Close() // it was only read
		}
		if err != nil {
			return err
		}
	}
	return w.Flush()
}

// decoder reads what a keeper has written.
type decoder struct {
	since  time.Time
	w      engine.LogWriter
	begun  bool
	stream engine.Stream
}

// maxPrefix is what is before a piece and after it, at most.
const maxPrefix = 128

func (d *decoder) read(ctx context.Context, f *os.File) error {
	s := source{in: bufio.NewReaderSize(f, maxPiece+maxPrefix)}
	for {
		x, more, err := s.next()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !more {
			return err
		}
		if !x.more {
			stream, text, _ := bytes.Cut(x.text, []byte(" "))
			d.stream, x.text = engine.Stream(stream), text
		}
		x.text, _ = bytes.CutSuffix(x.text, []byte("\x00\n"))
		first := !d.begun
		d.begun = true
		switch {
		case x.at.Before(d.since):
			continue
		case d.stream == cut && !first:
			continue
		case d.stream == cut:
			d.stream = engine.Stderr
		}
		if err := d.w.WriteLog(x.at, d.stream, x.text); err != nil {
			return err
		}
	}
}
