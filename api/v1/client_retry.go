package v1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"syscall"
	"time"

	"croft.dev/croft/api/v1/codes"
)

// NoAnswer is the error of a call that the server gave no answer to.
type NoAnswer struct {
	// Problem is the same in the form of every other error; its Status is 0.
	Problem *Problem
	// Cause is the transport's own error.
	Cause error
	// Sent says that the server may have carried out the call: the connection
	// was made and then lost. Repeat such a call only if it is idempotent.
	Sent bool
}

func (e *NoAnswer) Error() string { return e.Problem.Error() }

// Unwrap makes errors.As find the Problem and errors.Is the cause.
func (e *NoAnswer) Unwrap() []error { return []error{e.Problem, e.Cause} }

func (c *Client) noAnswer(err error, sent bool) *NoAnswer {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the rest of its text is an address made up for the socket
	}
	detail := fmt.Sprintf("no answer from the croft server at %s: %v", c.server, err)
	switch {
	case errors.Is(err, fs.ErrPermission):
		detail = fmt.Sprintf("you may not open %s: ask who runs the croft server to let you in", c.server)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		detail = fmt.Sprintf("croft server isn't running at %s: start it with `croft server`", c.server)
	case sent:
		detail = fmt.Sprintf("the croft server at %s went away before it answered", c.server)
	}
	return &NoAnswer{
		Problem: &Problem{Title: "No answer", Code: string(codes.Unavailable), Detail: detail},
		Cause:   err,
		Sent:    sent,
	}
}

// isDial tells that no connection was made, so that nothing was sent.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// isCut tells that a connection ended in the middle of an answer.
func isCut(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.As(err, &op)
}

// Transient tells whether the same call may succeed soon: the server is starting
// again, or said itself that it can't answer now.
func Transient(err error) bool {
	var n *NoAnswer
	if errors.As(err, &n) {
		return !errors.Is(n.Cause, fs.ErrPermission)
	}
	code := CodeOf(err)
	return code == codes.Unavailable || code == codes.TooMany
}

// Retry calls do until it succeeds, fails for good, or has failed in a row with
// transient errors for longer than window. Its pauses grow from 50 ms to 2 s.
func Retry(ctx context.Context, window time.Duration, do func() error) error {
	r := retrier{window: window}
	for {
		err := do()
		if err = r.next(ctx, err); err != errAgain {
			return err
		}
	}
}

// errAgain is next's answer when the call is to be made again.
var errAgain = errors.New("again")

// retrier keeps count of failures in a row.
type retrier struct {
	window time.Duration
	since  time.Time // of the first failure; zero after a success
	pause  time.Duration
}

func (r *retrier) ok() { r.since, r.pause = time.Time{}, 0 }

// next sleeps and returns errAgain when the call that ended in err is worth
// repeating; else it returns err.
func (r *retrier) next(ctx context.Context, err error) error {
	if err == nil || !Transient(err) {
		r.ok()
		return err
	}
	now := time.Now()
	if r.since.IsZero() {
		r.since = now
	}
	if now.Sub(r.since) >= r.window {
		return err
	}
	r.pause = min(max(2*r.pause, 50*time.Millisecond), 2*time.Second)
	if err := sleep(ctx, r.pause); err != nil {
		return err
	}
	return errAgain
}

// sleep sleeps for d, or returns the context's error when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
