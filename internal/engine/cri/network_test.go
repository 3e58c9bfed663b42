package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/internal/engine"
)

// TestNetwork fetches from a server on the machine, through the bridge, and
// checks that starting the runtime many times left one set of firewall rules.
func TestNetwork(t *testing.T) {
	e := newEngine(t)
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello from the machine")
	}))
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	port := l.Addr().(*net.TCPAddr).Port
	got := e.run(e.script(1, fmt.Sprintf(
		`gw=$(route -n | awk '$1=="0.0.0.0"{print $2}'); wget -q -O - http://$gw:%d/`, port)))
	if got.stdout != "hello from the machine\n" {
		t.Errorf("stdout %q, stderr %q", got.stdout, got.stderr)
	}

	// A service's PATH may lack the administrator's directories.
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := exec.Command("iptables", "-w", "5", "-S").Output()
	if err != nil {
		t.Fatalf("iptables (run make setup): %v", err)
	}
	if n := strings.Count(string(out), shared.bridge); n != 3 {
		t.Errorf("%d firewall rules for %s, want 3:\n%s", n, shared.bridge, out)
	}
	out, err = exec.Command("iptables", "-w", "5", "-t", "nat", "-S", "POSTROUTING").Output()
	if err != nil {
		t.Fatal(err)
	}
	subnet, err := shared.runtime.Subnet()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "-s "+subnet.String()+" "); n != 1 {
		t.Errorf("%d rules to masquerade %s, want 1:\n%s", n, subnet, out)
	}
}

// freePort is a port of the machine that nobody listens on.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// TestPublishedPort reaches a server in a container by a port of the machine, and then,
// when it has ended, nobody.
func TestPublishedPort(t *testing.T) {
	e := newEngine(t)
	port := freePort(t)
	a := e.script(1, "mkdir /tmp/w && echo hello from the job >/tmp/w/index.html && exec httpd -f -p 8000 -h /tmp/w")
	a.Pod.Ports = []engine.Port{{Host: port, Container: 8000}}
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	get := func() (string, error) {
		c := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := c.Get("http://127.0.0.1:" + strconv.Itoa(int(port)) + "/")
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		return string(b), err
	}
	var got string
	var err error
	for end := time.Now().Add(30 * time.Second); ; {
		if got, err = get(); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil || got != "hello from the job\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := errors.Join(e.Stop(t.Context(), a.Attempt), e.Remove(t.Context(), a.Attempt)); err != nil {
		t.Fatal(err)
	}
	if got, err := get(); err == nil {
		t.Errorf("after its end: %q", got)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	if out, err := exec.Command("iptables", "-w", "5", "-t", "nat", "-S").Output(); err != nil || strings.Contains(string(out), "--dport "+strconv.Itoa(int(port))+" ") {
		t.Errorf("a rule for the port is left, or %v:\n%s", err, out)
	}
}

// TestPortInUse keeps a job from taking over a port that a program of the machine has.
func TestPortInUse(t *testing.T) {
	e := newEngine(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := e.script(1, "true")
	a.Pod.Ports = []engine.Port{{Host: uint16(l.Addr().(*net.TCPAddr).Port), Container: 80}}
	var never *engine.StartError
	if err := e.Start(t.Context(), a); !errors.As(err, &never) || !strings.Contains(never.Message, "is in use by a program of the machine") {
		t.Errorf("got %v", err)
	}
}

// TestPodNames looks at the names that a container has and asks for.
func TestPodNames(t *testing.T) {
	e := newEngine(t)
	a := e.script(1, "hostname; grep -c web-1 /etc/hosts; cat /etc/resolv.conf")
	a.Pod.Hostname, a.Pod.DNS = "web-1", []string{"192.0.2.9"}
	got := e.run(a)
	if !strings.HasPrefix(got.stdout, "web-1\n1\n") || !strings.Contains(got.stdout, "nameserver 192.0.2.9\n") {
		t.Errorf("stdout %q, stderr %q", got.stdout, got.stderr)
	}
}

// TestHostNetwork sees the machine's own interfaces and name, in a further step too, and
// may change nothing of them.
func TestHostNetwork(t *testing.T) {
	e := newEngine(t)
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	look := "readlink /proc/self/ns/net; hostname; ip link set lo down 2>/dev/null || echo kept"
	want := own + "\n" + name + "\nkept\n"
	a := e.script(1, look+"; sleep 600")
	a.Pod.HostNetwork = true
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s := a.Primary()
	s.N, s.Command = 2, []string{"sh", "-c", look}
	if err := e.StartStep(t.Context(), a, s); err != nil {
		t.Fatal(err)
	}
	if got := e.wait(t.Context(), engine.StepID{Attempt: a.Attempt, N: 2}); got.stdout != want {
		t.Errorf("stdout %q, want %q; stderr %q", got.stdout, want, got.stderr)
	}
}

// TestSharedProcesses looks from a step at the primary's processes, and that what a step
// leaves behind ends with it although another container's process adopts it.
func TestSharedProcesses(t *testing.T) {
	e := newEngine(t)
	a := e.script(1, "exec sleep 611")
	a.Pod.SharePID = true
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	step := func(n int, code string) result {
		t.Helper()
		s := a.Primary()
		s.N, s.Command = n, []string{"sh", "-c", code}
		if err := e.StartStep(t.Context(), a, s); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return e.wait(ctx, engine.StepID{Attempt: a.Attempt, N: n})
	}
	const of = `of() { for p in /proc/[0-9]*; do [ "$(tr '\0' ' ' <$p/cmdline 2>/dev/null)" = "sleep $1 " ] && basename $p; done; }; `
	if got := step(2, of+"setsid sleep 612 & while [ -z \"$(of 611)\" ]; do sleep 0.1; done; of 611 | wc -l"); got.stdout != "1\n" {
		t.Errorf("of the primary's %q, stderr %q", got.stdout, got.stderr)
	}
	if got := step(3, of+"of 612 | wc -l; kill $(of 611); echo killed"); got.stdout != "0\nkilled\n" {
		t.Errorf("left by a step that has ended: %q, stderr %q", got.stdout, got.stderr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got := e.wait(ctx, a.Attempt.Primary()); got.status.ExitCode != 143 {
		t.Errorf("the primary ended with %d", got.status.ExitCode)
	}
}
