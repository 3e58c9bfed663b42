package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/cli/memnet"
)

func frames(list ...LogFrame) []byte {
	var b []byte
	for _, f := range list {
		b = AppendLogFrame(b, f)
	}
	return b
}

func frame(at int64, text string) LogFrame {
	return LogFrame{Stream: Stdout, At: time.Unix(0, at), Data: []byte(text)}
}

func TestLogReader(t *testing.T) {
	problem, _ := json.Marshal(Problem{Code: "gone", Title: "Gone", Detail: "the log was removed"})
	tests := map[string]struct {
		in   []byte
		want []string
		err  string
	}{
		"nothing":  {nil, nil, "EOF"},
		"two":      {frames(frame(1, "a"), LogFrame{Stream: Stderr, At: time.Unix(0, 2), Data: []byte("b")}), []string{"1@1:a", "2@2:b"}, "EOF"},
		"empty":    {frames(frame(1, "")), []string{"1@1:"}, "EOF"},
		"large":    {frames(frame(1, strings.Repeat("x", 200_000))), []string{"1@1:" + strings.Repeat("x", 200_000)}, "EOF"},
		"problem":  {frames(frame(1, "a"), LogFrame{Stream: LogError, Data: problem}), []string{"1@1:a"}, "the log was removed"},
		"text":     {frames(LogFrame{Stream: LogError, Data: []byte("oops")}), nil, "the log ended: oops"},
		"cut head": {frames(frame(1, "a"))[:5], nil, "unexpected EOF"},
		"cut data": {frames(frame(1, "abc"))[:logHeader+1], nil, "unexpected EOF"},
		"no data":  {frames(frame(1, "abc"))[:logHeader], nil, "unexpected EOF"},
		"stream 9": {frames(LogFrame{Stream: 9}), nil, "no log frame: stream 9 with 0 bytes"},
		"4 GiB":    {append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1}, 255, 255, 255, 255), nil, "no log frame: stream 1 with 4294967295 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := NewLogReader(bytes.NewReader(test.in))
			var got []string
			for {
				f, err := r.Next()
				if err != nil {
					if err.Error() != test.err {
						t.Errorf("ends with %q, want %q", err, test.err)
					}
					break
				}
				got = append(got, show(f))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
		})
	}
}

func show(f LogFrame) string {
	return string('0'+rune(f.Stream)) + "@" + string('0'+rune(f.At.UnixNano())) + ":" + string(f.Data)
}

// FuzzLogReader: whatever the bytes, the reader ends, and what it accepted is
// what it writes.
func FuzzLogReader(f *testing.F) {
	f.Add(frames(frame(1, "a"), frame(2, "bc")))
	f.Add([]byte{3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, '{', '}'})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 255, 255, 255})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewLogReader(bytes.NewReader(in))
		var out []byte
		for {
			fr, err := r.Next()
			if err != nil {
				break
			}
			out = AppendLogFrame(out, fr)
		}
		if !bytes.HasPrefix(in, out) {
			t.Errorf("%x became %x", in, out)
		}
	})
}

// world is a client and its server within a bubble of time.
func world(t *testing.T, h http.HandlerFunc) (*Client, *memnet.Net) {
	t.Helper()
	n := memnet.New(h)
	n.Up()
	hc := n.Client()
	c := dialTo(t, Config{Server: "unix:///mem", HTTPClient: hc})
	t.Cleanup(func() {
		n.Down()
		hc.CloseIdleConnections()
	})
	return c, n
}

// TestWaitSurvivesRestart: a job is waited for while its server is killed and
// started again, and the wait ends with the job.
func TestWaitSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		c, n := world(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("wait") != "ended" {
				t.Errorf("asked for %s", r.URL)
			}
			timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
			if err != nil {
				t.Error(err)
			}
			select {
			case <-time.After(min(timeout, max(0, 5*time.Minute-time.Since(begin)))):
			case <-r.Context().Done():
				return
			}
			state := "running"
			if time.Since(begin) >= 5*time.Minute {
				state = "ended"
			}
			answer(w, 200, Job{ID: "1", State: state})
		})
		go func() {
			<-time.After(90 * time.Second)
			n.Down()
			<-time.After(20 * time.Second)
			n.Up()
		}()
		var seen []string
		aways := 0
		job, err := c.Wait(t.Context(), "1", Ended, WaitOptions{
			Window: time.Minute,
			Each:   func(j *Job) { seen = append(seen, j.State) },
			Away:   func(error) { aways++ },
		})
		if err != nil || job.State != "ended" || aways != 1 || seen[0] != "running" {
			t.Errorf("got %v, %v; away %d times, seen %v", job, err, aways, seen)
		}
		if d := time.Since(begin); d < 5*time.Minute || d > 5*time.Minute+time.Second {
			t.Errorf("took %v", d)
		}
	})
}

func TestWaitGivesUp(t *testing.T) {
	tests := map[string]struct {
		window time.Duration
		status int // 0 is no server at all
		code   codes.Code
		least  time.Duration
		most   time.Duration
	}{
		"away for longer than the window": {time.Minute, 0, codes.Unavailable, time.Minute, 63 * time.Second},
		"no window":                       {0, 0, codes.Unavailable, 0, 0},
		"not ready for long":              {time.Minute, 503, codes.Unavailable, time.Minute, 63 * time.Second},
		"not found":                       {time.Minute, 404, codes.NotFound, 0, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, n := world(t, func(w http.ResponseWriter, r *http.Request) {
					answer(w, test.status, Problem{Code: string(test.code), Title: "no"})
				})
				if test.status == 0 {
					n.Down()
				}
				begin := time.Now()
				_, err := c.Wait(t.Context(), "1", Running, WaitOptions{Window: test.window})
				if CodeOf(err) != test.code {
					t.Errorf("got %v", err)
				}
				if d := time.Since(begin); d < test.least || d > test.most {
					t.Errorf("gave up after %v", d)
				}
			})
		})
	}
}

// TestWaitOnAHastyServer: one that answers at once is asked once a second.
func TestWaitOnAHastyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c, _ := world(t, func(w http.ResponseWriter, r *http.Request) {
			state := "queued"
			if n++; n == 60 {
				state = "ended"
			}
			answer(w, 200, Job{ID: "1", State: state})
		})
		begin := time.Now()
		if _, err := c.Wait(t.Context(), "1", Ended, WaitOptions{}); err != nil || time.Since(begin) != 59*time.Second {
			t.Errorf("asked %d times in %v, %v", n, time.Since(begin), err)
		}
	})
}

// TestWaitOnAHungServer: a server that accepts and never answers counts as away.
func TestWaitOnAHungServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := world(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		_, err := c.Wait(t.Context(), "1", Ended, WaitOptions{Poll: func(*Job) time.Duration { return time.Second }})
		if CodeOf(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	})
}

// TestFollowLogsGoesOn: the connection is lost in the middle; no line is lost and
// none comes twice, though the server repeats those of the last moment.
func TestFollowLogsGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []LogFrame{frame(1, "a"), frame(2, "b"), frame(2, "c"), frame(2, "d"), frame(3, "e")}
		var asked []string
		c, _ := world(t, func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Query().Get("since"))
			since, _ := time.Parse(time.RFC3339Nano, r.URL.Query().Get("since"))
			sent := 0
			for _, f := range all {
				if f.At.Before(since) {
					continue
				}
				w.Write(AppendLogFrame(nil, f))
				if sent++; len(asked) == 1 && sent == 3 {
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
			}
		})
		var got []string
		for f, err := range c.FollowLogs(t.Context(), "1", LogQuery{Window: time.Minute}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(f.Data))
		}
		if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, got); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
		if want := []string{"", "1970-01-01T00:00:00.000000002Z"}; !slices.Equal(asked, want) {
			t.Errorf("asked since %q, want %q", asked, want)
		}
	})
}

// TestFollowLogsOverAStop: a server that stops says so within the log.
func TestFollowLogsOverAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		c, _ := world(t, func(w http.ResponseWriter, r *http.Request) {
			if first {
				first = false
				w.Write(frames(frame(1, "a"), LogFrame{Stream: LogError, Data: []byte(`{"code":"unavailable"}`)}))
				return
			}
			w.Write(frames(frame(1, "a"), frame(2, "b")))
		})
		var got []string
		for f, err := range c.FollowLogs(t.Context(), "1", LogQuery{Window: time.Minute}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(f.Data))
		}
		if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

func TestFollowLogsEnds(t *testing.T) {
	tests := map[string]struct {
		h    http.HandlerFunc
		code codes.Code
	}{
		"complete":  {func(w http.ResponseWriter, _ *http.Request) { w.Write(frames(frame(1, "a"))) }, ""},
		"not found": {func(w http.ResponseWriter, _ *http.Request) { answer(w, 404, Problem{Code: "not_found"}) }, codes.NotFound},
		"reported": {func(w http.ResponseWriter, _ *http.Request) {
			w.Write(frames(LogFrame{Stream: LogError, Data: []byte(`{"code":"gone","title":"Gone"}`)}))
		}, codes.Gone},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := world(t, test.h)
				var last error
				for _, err := range c.FollowLogs(t.Context(), "1", LogQuery{Window: time.Minute}) {
					last = err
				}
				if CodeOf(last) != test.code {
					t.Errorf("got %v", last)
				}
			})
		})
	}
}

// TestFollowEvents: the stream goes on after the last event when it is lost, and
// ends with the reason when the server gives one.
func TestFollowEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		c, _ := world(t, func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.RequestURI())
			if len(asked) == 3 {
				answer(w, 410, Problem{Code: "gone", Title: "Gone"})
				return
			}
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			b, _ := json.Marshal(Event{Seq: int64(10 + len(asked)), Kind: "job.submit"})
			conn.Write(r.Context(), websocket.MessageText, b)
			if len(asked) == 1 {
				conn.CloseNow() // killed
				return
			}
			conn.Close(websocket.StatusGoingAway, "restart")
		})
		var got []int64
		var last error
		for e, err := range c.FollowEvents(t.Context(), EventQuery{After: 4, Job: "1"}, time.Minute) {
			if err != nil {
				last = err
				break
			}
			got = append(got, e.Seq)
		}
		if diff := cmp.Diff([]int64{11, 12}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if CodeOf(last) != codes.Gone {
			t.Errorf("ended with %v", last)
		}
		if diff := cmp.Diff([]string{"/v1/events/stream?after=4&job=1", "/v1/events/stream?after=11&job=1", "/v1/events/stream?after=12&job=1"}, asked); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestExec runs "cat", as it were, over a real socket.
func TestExec(t *testing.T) {
	var query string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Query().Encode()
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		for {
			_, b, err := conn.Read(r.Context())
			if err != nil {
				t.Error(err)
				return
			}
			switch b[0] {
			case ExecStdin:
				conn.Write(r.Context(), websocket.MessageBinary, append([]byte{ExecStdout}, b[1:]...))
			case ExecResize:
				conn.Write(r.Context(), websocket.MessageBinary, append([]byte{ExecStderr}, b[1:]...))
			case ExecEOF:
				conn.Write(r.Context(), websocket.MessageBinary, append([]byte{ExecExit}, `{"exit_code":7}`...))
				conn.Close(websocket.StatusNormalClosure, "")
				return
			}
		}
	})
	var stdout, stderr bytes.Buffer
	sizes := make(chan TerminalSize, 1)
	in, feed := io.Pipe()
	go func() {
		feed.Write([]byte("hello "))
		sizes <- TerminalSize{Cols: 80, Rows: 24}
		feed.Write([]byte("world"))
		feed.Close()
	}()
	code, err := c.Exec(t.Context(), "1", ExecOptions{
		Args: []string{"cat", "-v"}, TTY: true, Size: TerminalSize{Cols: 100, Rows: 30}, Resize: sizes,
		Stdin: in, Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil || code != 7 || stdout.String() != "hello world" {
		t.Errorf("got %d, %v, %q", code, err, stdout.String())
	}
	if want := "arg=cat&arg=-v&cols=100&rows=30&tty=true"; query != want {
		t.Errorf("query %s, want %s", query, want)
	}
}

// TestAttach hands over an input to its end and takes what comes back.
func TestAttach(t *testing.T) {
	for name, tt := range map[string]struct {
		opt   AttachOptions
		query string
	}{
		"only looking": {AttachOptions{}, ""},
		"a step":       {AttachOptions{Step: 3, Size: TerminalSize{Cols: 80, Rows: 24}}, "cols=80&rows=24&step=3"},
		"with input":   {AttachOptions{Stdin: strings.NewReader("hello")}, "stdin=true"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.URL.Query().Encode(); got != tt.query || r.URL.Path != "/v1/jobs/7/attach" {
					t.Errorf("asked for %s?%s", r.URL.Path, got)
				}
				conn, err := websocket.Accept(w, r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.CloseNow()
				for {
					_, b, err := conn.Read(r.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if b[0] == ExecEOF {
						break
					}
					conn.Write(r.Context(), websocket.MessageBinary, append([]byte{ExecStdout}, b[1:]...))
				}
				conn.Write(r.Context(), websocket.MessageBinary, append([]byte{ExecExit}, `{"exit_code":0}`...))
				conn.Close(websocket.StatusNormalClosure, "")
			})
			var out bytes.Buffer
			tt.opt.Stdout = &out
			if err := c.Attach(t.Context(), "7", tt.opt); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]string{true: "hello"}[tt.opt.Stdin != nil]; out.String() != want {
				t.Errorf("output %q, want %q", out.String(), want)
			}
		})
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if conn, err := websocket.Accept(w, r, nil); err == nil {
			conn.CloseNow()
		}
	})
	if err := c.Attach(t.Context(), "7", AttachOptions{}); CodeOf(err) != codes.Unavailable {
		t.Errorf("a server that goes away: %v", err)
	}
	if err := c.Attach(t.Context(), "..", AttachOptions{}); CodeOf(err) != codes.Invalid {
		t.Errorf("no job: %v", err)
	}
}

func TestExecFails(t *testing.T) {
	message := func(b string) func(context.Context, *websocket.Conn) {
		return func(ctx context.Context, c *websocket.Conn) {
			c.Write(ctx, websocket.MessageBinary, []byte(b))
			c.Close(websocket.StatusNormalClosure, "")
		}
	}
	tests := map[string]struct {
		do   func(context.Context, *websocket.Conn)
		code codes.Code
		text string
	}{
		"not run":      {message("\x03" + `{"error":"no such command: foo"}`), codes.Conflict, "no such command: foo"},
		"no exit":      {message("\x01x"), codes.Internal, "without the command's exit code"},
		"unreadable":   {message("\x03{"), codes.Internal, "JSON"},
		"lost":         {func(_ context.Context, c *websocket.Conn) { c.CloseNow() }, codes.Unavailable, "went away"},
		"server error": {func(_ context.Context, c *websocket.Conn) { c.Close(websocket.StatusInternalError, "bad") }, codes.Internal, "bad"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if conn, err := websocket.Accept(w, r, nil); err == nil {
					test.do(r.Context(), conn)
				}
			})
			_, err := c.Exec(t.Context(), "1", ExecOptions{Args: []string{"x"}})
			if CodeOf(err) != test.code || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %s: %v", CodeOf(err), err)
			}
		})
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer(w, 409, Problem{Code: "conflict", Detail: "it has ended"})
	})
	if _, err := c.Exec(t.Context(), "1", ExecOptions{Args: []string{"x"}}); CodeOf(err) != codes.Conflict {
		t.Errorf("got %v", err)
	}
	var p *Problem
	if _, err := c.Exec(t.Context(), "..", ExecOptions{}); !errors.As(err, &p) || p.Code != string(codes.Invalid) {
		t.Errorf("got %v", err)
	}
}
