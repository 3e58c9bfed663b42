package stories

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	_ "modernc.org/sqlite" // the driver of newerdb

	"croft.dev/croft/test/site"
)

// patience is how long eventually tries.
const patience = 2 * time.Minute

type command = func(ts *testscript.TestScript, neg bool, args []string)

// commands are what scripts may use besides testscript's own:
//
//	croft ARGS…              croft as root
//	as USER CMD…             a command as a user of the machine (ada, ben, cyn, eve) or a uid
//	exit N CMD…              a command that must end with exit code N
//	eventually PATTERN CMD…  a command again and again until its output matches
//	terminal N FILE CMD…     a command on a terminal, worked with as FILE says; see there
//	browse NAME PATTERN URL  a browser opens a page again and again until it matches; see there
//	server start|stop|kill   the server
//	runtime kill             the container runtime's process
//	vanish JOB               removes the container of a job behind Croft's back
//	newerdb DIR              makes a data directory whose database a newer version wrote
//	keep VAR                 puts the last standard output into a variable
//	jsonget VAR PATH         puts a value of the last output, JSON, into a variable
//	json PATH PATTERN        the value in the last output, JSON, must match
//
// The last output is the standard output, or standard error when that is empty.
//
// A command that runs in the background is written with exec: exec as ada croft run … &
func commands(s *site.Site) map[string]command {
	return map[string]command{
		"croft": program("croft"), "croftd": program("croftd"), "as": program("as"),
		"exit": exit, "eventually": eventually, "keep": keep, "jsonget": jsonGet, "json": jsonMatch, "terminal": terminal(serverCommand(s)), "browse": browse,
		"server": serverCommand(s), "runtime": runtimeCommand(s), "vanish": vanish(s),
		"newerdb": newerDB(s),
	}
}

func program(name string) command {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		switch err := ts.Exec(name, args...); {
		case err == nil && neg:
			ts.Fatalf("unexpected success")
		case err != nil && !neg:
			ts.Fatalf("%v", err)
		}
	}
}

func usage(ts *testscript.TestScript, ok bool, text string) {
	if !ok {
		ts.Fatalf("usage: %s", text)
	}
}

func exit(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 1, "exit N CMD…")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var e *exec.ExitError
		if !errors.As(err, &e) {
			ts.Fatalf("%v", err)
		}
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 1, "eventually PATTERN CMD…")
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	var out []byte
	for end := time.Now().Add(patience); ; pause() {
		cmd := exec.Command(args[1], args[2:]...)
		if path, err := exec.LookPath(args[1]); err != nil || !strings.Contains(args[1], "/") {
			cmd.Path, cmd.Err = lookIn(ts.Getenv("PATH"), args[1], path), nil
		}
		cmd.Dir = ts.MkAbs(".")
		for _, k := range []string{"PATH", "HOME", "CROFT_SOCKET", "TZ"} {
			cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
		}
		out, err = cmd.CombinedOutput()
		if want.Match(out) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%q didn't come in %v; the last output (%v) was\n%s", args[0], patience, err, out)
		}
	}
}

// lookIn finds a program on a PATH that isn't this process's own.
func lookIn(path, name, otherwise string) string {
	for dir := range strings.SplitSeq(path, ":") {
		if p, err := exec.LookPath(dir + "/" + name); err == nil {
			return p
		}
	}
	return otherwise
}

// pause is between two looks at something.
func pause() { <-time.After(100 * time.Millisecond) }

func keep(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "keep VAR")
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func jsonGet(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "jsonget VAR PATH")
	v, err := lookup(last(ts), args[1])
	ts.Check(err)
	ts.Setenv(args[0], v)
}

func jsonMatch(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2, "[!] json PATH PATTERN")
	v, err := lookup(last(ts), args[0])
	if err != nil && neg {
		return
	}
	ts.Check(err)
	ok, err := regexp.MatchString("^(?:"+args[1]+")$", v)
	ts.Check(err)
	if ok == neg {
		ts.Fatalf("%s is %q", args[0], v)
	}
}

func last(ts *testscript.TestScript) string {
	if out := ts.ReadFile("stdout"); out != "" {
		return out
	}
	return ts.ReadFile("stderr")
}

// lookup finds a value by a path such as items.0.id in JSON text.
func lookup(text, path string) (string, error) {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return "", err
	}
	for key := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = in[key]; !ok {
				return "", fmt.Errorf("%s: there is no %s", path, key)
			}
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(in) {
				return "", fmt.Errorf("%s: %s is no index of %d", path, key, len(in))
			}
			v = in[i]
		default:
			return "", fmt.Errorf("%s: nothing has a %s", path, key)
		}
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	out, err := json.Marshal(v)
	return string(out), err
}

func serverCommand(s *site.Site) command {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		usage(ts, !neg && len(args) == 1, "server start|stop|kill")
		switch args[0] {
		case "start":
			ts.Check(s.Start(context.Background()))
		case "stop":
			ts.Check(s.Stop())
		case "kill":
			ts.Check(s.Kill())
		default:
			ts.Fatalf("server %s?", args[0])
		}
	}
}

func runtimeCommand(s *site.Site) command {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		usage(ts, !neg && len(args) == 1 && args[0] == "kill", "runtime kill")
		ts.Check(s.KillRuntime())
	}
}

// vanish removes the pod of a job through the runtime's own socket, as somebody
// with a tool might.
func vanish(s *site.Site) command {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		usage(ts, !neg && len(args) == 1, "vanish JOB")
		socket, err := s.RuntimeSocket()
		ts.Check(err)
		conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		ts.Check(err)
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		runtime := runtimeapi.NewRuntimeServiceClient(conn)
		pods, err := runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"croft.job": args[0]}},
		})
		ts.Check(err)
		if len(pods.Items) != 1 {
			ts.Fatalf("job %s has %d pods, not one", args[0], len(pods.Items))
		}
		pod := pods.Items[0].Id
		_, err = runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: pod})
		ts.Check(err)
		_, err = runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod})
		ts.Check(err)
	}
}

// newerDB copies the server's database and notes a migration in it that this
// version doesn't have.
func newerDB(s *site.Site) command {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		usage(ts, !neg && len(args) == 1, "newerdb DIR")
		ts.Check(os.MkdirAll(args[0], 0o711))
		copied := filepath.Join(args[0], "croft.db")
		ts.Check(statements(filepath.Join(s.Data, "croft.db"), "VACUUM INTO '"+copied+"'"))
		ts.Check(statements(copied, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)"))
	}
}

func statements(path string, text string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	_, err = db.Exec(text)
	return errors.Join(err, db.Close())
}
