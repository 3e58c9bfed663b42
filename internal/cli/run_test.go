package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
)

func TestInterrupts(t *testing.T) {
	tests := map[string]struct {
		ask  bool
		sigs []os.Signal
		want []action
	}{
		"three ^C":            {true, []os.Signal{os.Interrupt, os.Interrupt, os.Interrupt}, []action{actAsk, actCancel, actLeave}},
		"nobody to ask":       {false, []os.Signal{os.Interrupt, os.Interrupt}, []action{actCancel, actLeave}},
		"SIGTERM":             {true, []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, []action{actCancel, actLeave}},
		"^C and then SIGTERM": {true, []os.Signal{os.Interrupt, syscall.SIGTERM, os.Interrupt}, []action{actAsk, actCancel, actLeave}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			i := interrupts{ask: test.ask}
			var got []action
			for _, s := range test.sigs {
				got = append(got, i.next(s))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

// stage is a server with one job on it, whose life is a list of steps on the
// clock.
type stage struct {
	mu     sync.Mutex
	job    v1.Job
	log    []v1.LogFrame
	change chan struct{} // closed at every change
	asked  []string

	submitted string

	terminals []string  // what was asked of them
	back      time.Time // when a server that is away is back
	gone      bool      // the terminal has ended unseen
}

func newStage() *stage {
	return &stage{job: v1.Job{ID: "118", State: "queued", Receipt: deposit, Window: &v1.Window{Kind: "now"}}, change: make(chan struct{})}
}

// do changes the job.
func (s *stage) do(f func(j *v1.Job)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.job)
	s.job.Seq++
	close(s.change)
	s.change = make(chan struct{})
}

func (s *stage) run() {
	s.do(func(j *v1.Job) {
		start := time.Now()
		j.State, j.Progress, j.Node, j.Started = "running", "", "gpu1", &start
	})
}

func (s *stage) print(stream byte, text string) {
	s.do(func(*v1.Job) { s.log = append(s.log, v1.LogFrame{Stream: stream, At: time.Now(), Data: []byte(text)}) })
}

func (s *stage) end(outcome string, code *int) {
	s.do(func(j *v1.Job) {
		end := time.Now()
		j.State, j.Outcome, j.ExitCode, j.Ended = "ended", outcome, code, &end
		j.Receipt = done.Receipt
	})
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	switch {
	case r.Method == "POST" && r.URL.Path == "/v1/jobs":
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.submitted = strings.TrimSpace(string(body))
		_ = json.Unmarshal(body, &s.job.Spec)
		reply(w, http.StatusCreated, s.job)
	case strings.HasSuffix(r.URL.Path, "/stop"):
		s.end("cancelled", nil)
		reply(w, 200, s.job)
	case strings.HasSuffix(r.URL.Path, "/attach"):
		s.serveAttach(w, r)
	case strings.Contains(r.URL.Path, "/terminals"):
		s.serveTerminal(w, r)
	case strings.HasSuffix(r.URL.Path, "/steps/1"):
		s.serveStep(w)
	case strings.HasSuffix(r.URL.Path, "/logs"):
		s.serveLog(w, r)
	default:
		s.serveJob(w, r)
	}
}

func (s *stage) serveJob(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil {
		reply(w, 422, v1.Problem{Code: "invalid", Detail: err.Error()})
		return
	}
	late := time.After(d)
	for waiting := true; waiting; {
		s.mu.Lock()
		change, state := s.change, s.job.State
		s.mu.Unlock()
		if state == "ended" || (r.URL.Query().Get("wait") == "running" && state == "running") {
			break
		}
		select {
		case <-change:
		case <-late:
			waiting = false
		case <-r.Context().Done():
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	reply(w, 200, s.job)
}

func (s *stage) serveLog(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(200)
	w.(http.Flusher).Flush()
	for sent := 0; ; {
		s.mu.Lock()
		change, ended, log := s.change, s.job.State == "ended", s.log
		s.mu.Unlock()
		for ; sent < len(log); sent++ {
			_, _ = w.Write(v1.AppendLogFrame(nil, log[sent]))
		}
		w.(http.Flusher).Flush()
		if ended {
			return
		}
		select {
		case <-change:
		case <-r.Context().Done():
			return
		}
	}
}

// TestRun plays whole jobs on a clock of their own.
func TestRun(t *testing.T) {
	tests := map[string]struct {
		args     string
		terminal bool
		play     func(s *stage, b *bench)
		code     int
		stdout   string
		stderr   string
	}{
		"completes": {
			play: func(s *stage, _ *bench) {
				<-time.After(2 * time.Second)
				s.run()
				s.print(1, "epoch 1\n")
				s.print(2, "warning\n")
				<-time.After(72 * time.Minute)
				s.end("completed", &zero)
			},
			stdout: "epoch 1\n",
			stderr: `quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now
118 running on gpu1
warning
118 completed 1h12m: deposit 2.288, charged 1.373, returned 0.915
`,
		},
		"ends before anybody looks": {
			play:   func(s *stage, _ *bench) { s.print(1, "x"); s.run(); s.end("completed", &zero) },
			stdout: "x",
			stderr: `quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now
118 running on gpu1
118 completed 0.0s: deposit 2.288, charged 1.373, returned 0.915
`,
		},
		"quiet": {
			args:   "-q",
			play:   func(s *stage, _ *bench) { s.run(); s.print(1, "x\n"); s.end("failed", &seven) },
			code:   7,
			stdout: "x\n",
		},
		"progress in lines": {
			play: func(s *stage, _ *bench) {
				for _, p := range []string{"pulling 10 %", "pulling 20 %", "pulling 30 %", "unpacking"} {
					s.do(func(j *v1.Job) { j.State, j.Progress = "starting", p })
					<-time.After(8 * time.Second)
				}
				s.run()
				s.end("completed", &zero)
			},
			stderr: `quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now
118 pulling 10 %
118 unpacking
118 running on gpu1
118 completed 0.0s: deposit 2.288, charged 1.373, returned 0.915
`,
		},
		"progress in place": {
			terminal: true,
			play: func(s *stage, _ *bench) {
				for _, p := range []string{"pulling 10 %", "pulling 20 %"} {
					s.do(func(j *v1.Job) { j.State, j.Progress = "starting", p })
					<-time.After(8 * time.Second)
				}
				s.run()
				s.print(1, "no end of line")
				<-time.After(time.Second)
				s.end("completed", &zero)
			},
			stdout: "no end of line",
			stderr: "quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now\n" +
				"\r\x1b[K118 pulling 10 %\r\x1b[K118 pulling 20 %\r\x1b[K118 running on gpu1\n" +
				"\n118 completed 1.0s: deposit 2.288, charged 1.373, returned 0.915\n",
		},
		"killed by its limit, though it says 0": {
			play: func(s *stage, _ *bench) {
				s.run()
				s.do(func(j *v1.Job) { j.Message = "its 2h were up" })
				s.end("timed_out", &zero)
			},
			code: 1,
			stderr: `quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now
118 running on gpu1
118 timed out 0.0s: deposit 2.288, charged 1.373, returned 0.915
its 2h were up
`,
		},
		"the node fails": {
			play: func(s *stage, _ *bench) { s.run(); s.end("node_failed", nil) },
			code: 125,
			stderr: `quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now
118 running on gpu1
118 node failed 0.0s: deposit 2.288, charged 1.373, returned 0.915
`,
		},
		"the server restarts": {
			play: func(s *stage, b *bench) {
				s.run()
				s.print(1, "before\n")
				<-time.After(10 * time.Second)
				b.net.Down()
				s.print(1, "meanwhile\n")
				<-time.After(30 * time.Second)
				b.net.Up()
				<-time.After(10 * time.Second)
				s.print(1, "after\n")
				s.end("completed", &zero)
			},
			stdout: "before\nmeanwhile\nafter\n",
			stderr: `quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now
118 running on gpu1
118 completed 50s: deposit 2.288, charged 1.373, returned 0.915
`,
		},
		"the server is gone": {
			play: func(s *stage, b *bench) { s.run(); <-time.After(time.Second); b.net.Down() },
			code: 125,
			stderr: `quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now
118 running on gpu1
job 118 goes on: croft logs -f 118
croft: croft server isn't running at unix:///run/croft/croft.sock: start it with ` + "`croft server`\n",
		},
		"queued again": {
			play: func(s *stage, _ *bench) {
				s.run()
				<-time.After(10 * time.Second)
				s.do(func(j *v1.Job) { j.State, j.Message, j.Started = "queued", "preempted", nil })
				<-time.After(2 * time.Minute)
				s.run()
				<-time.After(time.Second)
				s.end("completed", &zero)
			},
			stderr: `quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now
118 running on gpu1
118 waits again: preempted
118 running on gpu1
118 completed 1.0s: deposit 2.288, charged 1.373, returned 0.915
`,
		},
		"^C twice cancels": {
			terminal: true,
			play: func(s *stage, b *bench) {
				s.run()
				<-time.After(time.Second)
				b.signals <- os.Interrupt
				<-time.After(time.Second)
				b.signals <- os.Interrupt
			},
			code: 143,
			stderr: "quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now\n118 running on gpu1\n" +
				"^C again cancels job 118; it goes on otherwise: croft logs -f 118\ncancelling 118\n" +
				"118 cancelled 2.0s: deposit 2.288, charged 1.373, returned 0.915\n",
		},
		"^C in a script cancels": {
			play: func(s *stage, b *bench) {
				s.run()
				<-time.After(time.Second)
				b.signals <- os.Interrupt
			},
			code: 143,
			stderr: "quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now\n118 running on gpu1\n" +
				"cancelling 118\n118 cancelled 1.0s: deposit 2.288, charged 1.373, returned 0.915\n",
		},
		"^C thrice leaves": {
			terminal: true,
			play: func(s *stage, b *bench) {
				s.run()
				<-time.After(time.Second)
				b.signals <- os.Interrupt
				b.net.Down() // so that the cancellation doesn't arrive
				b.signals <- os.Interrupt
				<-time.After(time.Second)
				b.signals <- os.Interrupt
			},
			code: 130,
			stderr: "quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now\n118 running on gpu1\n" +
				"^C again cancels job 118; it goes on otherwise: croft logs -f 118\ncancelling 118\n" +
				"left 118: croft show 118\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				b := newBench(t, s)
				b.app.env.Now = time.Now
				b.app.env.Term = Terminal{In: test.terminal, Err: test.terminal}
				go test.play(s, b)
				args := append([]string{"run"}, strings.Fields(test.args)...)
				code := b.run(append(args, "train:1")...)
				if code != test.code {
					t.Errorf("exit %d, want %d", code, test.code)
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

// TestRunIgnoresOldViews: of two answers on their way, the older may come last.
func TestRunIgnoresOldViews(t *testing.T) {
	b := newBench(t, newStage())
	f := newFollower(b.app, nil, "118", tellAll)
	start := time.Now()
	f.observe(t.Context(), &v1.Job{ID: "118", Seq: 2, State: "running", Started: &start, Node: "gpu1"})
	f.observe(t.Context(), &v1.Job{ID: "118", Seq: 1, State: "starting"})
	if diff := cmp.Diff("118 running on gpu1\n", b.stderr.String()); diff != "" {
		t.Errorf("stderr (-want +got):\n%s", diff)
	}
}

// TestRunIsFourRequests: a short job costs the submission and three requests
// that are made at once.
func TestRunIsFourRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		b := newBench(t, s)
		go func() {
			<-time.After(100 * time.Millisecond)
			s.run()
			<-time.After(100 * time.Millisecond)
			s.end("completed", &zero)
		}()
		begin := time.Now()
		if code := b.run("run", "train:1"); code != 0 {
			t.Errorf("exit %d: %s", code, b.stderr)
		}
		if len(s.asked) != 4 || time.Since(begin) != 200*time.Millisecond {
			t.Errorf("took %v and asked for %q", time.Since(begin), s.asked)
		}
	})
}

// TestSubmitIsRepeated: when the answer is lost, the same submission is made
// again under the same key; when no server is there, it isn't.
func TestSubmitIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		b := newBench(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			keys = append(keys, r.Header.Get("Idempotency-Key"))
			if len(keys) == 1 {
				panic(http.ErrAbortHandler)
			}
			reply(w, http.StatusCreated, queued)
		}))
		if code := b.run("submit", "--key", "k", "train:1"); code != 0 || b.stdout.String() != "131\n" {
			t.Errorf("exit %d: %s", code, b.stderr)
		}
		if diff := cmp.Diff([]string{"k", "k"}, keys); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, http.NotFoundHandler())
		b.net.Down()
		begin := time.Now()
		if code := b.run("submit", "train:1"); code != 125 || time.Since(begin) > 0 {
			t.Errorf("exit %d after %v: %s", code, time.Since(begin), b.stderr)
		}
	})
}

func TestExitCode(t *testing.T) {
	tests := map[string]struct {
		outcome string
		code    *int
		want    int
	}{
		"completed":           {"completed", &zero, 0},
		"completed, no code":  {"completed", nil, 0},
		"failed":              {"failed", &seven, 7},
		"failed with 0":       {"failed", &zero, 1},
		"never started":       {"failed", nil, 125},
		"cancelled with 0":    {"cancelled", &zero, 143},
		"cancelled with 7":    {"cancelled", &seven, 7},
		"cancelled in queue":  {"cancelled", nil, 143},
		"timed out":           {"timed_out", nil, 1},
		"out of memory":       {"out_of_memory", nil, 1},
		"node failed":         {"node_failed", nil, 125},
		"an outcome to come":  {"eaten", nil, 125},
		"an outcome and zero": {"eaten", &zero, 125},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := exitCode(&v1.Job{Outcome: test.outcome, ExitCode: test.code}); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
