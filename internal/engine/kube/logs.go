package kube

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

// Logs implements engine.Engine: from the cluster while the Pod is there, and from what was
// kept when it went. It may go at any moment: then the rest comes from there.
func (e *Engine) Logs(ctx context.Context, id engine.StepID, opts engine.LogOptions, w engine.LogWriter) error {
	t := &tracked{LogWriter: w}
	err := e.liveLogs(ctx, id, opts, t)
	var none *engine.NotFoundError
	if !errors.As(err, &none) {
		return err
	}
	if !t.last.IsZero() {
		opts.Tail, opts.Since = -1, t.last.Add(1)
	}
	return e.kept(ctx, id, opts, w)
}

// tracked notes how far a log has been written.
type tracked struct {
	engine.LogWriter
	last time.Time
}

// WriteLog implements engine.LogWriter.
func (t *tracked) WriteLog(at time.Time, stream engine.Stream, data []byte) error {
	if at.After(t.last) {
		t.last = at
	}
	return t.LogWriter.WriteLog(at, stream, data)
}

// liveLogs reads from the cluster. A *NotFoundError says that the Pod isn't there, or not any
// more.
func (e *Engine) liveLogs(ctx context.Context, id engine.StepID, opts engine.LogOptions, w engine.LogWriter) error {
	p, s, err := e.find(ctx, id)
	if err != nil {
		return err
	}
	for opts.Follow && (s.Phase == engine.PhaseCreated || s.Phase == engine.PhaseUnknown) {
		if err := e.await(ctx, id, s.Phase); err != nil {
			return err
		}
		if p, s, err = e.find(ctx, id); err != nil {
			return err
		}
	}
	if s.Phase == engine.PhaseCreated || opts.Tail == 0 && !opts.Follow {
		return nil
	}
	opts.Follow = opts.Follow && s.Phase != engine.PhaseExited
	if err := e.read(ctx, p, id.N, opts, w); err != nil || !opts.Follow {
		return err
	}
	// The log's end is there before the step's is known.
	for s.Phase != engine.PhaseExited {
		if err := e.await(ctx, id, s.Phase); err != nil {
			return err
		}
		if _, s, err = e.find(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a step may be in another phase.
func (e *Engine) await(ctx context.Context, id engine.StepID, phase engine.Phase) error {
	watching, leave := context.WithCancel(ctx)
	defer leave()
	events := e.hub.subscribe(watching)
	if _, s, err := e.find(ctx, id); err != nil || s.Phase != phase {
		return err
	}
	for {
		select {
		case s := <-events:
			if s.ID() == id {
				return nil
			}
		case <-time.After(5 * time.Second): // an event may have been lost
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read reads a container's log, what is there and then, if it is to be followed, what comes.
func (e *Engine) read(ctx context.Context, p *corev1.Pod, n int, opts engine.LogOptions, w engine.LogWriter) error {
	there := opts
	there.Follow = false
	to := w
	if opts.Tail >= 0 {
		to = &lastLines{LogWriter: w, n: opts.Tail}
	}
	t := &tracked{LogWriter: to}
	if err := e.past(ctx, p, n, there, t); err != nil {
		return err
	}
	if err := to.Flush(); err != nil || !opts.Follow {
		return err
	}
	if opts.Tail = -1; !t.last.IsZero() {
		opts.Since = t.last.Add(1)
	}
	return e.follow(ctx, p, n, opts, w)
}

// streams are those in which a log comes.
func (e *Engine) streams() []engine.Stream {
	if e.split {
		return []engine.Stream{engine.Stdout, engine.Stderr}
	}
	return []engine.Stream{engine.Stdout}
}

// past writes what there is of a log, by its times.
func (e *Engine) past(ctx context.Context, p *corev1.Pod, n int, opts engine.LogOptions, w engine.LogWriter) error {
	var all []*source
	defer func() {
		for _, s := range all {
			s.close()
		}
	}()
	for _, stream := range e.streams() {
		s, err := e.open(ctx, p, n, stream, opts)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	return merge(all, func(x piece) error {
		if x.at.Before(opts.Since) {
			return nil
		}
		return w.WriteLog(x.at, x.stream, x.text)
	})
}

// follow hands on what comes, until all streams have ended.
func (e *Engine) follow(ctx context.Context, p *corev1.Pod, n int, opts engine.LogOptions, w engine.LogWriter) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		readers sync.WaitGroup
		streams = e.streams()
		errs    = make([]error, len(streams))
		came    = make(chan piece)
	)
	for i, stream := range streams {
		readers.Go(func() { errs[i] = e.send(ctx, p, n, stream, opts, came) })
	}
	go func() {
		readers.Wait()
		close(came)
	}()
	wait := apart
	if len(streams) == 1 {
		wait = 0
	}
	if err := inOrder(came, wait, w); err != nil {
		cancel()
		readers.Wait()
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// send sends what comes in a stream.
func (e *Engine) send(ctx context.Context, p *corev1.Pod, n int, stream engine.Stream, opts engine.LogOptions, came chan<- piece) error {
	s, err := e.open(ctx, p, n, stream, opts)
	if err != nil {
		return err
	}
	defer s.close()
	for {
		x, more, err := s.next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil || !more:
			return err
		case x.at.Before(opts.Since):
			continue
		}
		x.text = bytes.Clone(x.text) // it waits for others
		select {
		case came <- x:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// apart is by how much the streams of a log may come apart: so long a line waits for older ones.
const apart = 300 * time.Millisecond

// maxPending bounds what waits so, in bytes.
const maxPending = 4 << 20

// inOrder writes lines by their times, until no more come.
func inOrder(came <-chan piece, wait time.Duration, w engine.LogWriter) error {
	var pending []piece
	size := 0
	sorted := func() error {
		slices.SortStableFunc(pending, func(a, b piece) int { return a.at.Compare(b.at) })
		for _, x := range pending {
			if err := w.WriteLog(x.at, x.stream, x.text); err != nil {
				return err
			}
		}
		clear(pending)
		pending, size = pending[:0], 0
		return w.Flush()
	}
	due := time.NewTimer(wait)
	due.Stop()
	for {
		select {
		case x, more := <-came:
			if !more {
				return sorted()
			}
			if len(pending) == 0 {
				due.Reset(wait)
			}
			size += x.size()
			if pending = append(pending, x); wait > 0 && size < maxPending {
				continue
			}
		case <-due.C:
		}
		if err := sorted(); err != nil {
			return err
		}
	}
}

// open opens one stream of a container's log.
func (e *Engine) open(ctx context.Context, p *corev1.Pod, n int, stream engine.Stream, opts engine.LogOptions) (*source, error) {
	ask := &corev1.PodLogOptions{Container: containerName(n), Follow: opts.Follow, Timestamps: true}
	if opts.Tail >= 0 {
		ask.TailLines = ptr.To(int64(opts.Tail))
	}
	if !opts.Since.IsZero() {
		ask.SinceTime = ptr.To(metav1.NewTime(opts.Since)) // whole seconds
	}
	if e.split {
		ask.TailLines = nil // it isn't to be had of a single stream
		ask.Stream = ptr.To(map[engine.Stream]string{engine.Stdout: corev1.LogStreamStdout, engine.Stderr: corev1.LogStreamStderr}[stream])
	}
	reading, stop := context.WithCancel(ctx)
	late := time.AfterFunc(askTimeout, stop)
	if opts.Follow { // a program that says nothing gets no answer
		late.Stop()
	}
	r, err := e.api.CoreV1().Pods(p.Namespace).GetLogs(p.Name, ask).Stream(reading)
	late.Stop()
	if err == nil {
		end := func() {
			stop()
			_ = r.Close() // it was only read
		}
		if opts.Follow {
			return newSource(r, stream, end), nil
		}
		return newSource(&prompt{r, late}, stream, end), nil
	}
	stop()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case apierrors.IsNotFound(err):
		return nil, &engine.NotFoundError{Attempt: engine.AttemptID(p.Labels[labelAttempt])}
	case apierrors.IsBadRequest(err): // it waits to begin
		return newSource(bytes.NewReader(nil), stream, func() {}), nil
	}
	return nil, &engine.UnavailableError{Cause: err}
}

// prompt is a reader that is given up where nothing comes for some time.
type prompt struct {
	io.Reader
	late *time.Timer // gives it up
}

// Read implements io.Reader.
func (p *prompt) Read(b []byte) (int, error) {
	p.late.Reset(askTimeout)
	n, err := p.Reader.Read(b)
	if !p.late.Stop() {
		err = errors.New("the node sends nothing of the log any more")
	}
	return n, err
}
