package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Bounds of a message from the client, and of one to it, in bytes.
const (
	maxMessage = 1 << 20
	maxOutput  = 64 << 10
)

// entry is a way into what runs: a command beside it, or its own streams.
type entry struct {
	patience time.Duration                              // with a client that doesn't take its messages; 0: no end of it
	note     func(job id.Job, step int32) world.Command // what the log has of it
	run      func(context.Context, engine.StepID, ends) (exitCode int, err error)
}

// ends are this side's ends of the client's streams.
type ends struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	sizes          <-chan engine.Size
}

// enter lets the owner of a running job in, over a WebSocket. Nobody gets in unseen: it
// is in the log before it begins.
func (c *call) enter(e entry) error {
	j, step, err := c.running()
	if err != nil {
		return err
	}
	size, err := c.terminalSize()
	if err != nil {
		return err
	}
	if !strings.EqualFold(c.r.Header.Get("Upgrade"), "websocket") {
		return fault.New(codes.Invalid, "this is spoken over a WebSocket")
	}
	ctx, stop, err := c.long(basis{action: access.JobEnter, user: j.User, in: j.Account, job: j.ID})
	if err != nil {
		return err
	}
	defer stop()
	if err := c.noteEntry(ctx, e.note(j.ID, int32(step.N))); err != nil {
		return err
	}
	conn, err := websocket.Accept(c.w, c.r, nil)
	if err != nil {
		return fault.New(codes.Invalid, "this is spoken over a WebSocket")
	}
	defer conn.CloseNow() //nolint:errcheck // closed properly before, where that was possible
	conn.SetReadLimit(maxMessage)
	s := &session{conn: conn, patience: e.patience}
	if size != (engine.Size{}) {
		defer c.Presence.Enter(j.ID, presence.Terminal)()
		defer c.Presence.Listen(j.ID, s.tell(ctx))()
	}
	s.finish(ctx, s.run(ctx, step, size, e, c.entryError))
	return nil
}

// tell writes a line to the client's terminal, wherever its cursor is.
func (s *session) tell(ctx context.Context) func(string) {
	return func(line string) {
		_, _ = s.writer(ctx, v1.ExecStdout).Write([]byte("\r\n" + line + "\r\n")) // it may have gone
	}
}

// running is the job that is entered, and the step.
func (c *call) running() (*workload.Job, engine.StepID, error) {
	j, err := c.Reader.Find(c.r.Context(), c.p, c.path("id"), access.JobEnter)
	if err != nil {
		return nil, engine.StepID{}, err
	}
	if j.State != workload.Running {
		return nil, engine.StepID{}, j.NotRunning()
	}
	step, err := c.stepToEnter(j)
	return j, step, err
}

// noteEntry writes into the log that the caller enters. Without that nobody does.
func (c *call) noteEntry(ctx context.Context, cmd world.Command) error {
	_, err := c.Sequencer.Do(ctx, sequencer.Actor{User: id.User(c.p.User), Token: c.token()}, cmd, sequencer.Key{})
	return err
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

// entryError is why there is no exit code, for the caller.
func (c *call) entryError(err error) (codes.Code, string) {
	var start *engine.StartError
	var refused *engine.AttachError
	var gone *engine.NotFoundError
	switch {
	case errors.As(err, &start):
		return codes.Conflict, start.Message
	case errors.As(err, &refused):
		return codes.Conflict, refused.Message
	case errors.As(err, &gone):
		return codes.Conflict, "it has ended"
	case engine.IsUnavailable(err):
		return codes.Unavailable, "the container runtime can't be reached right now"
	}
	p := c.problem(c.r, c.w.Header().Get(requestID), err)
	return codes.Code(p.Code), p.Detail
}

// session is streams on a WebSocket.
type session struct {
	conn     *websocket.Conn
	patience time.Duration
}

func (s *session) run(ctx context.Context, step engine.StepID, size engine.Size, e entry, words func(error) (codes.Code, string)) v1.ExecResult {
	// Only what runs ends with this context. The connection is read with the longer
	// one: a read that is cancelled would close it before the last message.
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	in, feed := io.Pipe()
	defer feed.Close() // not in: to whoever still reads from it, that would be an error
	sizes := make(chan engine.Size, 1)
	if size != (engine.Size{}) {
		sizes <- size
	}
	go s.receive(ctx, cancel, feed, sizes)
	code, err := e.run(running, step, ends{in, s.writer(ctx, v1.ExecStdout), s.writer(ctx, v1.ExecStderr), sizes})
	if err != nil {
		kind, text := words(err)
		return v1.ExecResult{ExitCode: code, Error: text, Code: string(kind)}
	}
	return v1.ExecResult{ExitCode: code}
}

// receive hands on what the client sends, until it has gone.
func (s *session) receive(ctx context.Context, cancel context.CancelFunc, feed *io.PipeWriter, sizes chan engine.Size) {
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
			// An error here is a program that doesn't read any more; it may go on.
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
	ctx      context.Context // of the session: an io.Writer has no other way to get it
	conn     *websocket.Conn
	channel  byte
	patience time.Duration
}

func (s *session) writer(ctx context.Context, channel byte) io.Writer {
	return channelWriter{ctx, s.conn, channel, s.patience}
}

func (w channelWriter) Write(b []byte) (int, error) {
	n := 0
	for part := range slices.Chunk(b, maxOutput) {
		if err := w.send(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

func (w channelWriter) send(b []byte) error {
	ctx := w.ctx
	if w.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.patience)
		defer cancel()
	}
	return w.conn.Write(ctx, websocket.MessageBinary, append([]byte{w.channel}, b...))
}

// finish sends how it ended, as the last message.
func (s *session) finish(ctx context.Context, r v1.ExecResult) {
	b, err := json.Marshal(r)
	if err == nil {
		err = s.conn.Write(ctx, websocket.MessageBinary, append([]byte{v1.ExecExit}, b...))
	}
	if err == nil {
		_ = s.conn.Close(websocket.StatusNormalClosure, "") // a client that went away
	}
}
