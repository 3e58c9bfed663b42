package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// logType is the content type of a log: frames as v1.LogReader reads them.
const logType = "application/vnd.croft.log"

// logRequest is which part of which log is wanted.
type logRequest struct {
	engine.LogOptions
	attempt int32 // 0: all of them
}

func (c *call) logRequest() (logRequest, error) {
	q := c.r.URL.Query()
	req := logRequest{LogOptions: engine.LogOptions{Tail: -1}}
	var err error
	if req.Follow, err = truth(q.Get("follow"), "follow"); err != nil {
		return req, err
	}
	if text := q.Get("tail"); text != "" {
		n, err := number(text, "tail")
		if err != nil || n > 1<<31-1 {
			return req, fault.Invalid("tail", "must be a number of lines")
		}
		req.Tail = int(n)
	}
	if text := q.Get("since"); text != "" {
		if req.Since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return req, fault.Invalid("since", "must be a time such as 2026-11-30T12:00:00Z")
		}
	}
	n, err := number(q.Get("attempt"), "attempt")
	if err != nil {
		return req, fault.Invalid("attempt", "must be the number of an attempt, from 1")
	}
	req.attempt = int32(min(n, math.MaxInt32)) // more than any job has had
	return req, nil
}

// logs streams a job's log. Without an attempt named it goes through all of them;
// following, until the job has ended and its log is complete.
func (c *call) logs() error {
	req, err := c.logRequest()
	if err != nil {
		return err
	}
	if n, err := c.stepParam(); err != nil {
		return err
	} else if n != workload.PrimaryStep {
		return c.stepLogs(req, n)
	}
	name := c.path("id")
	if _, refused := id.ParseRefusal(name); refused {
		if _, err := c.Reader.Job(c.r.Context(), c.p, name); err != nil {
			return err
		}
		return fault.New(codes.Conflict, "%s was refused: it never ran, so there is no log", strings.ToUpper(name))
	}
	j, err := c.Reader.Find(c.r.Context(), c.p, name, access.JobRead)
	if err != nil {
		return err
	}
	if req.attempt > j.Attempt.N && (!req.Follow || j.State == workload.Ended || req.attempt > workload.MaxRequeues+1) {
		return fault.New(codes.NotFound, "job %d has no attempt %d", j.ID, req.attempt)
	}
	ctx, stop, err := c.long(basis{action: access.JobRead, user: j.User, in: j.Account})
	if err != nil {
		return err
	}
	defer stop()
	s := &logStream{call: c, name: name, req: req, out: &frames{w: c.w, follow: req.Follow}}
	if err := s.run(ctx, j); err != nil {
		if !s.out.has() {
			return err
		}
		return s.out.fail(c.problem(c.r, c.w.Header().Get(requestID), err))
	}
	return s.out.finish()
}

// logStream writes the log of a job's attempts, one after the other.
type logStream struct {
	*call
	name string
	req  logRequest
	out  *frames
}

// run begins with the first attempt, or the named one; where only last lines are
// wanted, with the newest.
func (s *logStream) run(ctx context.Context, j *workload.Job) error {
	n := s.req.attempt
	if n == 0 {
		n = 1
		if s.req.Tail >= 0 {
			n = max(j.Attempt.N, 1)
		}
	}
	for ; ; n++ {
		var there bool
		var err error
		if j, there, err = s.await(ctx, n); err != nil || !there {
			return err
		}
		if err := s.one(ctx, j, n); err != nil {
			return err
		}
		if s.req.attempt != 0 {
			return nil
		}
		s.req.Tail = -1 // of what follows everything is wanted
	}
}

// await looks for an attempt that has a log; following, it waits for it. It is not
// there when the job has ended without it.
func (s *logStream) await(ctx context.Context, n int32) (j *workload.Job, there bool, err error) {
	err = s.until(ctx, func() (bool, error) {
		var err error
		if j, err = s.Reader.Find(ctx, s.p, s.name, access.JobRead); err != nil {
			return false, err
		}
		begun := j.Attempt.N == n && j.State != workload.Starting
		there = j.Attempt.N > n || begun
		if !there && s.req.Follow {
			if err := s.out.begin(); err != nil {
				return false, err
			}
		}
		return there || j.State == workload.Ended || !s.req.Follow, nil
	})
	return j, there, err
}

func (s *logStream) one(ctx context.Context, j *workload.Job, n int32) error {
	step, err := s.primary(j, n)
	if err != nil {
		return err
	}
	err = s.Engine.Logs(ctx, step, s.req.LogOptions, s.out)
	if err == nil {
		err = s.out.Flush()
	}
	var gone *engine.NotFoundError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &gone):
		if ran(j, n) {
			return fault.New(codes.Gone, "the log of job %d, attempt %d, is no longer kept", j.ID, n)
		}
		return nil // it never came to a log
	case engine.IsUnavailable(err):
		return fault.New(codes.Unavailable, "the container runtime can't be asked for the log right now; try again")
	}
	return err
}

// ran reports whether the primary of attempt n ever began.
func ran(j *workload.Job, n int32) bool {
	a, ok := j.AttemptOf(n)
	return ok && a.Started != 0
}

// pieceSize is how much of a log is kept back for more to come, in bytes.
const pieceSize = 32 << 10

// frames writes a log in its wire form.
type frames struct {
	w      http.ResponseWriter
	follow bool // what there is doesn't wait in the server for more

	mu    sync.Mutex
	begun bool
	buf   []byte // frames that aren't written yet
}

var _ engine.LogWriter = (*frames)(nil)

// begin sends the head of the answer, once.
func (f *frames) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun {
		return nil
	}
	return f.send()
}

// Flush implements engine.LogWriter.
func (f *frames) Flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.buf) == 0 {
		return nil
	}
	return f.send()
}

// has reports whether there is anything of a log, sent or not.
func (f *frames) has() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun || len(f.buf) > 0
}

// finish sends what is left, and the head of the answer if there was nothing.
func (f *frames) finish() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun && len(f.buf) == 0 {
		return nil
	}
	return f.send()
}

// send writes what was kept back, after the head of the answer. f.mu is held.
func (f *frames) send() error {
	if !f.begun {
		f.begun = true
		f.w.Header().Set("Content-Type", logType)
		f.w.WriteHeader(http.StatusOK)
	}
	_, err := f.w.Write(f.buf)
	f.buf = f.buf[:0]
	if err != nil || !f.follow {
		return err
	}
	return http.NewResponseController(f.w).Flush()
}

// WriteLog implements engine.LogWriter.
func (f *frames) WriteLog(at time.Time, stream engine.Stream, data []byte) error {
	n := v1.Stdout
	if stream == engine.Stderr {
		n = v1.Stderr
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf = v1.AppendLogFrame(f.buf, v1.LogFrame{Stream: n, At: at, Data: data})
	if len(f.buf) < pieceSize {
		return nil
	}
	return f.send()
}

// fail ends a log that has begun with what went wrong.
func (f *frames) fail(p *v1.Problem) error {
	b, err := json.Marshal(p)
	if err != nil {
		return nil // a problem always marshals; the status is sent already
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf = v1.AppendLogFrame(f.buf, v1.LogFrame{Stream: v1.LogError, At: time.Unix(0, 0), Data: b})
	_ = f.send() // a reader that went away
	return nil
}
