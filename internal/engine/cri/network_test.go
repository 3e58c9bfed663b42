package cri

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
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
	if n := strings.Count(string(out), shared.bridge); n != 2 {
		t.Errorf("%d firewall rules for %s, want 2:\n%s", n, shared.bridge, out)
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
