package v1

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"croft.dev/croft/api/v1/codes"
)

// Stream numbers of log frames.
const (
	Stdout   byte = 1
	Stderr   byte = 2
	LogError byte = 3 // the data is a Problem as JSON; the log ends there
)

// MaxLogFrame bounds the data of one frame, in bytes.
const MaxLogFrame = 16 << 20

// logHeader is a frame's head: 1 byte stream, 8 bytes time in Unix nanoseconds,
// 4 bytes length of the data; both numbers big-endian.
const logHeader = 1 + 8 + 4

// LogFrame is a piece of a job's output.
type LogFrame struct {
	Stream byte
	At     time.Time
	Data   []byte // valid until the next frame is read
	// More says that another frame has come already: whoever writes them may keep this
	// one back until then.
	More bool
}

// LogReader reads the frames of an application/vnd.croft.log stream.
type LogReader struct {
	r    *bufio.Reader
	c    io.Closer
	data []byte
}

// NewLogReader returns a reader of the frames in r. Close closes r if it can.
func NewLogReader(r io.Reader) *LogReader {
	c, _ := r.(io.Closer)
	return &LogReader{r: bufio.NewReaderSize(r, 32<<10), c: c}
}

// Close ends the reading.
func (l *LogReader) Close() error {
	if l.c == nil {
		return nil
	}
	return l.c.Close()
}

// Next returns the next frame. It returns io.EOF after the last whole frame,
// io.ErrUnexpectedEOF when the stream ends within one, and a *Problem for what
// the server reports within the stream and for what is no frame.
func (l *LogReader) Next() (LogFrame, error) {
	var head [logHeader]byte
	if _, err := io.ReadFull(l.r, head[:]); err != nil {
		return LogFrame{}, err
	}
	n := binary.BigEndian.Uint32(head[9:])
	f := LogFrame{Stream: head[0], At: time.Unix(0, int64(binary.BigEndian.Uint64(head[1:9])))}
	if f.Stream < Stdout || f.Stream > LogError || n > MaxLogFrame {
		return LogFrame{}, &Problem{
			Title:  "Unreadable log",
			Code:   string(codes.Internal),
			Detail: fmt.Sprintf("no log frame: stream %d with %d bytes", f.Stream, n),
		}
	}
	if err := l.read(int(n)); err != nil {
		return LogFrame{}, err
	}
	f.Data = l.data
	if f.Stream == LogError {
		return LogFrame{}, problemOfFrame(f.Data)
	}
	f.More = l.more()
	return f, nil
}

// more reports whether another piece of output has come as a whole.
func (l *LogReader) more() bool {
	if l.r.Buffered() < logHeader {
		return false
	}
	head, err := l.r.Peek(logHeader)
	return err == nil && (head[0] == Stdout || head[0] == Stderr) && l.r.Buffered()-logHeader >= int(binary.BigEndian.Uint32(head[9:]))
}

// read fills data with n bytes. It believes in a length only as far as bytes
// arrive, so that a lying head costs no memory.
func (l *LogReader) read(n int) error {
	const step = 64 << 10
	l.data = l.data[:0]
	for n > 0 {
		k := min(n, step)
		at := len(l.data)
		if cap(l.data) < at+k {
			l.data = append(l.data, make([]byte, k)...)
		}
		l.data = l.data[:at+k]
		if _, err := io.ReadFull(l.r, l.data[at:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		n -= k
	}
	return nil
}

func problemOfFrame(data []byte) *Problem {
	p := &Problem{}
	if json.Unmarshal(data, p) == nil && p.Code != "" {
		return p
	}
	return &Problem{Title: "Log ended", Code: string(codes.Internal), Detail: "the log ended: " + string(bytes.ToValidUTF8(data, nil))}
}

// AppendLogFrame appends f in its wire form to b; the counterpart of LogReader.
func AppendLogFrame(b []byte, f LogFrame) []byte {
	b = append(b, f.Stream)
	b = binary.BigEndian.AppendUint64(b, uint64(f.At.UnixNano()))
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Data)))
	return append(b, f.Data...)
}

// NoLines is a Tail of none: only what comes from now on.
const NoLines = -1

// LogQuery selects a part of a job's log.
type LogQuery struct {
	Follow  bool
	Tail    int       // only the last lines; 0 is all, and NoLines none
	Since   time.Time // only from then on
	Attempt int       // 0 is every attempt's
	Step    int       // a further step's; 0 is the primary's
	Rank    int       // of a job on several machines, on which
	// Window is how long FollowLogs lets the server be away.
	Window time.Duration
}

// Logs opens a job's log. The caller closes it.
func (c *Client) Logs(ctx context.Context, id string, q LogQuery) (*LogReader, error) {
	seg, err := segment("job", id)
	if err != nil {
		return nil, err
	}
	v := values("tail", count(q.Tail), "attempt", count(q.Attempt), "step", count(q.Step), "rank", count(q.Rank))
	if q.Tail == NoLines {
		v.Set("tail", "0")
	}
	if q.Follow {
		v.Set("follow", strconv.FormatBool(true))
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	resp, err := c.send(ctx, http.MethodGet, "/v1/jobs/"+seg+"/logs", v, nil)
	if err != nil {
		return nil, err
	}
	return NewLogReader(resp.Body), nil
}

// FollowLogs yields a job's log as it grows and ends when the server says that
// the log is complete. When the connection is lost it goes on where it stopped,
// for as long as q.Window.
func (c *Client) FollowLogs(ctx context.Context, id string, q LogQuery) iter.Seq2[LogFrame, error] {
	q.Follow = true
	return func(yield func(LogFrame, error) bool) {
		r := retrier{window: q.Window}
		var seen position
		for {
			more, err := c.followOnce(ctx, id, &q, &seen, &r, yield)
			if !more {
				return
			}
			if err = r.next(ctx, err); err != errAgain {
				if err != nil {
					yield(LogFrame{}, err)
				}
				return
			}
			seen.resume(&q)
		}
	}
}

// followOnce yields one connection's frames. It returns false when the consumer
// has had enough, and the error that the connection ended with; nil is the end
// of the log.
func (c *Client) followOnce(ctx context.Context, id string, q *LogQuery, seen *position, r *retrier, yield func(LogFrame, error) bool) (bool, error) {
	log, err := c.Logs(ctx, id, *q)
	if err != nil {
		return true, err
	}
	defer log.Close()
	for {
		f, err := log.Next()
		switch {
		case err == io.EOF:
			return true, nil
		case err != nil && ctx.Err() != nil:
			return true, ctx.Err()
		case err != nil && isCut(err):
			return true, c.noAnswer(err, true)
		case err != nil:
			return true, err
		}
		r.ok()
		if seen.skips(f) {
			continue
		}
		if !yield(f, nil) {
			return false, nil
		}
	}
}

// position is how far a log was read: up to a time, and how many frames of
// exactly that time, since the server sends those again.
type position struct {
	at     time.Time
	frames int
	again  int // frames of that time still to come again
}

// skips notes f and tells whether it was seen before the connection was lost.
func (p *position) skips(f LogFrame) bool {
	if p.again > 0 && f.At.Equal(p.at) {
		p.again--
		return true
	}
	p.again = 0
	if f.At.Equal(p.at) {
		p.frames++
		return false
	}
	p.at, p.frames = f.At, 1
	return false
}

// resume points q to what follows the position.
func (p *position) resume(q *LogQuery) {
	if p.frames == 0 {
		return
	}
	q.Since, q.Tail, p.again = p.at, 0, p.frames
}
