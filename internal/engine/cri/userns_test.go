package cri

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/bind"
)

// fakeRoot is where root is in the tests' user namespaces.
const fakeRoot = 1_879_048_192

// withUserns gives an attempt a user namespace in which it runs as uid and gid.
func withUserns(a engine.Allocation, uid, gid int64) engine.Allocation {
	a.Userns = &engine.Userns{First: fakeRoot, Size: usernsIDs, UID: uid, GID: gid, Required: true}
	return a
}

// mounting gives an attempt a folder at /data.
func mounting(a engine.Allocation, dir string) engine.Allocation {
	a.Mounts = append(a.Mounts, engine.Mount{Source: dir, Target: "/data", Within: []string{dir}})
	return a
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// TestFakeRoot looks at what root is in a container, and whose its files are outside.
func TestFakeRoot(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.script(1, `
		echo id $(id -u) $(id -g) $(id -G) $USER $HOME
		grep -E '^(NoNewPrivs|CapEff|CapBnd|Seccomp):' /proc/self/status | tr '\t' ' '
		cat /proc/self/uid_map | tr -s ' '
		stat -c '%u:%g' /data /data/mine /.croft/run
		touch /data/new && mkdir /data/folder && chmod 750 /data/folder && echo written
		echo x >/dev/shm/x && echo shared
		echo 'web:x:33:33::/:/bin/sh' >>/etc/passwd && touch /tmp/f && chown web /tmp/f && stat -c %U /tmp/f
		su -s /bin/sh web -c 'id -u; touch /data/theirs' 2>/dev/null || echo web may not write
	`)
	dir := ownFolder(t, a.User)
	if err := errors.Join(os.Chmod(dir, 0o700), os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600), os.Chown(filepath.Join(dir, "mine"), 5001, 6001)); err != nil {
		t.Fatal(err)
	}
	got := e.run(mounting(withUserns(a, 0, 0), dir))
	const caps = "00000000800405fb"
	want := []string{
		"id 0 0 0 root /root",
		"CapEff: " + caps, "CapBnd: " + caps, "NoNewPrivs: 0", "Seccomp: 2",
		" 0 1879048192 65536",
		"0:0", "0:0", "0:0",
		"written", "shared", "web", "33", "web may not write",
	}
	if diff := cmp.Diff(want, lines(got.stdout)); diff != "" {
		t.Errorf("output (-want +got):\n%s\nstderr: %s", diff, got.stderr)
	}
	for _, name := range []string{"new", "folder"} {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, name), &st); err != nil || st.Uid != 5001 || st.Gid != 6001 {
			t.Errorf("%s is %d:%d's on the machine: %v", name, st.Uid, st.Gid, err)
		}
	}
}

// TestFakeRootOnTheMachinesNetwork has no rights over it.
func TestFakeRootOnTheMachinesNetwork(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := withUserns(e.script(1, `id -u; hostname; route add -net 198.51.100.0 netmask 255.255.255.0 dev lo 2>/dev/null || echo no route
		httpd -f -p 127.0.0.1:81 2>/dev/null || echo no port; ls /sys/class/net | grep -c .`), 0, 0)
	a.Pod.HostNetwork = true
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	got := lines(e.run(a).stdout)
	if diff := cmp.Diff([]string{"0", host, "no route", "no port"}, got[:min(len(got), 4)]); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// TestFakeSomebody runs as another than root.
func TestFakeSomebody(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.script(1, `echo $(id -u) $(id -g); stat -c '%u:%g' /data; touch /data/new; grep CapEff /proc/self/status; exit 3`)
	dir := ownFolder(t, a.User)
	got := e.run(mounting(withUserns(a, 1000, 50), dir))
	if diff := cmp.Diff([]string{"1000 50", "1000:50", "CapEff:\t0000000000000000"}, lines(got.stdout)); diff != "" || got.status.ExitCode != 3 {
		t.Errorf("%+v (-want +got):\n%s\nstderr: %s", got.status, diff, got.stderr)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "new"), &st); err != nil || st.Uid != 5001 || st.Gid != 6001 {
		t.Errorf("the file is %d:%d's on the machine: %v", st.Uid, st.Gid, err)
	}
}

// TestFakeRootLasts has further steps and commands be whom the primary is, whatever the
// server says by then, and a program in there run out of memory.
func TestFakeRootLasts(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := withUserns(e.script(1, "x=0123456789abcdef; until test -e /tmp/go; do sleep 0.05; done; while :; do x=$x$x; done"), 0, 0)
	dir := ownFolder(t, a.User)
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	plain := a
	plain.Userns = nil
	s := mounting(plain, dir).Primary()
	s.N, s.Command = 2, []string{"sh", "-c", "id -u; stat -c %u /data; touch /data/new"}
	if err := e.StartStep(t.Context(), plain, s); err != nil {
		t.Fatal(err)
	}
	if got := e.wait(t.Context(), engine.StepID{Attempt: a.Attempt, N: 2}); got.stdout != "0\n0\n" || got.status.ExitCode != 0 {
		t.Errorf("the step is %q, %+v, stderr %q", got.stdout, got.status, got.stderr)
	}
	var out bytes.Buffer
	code, err := e.Exec(t.Context(), a.Attempt.Primary(), engine.ExecRequest{Command: []string{"sh", "-c", "id -u; touch /tmp/go"}, Stdout: &out})
	if err != nil || code != 0 || out.String() != "0\n" {
		t.Errorf("a command is %q: %d, %v", out.String(), code, err)
	}
	if got := e.wait(t.Context(), a.Attempt.Primary()); got.status.ExitCode != 137 || !got.status.OutOfMemory {
		t.Errorf("the primary ended as %+v", got.status)
	}
}

// TestFakeRootDevices has a device, and no other.
func TestFakeRootDevices(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	inv, err := e.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := e.script(1, `for i in 0 1; do if test -c /dev/croft-sim$i && echo x >/dev/croft-sim$i; then echo $i open; else echo $i closed; fi; done 2>/dev/null; ls /dev/croft-sim*`)
	a.Devices = inv.Devices[1:2]
	if diff := cmp.Diff("0 closed\n1 open\n/dev/croft-sim1\n", e.run(withUserns(a, 0, 0)).stdout); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// TestFakeRootEscapes tries what root could do outside of a user namespace.
func TestFakeRootEscapes(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.script(1, `
		try() { what=$1; shift; if "$@" >/dev/null 2>&1; then echo "$what WORKED"; else echo "$what refused"; fi; }
		try "a device" mknod /tmp/null c 1 3
		try "the disk" mknod /data/disk b 254 0
		try "a kernel setting" sh -c 'echo 1 >/proc/sys/kernel/panic'
		try "a setting of all" sh -c 'echo h >/proc/sysrq-trigger'
		try "its own ids" sh -c 'echo "0 0 4294967295" >/proc/self/uid_map'
		try "another's ids" sh -c 'echo "0 0 1" >/proc/1/uid_map'
		try "a mount" mount -t tmpfs none /mnt
		try "a bind" mount -o bind /data /mnt
		try "writing below a read-only mount" mount -o remount,rw /ro
		try "a user namespace" unshare -U true
		try "a mount namespace" unshare -m true
		try "the sandbox's namespaces" nsenter -t 1 -u hostname owned
		try "a host name" hostname owned
		try "a route" route add -net 198.51.100.0 netmask 255.255.255.0 dev lo
		try "giving a file away" chown 33 /data/mine
		try "another's secret" cat /data/his
		try "another's folder" ls /data/closed
		try "another's mode" chmod 777 /data/his
		try "another's file" chown 0 /data/his
		try "a file of root's" sh -c 'echo x >>/data/roots'
		try "the cgroup" sh -c 'for f in /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max; do test -e $f && echo 1G >$f && exit 0; done; exit 1'
		try "a module" sh -c 'echo x >/sys/module/loop/parameters/max_loop'
		try "raw packets" ping -c 1 -W 1 -I lo 127.0.0.2
		cp /data/euid /data/left && chmod 4755 /data/left
		cp /data/euid /bin/euid && chmod 4755 /bin/euid
		for program in /bin/euid /data/euid; do su -s /bin/sh nobody -c $program; done`)
	dir := ownFolder(t, a.User)
	in := func(name string) string { return filepath.Join(dir, name) }
	build := exec.CommandContext(t.Context(), "go", "build", "-o", in("euid"), "./testdata/euid")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	err := errors.Join(
		os.WriteFile(in("mine"), nil, 0o600), os.Chown(in("mine"), 5001, 6001),
		os.WriteFile(in("his"), []byte("secret"), 0o600), os.Chown(in("his"), 5002, 6002),
		os.WriteFile(in("roots"), nil, 0o644),
		os.Mkdir(in("closed"), 0o700), os.Chown(in("closed"), 5002, 6002),
		os.Chmod(in("euid"), 0o755|os.ModeSetuid),
	)
	if err != nil {
		t.Fatal(err)
	}
	a = mounting(withUserns(a, 0, 0), dir)
	a.Mounts = append(a.Mounts, engine.Mount{Source: dir, Target: "/ro", ReadOnly: true, Within: []string{dir}})
	got := e.run(a)
	out := lines(got.stdout)
	for _, line := range out {
		if strings.HasSuffix(line, "WORKED") {
			t.Error(line)
		}
	}
	// setuid: of the image, root in there; of the machine, nothing
	if len(out) != 25 || out[23] != "0" || out[24] != "65534" {
		t.Errorf("%d lines: %q, stderr %q", len(out), out, got.stderr)
	}
	var st unix.Stat_t
	if err := unix.Stat(in("left"), &st); err != nil || st.Uid != 5001 || st.Mode&unix.S_ISUID == 0 {
		t.Errorf("a setuid program that was left is uid %d's, mode %o: %v", st.Uid, st.Mode, err)
	}
	if text, err := os.ReadFile(in("his")); string(text) != "secret" {
		t.Errorf("the other's file is %q, %v", text, err)
	}
}

// TestWithoutFakeRoot mounts what can't be shown with other ids: who insists is refused,
// others run as themselves and are told.
func TestWithoutFakeRoot(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	blank := e.script(1, "")
	dir := ownFolder(t, blank.User)
	below := filepath.Join(dir, "below")
	if err := errors.Join(os.Mkdir(below, 0o755), os.Chmod(below, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", below, "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer bind.Detach(below)
	lab := ownFolder(t, engine.User{GID: 7001})
	if err := os.Chmod(lab, 0o770); err != nil {
		t.Fatal(err)
	}
	asAsked := func(a *engine.Allocation) { a.Userns.Required = false }
	tests := map[string]struct {
		dir    string
		change func(*engine.Allocation)
		want   string // what the user is told
		runs   bool   // as the user
	}{
		"insisted":              {dir, func(*engine.Allocation) {}, "no fake root: " + dir + " is on a file system without idmapped mounts", false},
		"as asked":              {dir, asAsked, "croft: no fake root, the job runs as alice: " + dir + " is on a file system without idmapped mounts\n", true},
		"a group's":             {lab, asAsked, "croft: no fake root, the job runs as alice: " + lab + " is open to alice by the group lab only\n", true},
		"no ids, insisted":      {"", func(a *engine.Allocation) { a.Userns.Lack = "because" }, "no fake root: because", false},
		"no ids":                {"", func(a *engine.Allocation) { a.Userns = &engine.Userns{Lack: "because"} }, "croft: no fake root, the job runs as alice: because\n", true},
		"nobody of that number": {"", func(a *engine.Allocation) { a.Userns.UID = 70000 }, "there is no user 70000:0 in a container: ids go up to 65535", false},
	}
	job := int64(1)
	for name, tc := range tests {
		job++
		t.Run(name, func(t *testing.T) {
			a := withUserns(e.script(job, "id -u; ls /data >/dev/null 2>&1; : >/.croft/run/x && echo noted; grep -c alice /etc/passwd"), 0, 0)
			if tc.dir != "" {
				a = mounting(a, tc.dir)
			}
			tc.change(&a)
			if !tc.runs {
				var refused *engine.StartError
				if err := e.Start(t.Context(), a); !errors.As(err, &refused) || refused.Message != tc.want {
					t.Errorf("%v, want %s", err, tc.want)
				}
				return
			}
			if got := e.run(a); got.stderr != tc.want || got.stdout != "5001\nnoted\n1\n" {
				t.Errorf("stdout %q, stderr %q, want %q", got.stdout, got.stderr, tc.want)
			}
		})
	}
	a := withUserns(e.script(1, "sleep 600"), 0, 0)
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s := mounting(a, dir).Primary()
	s.N = 2
	var refused *engine.StartError
	if err := e.StartStep(t.Context(), a, s); !errors.As(err, &refused) || !strings.Contains(refused.Message, "no step of a job with fake root can mount it") {
		t.Errorf("a step: %v", err)
	}
}

// TestFakeRootHeals kills the server, as it were, between the calls of Start; a new one,
// whose configuration has changed meanwhile, goes on.
func TestFakeRootHeals(t *testing.T) {
	t.Parallel()
	first := newEngine(t)
	dir := ownFolder(t, first.allocation(1).User)
	for steps, want := range []string{"5001\n5001\n", "0\n0\n", "0\n0\n"} {
		a := mounting(withUserns(first.script(int64(steps+1), "id -u; stat -c %u /data; : >/.croft/run/x"), 0, 0), dir)
		first.halfStart(a, steps)
		a.Userns = nil
		if got := open(t, first.cfg).run(a); got.stdout != want || got.status.ExitCode != 0 {
			t.Errorf("after %d steps: %q, %+v, stderr %q", steps, got.stdout, got.status, got.stderr)
		}
	}
}

// TestFakeRootBesideTheMachine adds containers to a program on the machine: whether they
// have fake root depends on what they will most likely mount.
func TestFakeRootBesideTheMachine(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	u := e.allocation(1).User
	plain, odd := ownFolder(t, u), ownFolder(t, u)
	below := filepath.Join(odd, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", below, "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer bind.Detach(below)
	for job, tc := range []struct{ dir, id, told string }{
		{plain, "0\n", ""},
		{odd, "5001\n", "croft: no fake root, the job runs as alice: " + odd + " is on a file system without idmapped mounts\n"},
	} {
		a := withUserns(e.allocation(int64(job+1), "sleep", "600"), 0, 0)
		a.Userns.Required, a.Host, a.Image, a.Workdir = false, true, "", tc.dir
		if err := e.Start(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		s := mounting(e.allocation(1, "sh", "-c", "id -u; touch /data/made"), tc.dir).Primary()
		s.N = 2
		var err error
		for {
			if err = e.StartStep(t.Context(), a, s); !engine.IsUnavailable(err) {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		got := e.wait(t.Context(), engine.StepID{Attempt: a.Attempt, N: 2})
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(tc.dir, "made"), &st); got.stdout != tc.id || got.stderr != tc.told || err != nil || st.Uid != 5001 {
			t.Errorf("stdout %q, stderr %q; the file is uid %d's: %v", got.stdout, got.stderr, st.Uid, err)
		}
	}
}
