package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/presence"
)

// Streams of a job: input, sizes and output go where they belong.
func TestAttach(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	c := h.client("ada")
	if err := c.Attach(t.Context(), job, v1.AttachOptions{}); v1.CodeOf(err) != codes.Conflict {
		t.Errorf("to a waiting job: %v, want a conflict", err)
	}
	h.start(job)
	h.engine.join = func(_ context.Context, a engine.StepID, req engine.AttachRequest) error {
		size := <-req.Resize
		in, err := io.ReadAll(req.Stdin)
		if err != nil || a.String() != "0a1b2c3d-1-1.1" || size.Rows != 24 {
			return &engine.AttachError{Message: "unexpected"}
		}
		_, _ = req.Stdout.Write(in)
		_, _ = io.WriteString(req.Stderr, "err")
		return nil
	}
	data := bytes.Repeat([]byte{0, 1, '\r', '\n', 0xff}, 1<<20)
	var out, errs bytes.Buffer
	err := c.Attach(t.Context(), job, v1.AttachOptions{Size: v1.TerminalSize{Cols: 80, Rows: 24}, Stdin: bytes.NewReader(data), Stdout: &out, Stderr: &errs})
	if err != nil || !bytes.Equal(out.Bytes(), data) || errs.String() != "err" {
		t.Errorf("attach: %v, %d bytes, %q", err, out.Len(), errs.String())
	}
	for name, tt := range map[string]struct {
		err  error
		want string
		code codes.Code
	}{
		"refused":         {&engine.AttachError{Message: engine.InputGiven}, engine.InputGiven, codes.Conflict},
		"ended":           {&engine.NotFoundError{}, "it has ended", codes.Conflict},
		"runtime is down": {&engine.UnavailableError{Cause: errors.New("s3cret")}, "can't be reached", codes.Unavailable},
		"a defect":        {errors.New("s3cret"), "the server failed", codes.Internal},
	} {
		h.engine.join = func(_ context.Context, _ engine.StepID, req engine.AttachRequest) error {
			if req.Stdin != nil {
				t.Errorf("%s: an input that nobody gives", name)
			}
			return tt.err
		}
		if err := c.Attach(t.Context(), job, v1.AttachOptions{}); err == nil || !strings.Contains(err.Error(), tt.want) || v1.CodeOf(err) != tt.code || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// Whoever has a terminal in a job counts as there, and reads what its users are told.
func TestTerminalsAreTold(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	h.start(job)
	const line = "croft: job 1 has been idle for 1h45m and stops in 15m"
	read := make(chan bool)
	open := func() int { return h.server.Presence.Of(1)[presence.Terminal].Open }
	h.engine.exec = func(_ context.Context, _ engine.StepID, req engine.ExecRequest) (int, error) {
		if req.TTY != (open() == 1) {
			t.Errorf("terminal %v: %d are open", req.TTY, open())
		}
		h.server.Presence.Tell(1, line)
		if req.TTY {
			<-read
		}
		return 0, nil
	}
	in, out := io.Pipe()
	go func() {
		text := make([]byte, len(line)+4)
		if _, err := io.ReadFull(in, text); err != nil || string(text) != "\r\n"+line+"\r\n" {
			t.Errorf("%q, %v", text, err)
		}
		close(read)
	}()
	size := v1.TerminalSize{Cols: 80, Rows: 24}
	if _, err := h.client("ada").Exec(t.Context(), job, v1.ExecOptions{Args: []string{"sh"}, TTY: true, Size: size, Stdout: out}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for open() > 0 { // the server hears a moment later that she left
		select {
		case <-ctx.Done():
			t.Fatal("she left and counts as there")
		case <-time.After(time.Millisecond):
		}
	}
	var quiet bytes.Buffer
	if _, err := h.client("ada").Exec(t.Context(), job, v1.ExecOptions{Args: []string{"id"}, Stdout: &quiet}); err != nil || quiet.Len() != 0 {
		t.Errorf("a program reads it, too: %q, %v", quiet.String(), err)
	}
}

// Each way in is in the log, with who went it, and nothing of a command's arguments.
func TestEntriesAreInTheLog(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	h.start(job)
	h.engine.exec = func(context.Context, engine.StepID, engine.ExecRequest) (int, error) { return 0, nil }
	h.engine.join = func(context.Context, engine.StepID, engine.AttachRequest) error { return nil }
	c := h.client("ada")
	if _, err := c.Exec(t.Context(), job, v1.ExecOptions{Args: []string{"mysql", "--password=s3cret"}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Attach(t.Context(), job, v1.AttachOptions{Stdin: strings.NewReader("s3cret")}); err != nil {
		t.Fatal(err)
	}
	// Refused ones leave none, nor does one that asks for it again by a key.
	for _, r := range []request{
		{method: "GET", path: "/v1/jobs/" + job + "/exec?arg=id", user: "mia"},
		{method: "GET", path: "/v1/jobs/" + job + "/attach", user: "zoe"},
		{method: "GET", path: "/v1/jobs/" + job + "/attach", user: "ada"}, // no WebSocket
	} {
		if a := h.send(r); a.status < 400 {
			t.Errorf("%s as %s: %d", r.path, r.user, a.status)
		}
	}
	a := h.send(request{method: "GET", path: "/v1/events?job=" + job, user: "otto"})
	if strings.Contains(string(a.body), "s3cret") {
		t.Errorf("a secret is in the log: %s", a.body)
	}
	page := get[v1.Page[v1.Event]](h, 200, request{method: "GET", path: "/v1/events?job=" + job, user: "ada"})
	var got []string
	for _, e := range page.Items {
		if e.Kind == "job.exec" || e.Kind == "job.attach" {
			got = append(got, e.Kind+" by "+e.By+": "+e.Message)
		}
	}
	want := "job.exec by ada (test #4): exec mysql …\njob.attach by ada (test #4): attached with input"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// dialSession is a client of its own making.
func (h *harness) dialSession(ctx context.Context, path string) *websocket.Conn {
	h.t.Helper()
	conn, _, err := websocket.Dial(ctx, h.web.URL+path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + h.tokens["ada"]}, "Idempotency-Key": {"again"}}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// Whatever a client sends, the streams stay in order: nothing, unknown channels, a flood
// of sizes, input after its end.
func TestAttachTakesAnything(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	h.start(job)
	got := make(chan string, 1)
	h.engine.join = func(_ context.Context, _ engine.StepID, req engine.AttachRequest) error {
		in, err := io.ReadAll(req.Stdin)
		got <- string(in)
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn := h.dialSession(ctx, "/v1/jobs/"+job+"/attach?stdin=true")
	send := func(b string) {
		if err := conn.Write(ctx, websocket.MessageBinary, []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		send("\x04" + `{"cols":80,"rows":24}`)
	}
	for _, b := range []string{"", "\x00", "\x00one", "\x63what", "\x04{", "\x04" + `{"cols":-1}`, "\x01two", "", "\x00three", "\x05", "\x05", "\x00four"} {
		send(b)
	}
	if in := <-got; in != "onethree" {
		t.Errorf("input %q", in)
	}
	if _, b, err := conn.Read(ctx); err != nil || string(b) != "\x03"+`{"exit_code":0}` {
		t.Errorf("last message %q, %v", b, err)
	}
}

// One who is attached and takes nothing is let go, so that the program can go on; so is
// one who has gone.
func TestAttachLetsGo(t *testing.T) {
	for name, leave := range map[string]func(*websocket.Conn){
		"takes nothing": func(*websocket.Conn) {},
		"has gone":      func(c *websocket.Conn) { _ = c.CloseNow() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.server.slowest = 50 * time.Millisecond
			job := h.submit("ada")
			h.start(job)
			over := make(chan error, 1)
			h.engine.join = func(ctx context.Context, _ engine.StepID, req engine.AttachRequest) error {
				line := make([]byte, 64<<10)
				for {
					if _, err := req.Stdout.Write(line); err != nil {
						over <- err
						return err
					}
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			leave(h.dialSession(ctx, "/v1/jobs/"+job+"/attach"))
			select {
			case <-over:
			case <-ctx.Done():
				t.Error("the program is held up")
			}
		})
	}
}

// Fifty are attached at once, and all of them go when the owner may no longer be there.
func TestAttachMany(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	h.start(job)
	began, over := make(chan struct{}, 50), make(chan struct{}, 50)
	h.engine.join = func(ctx context.Context, _ engine.StepID, _ engine.AttachRequest) error {
		began <- struct{}{}
		<-ctx.Done()
		over <- struct{}{}
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 50 {
		go func() { _ = h.client("ada").Attach(ctx, job, v1.AttachOptions{}) }()
	}
	for range 50 {
		<-began
	}
	yes := true
	h.as("root", command.UserPut{Name: "ada", Blocked: &yes})
	for range 50 {
		select {
		case <-over:
		case <-ctx.Done():
			t.Fatal("somebody is still attached")
		}
	}
}
