package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/command"
)

// unread is an application that reads no bodies, as many that are made by hand: what follows a
// request is the next one to it. It returns what it was asked.
func (h *harness) unread(port uint16) func() []string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { l.Close() })
	h.engine.at[port] = l.Addr().String()
	var mu sync.Mutex
	var asked []string
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					mu.Lock()
					asked = append(asked, r.Method+" "+r.URL.Path+" by "+r.Header.Get("Croft-User"))
					mu.Unlock()
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					if r.Close {
						return
					}
				}
			}()
		}
	}()
	return func() []string { mu.Lock(); defer mu.Unlock(); return asked }
}

// A body is never a request of its own, whoever sends it: it could say that it came from
// somebody else.
func TestBodiesAreNoRequests(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	asked := h.unread(8888)
	h.browser()
	h.as("ada", command.JobShare{Job: h.job, User: "zoe", Level: access.ShareFull})
	h.as("ada", command.JobShare{Job: h.job, User: "vic", Level: access.ShareView})
	forged := "POST /delete HTTP/1.1\r\nHost: x\r\nCroft-User: ada\r\nCroft-Access: owner\r\nContent-Length: 0\r\n\r\n"
	for what, tc := range map[string]struct{ user, ask, status string }{
		"who looks":            {"vic", "GET /look HTTP/1.1\r\n", "403"},
		"by another method":    {"vic", "HEAD /look HTTP/1.1\r\n", "403"},
		"who uses it":          {"zoe", "GET /look HTTP/1.1\r\n", "200"},
		"what is posted":       {"zoe", "POST /use HTTP/1.1\r\n", "200"},
		"what isn't known":     {"zoe", "BREW /use HTTP/1.1\r\n", "200"},
		"for another protocol": {"zoe", "GET /ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "422"},
	} {
		t.Run(what, func(t *testing.T) {
			c, err := net.Dial("tcp", h.web.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprintf(c, "%sHost: %s\r\nCookie: %s\r\nOrigin: %s\r\nContent-Length: %d\r\n\r\n%s", tc.ask, h.host(lab(h)), h.cookie(tc.user, lab(h)), h.site.AppOrigin(lab(h)), len(forged), forged)
			line, err := bufio.NewReader(c).ReadString('\n')
			if err != nil || !strings.Contains(line, " "+tc.status+" ") {
				t.Errorf("%q, %v; want %s", line, err, tc.status)
			}
		})
	}
	// What comes next is asked of the application after all that it had before.
	h.known("zoe", lab(h)).get(h.site.AppURL(lab(h), "/next"))
	for _, a := range asked() {
		if strings.Contains(a, "/delete") || strings.HasSuffix(a, "by ada") {
			t.Errorf("the application was asked: %s", a)
		}
	}
}

// What a client sends wrongly isn't the application's fault.
func TestBadChunks(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
	})
	h.browser()
	for chunks, status := range map[string]string{"1\r\na\r\n0\r\n\r\n": "200", "ZZ\r\n": "422", "FFFFFFFFFFFFFFFFF\r\n": "422", "1\r\nabc\r\n": "422", "-1\r\n": "422"} {
		c, err := net.Dial("tcp", h.web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /use HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nOrigin: %s\r\nTransfer-Encoding: chunked\r\n\r\n%s", h.host(lab(h)), h.cookie("ada", lab(h)), h.site.AppOrigin(lab(h)), chunks)
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, " "+status+" ") {
			t.Errorf("chunks %q: %q, %v; want %s", chunks, line, err, status)
		}
	}
}
