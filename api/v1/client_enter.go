package v1

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strconv"

	"github.com/coder/websocket"

	"croft.dev/croft/api/v1/codes"
)

// maxExec bounds a message, in bytes.
const maxExec = 1 << 20

// Channels of an exec or attach stream: the first byte of every message.
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

// ExecResult is how a command in a job ended, or an attach, which has no exit code.
// Error says why there is none, or none to come.
type ExecResult struct {
	ExitCode int    `json:"exit_code"`
	Error    string `json:"error,omitempty"`
	Code     string `json:"code,omitempty"` // of the error: an error code; none is conflict
}

// ExecOptions says what to run in a job and where its streams go. A nil Stdin is
// an empty one; a nil Stdout or Stderr is thrown away.
type ExecOptions struct {
	Step   int // in which; 0 is the primary
	Rank   int // of a job on several machines, on which
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
	if opt.Rank != 0 {
		q.Set("rank", strconv.Itoa(opt.Rank))
	}
	if opt.TTY {
		q.Set("tty", "true")
		q.Set("cols", strconv.Itoa(opt.Size.Cols))
		q.Set("rows", strconv.Itoa(opt.Size.Rows))
	}
	return c.enter(ctx, "/v1/jobs/"+seg+"/exec", q, streams{opt.Stdin, opt.Stdout, opt.Stderr, opt.Resize})
}

// AttachOptions says which streams to join, and where they go. A nil Stdin leaves the
// input alone; a nil Stdout or Stderr is thrown away.
type AttachOptions struct {
	Step   int          // of which; 0 is the primary
	Size   TerminalSize // of the terminal here; zero where there is none
	Resize <-chan TerminalSize
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Attach joins the streams of what runs in a job: its output from now on, and its input.
// It returns nil once the program has ended and all its output has come; of what has a
// terminal also when Stdin has ended, all of it having arrived. Without a terminal the
// input is the first's who gives any: its end reaches the program, as does the end of ctx.
// How the program ended is for Wait or WaitStep to say.
func (c *Client) Attach(ctx context.Context, id string, opt AttachOptions) error {
	seg, err := segment("job", id)
	if err != nil {
		return err
	}
	q := url.Values{}
	if opt.Step != 0 {
		q.Set("step", strconv.Itoa(opt.Step))
	}
	if opt.Stdin != nil {
		q.Set("stdin", "true")
	}
	if opt.Size != (TerminalSize{}) {
		q.Set("cols", strconv.Itoa(opt.Size.Cols))
		q.Set("rows", strconv.Itoa(opt.Size.Rows))
	}
	_, err = c.enter(ctx, "/v1/jobs/"+seg+"/attach", q, streams{opt.Stdin, opt.Stdout, opt.Stderr, opt.Resize})
	return err
}

// streams are this side's ends.
type streams struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	resize         <-chan TerminalSize
}

func (c *Client) enter(ctx context.Context, path string, q url.Values, s streams) (int, error) {
	conn, err := c.dial(ctx, path, q, maxExec)
	if err != nil {
		return 0, err
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The input goes on its own; it isn't waited for, because a read from a
	// terminal can't be interrupted. Writes to a closed connection end it.
	go sendInput(ctx, conn, s.stdin)
	if s.resize != nil {
		go sendSizes(ctx, conn, s.resize)
	}
	return c.execOutput(ctx, conn, s)
}

func (c *Client) execOutput(ctx context.Context, conn *websocket.Conn, s streams) (int, error) {
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
			err = write(s.stdout, b[1:])
		case ExecStderr:
			err = write(s.stderr, b[1:])
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
		return 0, &Problem{Title: "Not run", Code: cmp.Or(r.Code, string(codes.Conflict)), Detail: r.Error}
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
