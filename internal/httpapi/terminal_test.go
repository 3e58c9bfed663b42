package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/sim"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/terminal"
)

// keeps gives a harness's jobs a keeper whose shells are those of a virtual fleet.
func (h *harness) keeps() {
	k := terminal.NewKeeper(sim.StartShell)
	h.t.Cleanup(k.HangUp)
	started := false
	var mu sync.Mutex
	h.engine.terminals = func(_ context.Context, a engine.StepID, start bool) (io.ReadWriteCloser, error) {
		mu.Lock()
		defer mu.Unlock()
		if started = started || start; !started {
			return nil, &engine.NoTerminalsError{Step: a}
		}
		ours, theirs := net.Pipe()
		go k.Serve(theirs)
		_, err := io.ReadFull(ours, make([]byte, len(terminal.Greeting)))
		return ours, err
	}
}

// lines is what a terminal shows, to be waited for.
type lines struct {
	mu   sync.Mutex
	all  bytes.Buffer
	seen chan struct{}
}

func newLines() *lines { return &lines{seen: make(chan struct{}, 1)} }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(b)
	select {
	case l.seen <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func (l *lines) await(t *testing.T, text string) {
	t.Helper()
	for late := time.After(time.Minute); !strings.Contains(l.String(), text); {
		select {
		case <-l.seen:
		case <-late:
			t.Fatalf("%q isn't shown: %q", text, l.String())
		}
	}
}

// TestTerminal works in one from two clients, leaves it, comes back and ends it.
func TestTerminal(t *testing.T) {
	h := newHarness(t)
	h.keeps()
	job := h.submit("ada")
	c := h.client("ada")
	if _, err := c.Terminal(t.Context(), job, v1.TerminalOptions{}); v1.CodeOf(err) != codes.Conflict {
		t.Errorf("of a waiting job: %v, want a conflict", err)
	}
	h.start(job)
	if list, err := v1.Collect(c.Terminals(t.Context(), job, 0)); err != nil || len(list) != 0 {
		t.Errorf("before there is any: %v, %v", list, err)
	}
	if _, err := c.Terminal(t.Context(), job, v1.TerminalOptions{View: true}); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("looking at what isn't there: %v", err)
	}
	in, feed := io.Pipe()
	first, second := newLines(), newLines()
	ended := make(chan string, 2)
	enter := func(opt v1.TerminalOptions) {
		code, err := c.Terminal(t.Context(), job, opt)
		ended <- fmt.Sprint(code, " ", err)
	}
	go enter(v1.TerminalOptions{Stdin: in, Stdout: first, Size: v1.TerminalSize{Cols: 100, Rows: 40}})
	_, _ = io.WriteString(feed, "echo on''e\r")
	first.await(t, "one\r\n")
	go enter(v1.TerminalOptions{Stdout: second, View: true, Stdin: strings.NewReader("echo unheard\r")})
	if got := <-ended; got != "0 EOF" { // its input has ended
		t.Errorf("the one who looks: %s", got)
	}
	go enter(v1.TerminalOptions{Stdout: second, View: true})
	second.await(t, "one\r\n")
	_, _ = io.WriteString(feed, "stty size\r")
	second.await(t, "40 100\r\n")
	list, err := v1.Collect(c.Terminals(t.Context(), job, 0))
	want := []v1.Terminal{{Name: "main", Cols: 100, Rows: 40, Joined: 2}}
	if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(v1.Terminal{}, "Started")); diff != "" || err != nil {
		t.Errorf("list (-want +got):\n%s%v", diff, err)
	}
	k, _ := id.ParseJob(job)
	if got := h.server.Presence.Of(k)[presence.Terminal]; got.Open != 1 {
		t.Errorf("present are %+v: who only looks isn't counted", got)
	}
	h.server.Presence.Tell(k, "this job is idle")
	first.await(t, "\r\nthis job is idle\r\n")
	second.await(t, "\r\nthis job is idle\r\n")
	_, _ = io.WriteString(feed, "exit 7\r")
	for range 2 {
		if got := <-ended; got != "7 <nil>" {
			t.Errorf("ended with %s", got)
		}
	}
	if strings.Contains(first.String()+second.String(), "unheard") {
		t.Error("who only looks was heard")
	}
	in, feed = io.Pipe() // the other was given to the first for good
	go enter(v1.TerminalOptions{Name: "other", Stdin: in, Stdout: first})
	_, _ = io.WriteString(feed, "echo tw''o\r")
	first.await(t, "two\r\n")
	if err := c.EndTerminal(t.Context(), job, 0, "other"); err != nil {
		t.Error(err)
	}
	if got := <-ended; got != "129 <nil>" {
		t.Errorf("ended with %s", got)
	}
	if err := c.EndTerminal(t.Context(), job, 0, "other"); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("ending what has ended: %v", err)
	}
}

// TestTerminalGoesOn: a client whose connection breaks again and again shows every byte
// once.
func TestTerminalGoesOn(t *testing.T) {
	h := newHarness(t)
	h.keeps()
	job := h.submit("ada")
	h.start(job)
	join := h.engine.terminals
	left := 30
	h.engine.terminals = func(ctx context.Context, a engine.StepID, start bool) (io.ReadWriteCloser, error) {
		conn, err := join(ctx, a, start)
		if left--; left > 0 && err == nil {
			conn = &breaking{ReadWriteCloser: conn, after: 2000 + 100*left}
		}
		return conn, err
	}
	out := newLines()
	in, feed := io.Pipe()
	away, again := 0, 0
	done := make(chan error, 1)
	go func() {
		code, err := h.client("ada").Terminal(t.Context(), job, v1.TerminalOptions{
			Stdin: in, Stdout: out, Window: time.Minute,
			Away: func(error) { away++ }, Joined: func(j v1.TerminalJoined) {
				if again++; j.Lost > 0 {
					t.Errorf("%d bytes were lost", j.Lost)
				}
			},
		})
		done <- cmpErr(code, err)
	}()
	_, _ = io.WriteString(feed, "seq 3''0000\r")
	out.await(t, "\n30000\r\n")
	_, _ = io.WriteString(feed, "exit\r")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("$ seq 3''0000\r\n")
	for i := range 30000 {
		fmt.Fprintf(&want, "%d\r\n", i+1)
	}
	want.WriteString("$ exit\r\n")
	if out.String() != want.String() {
		t.Errorf("%d bytes were shown, want %d, or others", len(out.String()), want.Len())
	}
	if away < 10 || again != away+1 {
		t.Errorf("away %d times, joined %d times", away, again)
	}
}

func cmpErr(code int, err error) error {
	if err == nil && code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return err
}

// breaking is a connection that breaks after so many bytes.
type breaking struct {
	io.ReadWriteCloser
	after int
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.after <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadWriteCloser.Read(p[:min(len(p), b.after)])
	b.after -= n
	return n, err
}

// TestTerminalRefuses what is no terminal, no place in one, or nobody's business.
func TestTerminalRefuses(t *testing.T) {
	h := newHarness(t)
	h.keeps()
	job := h.submit("ada")
	h.start(job)
	place := "0123456789abcdef"
	for path, want := range map[string]int{
		"main":                           422, // no WebSocket
		"..%2Fmain":                      422,
		"%2Fetc%2Fpasswd":                422,
		"-x":                             422,
		"a%00b":                          422,
		strings.Repeat("a", 65):          422,
		"main?cols=-1":                   422,
		"main?rows=70000":                422,
		"main?view=perhaps":              422,
		"main?term=a%20b":                422,
		"main?id=1":                      422,
		"main?after=5":                   422,
		"main?id=" + place + "&after=x":  422,
		"main?id=" + place + "&after=-1": 422,
		"main?step=0":                    422,
		"main?step=99":                   404,
	} {
		a := h.send(request{method: "GET", path: "/v1/jobs/" + job + "/terminals/" + path, user: "ada"})
		if a.status != want && (a.status != 400 || want != 422) {
			t.Errorf("%s: status %d, want %d: %s", path, a.status, want, a.body)
		}
	}
	_, resp, err := websocket.Dial(t.Context(), h.web.URL+"/v1/jobs/"+job+"/terminals/main?id="+place, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + h.tokens["ada"]}},
	})
	if err == nil || resp.StatusCode != 410 {
		t.Errorf("a terminal that isn't there any more: %v, %v", resp, err)
	}
}

// TestTerminalEntries: each way in is in the log, and nothing that is typed.
func TestTerminalEntries(t *testing.T) {
	h := newHarness(t)
	h.keeps()
	job := h.submit("ada")
	h.start(job)
	c := h.client("ada")
	if _, err := c.Terminal(t.Context(), job, v1.TerminalOptions{Stdin: strings.NewReader("echo s3cret\r"), Stdout: io.Discard}); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := c.EndTerminal(t.Context(), job, 0, "main"); err != nil {
		t.Fatal(err)
	}
	page := get[v1.Page[v1.Event]](h, 200, request{method: "GET", path: "/v1/events?job=" + job, user: "ada"})
	var got []string
	for _, e := range page.Items {
		if e.Kind == "job.terminal" {
			got = append(got, e.By+": "+e.Message)
		}
		if strings.Contains(e.Message, "s3cret") {
			t.Errorf("what was typed is in the log: %s", e.Message)
		}
	}
	if diff := cmp.Diff([]string{"ada (test #4): terminal main", "ada (test #4): terminal main ended"}, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// TestKeeperIsNotTrusted: whatever a job's process says that is taken for its keeper, the
// client gets an error at most, and nothing that isn't the terminal's.
func TestKeeperIsNotTrusted(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	h.start(job)
	say := func(kind byte, data string) func(io.Writer) {
		return func(w io.Writer) { _ = terminal.Write(w, kind, []byte(data)) }
	}
	for name, tt := range map[string]struct {
		says func(io.Writer)
		code codes.Code
	}{
		"nothing":             {func(io.Writer) {}, codes.Unavailable},
		"noise":               {func(w io.Writer) { _, _ = io.WriteString(w, "HTTP/1.1 400 Bad Request\r\n\r\n") }, codes.Unavailable},
		"a huge message":      {func(w io.Writer) { _, _ = w.Write([]byte{255, 255, 255, 255, 1}) }, codes.Unavailable},
		"an unknown kind":     {say(99, "x"), codes.Unavailable},
		"a place that isn't":  {say(terminal.JoinedAs, `{"id":"<script>","seq":1}`), codes.Unavailable},
		"no place":            {say(terminal.JoinedAs, `[`), codes.Unavailable},
		"no size":             {say(terminal.Resize, `{"cols":-1}`), codes.Unavailable},
		"no end":              {say(terminal.Exit, `{`), codes.Unavailable},
		"a refusal":           {say(terminal.RefusedFor, `{"reason":"unusable","message":"no \u001b[31mshell\n"}`), codes.Conflict},
		"a refusal of no use": {say(terminal.RefusedFor, `{"reason":"root","message":""}`), codes.Conflict},
		"missing":             {say(terminal.RefusedFor, `{"reason":"missing","message":"none"}`), codes.NotFound},
	} {
		h.engine.terminals = func(context.Context, engine.StepID, bool) (io.ReadWriteCloser, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				if _, _, err := terminal.ReadOne(theirs); err == nil {
					tt.says(theirs)
				}
			}()
			return ours, nil
		}
		_, err := h.client("ada").Terminal(t.Context(), job, v1.TerminalOptions{})
		if v1.CodeOf(err) != tt.code || strings.ContainsAny(fmt.Sprint(err), "\x1b\n") {
			t.Errorf("%s: %q, want %s", name, err, tt.code)
		}
		a := h.send(request{method: "GET", path: "/v1/jobs/" + job + "/terminals", user: "ada"})
		if a.status < 400 || a.status == 500 {
			t.Errorf("%s: a list of that: %d %s", name, a.status, a.body)
		}
	}
}

// TestTerminalTakesAnything that a client sends.
func TestTerminalTakesAnything(t *testing.T) {
	h := newHarness(t)
	h.keeps()
	job := h.submit("ada")
	h.start(job)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn := h.dialSession(ctx, "/v1/jobs/"+job+"/terminals/main?cols=80&rows=24")
	conn.SetReadLimit(1 << 20)
	send := func(b string) {
		if err := conn.Write(ctx, websocket.MessageBinary, []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2000 {
		send("\x04" + fmt.Sprintf(`{"cols":%d,"rows":24}`, 80+i%2))
	}
	for _, b := range []string{"", "\x63what", "\x04{", "\x04" + `{"cols":-1}`, "\x04" + `{"cols":1e9,"rows":2}`, "\x06{}", "\x03{}", "\x00", "\x05"} {
		send(b)
	}
	send("\x00" + strings.Repeat("\x00\x01\xff", 300_000)) // more than one message of the keeper's
	send("\x00\recho la''st\r")
	var out []byte
	for !bytes.Contains(out, []byte("last\r\n")) {
		_, b, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("%v after %d bytes", err, len(out))
		}
		if len(b) > 0 && b[0] == v1.ExecStdout {
			out = append(out, b[1:]...)
		}
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	again := h.dialSession(ctx, "/v1/jobs/"+job+"/terminals/main")
	_, b, err := again.Read(ctx)
	var j v1.TerminalJoined
	if err != nil || b[0] != v1.TerminalAs || json.Unmarshal(b[1:], &j) != nil || j.Seq == 0 || j.Fresh {
		t.Errorf("the first message is %q, %v", b, err)
	}
	// More than is taken in one message ends the connection.
	big := append([]byte{0}, make([]byte, maxMessage)...)
	_ = again.Write(ctx, websocket.MessageBinary, big)
	for err == nil {
		_, _, err = again.Read(ctx)
	}
	if ctx.Err() != nil {
		t.Error("a message that is too long is waited for")
	}
}
