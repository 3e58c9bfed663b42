package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/world"
)

func (h *harness) share(job, user string, level access.Share) {
	h.t.Helper()
	k, _ := id.ParseJob(job)
	h.as("ada", command.JobShare{Job: k, User: user, Level: level})
}

// TestTerminalShared: whom a job is shared with to look looks, whatever he sends; who has it
// fully types; and what they have open ends with that.
func TestTerminalShared(t *testing.T) {
	h := newHarness(t)
	h.keeps()
	job := h.submit("ada")
	h.start(job)
	in, feed := io.Pipe()
	adas, bens := newLines(), newLines()
	left := make(chan string, 4)
	enter := func(user string, opt v1.TerminalOptions) {
		_, err := h.client(user).Terminal(t.Context(), job, opt)
		left <- user + " " + string(v1.CodeOf(err))
	}
	expect := func(want string) {
		t.Helper()
		if got := <-left; got != want {
			t.Errorf("left: %s, want %s", got, want)
		}
	}
	go enter("ada", v1.TerminalOptions{Stdin: in, Stdout: adas})
	_, _ = io.WriteString(feed, "echo on''e\r")
	adas.await(t, "one\r\n")

	enter("ben", v1.TerminalOptions{Stdout: bens, View: true})
	expect("ben not_found")
	h.share(job, "ben", access.ShareView)
	enter("ben", v1.TerminalOptions{Stdout: bens})
	expect("ben denied")
	if err := h.client("ben").EndTerminal(t.Context(), job, 0, "main"); v1.CodeOf(err) != codes.Denied {
		t.Errorf("who may look ends one: %v", err)
	}
	if list, err := v1.Collect(h.client("ben").Terminals(t.Context(), job, 0)); err != nil || len(list) != 1 {
		t.Errorf("who may look sees %v, %v", list, err)
	}
	theirs, more := io.Pipe()
	go enter("ben", v1.TerminalOptions{Stdin: theirs, Stdout: bens, View: true, Window: time.Minute, Size: v1.TerminalSize{Cols: 10, Rows: 5}})
	bens.await(t, "one\r\n")
	_, _ = io.WriteString(more, "echo unhe''ard\r")
	_, _ = io.WriteString(feed, "stty size\r")
	bens.await(t, "24 80\r\n") // who looks doesn't resize either

	k, _ := id.ParseJob(job)
	h.as("ada", command.JobUnshare{Job: k, User: "ben"})
	expect("ben not_found")

	h.share(job, "ben", access.ShareFull)
	theirs, more = io.Pipe()
	go enter("ben", v1.TerminalOptions{Stdin: theirs, Stdout: bens, Window: time.Minute})
	_, _ = io.WriteString(more, "echo tw''o\r")
	adas.await(t, "two\r\n")
	h.share(job, "ben", access.ShareView) // less than he is in by
	expect("ben denied")
	if strings.Contains(adas.String(), "unheard") {
		t.Error("who only looks was heard")
	}
}

// pageOf is a socket of a job's page as a user has it.
func (h *harness) pageOf(user, job, query string) *websocket.Conn {
	h.t.Helper()
	u, _ := h.seq.World().Tenancy.User(user)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.SetPathValue("id", job)
		r.SetPathValue("name", "main")
		p, _ := h.server.Known(r.Context(), u.ID, 0)
		h.server.JoinTerminal(w, r, p)
	}))
	h.t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	conn, _, err := websocket.Dial(h.t.Context(), web.URL+"/t/"+job+"/main/socket?"+query, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// next is the next message of a kind.
func next(t *testing.T, conn *websocket.Conn, kind byte, with string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for all := ""; ; {
		_, b, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("no message %d with %q: %v; %q", kind, with, err, all)
		}
		if b[0] != kind {
			continue
		}
		if all += string(b[1:]); strings.Contains(all, with) {
			return all
		}
	}
}

func say(t *testing.T, conn *websocket.Conn, kind byte, text string) {
	t.Helper()
	if err := conn.Write(t.Context(), websocket.MessageBinary, append([]byte{kind}, text...)); err != nil {
		t.Fatal(err)
	}
}

// TestPageJoins: a page types, and counts as somebody at a terminal when it does; that it is
// open is no more than that of a browser.
func TestPageJoins(t *testing.T) {
	h := newHarness(t)
	h.keeps()
	job := h.submit("ada")
	h.start(job)
	k, _ := id.ParseJob(job)
	conn := h.pageOf("ada", job, "cols=90&rows=20&notices=true")
	next(t, conn, v1.TerminalAs, "")
	if got := h.server.Presence.Of(k); got[presence.App].Open != 1 || got[presence.Terminal].Open != 0 || got[presence.Terminal].Last != 0 {
		t.Errorf("present are %+v", got)
	}
	say(t, conn, v1.TerminalPing, "")
	next(t, conn, v1.TerminalPing, "")
	h.pass(time.Minute)
	say(t, conn, v1.ExecStdin, "stty size\r")
	next(t, conn, v1.ExecStdout, "20 90\r\n")
	if got := h.server.Presence.Of(k)[presence.Terminal]; got.Open != 0 || got.Last != h.now.Load() {
		t.Errorf("having typed: %+v", got)
	}
	other := h.pageOf("ada", job, "view=true")
	next(t, other, v1.TerminalScreen, "20 90\r\n")
	say(t, other, v1.ExecStdin, "echo unheard\r")
	say(t, other, v1.TerminalPing, "")
	next(t, other, v1.TerminalPing, "") // who looks is answered, too
	say(t, conn, v1.ExecStdin, "exit 7\r")
	if got := next(t, other, v1.ExecExit, ""); !strings.Contains(got, `"exit_code":7`) {
		t.Errorf("ended with %s", got)
	}
}

// TestPageIsTold why there is nothing on it.
func TestPageIsTold(t *testing.T) {
	h := newHarness(t)
	h.keeps()
	job := h.submit("ada")
	waits := h.submit("ada")
	h.start(job)
	for name, tt := range map[string]struct {
		user, job, query string
		code             codes.Code
	}{
		"nobody's business": {"zoe", job, "", codes.NotFound},
		"a manager":         {"mia", job, "", codes.Denied},
		"nobody opened it":  {"ada", job, "view=true", codes.NotFound},
		"it waits":          {"ada", waits, "", codes.Conflict},
		"no size":           {"ada", job, "cols=x", codes.Invalid},
		"not any more":      {"ada", job, "id=0123456789abcdef&after=5", codes.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			var got v1.ExecResult
			if err := json.Unmarshal([]byte(next(t, h.pageOf(tt.user, tt.job, tt.query), v1.ExecExit, "")), &got); err != nil {
				t.Fatal(err)
			}
			if got.Code != string(tt.code) || got.Error == "" {
				t.Errorf("%+v, want %s", got, tt.code)
			}
		})
	}
}

// TestPageCountsDown to the stop of a job that is idle, and no further once it isn't.
func TestPageCountsDown(t *testing.T) {
	h := newHarness(t)
	h.keeps()
	job := h.submit("ada")
	h.start(job)
	k, _ := id.ParseJob(job)
	began := h.now.Load()
	policy := idle.Policy{Mode: idle.Stop, After: hour, Notice: int64(10 * time.Minute)}
	h.site(func(s *world.Site) { s.Idle = []idle.Policy{policy} })
	stop := began + hour
	h.reader.Server.Idle = func(id.Attempt) (idle.Verdict, bool) { return idle.Verdict{Policy: policy, StopAt: stop}, true }
	conn := h.pageOf("ada", job, "notices=true")
	next(t, conn, v1.TerminalAs, "")
	h.pass(50 * time.Minute)
	h.system(command.JobNotice{Job: k, N: 1, Since: began, Idle: int64(50 * time.Minute), StopAt: stop, Text: "idle for 50m"})
	var got v1.TerminalNotice
	if err := json.Unmarshal([]byte(next(t, conn, v1.TerminalNotes, "")), &got); err != nil || got.Text == "" || got.StopsAt == nil || got.StopsAt.UnixNano() != stop {
		t.Errorf("%+v, %v", got, err)
	}
	h.system(command.JobIdle{Job: k, N: 1, Since: h.now.Load()})
	if got := next(t, conn, v1.TerminalNotes, ""); got != "{}" {
		t.Errorf("at work again: %s", got)
	}
}

// fakePages gives out addresses that say whom they are for.
type fakePages struct{ user id.User }

func (*fakePages) URL(id.User, id.Token, address.App, string) (string, int64, error) {
	return "", 0, fault.New(codes.Conflict, "no application is meant")
}
func (f *fakePages) Page(user id.User, _ id.Token, path string) (string, int64, error) {
	f.user = user
	return "https://croft.example" + path, 5, nil
}

// TestOpenTerminal gives out the address of a page to whoever may have it.
func TestOpenTerminal(t *testing.T) {
	h := newHarness(t)
	f := &fakePages{}
	h.server.Apps = f
	job := h.submit("ada")
	c := h.client("ada")
	h.site(func(s *world.Site) { s.Apps.Pages = false })
	if _, err := c.OpenTerminal(t.Context(), job, "main", v1.TerminalOpenRequest{}); v1.CodeOf(err) != codes.Denied || !strings.Contains(err.Error(), "share_by_path") {
		t.Errorf("where pages share their origin with others: %v", err)
	}
	h.site(func(s *world.Site) { s.Apps.Pages = true })
	u, _ := h.seq.World().Tenancy.User("ada")
	got, err := c.OpenTerminal(t.Context(), job, "logs", v1.TerminalOpenRequest{Step: 2, View: true})
	if err != nil || got.URL != "https://croft.example/t/"+job+"/logs?step=2&view=true" || f.user != u.ID {
		t.Errorf("%+v, %v", got, err)
	}
	for name, req := range map[string]v1.TerminalOpenRequest{"../x": {}, "main": {Step: -1}} {
		a := h.send(request{method: "POST", path: "/v1/jobs/" + job + "/terminals/" + strings.ReplaceAll(name, "/", "%2F") + "/open", user: "ada", body: req})
		if a.status != 422 && a.status != 400 {
			t.Errorf("%s %+v: %d %s", name, req, a.status, a.body)
		}
	}
	h.share(job, "ben", access.ShareView)
	if _, err := h.client("ben").OpenTerminal(t.Context(), job, "main", v1.TerminalOpenRequest{}); v1.CodeOf(err) != codes.Denied {
		t.Errorf("who may look: %v", err)
	}
	if _, err := h.client("ben").OpenTerminal(t.Context(), job, "main", v1.TerminalOpenRequest{View: true}); err != nil {
		t.Errorf("who may look, to look: %v", err)
	}
	if _, err := h.client("zoe").OpenTerminal(t.Context(), job, "main", v1.TerminalOpenRequest{View: true}); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("who may not: %v", err)
	}
	h.start(job)
	h.end(job, 0)
	if _, err := c.OpenTerminal(t.Context(), job, "main", v1.TerminalOpenRequest{}); v1.CodeOf(err) != codes.Gone {
		t.Errorf("of a job that has ended: %v", err)
	}
}
