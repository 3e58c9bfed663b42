package cli

import (
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

// serveAttach gives back what it is given, in brackets, until that ends; then it ends the
// job. "cut" breaks the connection.
func (s *stage) serveAttach(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	state, tty := s.job.State, s.job.Spec.TTY
	s.mu.Unlock()
	if state != "running" {
		reply(w, 409, v1.Problem{Code: "conflict", Detail: "job 118 isn't running: it is " + state})
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
	given := r.URL.Query().Get("stdin") == "true"
	for {
		_, b, err := conn.Read(r.Context())
		switch {
		case err != nil, string(b[1:]) == "cut":
			return
		case string(b[1:]) == "crash":
			send(v1.ExecExit, `{"exit_code":0,"error":"no runtime","code":"unavailable"}`)
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return
		case string(b[1:]) == "bye": // this attempt ends, not the job
		case b[0] == v1.ExecStdin && string(b[1:]) == "exit":
			send(v1.ExecStdout, "exit")
			s.end("failed", &seven)
			given = true
		case b[0] == v1.ExecStdin:
			send(v1.ExecStdout, "["+string(b[1:])+"]")
			continue
		case b[0] != v1.ExecEOF:
			continue
		case given && !tty:
			s.end("completed", &zero)
		case !given:
			s.end("failed", &seven)
		}
		send(v1.ExecExit, `{"exit_code":0}`)
		_ = conn.Close(websocket.StatusNormalClosure, "")
		return
	}
}

func (s *stage) serveStep(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply(w, 200, v1.Step{ID: "118.1", Job: "118", N: 1, State: s.job.State, Attempt: s.job.Attempt, Spec: v1.StepSpec{Stdin: s.job.Spec.Stdin, TTY: s.job.Spec.TTY}})
}

func terminalOf(raw *int) Terminal {
	return Terminal{
		In: true, Out: true, Err: true,
		Size: func() (v1.TerminalSize, bool) { return v1.TerminalSize{Cols: 90, Rows: 20}, true },
		Raw:  func() (func(), error) { *raw++; return func() { *raw++ }, nil },
	}
}

func TestAttach(t *testing.T) {
	tests := map[string]struct {
		args     string
		spec     v1.JobSpec
		waits    bool
		terminal bool
		typed    []string
		signal   os.Signal
		code     int
		stdout   string
		stderr   string
		raw      int
	}{
		"an input to its end":  {args: "118", spec: v1.JobSpec{Stdin: true}, typed: []string{"one", "two"}, stdout: "[one][two]"},
		"only watching":        {args: "--no-stdin 118", spec: v1.JobSpec{Stdin: true}, typed: []string{"one"}, code: 7, stderr: "118 failed (exit 7)\n"},
		"it has no input":      {args: "118.1", typed: []string{"one"}, code: 7, stderr: "118.1 failed (exit 7)\n"},
		"a terminal":           {args: "118", spec: v1.JobSpec{Stdin: true, TTY: true}, terminal: true, typed: []string{"one", "exit"}, code: 7, stdout: "[one]exit", stderr: "118 failed (exit 7)\n", raw: 2},
		"detached":             {args: "118", spec: v1.JobSpec{Stdin: true, TTY: true}, terminal: true, typed: []string{"one\x10\x11two"}, stdout: "[one]", stderr: "detached from 118: croft attach 118\n", raw: 2},
		"by other keys":        {args: "--detach-keys ctrl-x,d 118", spec: v1.JobSpec{Stdin: true, TTY: true}, terminal: true, typed: []string{"\x10\x11", "\x18d"}, stdout: "[\x10\x11]", stderr: "detached from 118: croft attach 118\n", raw: 2},
		"no keys":              {args: "--detach-keys ctrl 118", code: 2, stderr: "croft: --detach-keys: \"ctrl\" isn't a key: write a sign, or ctrl- and a letter, with commas between them, such as ctrl-p,ctrl-q\n"},
		"a pipe to a terminal": {args: "118", spec: v1.JobSpec{Stdin: true, TTY: true}, typed: []string{"\x10\x11", "exit"}, code: 7, stdout: "[\x10\x11]exit", stderr: "118 failed (exit 7)\n"},
		"it waits":             {args: "118", waits: true, code: 2, stderr: "croft: job 118 isn't running: it is queued\n"},
		"no step":              {args: "118.x", code: 2, stderr: "croft: \"118.x\" isn't a step: give the job's number, a dot and the step's, such as 118.2\n"},
		"the connection breaks": {args: "118", spec: v1.JobSpec{Stdin: true, TTY: true}, terminal: true, typed: []string{"cut"}, code: 125, raw: 2,
			stderr: "the connection was lost; 118 goes on: croft attach 118\ncroft: the croft server at unix:///run/croft/croft.sock went away before it answered\n"},
		"the runtime goes away": {args: "118", spec: v1.JobSpec{Stdin: true, TTY: true}, terminal: true, typed: []string{"crash"}, code: 125, raw: 2,
			stderr: "the connection was lost; 118 goes on: croft attach 118\ncroft: no runtime\n"},
		"the connection breaks in an input": {args: "118", spec: v1.JobSpec{Stdin: true}, typed: []string{"cut"}, code: 125,
			stderr: "the connection was lost; 118 goes on: its input has ended; croft logs -f 118\ncroft: the croft server at unix:///run/croft/croft.sock went away before it answered\n"},
		"^C": {args: "118", spec: v1.JobSpec{Stdin: true}, typed: []string{"one", ""}, signal: os.Interrupt, code: 130, stdout: "[one]", stderr: "left 118: it goes on, its input has ended\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				s.job.Spec = test.spec
				if !test.waits {
					s.run()
				}
				b := newBench(t, s)
				raw := 0
				if test.terminal {
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
				code := b.run(append([]string{"attach"}, strings.Fields(test.args)...)...)
				_ = in.Close()
				<-fed
				if code != test.code || raw != test.raw {
					t.Errorf("exit %d, want %d; raw %d, want %d", code, test.code, raw, test.raw)
				}
				if diff := cmp.Diff(test.stdout, b.stdout.String()); diff != "" {
					t.Errorf("stdout (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.stderr, b.stderr.String()); diff != "" {
					t.Errorf("stderr (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestRunAttached is croft run with an input: it comes with the job from its start.
func TestRunAttached(t *testing.T) {
	tests := map[string]struct {
		args     string
		terminal bool
		play     func(s *stage)
		typed    []string
		asked    string // of the server
		code     int
		stdout   string
		stderr   string
	}{
		"an input": {args: "-q -i", play: (*stage).run, typed: []string{"one"}, stdout: "[one]",
			asked: `{"image":"train:1","stdin":true,"await_attach":true,"requeue":["never"]}`},
		"a terminal": {args: "-q --tty", terminal: true, play: (*stage).run, typed: []string{"one", "exit"}, code: 7, stdout: "[one]exit",
			asked: `{"image":"train:1","stdin":true,"tty":true,"await_attach":true}`},
		"detached": {args: "-q --tty --requeue node", terminal: true, play: (*stage).run, typed: []string{"\x10\x11"}, stderr: "detached from 118: croft attach 118\n",
			asked: `{"image":"train:1","stdin":true,"tty":true,"await_attach":true,"requeue":["node"]}`},
		"too late to attach": {args: "-i", play: func(s *stage) { s.print(1, "short\n"); s.run(); s.end("completed", &zero) }, stdout: "short\n",
			stderr: "quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now\n118 running on gpu1\n118 completed 0.0s: deposit 2.288, charged 1.373, returned 0.915\n"},
		"never starts": {args: "-q -i", play: func(s *stage) { s.end("cancelled", nil) }, code: 143},
		"queued again": {args: "-q --tty", terminal: true, play: func(s *stage) {
			s.run()
			<-time.After(1500 * time.Millisecond)
			s.do(func(j *v1.Job) { j.State, j.Message, j.Started = "queued", "preempted", nil })
			<-time.After(2 * time.Minute)
			s.run()
		}, typed: []string{"one", "bye", "", "two", "exit"}, code: 7, stdout: "[one][two]exit", stderr: "\n118 waits again: preempted\n"},
		"the connection breaks": {args: "-q -i", play: (*stage).run, typed: []string{"cut"}, code: 125,
			stderr: "the connection was lost; 118 goes on: its input has ended; croft logs -f 118\ncroft: the croft server at unix:///run/croft/croft.sock went away before it answered\n"},
		"the runtime goes away": {args: "-q -i", play: func(s *stage) { s.print(1, "not to be seen twice"); s.run() }, typed: []string{"one", "crash"}, code: 125, stdout: "[one]",
			stderr: "the connection was lost; 118 goes on: its input has ended; croft logs -f 118\ncroft: no runtime\n"},
		"no terminal":  {args: "--tty", play: (*stage).run, code: 2, stderr: "croft: --tty: standard input and output aren't a terminal; without it, -i passes the input on\n"},
		"docker's -it": {args: "-it", play: (*stage).run, code: 2, stderr: "croft: -t is the time limit here, and \"train:1\" isn't one: for a terminal write --tty\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				b := newBench(t, s)
				b.app.env.Now = time.Now
				raw := 0
				if test.terminal {
					b.app.env.Term = terminalOf(&raw)
				}
				in, feed := io.Pipe()
				b.app.env.Stdin = in
				played := make(chan struct{})
				go func() { defer close(played); test.play(s) }()
				fed := make(chan struct{})
				go func() {
					defer close(fed)
					for _, part := range test.typed {
						<-time.After(time.Second)
						if part == "" {
							<-time.After(3 * time.Minute)
							continue
						}
						_, _ = feed.Write([]byte(part))
					}
					<-time.After(time.Second)
					_ = feed.Close()
				}()
				code := b.run(append(append([]string{"run"}, strings.Fields(test.args)...), "train:1", "sh")...)
				_ = in.Close()
				<-fed
				<-played
				if code != test.code || raw%2 != 0 {
					t.Errorf("exit %d, want %d; the terminal was touched %d times", code, test.code, raw)
				}
				if diff := cmp.Diff(test.stdout, b.stdout.String()); diff != "" {
					t.Errorf("stdout (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.stderr, b.stderr.String()); diff != "" {
					t.Errorf("stderr (-want +got):\n%s", diff)
				}
				if got := strings.Replace(s.submitted, `,"command":["sh"]`, "", 1); test.asked != "" && got != test.asked {
					t.Errorf("asked for %s, want %s", got, test.asked)
				}
			})
		})
	}
}
