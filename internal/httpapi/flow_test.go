package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/tenancy"
)

var update = flag.Bool("update", false, "write the golden answers anew")

// golden compares an answer with testdata/NAME.json.
func (h *harness) golden(name string, status int, r request) {
	h.t.Helper()
	a := h.send(r)
	if a.status != status {
		h.t.Fatalf("%s: status %d, want %d: %s", name, a.status, status, a.body)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, a.body, "", "  "); err != nil {
		h.t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			h.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		h.t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// The life of a job, as its user sees it: quote, submission, queue, run, receipt,
// refusal, remedy, statement, and the books in order.
func TestLifeOfAJob(t *testing.T) {
	h := newHarness(t)
	big := example()
	big.GPU = "8"
	four := example()
	four.GPU = "4"
	h.golden("quote", 200, request{method: "POST", path: "/v1/quotes", user: "ada", body: example()})
	h.golden("quote-refused", 200, request{method: "POST", path: "/v1/quotes", user: "ada", body: big})
	h.golden("submitted", 201, request{method: "POST", path: "/v1/jobs", user: "ada", body: four})
	h.golden("refused", 422, request{method: "POST", path: "/v1/jobs", user: "ada", body: big})
	h.golden("refused-job", 200, request{method: "GET", path: "/v1/jobs/R-1", user: "ada"})
	h.golden("remedied", 201, request{method: "POST", path: "/v1/jobs/R-1/clone", user: "ada", body: v1.CloneRequest{Set: map[string]string{"gpu": "4", "command": "sh -c 'echo $A'", "env.A": "b"}}})
	h.start("1")
	h.pass(30 * time.Minute)
	h.golden("running", 200, request{method: "GET", path: "/v1/jobs/1", user: "ada"})
	h.golden("why-waiting", 200, request{method: "GET", path: "/v1/jobs/2/why", user: "ada"})
	h.golden("why-running", 200, request{method: "GET", path: "/v1/jobs/1/why", user: "mia"})
	h.golden("nodes-redacted", 200, request{method: "GET", path: "/v1/nodes", user: "ben"})
	h.golden("status", 200, request{method: "GET", path: "/v1/status", user: "ben"})
	h.end("1", 0)
	h.golden("ended", 200, request{method: "GET", path: "/v1/jobs/1", user: "ada"})
	h.golden("jobs", 200, request{method: "GET", path: "/v1/jobs", user: "ada"})
	h.golden("account", 200, request{method: "GET", path: "/v1/accounts/nlp", user: "ada"})
	h.golden("statement", 200, request{method: "GET", path: "/v1/statements/accounts/nlp?period=2026-11&by=device", user: "otto"})
	h.golden("transfers", 200, request{method: "GET", path: "/v1/ledger/transfers?job=1", user: "ada"})
	h.golden("events", 200, request{method: "GET", path: "/v1/events?job=1", user: "ada"})
	h.golden("verification", 200, request{method: "GET", path: "/v1/ledger/verify", user: "otto"})
}

func (h *harness) client(user string) *v1.Client {
	h.t.Helper()
	c, err := v1.New(v1.Config{Server: h.web.URL, Token: h.tokens[user]})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	return c
}

// Every page of a list together is the whole, each job once and the newest first;
// a cursor of one question is no cursor of another.
func TestPages(t *testing.T) {
	h := newHarness(t)
	for range 7 {
		h.submit("ada")
	}
	h.submit("ben")
	h.submit("mia")
	h.start("1")
	h.end("1", 1)
	tests := map[string]struct {
		user, query string
		want        string
	}{
		"own, live":                    {"ada", "?limit=2", "7 6 5 4 3 2"},
		"own, all":                     {"ada", "?limit=2&state=all", "7 6 5 4 3 2 1"},
		"own, ended":                   {"ada", "?limit=2&state=ended", "1"},
		"a member sees only his own":   {"ada", "?limit=2&user=*", "7 6 5 4 3 2"},
		"a manager sees the account's": {"mia", "?limit=2&user=*", "9 8 7 6 5 4 3 2"},
		"a manager, all":               {"mia", "?limit=2&user=*&state=all", "9 8 7 6 5 4 3 2 1"},
		"a manager, one user":          {"mia", "?limit=2&user=ada&state=queued", "7 6 5 4 3 2"},
		"an auditor sees everything":   {"otto", "?limit=4&user=*&state=all", "9 8 7 6 5 4 3 2 1"},
		"one account":                  {"otto", "?limit=4&user=*&account=vision", "8"},
		"a stranger sees nothing":      {"zoe", "?user=*&state=all", ""},
		"a stranger asks for one user": {"zoe", "?user=ada&state=all", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for next := ""; ; {
				p := get[v1.Page[v1.Job]](h, 200, request{method: "GET", path: "/v1/jobs" + tt.query + "&cursor=" + next, user: tt.user})
				for _, j := range p.Items {
					got = append(got, j.ID)
				}
				if next = p.Next; next == "" {
					break
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
		})
	}
	first := get[v1.Page[v1.Job]](h, 200, request{method: "GET", path: "/v1/jobs?limit=2", user: "ada"})
	get[v1.Problem](h, 422, request{method: "GET", path: "/v1/jobs?limit=2&state=all&cursor=" + first.Next, user: "ada"})
	get[v1.Problem](h, 422, request{method: "GET", path: "/v1/jobs?limit=2&cursor=" + first.Next, user: "mia"})
}

// A wait is answered when the job has come so far, not before and not much later.
func TestWait(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	early := get[v1.Job](h, 200, request{method: "GET", path: "/v1/jobs/" + job + "?wait=running&timeout=1ms", user: "ada"})
	if early.State != "queued" {
		t.Errorf("after the time-out the job is %s, want queued", early.State)
	}
	answers := make(chan v1.Job)
	go func() {
		answers <- get[v1.Job](h, 200, request{method: "GET", path: "/v1/jobs/" + job + "?wait=ended&timeout=1m", user: "ada"})
	}()
	h.start(job)
	h.end(job, 3)
	if j := <-answers; j.State != "ended" || *j.ExitCode != 3 {
		t.Errorf("the wait gave %s, want ended with 3", j.State)
	}
	for _, bad := range []string{"?wait=soon", "?wait=ended&timeout=x", "?wait=ended&timeout=-1s"} {
		get[v1.Problem](h, 422, request{method: "GET", path: "/v1/jobs/" + job + bad, user: "ada"})
	}
}

// Following a log begins before the job does and goes on until it has ended.
func TestLogs(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	written := make(chan struct{})
	h.engine.logs = func(_ context.Context, a engine.StepID, o engine.LogOptions, w engine.LogWriter) error {
		if a.String() != "0a1b2c3d-1-1.1" {
			return &engine.NotFoundError{Attempt: a.Attempt}
		}
		defer close(written)
		return errors.Join(w.WriteLog(time.Unix(1, 2), engine.Stdout, []byte("epoch 1\n")), w.WriteLog(time.Unix(3, 4), engine.Stderr, []byte("warn\n")))
	}
	log, err := h.client("ada").Logs(t.Context(), job, v1.LogQuery{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	h.start(job)
	<-written
	var got []string
	for range 2 {
		f, err := log.Next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string('0'+f.Stream)+" "+string(f.Data))
	}
	h.end(job, 0)
	if _, err := log.Next(); err != io.EOF {
		t.Errorf("after the end: %v, want EOF", err)
	}
	if diff := cmp.Diff([]string{"1 epoch 1\n", "2 warn\n"}, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// What goes wrong with a log is a status before it has begun and a frame after.
func TestLogFailures(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	h.start(job)
	secret := errors.New("dial /run/s3cret.sock")
	tests := map[string]struct {
		err   error
		begun bool
		want  codes.Code
	}{
		"gone":           {&engine.NotFoundError{}, false, codes.Gone},
		"runtime away":   {&engine.UnavailableError{Cause: secret}, false, codes.Unavailable},
		"own failure":    {secret, false, codes.Internal},
		"away, midway":   {&engine.UnavailableError{Cause: secret}, true, codes.Unavailable},
		"failure midway": {secret, true, codes.Internal},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h.engine.logs = func(_ context.Context, _ engine.StepID, _ engine.LogOptions, w engine.LogWriter) error {
				if tt.begun {
					_ = w.WriteLog(time.Unix(0, 0), engine.Stdout, []byte("x"))
				}
				return tt.err
			}
			log, err := h.client("ada").Logs(t.Context(), job, v1.LogQuery{})
			if tt.begun {
				if err != nil {
					t.Fatal(err)
				}
				if _, err = log.Next(); err != nil {
					t.Fatal(err)
				}
				_, err = log.Next()
			}
			if v1.CodeOf(err) != tt.want || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v (%s), want %s", err, v1.CodeOf(err), tt.want)
			}
		})
	}
}

// A command in a job: input, sizes and output go where they belong, and its exit
// code comes back.
func TestExec(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	c := h.client("ada")
	if _, err := c.Exec(t.Context(), job, v1.ExecOptions{Args: []string{"id"}}); v1.CodeOf(err) != codes.Conflict {
		t.Errorf("exec in a waiting job: %v, want a conflict", err)
	}
	h.start(job)
	h.engine.exec = func(_ context.Context, a engine.StepID, req engine.ExecRequest) (int, error) {
		size := <-req.Resize
		in, err := io.ReadAll(req.Stdin)
		if err != nil || a.String() != "0a1b2c3d-1-1.1" || size.Cols != 80 || !req.TTY {
			return 0, &engine.StartError{Message: "unexpected"}
		}
		_, _ = io.WriteString(req.Stdout, strings.Join(req.Command, " ")+": "+string(in))
		_, _ = io.WriteString(req.Stderr, "err")
		return 7, nil
	}
	var out, errs bytes.Buffer
	code, err := c.Exec(t.Context(), job, v1.ExecOptions{Args: []string{"tr", "a", "b"}, TTY: true, Size: v1.TerminalSize{Cols: 80, Rows: 24}, Stdin: strings.NewReader("aaa"), Stdout: &out, Stderr: &errs})
	if err != nil || code != 7 || out.String() != "tr a b: aaa" || errs.String() != "err" {
		t.Errorf("exec: %d, %v, %q, %q", code, err, out.String(), errs.String())
	}
	h.engine.exec = func(context.Context, engine.StepID, engine.ExecRequest) (int, error) {
		return 0, errors.New("s3cret")
	}
	if _, err := c.Exec(t.Context(), job, v1.ExecOptions{Args: []string{"x"}}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a failure inside: %v", err)
	}
}

// Events come as they happen, and only those that the viewer may see.
func TestEventStream(t *testing.T) {
	h := newHarness(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	after := h.seq.World().Seq
	h.submit("ben")
	mine := h.submit("ada")
	var got []string
	for e, err := range h.client("ada").FollowEvents(ctx, v1.EventQuery{After: after}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Kind+" "+e.Job+" "+e.State)
		if len(got) == 1 {
			h.start(mine)
		}
		if len(got) == 3 {
			break
		}
	}
	if diff := cmp.Diff([]string{"job.submit 2 queued", "job.start 2 starting", "job.observed 2 running"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// On the socket the kernel's word counts, as long as the uid still is the name's.
func TestUnixSocket(t *testing.T) {
	h := newHarness(t)
	uid := int64(os.Getuid())
	path := filepath.Join(t.TempDir(), "croft.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var reused []string
	deps := h.server.Deps
	deps.Reused = func(u tenancy.User, now string) { reused = append(reused, u.Name+"→"+now) }
	s, err := New(deps)
	if err != nil {
		t.Fatal(err)
	}
	web := s.HTTP(nil)
	go func() { _ = web.Serve(l) }() // ends with Close
	defer web.Close()
	// The token is another's: on the socket it must not count.
	c, err := v1.New(v1.Config{Server: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	steps := []struct {
		name   string
		before func()
		want   codes.Code
		says   string
	}{
		{"a uid without a name", func() {}, codes.Denied, "no name"},
		{"nobody of Croft's", func() { h.people.names[uid] = "ada" }, codes.Denied, "croft user add ada"},
		{"bound", func() { h.as("root", command.UserPut{Name: "ada", UID: &uid}) }, "", ""},
		{"the uid was given to another", func() { h.people.names[uid] = "eve" }, codes.Denied, "--rebind"},
		{"the machine can't be asked", func() { h.people.err = errors.New("sssd is away") }, codes.Unavailable, "try again"},
		{"all is well again", func() { h.people.names[uid], h.people.err = "ada", nil }, "", ""},
	}
	for _, step := range steps {
		step.before()
		me, err := c.Me(t.Context())
		if v1.CodeOf(err) != step.want || err != nil && !strings.Contains(err.Error(), step.says) {
			t.Errorf("%s: %v, want %q with %q", step.name, err, step.want, step.says)
		}
		if err == nil && me.User != "ada" {
			t.Errorf("%s: the caller is %s", step.name, me.User)
		}
	}
	if diff := cmp.Diff([]string{"ada→eve"}, reused); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

// When the server stops, whoever waits is answered, with the job as it is.
func TestShutdownAnswersWaits(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	s, err := New(Deps{Sequencer: &watched{Sequencer: h.seq, waiting: waiting}, Reader: h.reader, Engine: h.engine, People: h.people, Now: h.now.Load})
	if err != nil {
		t.Fatal(err)
	}
	web := s.HTTP(nil)
	go func() { _ = web.Serve(l) }() // ends with Shutdown
	h.web.URL = "http://" + l.Addr().String()
	got := make(chan v1.Job)
	go func() {
		got <- get[v1.Job](h, 200, request{method: "GET", path: "/v1/jobs/" + job + "?wait=ended&timeout=10m", user: "ada"})
	}()
	<-waiting
	if err := web.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if j := <-got; j.State != "queued" {
		t.Errorf("the wait gave %s, want queued", j.State)
	}
}

// watched tells when somebody begins to wait.
type watched struct {
	Sequencer
	waiting chan struct{}
	once    sync.Once
}

func (w *watched) Watch() <-chan struct{} {
	w.once.Do(func() { close(w.waiting) })
	return w.Sequencer.Watch()
}

// A panic and an error inside are answered alike: a number, and nothing else.
func TestFailuresStayInside(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	h.start(job)
	h.engine.logs = func(context.Context, engine.StepID, engine.LogOptions, engine.LogWriter) error { panic("s3cret") }
	a := h.send(request{method: "GET", path: "/v1/jobs/" + job + "/logs", user: "ada"})
	if a.status != http.StatusInternalServerError || bytes.Contains(a.body, []byte("s3cret")) || a.header.Get(requestID) == "" {
		t.Errorf("status %d, request %q: %s", a.status, a.header.Get(requestID), a.body)
	}
}

func TestHealth(t *testing.T) {
	h := newHarness(t)
	broken := errors.New("s3cret")
	var storeErr error
	deps := h.server.Deps
	deps.Ready = []Check{{"store", func(context.Context) error { return storeErr }}, {"engine", func(context.Context) error { return nil }}}
	s, err := New(deps)
	if err != nil {
		t.Fatal(err)
	}
	h.web.Config.Handler = s.Handler()
	for _, tt := range []struct {
		path   string
		err    error
		status int
		want   string
	}{
		{"/healthz", broken, 200, "ok\n"},
		{"/readyz", nil, 200, "store: ok\nengine: ok\n"},
		{"/readyz", broken, 503, "store: failing\nengine: ok\n"},
	} {
		storeErr = tt.err
		if a := h.send(request{method: "GET", path: tt.path}); a.status != tt.status || string(a.body) != tt.want {
			t.Errorf("%s: %d %q, want %d %q", tt.path, a.status, a.body, tt.status, tt.want)
		}
	}
	a := h.send(request{method: "GET", path: "/metrics"})
	for _, want := range []string{`croft_jobs{state="queued"} 0`, `croft_devices{state="free"} 4`, "croft_log_seq ", `croft_http_requests_total{method="GET",route="/healthz",status="200"} 1`} {
		if !bytes.Contains(a.body, []byte(want)) {
			t.Errorf("/metrics has no %q", want)
		}
	}
}

// The document in the repository is the one that the table makes.
func TestOpenAPIIsCurrent(t *testing.T) {
	want, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../api/v1/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Error("api/v1/openapi.yaml is not current: go generate ./internal/httpapi")
	}
}

// What goes on ends with the right that it was let in by.
func TestLongRequestsEndWithTheRight(t *testing.T) {
	operator := "operator"
	for name, withdraw := range map[string]func(h *harness){
		"blocked":      func(h *harness) { yes := true; h.as("root", command.UserPut{Name: "ada", Blocked: &yes}) },
		"another role": func(h *harness) { h.as("root", command.UserPut{Name: "ada", Role: &operator}) },
		"token revoked": func(h *harness) {
			for k, token := range h.seq.World().Tenancy.Tokens.All() {
				if u, _ := h.seq.World().Tenancy.User("ada"); token.User == u.ID {
					h.as("ada", command.TokenRevoke{User: "ada", Token: k})
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			job := h.submit("ada")
			h.start(job)
			began, over := make(chan struct{}), make(chan struct{})
			h.engine.exec = func(ctx context.Context, _ engine.StepID, _ engine.ExecRequest) (int, error) {
				close(began)
				<-ctx.Done()
				close(over)
				return 0, ctx.Err()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			go func() { _, _ = h.client("ada").Exec(ctx, job, v1.ExecOptions{Args: []string{"sh"}}) }()
			for _, c := range []chan struct{}{began, over} {
				select {
				case <-c:
				case <-ctx.Done():
					t.Fatal("the command goes on")
				}
				if c == began {
					withdraw(h)
				}
			}
		})
	}
}
