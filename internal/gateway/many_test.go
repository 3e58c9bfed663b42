package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/address"
)

// switching is an application that holds what it is asked for open, without goroutines or
// buffers of its own.
func (h *harness) switching(port uint16) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	var held []net.Conn
	done := make(chan struct{})
	h.t.Cleanup(func() { l.Close(); <-done })
	h.engine.at[port] = l.Addr().String()
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range held {
					c.Close()
				}
				return
			}
			held = append(held, c)
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			}
		}
	}()
}

// TestManyWebSockets asks for ten thousand that say nothing, of which a site allows two. What
// each costs is bounded; those above are refused, and cost nothing; another job is
// reached meanwhile; and all is given back when they are gone.
func TestManyWebSockets(t *testing.T) {
	const many, asked, each = 2000, 10_000, 128 << 10 // bytes, at both ends of the test as well; the race detector takes more
	h := newHarness(t, "", address.DomainAuto)
	h.server.live.limits = Limits{PerJob: many, PerUser: 2 * many}
	h.switching(8888)
	h.browser()
	ask := "GET / HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\nCookie: " + h.cookie("ada", lab(h)) + "\r\nOrigin: " + h.site.AppOrigin(lab(h)) +
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	open := func() net.Conn {
		c, err := net.Dial("tcp", h.web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, ask); err != nil {
			t.Fatal(err)
		}
		return c
	}
	status := func(c net.Conn) string {
		b := make([]byte, 12)
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		return string(b[9:])
	}
	first := open()
	status(first)
	before, goroutines := used(), runtime.NumGoroutine()
	all := []net.Conn{first}
	for len(all) < many {
		c := open()
		if got := status(c); got != "101" {
			t.Fatalf("number %d: %s", len(all), got)
		}
		all = append(all, c)
	}
	grown := (used() - before) / many
	t.Logf("%d bytes for each", grown)
	if grown > each {
		t.Errorf("%d bytes for each, more than %d", grown, each)
	}
	for n := many; n < asked; n++ {
		over := open()
		if got := status(over); got != "503" {
			t.Fatalf("number %d, which may not be: %s", n, got)
		}
		over.Close()
	}
	if more := used() - before - many*grown; more > 16<<20 {
		t.Errorf("those that were refused keep %d bytes", more)
	}
	another := address.App{Job: h.submit("ada", v1.App{Port: 6006})}
	h.start(another.Job)
	h.app(6006, echo)
	if got := h.known("ada", another).get(h.site.AppURL(another, "/")); got.StatusCode != 200 {
		t.Errorf("another application meanwhile: %s %s", got.Status, got.body)
	}
	for _, c := range all {
		c.Close()
	}
	h.awaitOpen(0)
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines+10; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left, there were %d", runtime.NumGoroutine(), goroutines)
		}
	}
}

// used is the memory of the heap and of stacks, in bytes.
func used() int64 {
	runtime.GC()
	runtime.GC() // what pools hold goes with the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestBehindProxies has a proxy that keeps the host stand before the server, by name and by
// path, as on many campuses: requests, WebSockets and streams come through it.
func TestBehindProxies(t *testing.T) {
	for kind, domain := range map[string]string{"by name": "apps.croft.example.org", "by path": address.DomainNone} {
		t.Run(kind, func(t *testing.T) {
			h := newHarness(t, "https://croft.example.org", domain)
			h.app(8888, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/ws" {
					fmt.Fprintf(w, "%s %s %s", r.URL.Path, r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-Prefix"))
					return
				}
				c, err := websocket.Accept(w, r, nil)
				if err != nil {
					return
				}
				defer c.CloseNow()
				kind, b, err := c.Read(r.Context())
				if err == nil {
					_ = c.Write(r.Context(), kind, b)
				}
			})
			h.browser()
			back, err := url.Parse(h.web.URL)
			if err != nil {
				t.Fatal(err)
			}
			front := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
				p.SetURL(back)
				p.Out.Host = p.In.Host
				p.SetXForwarded()
			}})
			defer front.Close()
			c := front.Client()
			tr := c.Transport.(*http.Transport)
			tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", front.Listener.Addr().String())
			}
			tr.TLSClientConfig.ServerName = "example.com"
			header := http.Header{"Cookie": {h.cookie("ada", lab(h))}, "Origin": {h.site.AppOrigin(lab(h))}}
			r, err := http.NewRequest("GET", h.site.AppURL(lab(h), "/x"), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = header.Clone()
			got, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(got.Body)
			got.Body.Close()
			if want := "/x https " + strings.TrimSuffix(strings.TrimPrefix(h.site.Base(lab(h)), "/"), "/"); strings.ReplaceAll(string(body), " /", " ") != want {
				t.Errorf("%s %q, want %q", got.Status, body, want)
			}
			ws, _, err := websocket.Dial(t.Context(), h.site.AppURL(lab(h), "/ws"), &websocket.DialOptions{HTTPClient: c, HTTPHeader: header})
			if err != nil {
				t.Fatal(err)
			}
			defer ws.CloseNow()
			if err := ws.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
				t.Fatal(err)
			}
			if _, b, err := ws.Read(t.Context()); err != nil || string(b) != "hello" {
				t.Errorf("%q, %v", b, err)
			}
			header.Set("Origin", "https://evil.example")
			if _, resp, err := websocket.Dial(t.Context(), h.site.AppURL(lab(h), "/ws"), &websocket.DialOptions{HTTPClient: c, HTTPHeader: header}); err == nil || resp == nil || resp.StatusCode != 403 {
				t.Errorf("a page of another origin: %v, %v", resp, err)
			}
		})
	}
}
