package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"croft.dev/croft/internal/engine"
)

// server is an attempt that answers "hello" on all its addresses at 8000.
func (e *testEngine) server(job int64) engine.Allocation {
	return e.script(job, "mkdir /tmp/w && echo hello >/tmp/w/index.html && exec httpd -f -p 8000 -h /tmp/w")
}

// get asks over a connection.
func get(c net.Conn, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	b, err := io.ReadAll(c)
	_, body, _ := strings.Cut(string(b), "\r\n\r\n")
	return body, err
}

// awaitDial dials until the program listens.
func (e *testEngine) awaitDial(id engine.StepID, port uint16) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), 30*time.Second)
	defer cancel()
	for {
		got, err := get(e.Dial(ctx, id, port))
		if not := new(engine.DialError); errors.As(err, &not) && ctx.Err() == nil {
			continue
		}
		if err != nil || got != "hello\n" {
			e.t.Fatalf("dial: %q, %v", got, err)
		}
		return
	}
}

// address is that of an attempt in its network.
func (e *testEngine) address(id engine.StepID) string {
	e.t.Helper()
	var out strings.Builder
	code, err := e.Exec(e.t.Context(), id, engine.ExecRequest{Command: []string{"hostname", "-i"}, Stdout: &out})
	if err != nil || code != 0 {
		e.t.Fatalf("hostname -i: %d, %v", code, err)
	}
	for addr := range strings.FieldsSeq(out.String()) {
		if ip := net.ParseIP(addr); ip != nil && !ip.IsLoopback() {
			return addr
		}
	}
	out.Reset()
	code, err = e.Exec(e.t.Context(), id, engine.ExecRequest{Command: []string{"sh", "-c", "ip -4 -o addr show eth0 | sed 's/.*inet //;s,/.*,,'"}, Stdout: &out})
	if err != nil || code != 0 {
		e.t.Fatalf("ip addr: %d, %v", code, err)
	}
	return strings.TrimSpace(out.String())
}

// TestClosedNetwork reaches an application by Dial, and by nothing else: not from the
// machine, not from another job, over IPv4 or IPv6; whatever becomes of the server and of the
// runtime. What is published stays so.
func TestClosedNetwork(t *testing.T) {
	e := newEngine(t)
	open, closed, published := e.server(1), e.server(2), e.server(3)
	closed.Pod.Closed, published.Pod.Closed = true, true
	port := freePort(t)
	published.Pod.Ports = []engine.Port{{Host: port, Container: 8000}}
	for _, a := range []engine.Allocation{open, closed, published} {
		if err := e.Start(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		e.awaitDial(a.Attempt.Primary(), 8000)
	}
	fromMachine := func(addr string) error {
		d := net.Dialer{Timeout: time.Second}
		_, err := get(d.DialContext(t.Context(), "tcp", net.JoinHostPort(addr, "8000")))
		return err
	}
	fromJob := func(addr string) error {
		var out strings.Builder
		code, err := e.Exec(t.Context(), open.Attempt.Primary(), engine.ExecRequest{
			Command: []string{"timeout", "2", "wget", "-q", "-O", "-", "http://" + net.JoinHostPort(addr, "8000") + "/"}, Stdout: &out,
		})
		if err == nil && code != 0 {
			err = fmt.Errorf("wget: exit code %d", code)
		}
		return err
	}
	var link strings.Builder
	if _, err := e.Exec(t.Context(), closed.Attempt.Primary(), engine.ExecRequest{
		Command: []string{"sh", "-c", "ip -6 -o addr show eth0 | sed 's/.*inet6 //;s,/.*,,'"}, Stdout: &link,
	}); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		if err := errors.Join(fromMachine(e.address(open.Attempt.Primary())), fromJob(e.address(open.Attempt.Primary()))); err != nil {
			t.Fatalf("%s: one that isn't closed can't be reached: %v", when, err)
		}
		addr := e.address(closed.Attempt.Primary())
		for from, try := range map[string]func(string) error{"the machine": fromMachine, "another job": fromJob} {
			if err := try(addr); err == nil {
				t.Errorf("%s: it is reached from %s", when, from)
			}
		}
		if six := strings.TrimSpace(link.String()); six != "" {
			if err := fromMachine(six + "%" + shared.bridge); err == nil {
				t.Errorf("%s: it is reached over IPv6", when)
			}
		}
		e.awaitDial(closed.Attempt.Primary(), 8000)
		d := net.Dialer{Timeout: 5 * time.Second}
		if got, err := get(d.DialContext(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(int(port)))); err != nil || got != "hello\n" {
			t.Errorf("%s: the published port answers %q, %v", when, got, err)
		}
	}
	check("at first")
	again := open2(t, e)
	if err := again.Start(t.Context(), closed); err != nil {
		t.Fatal(err)
	}
	check("started again by another server")
	// It reaches out as before.
	got := e.exec(closed.Attempt.Primary(), "timeout 5 wget -q -O - http://"+e.address(open.Attempt.Primary())+":8000/")
	if got != "hello\n" {
		t.Errorf("it reaches others with %q", got)
	}
}

func open2(t *testing.T, e *testEngine) engine.Engine {
	again := reopen(t, e.cfg)
	t.Cleanup(func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
	return again
}

func (e *testEngine) exec(id engine.StepID, code string) string {
	e.t.Helper()
	var out strings.Builder
	if _, err := e.Exec(e.t.Context(), id, engine.ExecRequest{Command: []string{"sh", "-c", code}, Stdout: &out}); err != nil {
		e.t.Fatal(err)
	}
	return out.String()
}

// TestDialNeverTheMachine refuses where a job's ports would be the machine's.
func TestDialNeverTheMachine(t *testing.T) {
	e := newEngine(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	inHost := e.script(1, "sleep 600")
	inHost.Pod.HostNetwork = true
	onHost := e.allocation(2, "sleep", "600")
	onHost.Container = engine.Container{Host: true, Command: []string{"sleep", "600"}, Workdir: "/tmp"}
	apart := e.script(3, "sleep 600")
	for _, a := range []engine.Allocation{inHost, onHost, apart} {
		if err := e.Start(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		c, err := e.Dial(t.Context(), a.Attempt.Primary(), port)
		if not := new(engine.DialError); !errors.As(err, &not) || not.Port != port {
			t.Errorf("job %d: connection %v, error %v", a.Job, c, err)
		}
	}
	inHost.Pod.Closed = true
	inHost.Attempt = "x-9-1"
	var never *engine.StartError
	if err := e.Start(t.Context(), inHost); !errors.As(err, &never) {
		t.Errorf("closing the machine's network: %v", err)
	}
}

// TestDialLeavesNoThreadBehind dials much at once, and looks that all threads of this
// process are in the machine's network afterwards.
func TestDialLeavesNoThreadBehind(t *testing.T) {
	e := newEngine(t)
	a := e.server(1)
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	e.awaitDial(a.Attempt.Primary(), 8000)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				c, err := e.Dial(t.Context(), a.Attempt.Primary(), 8000)
				if err != nil {
					t.Error(err)
					return
				}
				c.Close()
			}
		})
	}
	all.Wait()
	runtime.GC()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, th := range threads {
		if ns, err := os.Readlink("/proc/self/task/" + th.Name() + "/ns/net"); err == nil && ns != own {
			t.Errorf("thread %s is in %s", th.Name(), ns)
		}
	}
	// One namespace is kept for it, and let go of with it.
	if n := len(e.networks.of); n != 1 {
		t.Errorf("%d namespaces are kept", n)
	}
	if err := errors.Join(e.Stop(t.Context(), a.Attempt), e.Remove(t.Context(), a.Attempt)); err != nil {
		t.Fatal(err)
	}
	if n := len(e.networks.of); n != 0 || slices.Contains(names(t, "/proc/self/fd"), "net:") {
		t.Errorf("%d namespaces are kept", n)
	}
}

func names(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range entries {
		if to, err := os.Readlink(dir + "/" + d.Name()); err == nil {
			kind, _, _ := strings.Cut(to, "[")
			out = append(out, kind)
		}
	}
	return out
}
