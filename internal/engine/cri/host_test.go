package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/cgroup"
	"croft.dev/croft/internal/engine/cri/logfile/rotation"
	"croft.dev/croft/internal/engine/cri/shim"
)

// onHost is an attempt that runs shell code on the machine itself.
func (e *testEngine) onHost(job int64, code string) engine.Allocation {
	a := e.script(job, code)
	a.Host, a.Image, a.User.Home = true, "", "/"
	return a
}

// startHostJob starts an attempt on the machine and waits for a line of it.
func (e *testEngine) startHostJob(a engine.Allocation, line string) engine.StepID {
	e.t.Helper()
	if err := e.Start(e.t.Context(), a); err != nil {
		e.t.Fatal(err)
	}
	e.awaitOutput(a.Attempt.Primary(), line)
	return a.Attempt.Primary()
}

func (e *testEngine) awaitOutput(id engine.StepID, line string) {
	e.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; <-time.After(20 * time.Millisecond) {
		var w logBuffers
		if err := e.Logs(e.t.Context(), id, engine.LogOptions{Tail: -1}, &w); err != nil {
			e.t.Fatal(err)
		}
		if slices.Contains(strings.Split(w.out.String(), "\n"), line) {
			return
		}
		if time.Now().After(end) {
			e.t.Fatalf("%s doesn't print %s", id, line)
		}
	}
}

// TestHostConfinement looks at what a program on the machine is and may.
func TestHostConfinement(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("root's"), 0o600); err != nil {
		t.Fatal(err)
	}
	setuid := filepath.Join(e.cfg.LogDir, "..", "setuid")
	sh, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(setuid, sh, 0o755), os.Chmod(setuid, 0o755|fs.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	a := e.onHost(1, `
		echo id $(id -u) $(id -g) $(id -G)
		echo user $USER $LOGNAME $HOME $SHELL $PATH
		env | cut -d= -f1 | grep -v '^_$' | sort | tr '\n' ' '; echo
		grep -E '^(NoNewPrivs|CapInh|CapPrm|CapEff|CapBnd|CapAmb|Groups):' /proc/self/status | tr '\t' ' ' | sed 's/ *$//'
		for fd in 3 4 5 6 7 8 9 11 12 13; do test -e /proc/$$/fd/$fd && echo open $fd; done
		echo limits $(ulimit -Sn) $(ulimit -c) $(umask)
		echo session $(($(cut -d' ' -f6 /proc/$$/stat) == $$))
		echo score $(cat /proc/self/oom_score_adj)
		grep -c '/croft-test-[0-9a-f]*/job-[0-9a-f]*-1-1/step-1$' /proc/self/cgroup
		for f in $(find /sys/fs/cgroup -path "*croft-test-`+e.instance[:8]+`*" -name cgroup.procs -o -path "*croft-test-`+e.instance[:8]+`*" -name tasks) /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs; do
			test -e $f && echo 0 > $f && echo moved to $f; done 2>/dev/null
		for d in $(find /sys/fs/cgroup -maxdepth 3 -name "job-*" 2>/dev/null); do echo 1 > $d/memory.limit_in_bytes && echo changed; mkdir $d/x && echo made; done 2>/dev/null
		echo -500 > /proc/self/oom_score_adj && echo braver
		ls `+e.cfg.StateDir+`/hosts && echo seen
		cat `+secret+` && echo read
		`+setuid+` -u
		cat `+e.logPath(e.onHost(1, "").Attempt.Primary())+` && echo log
		exit 4
	`)
	a.Env = map[string]string{"GREETING": "hello"}
	got := e.run(a)
	const none = "0000000000000000"
	hierarchies := len(e.cg.Group("x"))
	want := []string{
		"id 5001 6001 6001 7001 7002",
		"user alice alice / /bin/sh /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"GREETING HOME LOGNAME PATH PWD SHELL USER ",
		"Groups: 6001 7001 7002", "CapInh: " + none, "CapPrm: " + none, "CapEff: " + none, "CapBnd: " + none, "CapAmb: " + none,
		"NoNewPrivs: 1",
		"limits 1024 0 0022",
		"session 1",
		"score 500",
		strconv.Itoa(hierarchies),
		"5001",
	}
	lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
	if diff := cmp.Diff(want, lines); diff != "" || got.status.ExitCode != 4 {
		t.Errorf("exit code %d, output (-want +got):\n%s\nstderr: %s", got.status.ExitCode, diff, got.stderr)
	}
}

// TestHostLeavesNothing ends programs that did all they could to be left behind.
func TestHostLeavesNothing(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	const hide = `trap "" TERM HUP INT
		setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &
		( setsid sh -c 'sh -c "exec setsid sleep 600" &' ) &
		( sleep 0.2; exec sleep 600 ) >/dev/null 2>&1 &
		sleep 0.3; echo hidden; `
	job := int64(0)
	for name, tc := range map[string]struct {
		code string
		end  func(id engine.StepID) error
		exit int
	}{
		"by its own end": {hide + "exit 3", nil, 3},
		"by Stop":        {hide + "sleep 600", func(id engine.StepID) error { return e.Stop(t.Context(), id.Attempt) }, 137},
		"by StopStep":    {hide + "sleep 600", func(id engine.StepID) error { return e.StopStep(t.Context(), id) }, 137},
		"by KILL":        {hide + "sleep 600", func(id engine.StepID) error { return e.Signal(t.Context(), id, "KILL") }, 137},
		"a fork bomb": {`trap "" TERM HUP; echo hidden; b() { b & setsid sh -c 'sleep 100' & b; }; b 2>/dev/null; sleep 600`,
			func(id engine.StepID) error { return e.Stop(t.Context(), id.Attempt) }, 137},
	} {
		t.Run(name, func(t *testing.T) {
			job++
			a := e.onHost(job, tc.code)
			id := e.startHostJob(a, "hidden")
			if tc.end != nil {
				if err := tc.end(id); err != nil {
					t.Fatal(err)
				}
			}
			got := e.wait(t.Context(), id)
			left, err := e.cg.Group(e.hostGroup(id)).Processes()
			if err != nil || len(left) > 0 || got.status.ExitCode != tc.exit || got.status.OutOfMemory {
				t.Errorf("left %v, %v; ended as %+v", left, err, got.status)
			}
			if err := e.Remove(t.Context(), a.Attempt); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHostMemory has a step take more than it has: it ends, and says why.
func TestHostMemory(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.onHost(1, "echo runs; sleep 600")
	a.Memory = 256 << 20
	primary := e.startHostJob(a, "runs")
	s := a.Primary()
	s.N, s.Memory, s.Command = 2, 16<<20, []string{"sh", "-c", "x=0123456789abcdef; while :; do x=$x$x; done"}
	if err := e.StartStep(t.Context(), a, s); err != nil {
		t.Fatal(err)
	}
	if got := e.wait(t.Context(), engine.StepID{Attempt: a.Attempt, N: 2}); got.status.ExitCode != 137 || !got.status.OutOfMemory {
		t.Errorf("the step ended as %+v", got.status)
	}
	if got := e.status(primary); got.Phase != engine.PhaseRunning {
		t.Errorf("the primary is %+v", got)
	}
}

// nodeSource offers a device whose node is a real one, as drivers make them.
type nodeSource struct {
	DeviceSource
	nodes map[string]cgroup.Device // by UUID
}

func (s nodeSource) Nodes(given []engine.Device) (out []cgroup.Device, err error) {
	for _, d := range given {
		out = append(out, s.nodes[d.UUID])
	}
	return out, nil
}

// TestHostDevices opens the nodes of two devices, of which a step has one, and of what the
// site lets everybody have.
func TestHostDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node := func(name string, minor uint32) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))), os.Chmod(path, 0o666)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for d := dir; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const kmsg, null, urandom = 11, 3, 9
	node("gpu0", kmsg)
	node("gpu1", null)
	e := newEngine(t, func(cfg *Config) {
		cfg.Devices = nodeSource{cfg.Devices, map[string]cgroup.Device{"A": {Major: 1, Minor: kmsg}}}
	})
	job := int64(0)
	for name, tc := range map[string]struct {
		devices []engine.Device
		site    []string
		want    string
	}{
		"none":          {nil, nil, "gpu1 "},
		"given":         {[]engine.Device{{UUID: "A", Name: "gpu0"}}, nil, "gpu0 gpu1 "},
		"by the site":   {nil, []string{dir + "/gpu*", "/dev/no-such*"}, "gpu0 gpu1 "},
		"not a device":  {nil, []string{"/etc/passwd", dir}, "gpu1 "},
		"of another id": {[]engine.Device{{UUID: "B", Name: "gpu9"}}, nil, "gpu1 "},
	} {
		t.Run(name, func(t *testing.T) {
			e.cfg.HostDevices = tc.site
			job++
			a := e.onHost(job, `cd `+dir+`; for f in gpu*; do if (: > $f) 2>/dev/null; then echo -n "$f "; fi; done; mknod x c 1 11 2>/dev/null && echo made`)
			a.Devices = tc.devices
			if got := e.run(a); got.stdout != tc.want {
				t.Errorf("it could open %q, want %q; stderr %s", got.stdout, tc.want, got.stderr)
			}
		})
	}
}

func TestHostStartErrors(t *testing.T) {
	t.Parallel()
	e, job := newEngine(t), int64(0)
	for name, tc := range map[string]struct {
		change func(a *engine.Allocation)
		want   string
	}{
		"root":             {func(a *engine.Allocation) { a.User.UID = 0 }, "a program on the machine itself can't run as root"},
		"root's group":     {func(a *engine.Allocation) { a.User.GID = 0 }, "a program on the machine itself can't run as root"},
		"no command":       {func(a *engine.Allocation) { a.Command = nil }, "a program on the machine needs a command"},
		"relative workdir": {func(a *engine.Allocation) { a.Workdir = "../.." }, `the working directory "../.." must be an absolute path`},
		"device gone": {func(a *engine.Allocation) {
			a.Devices = []engine.Device{{UUID: "SIM-x", CDI: "croft.dev/sim=SIM-x"}}
		}, "the device croft.dev/sim=SIM-x is gone: no CDI file lists it"},
		"id with a slash": {func(a *engine.Allocation) { a.Attempt = "../1" }, `attempt id "../1" is not of the form a-1-1`},
	} {
		t.Run(name, func(t *testing.T) {
			job++
			a := e.onHost(job, "true")
			tc.change(&a)
			err := e.Start(t.Context(), a)
			var refused *engine.StartError
			if !errors.As(err, &refused) || refused.Message != tc.want {
				t.Errorf("error %v (%T), want StartError %q", err, err, tc.want)
			}
		})
	}
	e.discardUnlisted()
}

// TestHostCommandFailures runs what can't be run.
func TestHostCommandFailures(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	private, job := t.TempDir(), int64(0)
	for name, tc := range map[string]struct {
		command []string
		workdir string
		code    int
		failure string
	}{
		"not found":           {[]string{"nope"}, "", 127, "nope: command not found on this machine"},
		"not executable":      {[]string{"/etc/passwd"}, "", 126, "/etc/passwd: cannot be executed (permission, or not a program for this machine)"},
		"code 127 of its own": {[]string{"sh", "-c", "exit 127"}, "", 127, ""},
		"killed by a signal":  {[]string{"sh", "-c", "kill -USR1 $$"}, "", 138, ""},
		"killed by KILL":      {[]string{"sh", "-c", "kill -KILL $$"}, "", 137, ""},
		"no such folder":      {[]string{"true"}, "/no/such/folder", 126, "the working directory /no/such/folder can't be entered: no such file or directory"},
		"somebody's folder":   {[]string{"true"}, private, 126, "the working directory " + private + " can't be entered: permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			job++
			a := e.onHost(job, "")
			a.Command, a.Workdir = tc.command, tc.workdir
			got := e.run(a)
			if got.status.ExitCode != tc.code || got.status.Failure != tc.failure || got.status.OutOfMemory {
				t.Errorf("status %+v", got.status)
			}
			if want := "croft: " + tc.failure + "\n"; tc.failure != "" && got.stderr != want {
				t.Errorf("stderr %q, want %q", got.stderr, want)
			}
		})
	}
}

// TestHostShimGone kills the shim. While the program is there it runs; then it is lost.
func TestHostShimGone(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.onHost(1, "echo runs; sleep 600")
	id := e.startHostJob(a, "runs")
	shims, err := e.cg.Group(e.shimGroup()).Processes()
	if err != nil || len(shims) != 1 {
		t.Fatalf("shims %v, %v", shims, err)
	}
	events, err := e.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(shims[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for st := range events {
		if st.ID() == id {
			break
		}
	}
	// It is told of before the kernel has done with the process.
	for left := shims; len(left) > 0; {
		if left, err = e.cg.Group(e.shimGroup()).Processes(); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.status(id); got.Phase != engine.PhaseRunning {
		t.Errorf("without its shim it is %+v", got)
	}
	if err := e.Start(t.Context(), a); err != nil { // it isn't started again
		t.Error(err)
	}
	if err := e.Remove(t.Context(), a.Attempt); err == nil {
		t.Error("what runs was removed")
	}
	if _, err := e.Exec(t.Context(), id, engine.ExecRequest{Command: []string{"true"}}); err == nil {
		t.Error("Exec beside a program that nobody watches over")
	}
	if err := e.Stop(t.Context(), a.Attempt); err != nil {
		t.Fatal(err)
	}
	got := e.status(id)
	if got.Phase != engine.PhaseExited || !got.Lost || got.Started.IsZero() || got.Finished.IsZero() {
		t.Errorf("it ended as %+v", got)
	}
	if diff := cmp.Diff(got, e.status(id)); diff != "" {
		t.Errorf("seen again (-before +after):\n%s", diff)
	}
}

// TestHostCutStart gives up on a start in its middle, again and again: there is one run.
func TestHostCutStart(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for i := range 12 {
		a := e.onHost(int64(200+i), "echo once; exit 5")
		if i == 0 { // the sandbox is there for the others to be quicker
			continue
		}
		for wait := time.Duration(i) * time.Millisecond; ; wait = time.Minute {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			err := e.Start(ctx, a)
			cancel()
			if err == nil {
				break
			}
			if wait == time.Minute && !engine.IsUnavailable(err) {
				t.Fatal(err)
			}
		}
		if got := e.wait(t.Context(), a.Attempt.Primary()); got.stdout != "once\n" || got.status.ExitCode != 5 {
			t.Errorf("output %q, status %+v", got.stdout, got.status)
		}
	}
}

// TestHostStopBeforeBegin stops a step whose order is written and whose shim isn't there.
func TestHostStopBeforeBegin(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.onHost(1, "echo ran")
	if err := e.prepare(a); err != nil {
		t.Fatal(err)
	}
	spec, err := e.prepareHost(a, a.Primary())
	if err != nil {
		t.Fatal(err)
	}
	id := a.Attempt.Primary()
	if err := e.hostFiles(id).Order(spec); err != nil {
		t.Fatal(err)
	}
	if st := e.status(id); st.Phase != engine.PhaseCreated {
		t.Fatalf("status %+v", st)
	}
	for range 2 {
		if err := e.Stop(t.Context(), a.Attempt); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	// A shim that is late finds that there is nothing to do.
	if err := shim.Start(t.Context(), e.cfg.InitPath, e.hostFiles(id)); err != nil {
		t.Fatal(err)
	}
	if got := e.wait(t.Context(), id); got.stdout != "" || got.status.ExitCode != 137 || !got.status.Started.IsZero() {
		t.Errorf("output %q, status %+v", got.stdout, got.status)
	}
}

// TestHostOutput prints more than a log may hold, lines longer than a record, and no end of
// the last.
func TestHostOutput(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(cfg *Config) { cfg.Logs = LogPolicy{MaxSize: 1 << 20, Keep: 2} })
	got := e.run(e.onHost(1, `head -c 40000 /dev/zero | tr '\0' x; echo; printf 'no end'; echo to stderr >&2`))
	if want := strings.Repeat("x", 40000) + "\nno end"; got.stdout != want || got.stderr != "to stderr\n" {
		t.Errorf("%d bytes, stderr %q", len(got.stdout), got.stderr)
	}
	a := e.onHost(2, `yes 0123456789 | head -n 3000000; echo last`)
	got = e.run(a)
	if !strings.HasSuffix(got.stdout, "0123456789\nlast\n") {
		t.Errorf("the end is missing: %q", got.stdout[max(0, len(got.stdout)-40):])
	}
	files, err := rotation.Files(e.logPath(a.Attempt.Primary()))
	if err != nil || len(files) != 3 {
		t.Errorf("files %v, %v", files, err)
	}
	for _, f := range files {
		if st, err := os.Stat(f); err != nil || st.Size() > 2<<20 {
			t.Errorf("%s has %d bytes, %v", f, st.Size(), err)
		}
	}
}

// TestHostOutputElsewhere has somebody outside of the job keep a program's output open, and
// a program close it.
func TestHostOutputElsewhere(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	id := e.startHostJob(e.onHost(1, "echo $$; echo runs; sleep 600 & wait"), "runs")
	pids, err := e.cg.Group(e.hostGroup(id)).Processes()
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", pids[0]), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := e.Signal(t.Context(), id, "TERM"); err != nil {
		t.Fatal(err)
	}
	if got := e.wait(t.Context(), id); got.status.ExitCode != 128+15 {
		t.Errorf("status %+v", got.status)
	}
	if got := e.run(e.onHost(2, "exec >&- 2>&-; sleep 0.1; exit 6")); got.status.ExitCode != 6 {
		t.Errorf("with its output closed it ended as %+v", got.status)
	}
}

// TestHostExec runs commands beside a program: with a terminal, with input, and none.
func TestHostExec(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.onHost(1, "echo runs; sleep 600")
	a.Env = map[string]string{"GREETING": "hello"}
	id := e.startHostJob(a, "runs")
	for name, tc := range map[string]struct {
		req  engine.ExecRequest
		code string
		exit int
		out  string
	}{
		"plain":      {engine.ExecRequest{}, `echo $GREETING $(id -u); grep -q 'step-1$' /proc/self/cgroup; cat; exit 7`, 7, "hello 5001\n"},
		"input":      {engine.ExecRequest{Stdin: strings.NewReader("in\x00out")}, "cat", 0, "in\x00out"},
		"terminal":   {engine.ExecRequest{TTY: true}, `test -t 0 && test -t 1 && test -t 2 && echo $TERM; echo x > /dev/tty; test -O $(tty) && echo own; exit 3`, 3, "xterm\r\nx\r\nown\r\n"},
		"not there":  {engine.ExecRequest{Command: []string{"nope"}}, "", 127, ""},
		"by signal":  {engine.ExecRequest{}, "kill -INT $$", 130, ""},
		"left alone": {engine.ExecRequest{}, "sleep 600 & echo started", 0, "started\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, complaint bytes.Buffer
			req := tc.req
			req.Stdout, req.Stderr = &out, &complaint
			if req.Command == nil {
				req.Command = []string{"sh", "-c", tc.code}
			}
			exit, err := e.Exec(t.Context(), id, req)
			if err != nil || exit != tc.exit || out.String() != tc.out {
				t.Errorf("exit code %d, error %v, output %q, %q", exit, err, out.String(), complaint.String())
			}
		})
	}
	t.Run("resize", func(t *testing.T) {
		sizes := make(chan engine.Size, 1)
		sizes <- engine.Size{Cols: 91, Rows: 33}
		var out bytes.Buffer
		_, err := e.Exec(t.Context(), id, engine.ExecRequest{
			Command: []string{"sh", "-c", `until [ "$(stty size)" = "33 91" ]; do sleep 0.05; done; echo fits`}, TTY: true, Resize: sizes, Stdout: &out,
		})
		if err != nil || out.String() != "fits\r\n" {
			t.Errorf("%q, %v", out.String(), err)
		}
	})
	t.Run("gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := e.Exec(ctx, id, engine.ExecRequest{Command: []string{"sleep", "600"}}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
	if err := e.StopStep(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if left, err := e.cg.Group(e.hostGroup(id)).Processes(); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestHostAfterReboot finds a step whose machine was restarted under it.
func TestHostAfterReboot(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.onHost(1, "echo runs; sleep 600")
	id := e.startHostJob(a, "runs")
	// All of it is gone at once, and another process may have the shim's number.
	for _, g := range []string{e.shimGroup(), e.hostGroup(id)} {
		if err := e.cg.Group(g).KillAll(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	again := reopen(t, e.cfg)
	defer again.Close()
	all, err := again.List(t.Context())
	if err != nil || len(all) != 1 || !all[0].Lost {
		t.Errorf("found %+v, %v", all, err)
	}
	if err := again.Signal(t.Context(), id, "TERM"); err != nil {
		t.Error(err)
	}
}
