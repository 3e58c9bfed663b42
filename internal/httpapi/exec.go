package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/workload"
)

// The bounds of exec: a message from the client, in bytes, and the command.
const (
	maxMessage = 1 << 20
	maxWords   = 4096
)

// exec runs a command in a running job, for its owner alone: it acts as him there.
func (c *call) exec() error {
	j, err := c.Reader.Find(c.r.Context(), c.p, c.path("id"), access.JobEnter)
	if err != nil {
		return err
	}
	if j.State != workload.Running {
		return fault.New(codes.Conflict, "job %d isn't running: it is %s", j.ID, j.State)
	}
	step, err := c.stepToEnter(j)
	if err != nil {
		return err
	}
	req, err := c.execRequest()
	if err != nil {
		return err
	}
	size, err := c.terminalSize()
	if err != nil {
		return err
	}
	ctx, stop, err := c.long(basis{access.JobEnter, j.User, j.Account})
	if err != nil {
		return err
	}
	defer stop()
	conn, err := websocket.Accept(c.w, c.r, nil)
	if err != nil {
		return fault.New(codes.Invalid, "exec is spoken over a WebSocket")
	}
	defer conn.CloseNow() //nolint:errcheck // closed properly before, where that was possible
	conn.SetReadLimit(maxMessage)
	session := &execSession{conn: conn}
	result := session.run(ctx, c.Engine, step, req, size, func(err error) string { return c.execError(err) })
	session.finish(ctx, result)
	return nil
}

func (c *call) execRequest() (engine.ExecRequest, error) {
	q := c.r.URL.Query()
	req := engine.ExecRequest{Command: q["arg"]}
	if len(req.Command) == 0 || req.Command[0] == "" || len(req.Command) > maxWords {
		return req, fault.Invalid("arg", "give the command, a word each")
	}
	var err error
	req.TTY, err = truth(q.Get("tty"), "tty")
	return req, err
}

func (c *call) terminalSize() (engine.Size, error) {
	q := c.r.URL.Query()
	var size engine.Size
	for _, f := range []struct {
		name string
		into *uint16
	}{{"cols", &size.Cols}, {"rows", &size.Rows}} {
		if text := q.Get(f.name); text != "" {
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				return size, fault.Invalid(f.name, "must be from 0 to 65535")
			}
			*f.into = uint16(n)
		}
	}
	return size, nil
}

// execError is why there is no exit code, in words for the caller.
func (c *call) execError(err error) string {
	var start *engine.StartError
	var gone *engine.NotFoundError
	switch {
	case errors.As(err, &start):
		return start.Message
	case errors.As(err, &gone):
		return "the job has ended"
	case engine.IsUnavailable(err):
		return "the container runtime can't be reached right now"
	}
	return c.problem(c.r, c.w.Header().Get(requestID), err).Detail
}

// execSession is a command's streams on a WebSocket.
type execSession struct{ conn *websocket.Conn }

func (s *execSession) run(ctx context.Context, e Engine, step engine.StepID, req engine.ExecRequest, size engine.Size, words func(error) string) v1.ExecResult {
	// Only the command ends with this context. The connection is read with the
	// longer one: a read that is cancelled would close it before the last message.
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	in, feed := io.Pipe()
	defer in.Close()
	sizes := make(chan engine.Size, 1)
	if size != (engine.Size{}) {
		sizes <- size
	}
	go s.receive(ctx, cancel, feed, sizes)
	req.Stdin, req.Resize = in, sizes
	req.Stdout, req.Stderr = s.writer(ctx, v1.ExecStdout), s.writer(ctx, v1.ExecStderr)
	code, err := e.Exec(running, step, req)
	if err != nil {
		return v1.ExecResult{ExitCode: code, Error: words(err)}
	}
	return v1.ExecResult{ExitCode: code}
}

// receive hands on what the client sends, until it has gone.
func (s *execSession) receive(ctx context.Context, cancel context.CancelFunc, feed *io.PipeWriter, sizes chan engine.Size) {
	defer cancel()
	defer feed.Close()
	for {
		_, b, err := s.conn.Read(ctx)
		if err != nil {
			return
		}
		if len(b) == 0 {
			continue
		}
		switch b[0] {
		case v1.ExecStdin:
			// An error here is a command that doesn't read any more; it may go on.
			_, _ = feed.Write(b[1:])
		case v1.ExecEOF:
			_ = feed.Close()
		case v1.ExecResize:
			resize(b[1:], sizes)
		}
	}
}

// resize keeps only the newest size.
func resize(b []byte, sizes chan engine.Size) {
	var t v1.TerminalSize
	if json.Unmarshal(b, &t) != nil || t.Cols < 0 || t.Cols > 65535 || t.Rows < 0 || t.Rows > 65535 {
		return
	}
	select {
	case <-sizes:
	default:
	}
	sizes <- engine.Size{Cols: uint16(t.Cols), Rows: uint16(t.Rows)}
}

type channelWriter struct {
	ctx     context.Context // of the session: an io.Writer has no other way to get it
	conn    *websocket.Conn
	channel byte
}

func (s *execSession) writer(ctx context.Context, channel byte) io.Writer {
	return channelWriter{ctx, s.conn, channel}
}

func (w channelWriter) Write(b []byte) (int, error) {
	if err := w.conn.Write(w.ctx, websocket.MessageBinary, append([]byte{w.channel}, b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// finish sends how the command ended, as the last message.
func (s *execSession) finish(ctx context.Context, r v1.ExecResult) {
	b, err := json.Marshal(r)
	if err == nil {
		err = s.conn.Write(ctx, websocket.MessageBinary, append([]byte{v1.ExecExit}, b...))
	}
	if err == nil {
		_ = s.conn.Close(websocket.StatusNormalClosure, "") // a client that went away
	}
}
