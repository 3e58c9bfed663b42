package cri

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"croft.dev/croft/internal/engine"
)

func TestArgv(t *testing.T) {
	img := imageConfig{Entrypoint: []string{"/entry", "-v"}, Cmd: []string{"serve"}}
	for name, tc := range map[string]struct {
		command, args []string
		img           imageConfig
		want          []string
		bad           bool
	}{
		"image's own":                      {img: img, want: []string{"/entry", "-v", "serve"}},
		"arguments keep the entry point":   {args: []string{"train"}, img: img, want: []string{"/entry", "-v", "train"}},
		"command replaces both":            {command: []string{"sh"}, img: img, want: []string{"sh"}},
		"command with arguments":           {command: []string{"sh"}, args: []string{"-c", "x"}, img: img, want: []string{"sh", "-c", "x"}},
		"arguments without an entry":       {args: []string{"python", "a.py"}, img: imageConfig{Cmd: []string{"sh"}}, want: []string{"python", "a.py"}},
		"nothing at all":                   {bad: true},
		"an empty command isn't a command": {command: []string{""}, img: img, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := argv(engine.Container{Command: tc.command, Args: tc.args}, tc.img)
			var refused *engine.StartError
			if errors.As(err, &refused) != tc.bad {
				t.Fatalf("error %v, want a StartError: %v", err, tc.bad)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIdentityFiles(t *testing.T) {
	a := engine.Allocation{
		User: engine.User{
			Name: "ev:il\n", UID: 65534, GID: 100, Home: "/home/e", Shell: "/bin/bash",
			Groups: []engine.Group{{Name: "users", GID: 100}, {Name: "video2", GID: 44}},
		},
		Container: engine.Container{Mounts: []engine.Mount{{Source: "/srv", Target: "/home"}}},
	}
	wantUsers := "root:x:0:0::/root:/sbin/nologin\nbin:x:1:1::/bin:/sbin/nologin\ndaemon:x:2:2::/sbin:/sbin/nologin\n" +
		"mail:x:8:8::/var/mail:/sbin/nologin\nev_il_:x:65534:100::/home/e:/bin/bash\n"
	if diff := cmp.Diff(wantUsers, passwdFile(a.User, a.Mounts)); diff != "" {
		t.Errorf("passwd (-want +got):\n%s", diff)
	}
	wantGroups := "users:x:100:ev_il_\nvideo2:x:44:ev_il_\nroot:x:0:\nbin:x:1:\ndaemon:x:2:\ntty:x:5:\nmail:x:8:\nutmp:x:43:\nnogroup:x:65534:\n"
	if diff := cmp.Diff(wantGroups, a.User.GroupFile()); diff != "" {
		t.Errorf("group (-want +got):\n%s", diff)
	}
}

func TestHostsFile(t *testing.T) {
	got := hostsFile("train", "127.0.0.1 localhost old\n# comment\n10.0.0.9\tlicence licence.lab # floating\nbad line\n::1 x\n")
	want := "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 train\n10.0.0.9 licence licence.lab\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
}

func FuzzHostsFile(f *testing.F) {
	f.Add("10.0.0.9 licence\n")
	f.Fuzz(func(t *testing.T, machine string) {
		if got := hostsFile("h", machine); strings.Contains(got, "\n\n") || !strings.HasSuffix(got, "\n") {
			t.Errorf("hosts %q", got)
		}
	})
}

func TestHome(t *testing.T) {
	root, other := &engine.Userns{}, &engine.Userns{UID: 1000}
	for name, tc := range map[string]struct {
		home, target string
		ns           *engine.Userns
		want         string
	}{
		"mounted":               {"/home/a", "/home/a", nil, "/home/a"},
		"below a mount":         {"/home/a", "/home", nil, "/home/a"},
		"not mounted":           {"/home/a", "/data", nil, "/tmp"},
		"a longer name":         {"/home/alice", "/home/al", nil, "/tmp"},
		"a mount beneath it":    {"/home/a", "/home/a/data", nil, "/tmp"},
		"root":                  {"/", "/data", nil, "/"},
		"none":                  {"", "/data", nil, "/tmp"},
		"relative":              {"home/a", "/home", nil, "/tmp"},
		"mounted for fake root": {"/home/a", "/home/a", root, "/home/a"},
		"fake root's own":       {"/home/a", "/data", root, "/root"},
		"mounted for another":   {"/home/a", "/home/a", other, "/home/a"},
		"another's own":         {"/home/a", "/data", other, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := engine.Allocation{User: engine.User{Name: "ada", Home: tc.home}, Userns: tc.ns}
			if got := login(a, []engine.Mount{{Target: tc.target}})["HOME"]; got != tc.want {
				t.Errorf("home %q, want %q", got, tc.want)
			}
		})
	}
}

func TestUsernsIsReadBack(t *testing.T) {
	for name, tc := range map[string]struct {
		ns   *engine.Userns
		note string
	}{
		"none":                  {nil, ""},
		"none, though asked":    {nil, "no fake root: it is so"},
		"root":                  {&engine.Userns{First: 1 << 30, Size: usernsIDs}, ""},
		"somebody, with a note": {&engine.Userns{First: 1 << 31, Size: 2 * usernsIDs, UID: 1000, GID: 7}, "note"},
	} {
		ns, note, err := usernsOf(annotationsOf(tc.ns, tc.note))
		if diff := cmp.Diff(tc.ns, ns); diff != "" || note != tc.note || err != nil {
			t.Errorf("%s: %s %q, %v", name, diff, note, err)
		}
	}
	if _, _, err := usernsOf(map[string]string{annotationUserns: "1:2:3"}); err == nil {
		t.Error("half an annotation is taken")
	}
}

func TestCheckUserns(t *testing.T) {
	for name, tc := range map[string]struct {
		ns *engine.Userns
		ok bool
	}{
		"none":               {nil, true},
		"that can't be":      {&engine.Userns{Lack: "no ids"}, true},
		"root":               {&engine.Userns{First: 1 << 30, Size: usernsIDs}, true},
		"nobody":             {&engine.Userns{First: 1 << 30, Size: usernsIDs, UID: 65534, GID: 65534}, true},
		"beyond its ids":     {&engine.Userns{First: 1 << 30, Size: usernsIDs, UID: usernsIDs}, false},
		"a group beyond":     {&engine.Userns{First: 1 << 30, Size: usernsIDs, GID: usernsIDs}, false},
		"too few":            {&engine.Userns{First: 1 << 30, Size: usernsIDs - 1}, false},
		"the machine's root": {&engine.Userns{First: 0, Size: usernsIDs}, false},
		"beyond 32 bits":     {&engine.Userns{First: 1<<32 - usernsIDs, Size: usernsIDs}, false},
		"negative":           {&engine.Userns{First: 1 << 30, Size: usernsIDs, UID: -1}, false},
	} {
		if err := checkUserns(tc.ns); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNeededGroup(t *testing.T) {
	u := engine.User{UID: 5001, GID: 6001, Groups: []engine.Group{{Name: "lab", GID: 7001}}}
	for name, tc := range map[string]struct {
		uid, gid uint32
		mode     uint32
		readOnly bool
		want     int64
	}{
		"his own":                          {5001, 7001, 0o770, false, 0},
		"his primary group's":              {0, 6001, 0o770, false, 0},
		"another group's":                  {0, 7002, 0o770, false, 0},
		"his group's alone":                {0, 7001, 0o770, false, 7001},
		"his group's to write":             {0, 7001, 0o775, false, 7001},
		"his group's to write, not to him": {0, 7001, 0o775, true, 0},
		"his group's to read":              {0, 7001, 0o750, true, 7001},
		"everybody's":                      {0, 7001, 0o777, false, 0},
	} {
		if got := neededGroup(u, &syscall.Stat_t{Uid: tc.uid, Gid: tc.gid, Mode: tc.mode}, tc.readOnly); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestHostname(t *testing.T) {
	for name, want := range map[string]string{
		"train":                  "train",
		"Test Job":               "test-job",
		"-a_b-":                  "a-b",
		"ünï":                    "n",
		"...":                    "job-7",
		"":                       "job-7",
		strings.Repeat("a", 99):  strings.Repeat("a", 63),
		strings.Repeat("a-", 50): strings.TrimSuffix(strings.Repeat("a-", 32), "-"),
	} {
		if got := hostname(name, 7); got != want {
			t.Errorf("hostname(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestKubeletEndpoint(t *testing.T) {
	read := func(path string) ([]byte, error) {
		if path != "/etc/k.yaml" {
			return nil, os.ErrNotExist
		}
		return []byte("kind: KubeletConfiguration\ncontainerRuntimeEndpoint: \"unix:///run/k.sock\"\n"), nil
	}
	for name, tc := range map[string]struct{ cmdline, want string }{
		"flag":           {"kubelet\x00--container-runtime-endpoint=unix:///a.sock\x00", "unix:///a.sock"},
		"flag in two":    {"kubelet\x00--container-runtime-endpoint\x00unix:///a.sock\x00", "unix:///a.sock"},
		"file":           {"kubelet\x00--config=/etc/k.yaml\x00", "unix:///run/k.sock"},
		"missing file":   {"kubelet\x00--config\x00/etc/none\x00", defaultKubeletEndpoint},
		"nothing":        {"kubelet\x00", defaultKubeletEndpoint},
		"flag, no value": {"kubelet\x00--container-runtime-endpoint\x00", defaultKubeletEndpoint},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kubeletEndpoint(tc.cmdline, read); got != tc.want {
				t.Errorf("endpoint %q, want %q", got, tc.want)
			}
		})
	}
}

func TestStartMessage(t *testing.T) {
	for text, want := range map[string]string{
		`CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=0`:                                       "the device nvidia.com/gpu=0 is gone: no CDI file lists it",
		`runc create failed: chdir to cwd ("/job") set in config.json failed: permission denied: unknown`:              "the working directory /job can't be entered: permission denied",
		`write /var/lib/secret/path: no space left on device`:                                                          "the machine's disk is full",
		`error mounting "/srv/secret" to rootfs at "/x": mount src=/srv/secret, dst=/x, flags=0x5000: not a directory`: "a mount's target is a file in the image and its source a directory, or the other way round",
		`something about /srv/secret`: "the container runtime could not start the container",
	} {
		got := failureMessage(text)
		if got != want {
			t.Errorf("message for %q:\n got %q\nwant %q", text, got, want)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("message %q tells a path of the machine", got)
		}
	}
}

func TestPullErrors(t *testing.T) {
	e := &Engine{log: discard()}
	for name, tc := range map[string]struct {
		err  error
		want engine.PullError
	}{
		"not found":   {status.Error(codes.NotFound, "x: not found"), engine.PullError{NotFound: true, Message: "no such image"}},
		"denied":      {status.Error(codes.Unknown, "pull access denied, insufficient_scope"), engine.PullError{Denied: true, Message: "the registry denies access: the image doesn't exist, or credentials are missing or wrong"}},
		"401":         {status.Error(codes.Unknown, "unexpected status from GET request to https://x: 401 Unauthorized"), engine.PullError{Denied: true, Message: "the registry denies access: the image doesn't exist, or credentials are missing or wrong"}},
		"unreachable": {status.Error(codes.Unknown, "dial tcp: lookup registry-1.docker.io: no such host"), engine.PullError{Message: "the registry can't be reached"}},
		"disk":        {status.Error(codes.Unknown, "write /x: no space left on device"), engine.PullError{Message: "no space is left for images on the machine"}},
		"reference":   {status.Error(codes.InvalidArgument, "invalid reference format"), engine.PullError{NotFound: true, Message: "this is no image reference"}},
		"other":       {status.Error(codes.Unknown, "boom"), engine.PullError{Message: "the image could not be pulled"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Ref = "img"
			var got *engine.PullError
			if err := e.pullError(t.Context(), "img", tc.err); !errors.As(err, &got) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
	if err := e.pullError(t.Context(), "img", status.Error(codes.Unavailable, "transport is closing")); !engine.IsUnavailable(err) {
		t.Errorf("a runtime that is away: %v", err)
	}
}

func TestTally(t *testing.T) {
	since := time.Unix(1000, 0)
	part := func(ref string, done, total int64, at int64) *contentapi.Status {
		return &contentapi.Status{Ref: ref, Offset: done, Total: total, StartedAt: timestamppb.New(time.Unix(at, 0))}
	}
	tally := newTally(since)
	for i, step := range []struct {
		statuses []*contentapi.Status
		want     engine.Progress
		changed  bool
	}{
		{nil, engine.Progress{}, false},
		{[]*contentapi.Status{part("old", 5, 10, 900)}, engine.Progress{}, false},
		{[]*contentapi.Status{part("a", 10, 100, 1001), part("b", 0, 50, 1001)}, engine.Progress{Done: 10, Total: 150}, true},
		{[]*contentapi.Status{part("b", 20, 50, 1001)}, engine.Progress{Done: 120, Total: 150}, true},
		{[]*contentapi.Status{part("b", 20, 50, 1001)}, engine.Progress{Done: 120, Total: 150}, false},
		{nil, engine.Progress{Done: 150, Total: 150}, true},
	} {
		got, changed := tally.update(step.statuses)
		if got != step.want || changed != step.changed {
			t.Errorf("step %d: %+v, changed %v; want %+v, %v", i, got, changed, step.want, step.changed)
		}
	}
}

func TestParseResolv(t *testing.T) {
	got := parseResolv("# comment\nnameserver 127.0.0.53\nnameserver 10.0.0.1\nsearch a.b c.d\noptions ndots:2 edns0\nnameserver\n")
	if diff := cmp.Diff([]string{"127.0.0.53", "10.0.0.1"}, got.Servers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a.b", "c.d"}, got.Searches); diff != "" {
		t.Errorf("searches (-want +got):\n%s", diff)
	}
	if !reachable(got.Servers) || reachable([]string{"127.0.0.53", "::1", "x"}) {
		t.Error("reachable is wrong")
	}
}

func TestParseMemTotal(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal:       24625476 kB\nMemFree: 1 kB\n": 24625476 << 10,
		"MemTotal: 0 kB\n": 0, "MemTotal: -4 kB\n": 0, "MemTotal: 99999999999999999999 kB\n": 0, "": 0,
	} {
		got, err := parseMemTotal(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("parseMemTotal(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

// TestStepLocks changes steps of an attempt beside each other, but not beside the whole.
func TestStepLocks(t *testing.T) {
	var locks attemptLocks
	first, err := locks.lockStep(t.Context(), engine.StepID{Attempt: "a", N: 2})
	if err != nil {
		t.Fatal(err)
	}
	second, err := locks.lockStep(t.Context(), engine.StepID{Attempt: "a", N: 3})
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan func())
	for _, lock := range []func() (func(), error){
		func() (func(), error) { return locks.lock(context.Background(), "a") },
		func() (func(), error) {
			return locks.lockStep(context.Background(), engine.StepID{Attempt: "a", N: 2})
		},
	} {
		go func() {
			unlock, err := lock()
			if err != nil {
				t.Error(err)
			}
			entered <- unlock
		}()
	}
	second()
	select {
	case <-entered:
		t.Error("entered while a step of it is changed")
	default:
	}
	first()
	(<-entered)()
	(<-entered)()
	if len(locks.held) != 0 {
		t.Errorf("locks left: %v", locks.held)
	}
}

// TestAttemptLocks lets many contend for one attempt's lock, and one give up.
func TestAttemptLocks(t *testing.T) {
	var locks attemptLocks
	var calls sync.WaitGroup
	inside := 0
	for range 50 {
		calls.Go(func() {
			unlock, err := locks.lock(context.Background(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if inside++; inside != 1 {
				t.Error("two at once")
			}
			inside--
		})
	}
	calls.Wait()
	unlock, err := locks.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := locks.lock(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("lock with a cancelled context: %v", err)
	}
	unlock()
	if len(locks.held) != 0 {
		t.Errorf("locks left: %v", locks.held)
	}
}

func FuzzParseImageInfo(f *testing.F) {
	f.Add(`{"imageSpec":{"config":{"Entrypoint":["/x"],"Cmd":null,"Labels":{"a":"b"}}}}`)
	f.Fuzz(func(t *testing.T, text string) { _, _ = parseImageInfo(text) })
}

func FuzzParseResolv(f *testing.F) {
	f.Add("nameserver 1.1.1.1\nsearch a\noptions b\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c := parseResolv(text); len(c.Servers) > 3 {
			t.Errorf("servers %v", c.Servers)
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add("unresolvable CDI devices x=y")
	f.Add("chdir to cwd (\"/x\") set in config.json failed: no such file or directory")
	f.Fuzz(func(t *testing.T, text string) {
		if failureMessage(text) == "" {
			t.Error("empty message")
		}
	})
}

func FuzzParseMemTotal(f *testing.F) {
	f.Add("MemTotal: 1 kB\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseMemTotal(text); err == nil && n <= 0 {
			t.Errorf("memory %d", n)
		}
	})
}

func FuzzKubeletEndpoint(f *testing.F) {
	f.Add("kubelet\x00--config=/x\x00", "containerRuntimeEndpoint: unix:///x")
	f.Fuzz(func(t *testing.T, cmdline, config string) {
		kubeletEndpoint(cmdline, func(string) ([]byte, error) { return []byte(config), nil })
	})
}

// A program that containerd lost with the machine has no exit code; one that ended
// with the same code has.
func TestLostWithTheMachine(t *testing.T) {
	e := &Engine{cfg: Config{StateDir: t.TempDir()}}
	for name, tt := range map[string]struct {
		reason string
		code   int
		want   bool
	}{
		"lost":                   {"Unknown", 255, true},
		"ended with 255":         {"Error", 255, false},
		"ended well":             {"Completed", 0, false},
		"another code, no words": {"Unknown", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			var st engine.Status
			e.apply(&st, times{started: time.Unix(1, 0), finished: time.Unix(9, 0), code: tt.code, reason: tt.reason, exited: true})
			if st.Lost != tt.want || st.Phase != engine.PhaseExited {
				t.Errorf("lost %v in phase %s, want %v", st.Lost, st.Phase, tt.want)
			}
		})
	}
}
