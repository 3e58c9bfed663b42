package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
)

// shell is a job's end of exec: it says what it was called with and what it was
// sent, and exits with 7.
func shell(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		send := func(channel byte, text string) {
			_ = conn.Write(r.Context(), websocket.MessageBinary, append([]byte{channel}, text...))
		}
		send(v1.ExecStderr, r.URL.RequestURI()+"\n")
		for {
			_, b, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			switch b[0] {
			case v1.ExecStdin:
				send(v1.ExecStdout, string(b[1:]))
			case v1.ExecEOF:
				send(v1.ExecExit, `{"exit_code":7}`)
				_ = conn.Close(websocket.StatusNormalClosure, "")
				return
			}
		}
	})
}

func TestExec(t *testing.T) {
	tests := map[string]struct {
		args     []string
		terminal bool
		stdout   string
		stderr   string
		code     int
		raw      int // times that the terminal was made raw and restored
	}{
		"plain":         {args: []string{"118", "--", "nvidia-smi", "-L"}, stderr: "/v1/jobs/118/exec?arg=nvidia-smi&arg=-L\n", code: 7},
		"input":         {args: []string{"-i", "118", "cat"}, stdout: "in", stderr: "/v1/jobs/118/exec?arg=cat\n", code: 7},
		"terminal":      {args: []string{"-it", "118", "--", "bash"}, terminal: true, stdout: "in", stderr: "/v1/jobs/118/exec?arg=bash&cols=90&rows=20&tty=true\n", code: 7, raw: 2},
		"no terminal":   {args: []string{"-it", "118", "--", "bash"}, stderr: "croft: -t: standard input and output aren't a terminal\n", code: 2},
		"no command":    {args: []string{"118"}, stderr: "croft: which job and command? croft exec JOB[.STEP] -- COMMAND… [flags]\nsee:  croft exec --help\n", code: 2},
		"job is a path": {args: []string{"..", "ls"}, stderr: "croft: \"..\" isn't a step: give the job's number, a dot and the step's, such as 118.2\n", code: 2},
		"in a step":     {args: []string{"-i", "118.3", "cat"}, stdout: "in", stderr: "/v1/jobs/118/exec?arg=cat&step=3\n", code: 7},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, shell(t))
			raw := 0
			b.app.env.Stdin = strings.NewReader("in")
			b.app.env.Term = Terminal{
				In: test.terminal, Out: test.terminal,
				Size: func() (v1.TerminalSize, bool) { return v1.TerminalSize{Cols: 90, Rows: 20}, true },
				Raw:  func() (func(), error) { raw++; return func() { raw++ }, nil },
			}
			code := b.run(append([]string{"exec"}, test.args...)...)
			if code != test.code || b.stdout.String() != test.stdout || b.stderr.String() != test.stderr || raw != test.raw {
				t.Errorf("exit %d, stdout %q, stderr %q, raw %d", code, b.stdout, b.stderr, raw)
			}
		})
	}
}

func TestFollowEvents(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for _, kind := range []string{"job.submit", "job.\x1b[2Jstart"} {
			e := event
			e.Kind = kind
			b, err := json.Marshal(e)
			if err != nil {
				t.Error(err)
			}
			_ = conn.Write(r.Context(), websocket.MessageText, b)
		}
		_ = conn.Close(websocket.StatusNormalClosure, "")
	})
	tests := map[string]string{
		"table": "  1204  15:09:00  job.submit  ada  131  queued  nlp DEVICES_BUSY\n  1204  15:09:00  job.\ufffd[2Jstart  ada  131  queued  nlp DEVICES_BUSY\n",
		"json":  `{"seq":1204,"at":"2026-12-01T15:09:00+01:00","kind":"job.submit","by":"ada","job":"131","account":"nlp","state":"queued","reasons":[{"code":"DEVICES_BUSY","message":""}]}` + "\n",
	}
	for format, want := range tests {
		t.Run(format, func(t *testing.T) {
			b := newBench(t, h)
			if code := b.run("events", "-f", "--after", "3", "-o", format); code != 0 || !strings.HasPrefix(b.stdout.String(), want) {
				t.Errorf("exit %d, %s\ngot  %q\nwant %q", code, b.stderr, b.stdout, want)
			}
		})
	}
}

// TestCompletionScripts: each shell accepts its script.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		b := newBench(t, &fake{})
		if code := b.run("completion", shell); code != 0 || !strings.Contains(b.stdout.String(), "__complete") {
			t.Errorf("%s: exit %d, %d bytes", shell, code, len(b.stdout.String()))
		}
	}
	b := newBench(t, &fake{})
	b.run("completion", "bash")
	check := exec.Command("bash", "-n")
	check.Stdin = strings.NewReader(b.stdout.String())
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("bash: %v: %s", err, out)
	}
}

// TestSystem runs a command in the real surroundings of a process, without a
// server.
func TestSystem(t *testing.T) {
	t.Setenv("CROFT_SERVER", "unix://"+filepath.Join(t.TempDir(), "none"))
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	env := System()
	var stderr bytes.Buffer
	env.Args, env.Stdout, env.Stderr = []string{"croft", "ls"}, out, &stderr
	if code := Main(env); code != 125 || !strings.Contains(stderr.String(), "croft server isn't running at unix://") {
		t.Errorf("exit %d: %s", code, &stderr)
	}
	env.Args = []string{"croft", "--server", "tcp://x", "ls"}
	stderr.Reset()
	if code := Main(env); code != 2 {
		t.Errorf("exit %d: %s", code, &stderr)
	}
}

// TestDaemonIsFoundBeside: croftd beside croft goes before one on PATH, through
// links too.
func TestDaemonIsFoundBeside(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"real/croft", "real/croftd"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "real", "croft"), filepath.Join(dir, "croft")); err != nil {
		t.Fatal(err)
	}
	if got, want := siblingPath(filepath.Join(dir, "croft"), "croftd"), filepath.Join(dir, "real", "croftd"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDaemonIsMissing says what to do.
func TestDaemonIsMissing(t *testing.T) {
	b := newBench(t, &fake{})
	b.app.env.Program = func(string) (string, error) { return "", exec.ErrNotFound }
	if code := b.run("server"); code != 125 || !strings.Contains(b.stderr.String(), "neither beside croft nor on PATH") {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
}

// FuzzArguments: no command line makes the program panic, and what it ends with
// is one of the documented exit codes.
func FuzzArguments(f *testing.F) {
	f.Add("ls\x00-a")
	f.Add("run\x00--gpu\x00-1\x00img\x00--x")
	f.Add("clone\x00R-7\x00--set\x00=")
	f.Add("statement\x00nlp\x00x")
	f.Add("limit\x00set\x00gpu\x00" + "9999999999999999999999")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		if len(args) > 0 && strings.HasPrefix(args[0], "__complete") {
			return
		}
		f := &fake{answers: maps.Clone(answers)}
		f.answers["POST /v1/jobs"] = refusal // else run would wait for the end
		f.answers["POST /v1/jobs/R-7/clone"] = refusal
		b := newBench(t, f)
		b.app.env.Stdin = io.LimitReader(strings.NewReader("image: a\n"), 9)
		b.app.env.Dir = t.TempDir()
		switch code := b.run(args...); code {
		case 0, 2, 3, 125:
		default:
			t.Errorf("exit %d: %s", code, b.stderr)
		}
	})
}
