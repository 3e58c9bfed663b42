package cri

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
)

// result is what a test sees of an attempt that has ended.
type result struct {
	status         engine.Status
	stdout, stderr string
}

// run starts an attempt and returns its end and output.
func (e *testEngine) run(a engine.Allocation) result {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Minute)
	defer cancel()
	if err := e.Start(ctx, a); err != nil {
		e.t.Fatalf("Start: %v", err)
	}
	return e.wait(ctx, a.Attempt.Primary())
}

// wait follows the log until the step has ended.
func (e *testEngine) wait(ctx context.Context, id engine.StepID) result {
	e.t.Helper()
	var w logBuffers
	if err := e.Logs(ctx, id, engine.LogOptions{Follow: true, Tail: -1}, &w); err != nil {
		e.t.Fatalf("Logs: %v", err)
	}
	return result{status: e.status(id), stdout: w.out.String(), stderr: w.err.String()}
}

func (e *testEngine) status(id engine.StepID) engine.Status {
	e.t.Helper()
	all, err := e.List(e.t.Context())
	if err != nil {
		e.t.Fatalf("List: %v", err)
	}
	for _, st := range all {
		if st.ID() == id {
			return st
		}
	}
	e.t.Fatalf("List doesn't show %s", id)
	return engine.Status{}
}

type logBuffers struct{ out, err bytes.Buffer }

func (*logBuffers) Flush() error { return nil }

func (b *logBuffers) WriteLog(_ time.Time, stream engine.Stream, data []byte) error {
	if stream == engine.Stderr {
		b.err.Write(data)
	} else {
		b.out.Write(data)
	}
	return nil
}

// script is an attempt that runs shell code.
func (e *testEngine) script(job int64, code string) engine.Allocation {
	return e.allocation(job, "sh", "-c", code)
}

// TestIdentityAndConfinement looks at what a process in a container is and may.
func TestIdentityAndConfinement(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	home := t.TempDir()
	if err := os.Chown(home, 5001, 6001); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	a := e.script(1, `
		echo id $(id -u) $(id -g) $(id -G)
		echo user $USER $LOGNAME $HOME $SHELL
		echo pid $(sed -n 's/^PPid:\t//p' /proc/self/status)
		grep -E '^(NoNewPrivs|CapInh|CapPrm|CapEff|CapBnd|CapAmb|Seccomp):' /proc/self/status | tr '\t' ' '
		echo host $(hostname)
		grep -c "^127.0.1.1 test-job$" /etc/hosts
		echo shm $(df -k /dev/shm | tail -1 | awk '{print $2}')
		touch $HOME/mine && echo home written
		touch /ro/x 2>/dev/null || echo ro refused
		cat /ro/file
		grep ^alice: /etc/passwd
		grep -E '^(lab|gpu|alice):' /etc/group
		grep -c . /etc/passwd >/dev/null && grep ^root: /etc/passwd
		mknod /tmp/null c 1 3 2>/dev/null || echo mknod refused
		env | grep ^GREETING=
	`)
	a.User.Home = "/home/alice"
	a.Env = map[string]string{"GREETING": "good morning $HOME"}
	ro := t.TempDir()
	if err := os.WriteFile(filepath.Join(ro, "file"), []byte("read only\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(home), home, filepath.Dir(ro), ro} {
		if dir != home {
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.Mounts = []engine.Mount{
		{Source: home, Target: "/home/alice", Within: []string{"/nowhere", home}},
		{Source: ro, Target: "/ro", ReadOnly: true, Within: []string{filepath.Dir(ro)}},
	}
	got := e.run(a)
	const none = "0000000000000000"
	want := []string{
		"id 5001 6001 6001 7001 7002",
		"user alice alice /home/alice /bin/sh",
		"pid 7",
		"CapInh: " + none, "CapPrm: " + none, "CapEff: " + none, "CapBnd: " + none, "CapAmb: " + none,
		"NoNewPrivs: 1", "Seccomp: 2",
		"host test-job",
		"1",
		"shm 32768",
		"home written",
		"ro refused",
		"read only",
		"alice:x:5001:6001::/home/alice:/bin/sh",
		"lab:x:7001:alice", "gpu:x:7002:alice", "alice:x:6001:",
		"root:x:0:0::/root:/sbin/nologin",
		"mknod refused",
		"GREETING=good morning $HOME",
	}
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "pid ") { // whichever it is, of the shell's
			lines[i] = "pid 7"
		}
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("output (-want +got):\n%s\nstderr: %s", diff, got.stderr)
	}
	st, err := os.Stat(filepath.Join(home, "mine"))
	if err != nil || st.Size() != 0 {
		t.Errorf("the file in the home directory: %v", err)
	}
	if diff := cmp.Diff(engine.Status{
		Attempt: a.Attempt, Step: 1, Instance: e.instance, Job: 1, N: 1, Account: "lab", SpecDigest: "sha256:0",
		Node: "node1", Phase: engine.PhaseExited, Started: got.status.Started, Finished: got.status.Finished,
	}, got.status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestDevices gives two of four devices: exactly their nodes are there, and no
// other can be made or opened.
func TestDevices(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	inv, err := e.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Devices) != 4 {
		t.Fatalf("devices %+v", inv.Devices)
	}
	a := e.script(1, `
		echo $CROFT_DEVICES
		for i in 0 1 2 3; do
			if echo x >/dev/croft-sim$i; then echo $i open; else echo $i closed; fi
		done 2>/dev/null
		ls /dev/croft-sim*`)
	a.Devices = []engine.Device{inv.Devices[1], inv.Devices[3]}
	a.Env = map[string]string{"CROFT_DEVICES": "gpu1,gpu3"}
	want := "gpu1,gpu3\n0 closed\n1 open\n2 closed\n3 open\n/dev/croft-sim1\n/dev/croft-sim3\n"
	if diff := cmp.Diff(want, e.run(a).stdout); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for name, tc := range map[string]struct {
		change func(a *engine.Allocation)
		want   string
	}{
		"missing mount source": {func(a *engine.Allocation) {
			a.Mounts = []engine.Mount{{Source: "/no/such/source", Target: "/data"}}
		}, "mount /no/such/source: it isn't there, or alice may not read it"},
		"mount of nothing that may be": {func(a *engine.Allocation) {
			a.Mounts = []engine.Mount{{Source: "/tmp", Target: "/data", Within: []string{"/tm", "/srv", "/"}}}
		}, "mount /tmp leads out of the folders that may be mounted here"},
		"mount over /proc": {func(a *engine.Allocation) {
			a.Mounts = []engine.Mount{{Source: "/tmp", Target: "/proc/sys"}}
		}, "mount target /proc/sys is not allowed: /proc belongs to the system"},
		"mount over init": {func(a *engine.Allocation) {
			a.Mounts = []engine.Mount{{Source: "/tmp", Target: "/x/../.croft"}}
		}, "mount target /x/../.croft is not allowed: /.croft belongs to the system"},
		"relative mount": {func(a *engine.Allocation) {
			a.Mounts = []engine.Mount{{Source: "/tmp", Target: "data"}}
		}, `mount target "data" must be an absolute path below /`},
		"device gone": {func(a *engine.Allocation) {
			a.Devices = []engine.Device{{UUID: "SIM-x", CDI: "croft.dev/sim=SIM-x"}}
		}, "the device croft.dev/sim=SIM-x is gone: no CDI file lists it"},
		"image missing": {func(a *engine.Allocation) { a.Image = "127.0.0.1:1/none:1" },
			"the image 127.0.0.1:1/none:1 isn't on node1"},
		"id with a slash": {func(a *engine.Allocation) { a.Attempt = "../1" }, `attempt id "../1" is not of the form a-1-1`},
		"no memory":       {func(a *engine.Allocation) { a.Memory = 0 }, "CPU and memory must be above zero"},
	} {
		t.Run(name, func(t *testing.T) {
			a := e.allocation(int64(100+len(name)), "true")
			tc.change(&a)
			err := e.Start(t.Context(), a)
			var refused *engine.StartError
			if !errors.As(err, &refused) || refused.Message != tc.want {
				t.Errorf("error %v (%T), want StartError %q", err, err, tc.want)
			}
		})
	}
	// Whatever was half made goes away like any other attempt.
	e.discardUnlisted()
}

// discardUnlisted removes attempts that have no sandbox.
func (e *testEngine) discardUnlisted() {
	e.t.Helper()
	dirs, err := os.ReadDir(filepath.Join(e.cfg.StateDir, "attempts"))
	if err != nil {
		e.t.Fatal(err)
	}
	for _, d := range dirs {
		if err := e.Remove(e.t.Context(), engine.AttemptID(d.Name())); err != nil {
			e.t.Errorf("Remove(%s): %v", d.Name(), err)
		}
	}
}

func TestCommandFailures(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for name, tc := range map[string]struct {
		command []string
		code    int
		failure string
		stderr  string
	}{
		"not found":           {[]string{"nope"}, 127, "the command isn't in the image", "croft: nope: command not found in the image\n"},
		"not found by path":   {[]string{"/nope/nope"}, 127, "the command isn't in the image", "croft: /nope/nope: command not found in the image\n"},
		"not executable":      {[]string{"/etc/passwd"}, 126, "the command can't be executed: permission, or not a program for this machine", "croft: /etc/passwd: cannot be executed (permission, or not a program for this machine)\n"},
		"code 127 of its own": {[]string{"sh", "-c", "exit 127"}, 127, "", ""},
		"killed by a signal":  {[]string{"sh", "-c", "kill -USR1 $$"}, 128 + 10, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := e.run(e.allocation(int64(len(name)), tc.command...))
			if got.status.ExitCode != tc.code || got.status.Failure != tc.failure || got.stderr != tc.stderr || got.status.OutOfMemory {
				t.Errorf("status %+v, stderr %q; want code %d, failure %q, stderr %q",
					got.status, got.stderr, tc.code, tc.failure, tc.stderr)
			}
		})
	}
}

// TestSharedMemoryIsCharged fills /dev/shm and then memory: together they pass
// the limit, though each is within its own.
func TestSharedMemoryIsCharged(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.script(1, `
		dd if=/dev/zero of=/dev/shm/big bs=1M count=30 2>/dev/null || exit 3
		echo filled
		x=0123456789abcdef; while [ ${#x} -lt 20000000 ]; do x=$x$x; done; echo passed`)
	got := e.run(a)
	if !got.status.OutOfMemory || got.status.ExitCode != 137 || got.stdout != "filled\n" {
		t.Errorf("status %+v, stdout %q; want OutOfMemory after filling", got.status, got.stdout)
	}
}

// TestForgedRecord has a program claim that it ran out of memory: that is
// believed for an exit with 137 only.
func TestForgedRecord(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	got := e.run(e.script(1, `printf 'code 0\nsignal 0\noom_kill 5\nfailure not_found\n' > /.croft/run/exit; exit 3`))
	if got.status.ExitCode != 3 || got.status.OutOfMemory || got.status.Failure != "" {
		t.Errorf("status %+v", got.status)
	}
}

// TestRecordFull fills the file system of the note: the exit code still arrives,
// and no more than its size is taken.
func TestRecordFull(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	got := e.run(e.script(1, `dd if=/dev/zero of=/.croft/run/fill bs=1k count=1000 2>/dev/null; wc -c </.croft/run/fill; exit 4`))
	if got.status.ExitCode != 4 || strings.TrimSpace(got.stdout) != "65536" {
		t.Errorf("status %+v, stdout %q", got.status, got.stdout)
	}
}

// TestStopBeforeBegin stops an attempt that has a sandbox and no container.
func TestStopBeforeBegin(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.allocation(1, "true")
	e.halfStart(a, 1)
	if st := e.status(a.Attempt.Primary()); st.Phase != engine.PhaseCreated {
		t.Fatalf("status %+v", st)
	}
	if err := e.Stop(t.Context(), a.Attempt); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if st := e.status(a.Attempt.Primary()); st.Phase != engine.PhaseExited || st.ExitCode != 137 || st.Finished.IsZero() || !st.Started.IsZero() {
		t.Errorf("status %+v, want exited by a kill without having started", st)
	}
}

// halfStart does the first steps of Start: 0 the preparation, 1 the sandbox, 2
// the container.
func (e *testEngine) halfStart(a engine.Allocation, steps int) {
	e.t.Helper()
	ctx := e.t.Context()
	img, err := e.imageOf(ctx, a.Container)
	if err != nil {
		e.t.Fatal(err)
	}
	mounts, err := e.openMounts(ctx, a, a.Mounts)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { mounts.close() }()
	note, err := e.settle(ctx, &a, &mounts, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := e.prepare(a); err != nil {
		e.t.Fatal(err)
	}
	if steps == 0 {
		return
	}
	cfg := e.sandboxConfig(a, note)
	sandbox, err := e.ensureSandbox(ctx, a, objects{}, cfg)
	if err != nil {
		e.t.Fatal(err)
	}
	if steps == 1 {
		return
	}
	if err := e.scratch(a.Attempt).attach(mounts, false); err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.createContainer(ctx, a, a.Primary(), sandbox, cfg, img, nil); err != nil {
		e.t.Fatal(err)
	}
}

// TestStartHeals kills the server, as it were, between the calls of Start; a new
// one calls it again.
func TestStartHeals(t *testing.T) {
	t.Parallel()
	first := newEngine(t)
	for steps, name := range []string{"after the preparation", "after the sandbox", "after the container"} {
		t.Run(name, func(t *testing.T) {
			a := first.script(int64(steps+1), "echo once; exit 7")
			first.halfStart(a, steps)
			second := open(t, first.cfg)
			got := second.run(a)
			if got.status.ExitCode != 7 || got.stdout != "once\n" {
				t.Errorf("status %+v, stdout %q", got.status, got.stdout)
			}
		})
	}
	t.Run("the sandbox has died", func(t *testing.T) {
		a := first.script(9, "echo once")
		first.halfStart(a, 2)
		have, err := first.find(t.Context(), a.Attempt)
		if err != nil {
			t.Fatal(err)
		}
		first.stopSandbox(have.sandboxes[0].GetId())
		if got := first.run(a); got.stdout != "once\n" || got.status.ExitCode != 0 {
			t.Errorf("status %+v, stdout %q", got.status, got.stdout)
		}
	})
}
