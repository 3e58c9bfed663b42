package v1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"croft.dev/croft/api/v1/codes"
)

// Bounds of one WebSocket message, in bytes.
const (
	maxEvent = 4 << 20
	maxExec  = 1 << 20
)

// dial opens a WebSocket on the same connections as every other call.
func (c *Client) dial(ctx context.Context, path string, query url.Values, limit int64) (*websocket.Conn, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	header := http.Header{}
	c.header(header)
	conn, resp, err := websocket.Dial(ctx, target, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: header})
	switch {
	case err == nil:
		conn.SetReadLimit(limit)
		return conn, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, problemOf(resp)
	}
	return nil, c.noAnswer(err, !isDial(err))
}

// closed turns what a WebSocket ended with into an error of this package: nil
// for a normal end.
func (c *Client) closed(ctx context.Context, err error) error {
	var ce websocket.CloseError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &ce):
		return c.noAnswer(err, true)
	case ce.Code == websocket.StatusNormalClosure:
		return nil
	case ce.Code == websocket.StatusGoingAway:
		return c.noAnswer(err, true)
	}
	return &Problem{Title: "Stream ended", Code: string(codes.Internal), Detail: fmt.Sprintf("the server ended the stream: %s", ce.Reason)}
}

// FollowEvents yields events as they happen, from after on. When the connection
// is lost it goes on where it stopped, for as long as window.
func (c *Client) FollowEvents(ctx context.Context, q EventQuery, window time.Duration) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := retrier{window: window}
		for {
			more, err := c.followEventsOnce(ctx, &q, &r, yield)
			if !more {
				return
			}
			if err = r.next(ctx, err); err != errAgain {
				if err != nil {
					yield(Event{}, err)
				}
				return
			}
		}
	}
}

func (c *Client) followEventsOnce(ctx context.Context, q *EventQuery, r *retrier, yield func(Event, error) bool) (bool, error) {
	conn, err := c.dial(ctx, "/v1/events/stream", EventQuery{After: q.After, Job: q.Job}.values(), maxEvent)
	if err != nil {
		return true, err
	}
	defer conn.CloseNow()
	for {
		_, b, err := conn.Read(ctx)
		if err != nil {
			return true, c.closed(ctx, err)
		}
		var e Event
		if err := json.Unmarshal(b, &e); err != nil {
			return true, &Problem{Title: "Unreadable event", Code: string(codes.Internal), Detail: "no event: " + err.Error()}
		}
		r.ok()
		q.After = max(q.After, e.Seq)
		if !yield(e, nil) {
			return false, nil
		}
	}
}

// Channels of an exec stream: the first byte of every message.
const (
	ExecStdin  byte = 0
	ExecStdout byte = 1
	ExecStderr byte = 2
	ExecExit   byte = 3 // an ExecResult as JSON; the last message
	ExecResize byte = 4 // a TerminalSize as JSON
	ExecEOF    byte = 5 // stdin has ended
)

// TerminalSize is in characters.
type TerminalSize struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// ExecResult is how a command in a job ended. Error says why there is no exit
// code.
type ExecResult struct {
	ExitCode int    `json:"exit_code"`
	Error    string `json:"error,omitempty"`
}

// ExecOptions says what to run in a job and where its streams go. A nil Stdin is
// an empty one; a nil Stdout or Stderr is thrown away.
type ExecOptions struct {
	Step   int // in which; 0 is the primary
	Args   []string
	TTY    bool
	Size   TerminalSize
	Resize <-chan TerminalSize
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Exec runs a command in a running job and returns its exit code. An error means
// that there is none.
func (c *Client) Exec(ctx context.Context, id string, opt ExecOptions) (int, error) {
	seg, err := segment("job", id)
	if err != nil {
		return 0, err
	}
	q := url.Values{"arg": opt.Args}
	if opt.Step != 0 {
		q.Set("step", strconv.Itoa(opt.Step))
	}
	if opt.TTY {
		q.Set("tty", "true")
		q.Set("cols", strconv.Itoa(opt.Size.Cols))
		q.Set("rows", strconv.Itoa(opt.Size.Rows))
	}
	conn, err := c.dial(ctx, "/v1/jobs/"+seg+"/exec", q, maxExec)
	if err != nil {
		return 0, err
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The input goes on its own; it isn't waited for, because a read from a
	// terminal can't be interrupted. Writes to a closed connection end it.
	go sendInput(ctx, conn, opt.Stdin)
	if opt.Resize != nil {
		go sendSizes(ctx, conn, opt.Resize)
	}
	return c.execOutput(ctx, conn, opt)
}

func (c *Client) execOutput(ctx context.Context, conn *websocket.Conn, opt ExecOptions) (int, error) {
	for {
		_, b, err := conn.Read(ctx)
		if err != nil {
			if err = c.closed(ctx, err); err == nil {
				err = &Problem{Title: "Stream ended", Code: string(codes.Internal), Detail: "the server ended the stream without the command's exit code"}
			}
			return 0, err
		}
		if len(b) == 0 {
			continue
		}
		switch b[0] {
		case ExecStdout:
			err = write(opt.Stdout, b[1:])
		case ExecStderr:
			err = write(opt.Stderr, b[1:])
		case ExecExit:
			return execResult(b[1:])
		}
		if err != nil {
			return 0, &Problem{Title: "Output lost", Code: string(codes.Internal), Detail: err.Error()}
		}
	}
}

func execResult(b []byte) (int, error) {
	var r ExecResult
	if err := json.Unmarshal(b, &r); err != nil {
		return 0, &Problem{Title: "Unreadable exit", Code: string(codes.Internal), Detail: err.Error()}
	}
	if r.Error != "" {
		return 0, &Problem{Title: "Not run", Code: string(codes.Conflict), Detail: r.Error}
	}
	return r.ExitCode, nil
}

func write(w io.Writer, b []byte) error {
	if w == nil {
		return nil
	}
	_, err := w.Write(b)
	return err
}

func sendInput(ctx context.Context, conn *websocket.Conn, in io.Reader) {
	buf := make([]byte, 1+32<<10)
	buf[0] = ExecStdin
	for in != nil {
		n, err := in.Read(buf[1:])
		if n > 0 && conn.Write(ctx, websocket.MessageBinary, buf[:1+n]) != nil {
			return
		}
		if err != nil {
			break
		}
	}
	_ = conn.Write(ctx, websocket.MessageBinary, []byte{ExecEOF})
}

func sendSizes(ctx context.Context, conn *websocket.Conn, sizes <-chan TerminalSize) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			b, err := json.Marshal(size)
			if err != nil || conn.Write(ctx, websocket.MessageBinary, append([]byte{ExecResize}, b...)) != nil {
				return
			}
		}
	}
}
