package v1

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"croft.dev/croft/api/v1/codes"
)

// Terminal is a shell in a running job that outlives who is connected with it.
type Terminal struct {
	Name     string    `json:"name"`
	Started  time.Time `json:"started"`
	Cols     int       `json:"cols" doc:"its size: that of whoever used it last"`
	Rows     int       `json:"rows"`
	Joined   int       `json:"joined" doc:"how many are in it"`
	Ended    bool      `json:"ended,omitempty" doc:"its shell has; the next to join it gets a new one"`
	ExitCode int       `json:"exit_code" doc:"the shell's, if it has ended"`
}

// Channels of a terminal's stream besides those of an exec: the first byte of a message.
// ExecStdout is its output, which is counted; ExecResize comes from the server, too, when
// the terminal has another size than before.
const (
	TerminalAs     byte = 6 // a TerminalJoined as JSON: the first message, or there is more to be shown anew
	TerminalScreen byte = 7 // bytes that restore the screen; they aren't counted
	TerminalPing   byte = 8 // is answered with the same
	TerminalNotes  byte = 9 // a TerminalNotice as JSON, to whoever asked for notices
)

// TerminalNotice is what those in a job are to know now; all is well when there is nothing.
type TerminalNotice struct {
	Text    string     `json:"text,omitempty"`
	StopsAt *time.Time `json:"stops_at,omitempty" doc:"when the job is stopped if it stays idle"`
}

// TerminalOpenRequest says how a terminal is to be opened in a browser.
type TerminalOpenRequest struct {
	Step int  `json:"step,omitempty" doc:"beside which; by default the primary"`
	View bool `json:"view,omitempty" doc:"only to look"`
}

// TerminalJoined says where a terminal's output goes on. To join it again without losing
// any, ask for its ID after Seq and the bytes of ExecStdout that have come since.
type TerminalJoined struct {
	ID    string `json:"id"`
	Seq   int64  `json:"seq" doc:"of the next byte of output; of the first it is 0"`
	Lost  int64  `json:"lost,omitempty" doc:"bytes that were asked for and that aren't kept any more; the screen is shown instead"`
	Fresh bool   `json:"fresh,omitempty" doc:"the shell was started now"`
	View  bool   `json:"view,omitempty" doc:"what is typed isn't heard"`
}

// TerminalOptions says which terminal to join, and where its streams go.
type TerminalOptions struct {
	Step   int    // beside which; 0 is the primary
	Name   string // empty: main
	View   bool   // only look
	Term   string // TERM of a shell that is started
	Size   TerminalSize
	Resize <-chan TerminalSize
	Stdin  io.Reader
	Stdout io.Writer
	// Window is how long to try again when the connection is lost; 0: not at all.
	Window time.Duration
	// Joined is called whenever the terminal was joined, Away when the connection was
	// lost and is tried again. Both may be nil.
	Joined func(TerminalJoined)
	Away   func(error)
}

// heartbeat is how often a connection is tried that says nothing, and how long the answer
// may take: a machine that slept has connections that are none.
const heartbeat = 15 * time.Second

// Terminal joins a terminal of a running job, whose shell is started if there is none, until
// that has ended, and returns its exit code. A lost connection is made again: no output is
// lost or shown twice, as far as it is kept. When Stdin ends, or ctx, the terminal is left,
// with an error that is io.EOF or ctx's; the shell goes on.
func (c *Client) Terminal(ctx context.Context, job string, opt TerminalOptions) (int, error) {
	path, err := terminalPath(job, cmp.Or(opt.Name, "main"))
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &terminalStream{c: c, path: path, opt: opt, size: opt.Size, leave: cancel, typed: make(chan typing, typedAhead)}
	if opt.Stdin != nil {
		go t.read(ctx)
	}
	r := retrier{window: opt.Window}
	for {
		code, err := t.once(ctx, &r)
		if cause := context.Cause(ctx); cause != nil {
			return 0, cause
		}
		if err == nil {
			return code, nil
		}
		if Transient(err) && opt.Window > 0 && r.since.IsZero() && opt.Away != nil {
			opt.Away(err)
		}
		if err = r.next(ctx, err); !errors.Is(err, errAgain) {
			return 0, cmp.Or(context.Cause(ctx), err)
		}
	}
}

// terminalStream is a terminal over all of its connections.
type terminalStream struct {
	c     *Client
	path  string
	opt   TerminalOptions
	size  TerminalSize
	id    string // of the terminal; empty: it wasn't joined yet
	seq   int64  // of the next byte of output
	leave context.CancelCauseFunc
	away  atomic.Bool // the connection was lost
	typed chan typing
}

// typing is what is typed, or the end of that.
type typing struct {
	text []byte
	end  error
}

// typedAhead is how many parts of what is typed wait while there is no connection.
const typedAhead = 256

func terminalPath(job, name string) (string, error) {
	j, err := segment("job", job)
	if err != nil {
		return "", err
	}
	n, err := segment("terminal", name)
	return "/v1/jobs/" + j + "/terminals/" + n, err
}

// read takes what is typed, also while there is no connection: who wants to leave may.
func (t *terminalStream) read(ctx context.Context) {
	for {
		buf := make([]byte, 4<<10)
		n, err := t.opt.Stdin.Read(buf)
		if n > 0 {
			t.queue(ctx, typing{text: buf[:n]})
		}
		if err != nil {
			if !t.queue(ctx, typing{end: err}) {
				t.leave(err)
			}
			return
		}
	}
}

// queue hands over what was typed. Too much for a connection that was lost is dropped, and
// an end doesn't wait for another.
func (t *terminalStream) queue(ctx context.Context, what typing) bool {
	if t.away.Load() {
		if what.end != nil {
			return false
		}
		select {
		case t.typed <- what:
			return true
		default:
			return false
		}
	}
	select {
	case t.typed <- what:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *terminalStream) query() url.Values {
	q := url.Values{}
	set := func(name string, value string, given bool) {
		if given {
			q.Set(name, value)
		}
	}
	set("step", strconv.Itoa(t.opt.Step), t.opt.Step != 0)
	set("view", "true", t.opt.View)
	set("term", t.opt.Term, t.opt.Term != "")
	set("cols", strconv.Itoa(t.size.Cols), t.size.Cols != 0)
	set("rows", strconv.Itoa(t.size.Rows), t.size.Rows != 0)
	set("id", t.id, t.id != "")
	set("after", strconv.FormatInt(t.seq, 10), t.id != "")
	return q
}

// once joins the terminal over one connection.
func (t *terminalStream) once(ctx context.Context, r *retrier) (int, error) {
	conn, err := t.c.dial(ctx, t.path, t.query(), maxExec)
	if err != nil {
		return 0, err
	}
	defer conn.CloseNow()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	t.away.Store(false)
	defer t.away.Store(true)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		t.send(inner, conn)
	}()
	code, err := t.receive(ctx, conn, r)
	cancel()
	<-sent // it has the sizes until then
	return code, err
}

// send hands on what is typed and resized, and tries the connection.
func (t *terminalStream) send(ctx context.Context, conn *websocket.Conn) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var message []byte
		select {
		case <-ctx.Done():
			return
		case what := <-t.typed:
			if what.end != nil {
				alive(ctx, conn) // all of it has arrived then
				t.leave(what.end)
				return
			}
			message = append([]byte{ExecStdin}, what.text...)
		case size, ok := <-t.opt.Resize:
			if !ok {
				t.opt.Resize = nil
				continue
			}
			t.size = size
			b, _ := json.Marshal(size) // two numbers
			message = append([]byte{ExecResize}, b...)
		case <-beat.C:
			if !alive(ctx, conn) {
				_ = conn.CloseNow()
				return
			}
			continue
		}
		if conn.Write(ctx, websocket.MessageBinary, message) != nil {
			_ = conn.CloseNow()
			return
		}
	}
}

func alive(ctx context.Context, conn *websocket.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	return conn.Ping(ctx) == nil
}

func (t *terminalStream) receive(ctx context.Context, conn *websocket.Conn, r *retrier) (int, error) {
	for {
		_, b, err := conn.Read(ctx)
		if err != nil {
			if err = t.c.closed(ctx, err); err == nil {
				err = &Problem{Title: "Stream ended", Code: string(codes.Internal), Detail: "the server ended the stream without saying why"}
			}
			return 0, err
		}
		if len(b) == 0 {
			continue
		}
		switch b[0] {
		case ExecStdout:
			t.seq += int64(len(b) - 1)
			err = write(t.opt.Stdout, b[1:])
		case TerminalScreen:
			err = write(t.opt.Stdout, b[1:])
		case TerminalAs:
			err = t.joined(b[1:])
			r.ok()
		case ExecExit:
			return execResult(b[1:])
		}
		if err != nil {
			return 0, &Problem{Title: "Output lost", Code: string(codes.Internal), Detail: err.Error()}
		}
	}
}

func (t *terminalStream) joined(b []byte) error {
	var j TerminalJoined
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	t.id, t.seq = j.ID, j.Seq
	if t.opt.Joined != nil {
		t.opt.Joined(j)
	}
	return nil
}

// Terminals lists the terminals of a running job, or of a further step of it.
func (c *Client) Terminals(ctx context.Context, job string, step int) iter.Seq2[Terminal, error] {
	seg, err := segment("job", job)
	if err != nil {
		return func(yield func(Terminal, error) bool) { yield(Terminal{}, err) }
	}
	return pages[Terminal](ctx, c, "/v1/jobs/"+seg+"/terminals", stepQuery(step))
}

// OpenTerminal returns an address of a terminal's page, at which a browser is known as the
// caller, once.
func (c *Client) OpenTerminal(ctx context.Context, job, name string, req TerminalOpenRequest) (*Opened, error) {
	path, err := terminalPath(job, name)
	if err != nil {
		return nil, err
	}
	out := new(Opened)
	return out, c.call(ctx, http.MethodPost, path+"/open", nil, req, out)
}

// EndTerminal ends what runs in a terminal.
func (c *Client) EndTerminal(ctx context.Context, job string, step int, name string) error {
	path, err := terminalPath(job, name)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, path, stepQuery(step), nil, nil)
}

func stepQuery(step int) url.Values {
	q := url.Values{}
	if step > 1 {
		q.Set("step", strconv.Itoa(step))
	}
	return q
}
