package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
)

// serveTerminal gives back what is typed, in brackets. "cut" breaks the connection, "away"
// all of them for a minute, "exit" ends the shell, "gone" has it end unseen.
func (s *stage) serveTerminal(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	s.terminals = append(s.terminals, r.Method+" "+strings.TrimPrefix(r.URL.RequestURI(), "/v1/jobs/118/terminals"))
	state, gone := s.job.State, s.gone && q.Get("id") != ""
	away := time.Now().Before(s.back)
	s.mu.Unlock()
	switch {
	case state != "running":
		reply(w, 409, v1.Problem{Code: "conflict", Detail: "job 118 isn't running: it is " + state})
		return
	case away:
		panic(http.ErrAbortHandler)
	case gone:
		reply(w, 410, v1.Problem{Code: "gone", Detail: "the terminal main that you were in has ended"})
		return
	case r.Method == "POST":
		reply(w, 200, v1.Opened{URL: "https://croft.example/.croft/open?ticket=t"})
		return
	case r.Method == "DELETE":
		w.WriteHeader(http.StatusNoContent)
		return
	case strings.HasSuffix(r.URL.Path, "/terminals"):
		reply(w, 200, v1.Page[v1.Terminal]{Items: []v1.Terminal{
			{Name: "main", Started: time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC), Cols: 80, Rows: 24, Joined: 2}, {Name: "old", Started: time.Date(2026, 10, 1, 8, 0, 0, 0, time.UTC), Ended: true, ExitCode: 7},
		}})
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	send := func(channel byte, text string) {
		_ = conn.Write(r.Context(), websocket.MessageBinary, append([]byte{channel}, text...))
	}
	seq := 100
	if q.Get("id") != "" {
		_, _ = fmt.Sscan(q.Get("after"), &seq)
	}
	send(v1.TerminalAs, fmt.Sprintf(`{"id":"0123456789abcdef","seq":%d}`, seq))
	for {
		_, b, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		switch text := string(b[1:]); {
		case b[0] != v1.ExecStdin:
		case text == "cut":
			return
		case text == "away" || text == "gone":
			s.mu.Lock()
			if s.gone = text == "gone"; !s.gone {
				s.back = time.Now().Add(time.Minute)
			}
			s.mu.Unlock()
			return
		case text == "exit":
			send(v1.ExecExit, `{"exit_code":7}`)
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return
		default:
			send(v1.ExecStdout, "["+text+"]")
		}
	}
}

func TestTerminal(t *testing.T) {
	const lost = "\r\nconnection lost, reconnecting…\r\n"
	left := "\r\nleft the terminal, it goes on: croft terminal 118\r\n"
	tests := map[string]struct {
		args   string
		piped  bool
		waits  bool
		typed  []string
		signal os.Signal
		code   int
		stdout string
		stderr string
		asked  []string
	}{
		"worked in and ended": {args: "118", typed: []string{"one", "exit"}, code: 7, stdout: "[one]" + settled,
			stderr: "the shell of terminal main has ended (exit 7)\r\n", asked: []string{"GET /main?cols=90&rows=20&term=xterm"}},
		"left": {args: "118", typed: []string{"one\x10\x11two"}, stdout: "[one]" + settled, stderr: left,
			asked: []string{"GET /main?cols=90&rows=20&term=xterm"}},
		"cut off, and back": {args: "118.2 b", typed: []string{"one", "cut", "two", "\x10\x11"}, stdout: "[one][two]" + settled,
			stderr: lost + "connected again\r\n\r\nleft the terminal, it goes on: croft terminal 118.2 b\r\n",
			asked:  []string{"GET /b?cols=90&rows=20&step=2&term=xterm", "GET /b?after=105&cols=90&id=0123456789abcdef&rows=20&step=2&term=xterm"}},
		"left while the server is away": {args: "118", typed: []string{"away", "lost", "\x10\x11"}, stdout: settled, stderr: lost + left},
		"it ended meanwhile": {args: "118", typed: []string{"gone"}, code: 2, stdout: settled,
			stderr: lost + "croft: the terminal main that you were in has ended\n"},
		"only looking": {args: "--view 118", typed: []string{"\x10\x11"}, stdout: settled,
			stderr: left, asked: []string{"GET /main?cols=90&rows=20&term=xterm&view=true"}},
		"a file":    {args: "118", piped: true, typed: []string{"one"}, stdout: "[one]", asked: []string{"GET /main"}},
		"^C":        {args: "118", piped: true, typed: []string{"one", ""}, signal: os.Interrupt, code: 130, stdout: "[one]", stderr: "\nleft the terminal, it goes on: croft terminal 118\n"},
		"it waits":  {args: "118", waits: true, code: 2, stderr: "croft: job 118 isn't running: it is queued\n"},
		"no name":   {args: "118 ..", piped: true, code: 2, stderr: "croft: terminal: \"..\" is no name\n"},
		"opened":    {args: "--open 118.2 b", stdout: "https://croft.example/.croft/open?ticket=t\n", asked: []string{"POST /b/open"}},
		"ended":     {args: "end 118 main b", piped: true, stdout: "ended terminal main of 118\nended terminal b of 118\n", asked: []string{"DELETE /main", "DELETE /b"}},
		"of a step": {args: "end 118.2 main", piped: true, stdout: "ended terminal main of 118.2\n", asked: []string{"DELETE /main?step=2"}},
		"listed": {args: "ls 118", piped: true, asked: []string{"GET "},
			stdout: "TERMINAL  STARTED           JOINED   SIZE  STATE\nmain      2026-11-01 10:00       2  80x24  running\nold       2026-10-01 09:00       0    0x0  ended (exit 7)\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				if !test.waits {
					s.run()
				}
				b := newBench(t, s)
				b.vars["TERM"] = "xterm"
				raw := 0
				if !test.piped {
					b.app.env.Term = terminalOf(&raw)
				}
				in, feed := io.Pipe()
				b.app.env.Stdin = in
				fed := make(chan struct{})
				go func() {
					defer close(fed)
					for _, part := range test.typed {
						<-time.After(time.Second)
						if part == "" {
							b.signals <- test.signal
							return
						}
						_, _ = feed.Write([]byte(part))
					}
					<-time.After(time.Second)
					_ = feed.Close()
				}()
				code := b.run(append([]string{"terminal"}, strings.Fields(test.args)...)...)
				_ = in.Close()
				<-fed
				if code != test.code || raw%2 != 0 {
					t.Errorf("exit %d, want %d; raw %d", code, test.code, raw)
				}
				if diff := cmp.Diff(test.stdout, b.stdout.String()); diff != "" {
					t.Errorf("stdout (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.stderr, b.stderr.String()); diff != "" {
					t.Errorf("stderr (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.asked, s.terminals); diff != "" && test.asked != nil {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
			})
		})
	}
}
