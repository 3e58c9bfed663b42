package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/cli/memnet"
)

var update = flag.Bool("update", false, "write the golden files anew")

// now is the moment of all golden tests: a Tuesday, 15:10 where the viewer is.
var now = time.Date(2026, 12, 1, 14, 10, 0, 0, time.UTC)

var zone = time.FixedZone("CET", 3600)

func at(hour, minute int) *time.Time {
	t := time.Date(2026, 12, 1, hour, minute, 0, 0, zone)
	return &t
}

func day(year int, month time.Month, day int) *time.Time {
	t := time.Date(year, month, day, 0, 0, 0, 0, zone)
	return &t
}

func utc(year int, month time.Month, day int) *time.Time {
	t := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	return &t
}

// buffer is a stream that several goroutines write to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// fake answers requests from a table of "METHOD /path" and keeps what it was
// asked.
type fake struct {
	mu      sync.Mutex
	answers map[string]any
	asked   []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	line := strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(body))
	f.mu.Lock()
	f.asked = append(f.asked, line)
	got, ok := f.answers[r.Method+" "+r.URL.Path]
	f.mu.Unlock()
	switch v := got.(type) {
	case http.HandlerFunc:
		v(w, r)
	case *v1.Problem:
		reply(w, v.Status, v)
	default:
		if !ok {
			v = v1.Problem{Title: "Not found", Code: "not_found", Detail: "no such thing: " + r.URL.Path}
			reply(w, http.StatusNotFound, v)
			return
		}
		reply(w, http.StatusOK, v)
	}
}

// requests is what it was asked so far. A request that its asker gave up may still
// be under way when a command has ended.
func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// bench is a command line with everything around it replaced.
type bench struct {
	app            *app
	stdout, stderr *buffer
	vars           map[string]string
	environ        []string
	signals        chan os.Signal
	net            *memnet.Net
}

func newBench(t *testing.T, h http.Handler) *bench {
	t.Helper()
	b := &bench{stdout: &buffer{}, stderr: &buffer{}, vars: map[string]string{}, signals: make(chan os.Signal)}
	b.net = memnet.New(h)
	b.net.Up()
	hc := b.net.Client()
	api, err := v1.New(v1.Config{Server: "unix:///run/croft/croft.sock", HTTPClient: hc})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.net.Down()
		hc.CloseIdleConnections()
	})
	b.app = &app{api: api, env: Env{
		Stdin:   strings.NewReader(""),
		Stdout:  b.stdout,
		Stderr:  b.stderr,
		Getenv:  func(k string) string { return b.vars[k] },
		Environ: func() []string { return b.environ },
		UID:     1001,
		Dir:     "/home/ada",
		Host:    "desk",
		Now:     func() time.Time { return now },
		Zone:    zone,
		Signals: func(...os.Signal) (<-chan os.Signal, func()) { return b.signals, func() {} },
		Program: func(name string) (string, error) { return "/opt/croft/" + name, nil },
		Browser: func(string) error { return errNoBrowser },
		Own:     func(_, _ string) bool { return true },
		Exec: func(path string, args []string) error {
			return errors.New("exec " + strings.Join(args, " "))
		},
	}}
	return b
}

// run runs a command line and returns its exit code.
func (b *bench) run(args ...string) int { return b.runAs("croft", args...) }

// runAs is run for a program that is called by another name.
func (b *bench) runAs(program string, args ...string) int {
	b.app.env.Args = append([]string{"/usr/local/lib/croft/bin/" + program}, args...)
	return b.app.main()
}

// golden compares got with a file, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with: go test ./internal/cli -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test ./internal/cli -update):\n%s", path, diff)
	}
}
