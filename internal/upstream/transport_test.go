package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// peer is a server that a test writes by hand.
type peer struct {
	*Transport
	t     *testing.T
	dials atomic.Int64
	gone  atomic.Int64 // connections that have ended at the server's end
}

// newPeer has serve speak on each connection, the first of which is number 1. What it returns
// from is closed.
func newPeer(t *testing.T, serve func(n int64, c net.Conn, in *bufio.Reader)) *peer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &peer{t: t}
	go func() {
		for n := int64(1); ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer p.gone.Add(1)
				defer c.Close()
				serve(n, c, bufio.NewReader(c))
			}()
		}
	}()
	p.Transport = New(Config{Header: 64 << 10, Patience: 10 * time.Second, Idle: 4, IdleFor: time.Minute, Dial: func(ctx context.Context, host string) (net.Conn, error) {
		p.dials.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}})
	t.Cleanup(p.CloseIdleConnections)
	return p
}

// request reads one; false: there is none any more.
func request(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

func ask(method string) *http.Request {
	r, err := http.NewRequest(method, "http://app/x", nil)
	if err != nil {
		panic(err)
	}
	return r
}

// get asks and returns what is answered.
func (p *peer) get() string {
	p.t.Helper()
	resp, err := p.RoundTrip(ask("GET"))
	if err != nil {
		return "error: " + err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Sprintf("%s and error: %v", b, err)
	}
	return string(b)
}

// until waits for what another goroutine does.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it doesn't come to be: " + what)
		}
	}
}

const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

// TestKeep asks again on a connection whose answer was read whole, and on no other.
func TestKeep(t *testing.T) {
	for name, tt := range map[string]struct {
		answer, body string
		dials        int64 // for three requests
	}{
		"a length":           {hello, "hello", 1},
		"chunks":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "hello", 1},
		"nothing":            {"HTTP/1.1 204 No Content\r\n\r\n", "", 1},
		"it says so":         {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", "hello", 3},
		"an old one":         {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 3},
		"more than there is": {hello + hello, "hello", 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, func(_ int64, c net.Conn, in *bufio.Reader) {
				for request(in) {
					if _, err := io.WriteString(c, tt.answer); err != nil {
						return
					}
				}
			})
			for range 3 {
				if got := p.get(); got != tt.body {
					t.Errorf("%q", got)
				}
			}
			if got := p.dials.Load(); got != tt.dials {
				t.Errorf("%d connections were made, want %d", got, tt.dials)
			}
		})
	}
}

// TestUnasked is an answer that comes when nothing was asked: it isn't taken for the next one.
func TestUnasked(t *testing.T) {
	p := newPeer(t, func(n int64, c net.Conn, in *bufio.Reader) {
		for request(in) {
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nno. %d", n)
			if n == 1 {
				_, _ = io.WriteString(c, hello) // in a packet of its own, mostly
			}
		}
	})
	if got := p.get(); got != "no. 1" {
		t.Fatalf("%q", got)
	}
	if c := p.pop("app"); c != nil {
		until(t, "the other answer arrives", func() bool { return !c.quiet() })
		p.keep(c)
	}
	if got := p.get(); got != "no. 2" {
		t.Errorf("%q", got)
	}
}

// TestGivenUp asks once more when a connection that was kept ends before anything was answered,
// and not when it had begun or is new.
func TestGivenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		second string // what a connection says to its second request before it ends
		first  bool   // as it does to its first
		want   string
		dials  int64
	}{
		"a kept one":          {"", false, "hello", 2},
		"amid an answer":      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", false, "hel and error: unexpected EOF", 1},
		"amid its first line": {"HTT", false, "error: malformed HTTP response \"HTT\"", 1},
		"a new one":           {"", true, "error: " + errUnanswered.Error() + ": unexpected EOF", 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, func(n int64, c net.Conn, in *bufio.Reader) {
				if request(in) && !(tt.first && n > 1) {
					_, _ = io.WriteString(c, hello)
					if request(in) {
						_, _ = io.WriteString(c, tt.second)
					}
				}
			})
			if got := p.get(); got != "hello" {
				t.Fatalf("%q", got)
			}
			if got := p.get(); got != tt.want || p.dials.Load() != tt.dials {
				t.Errorf("%q with %d connections, want %q with %d", got, p.dials.Load(), tt.want, tt.dials)
			}
		})
	}
}

// TestBodies sends what has a body once, whatever becomes of it.
func TestBodies(t *testing.T) {
	p := newPeer(t, func(_ int64, c net.Conn, in *bufio.Reader) {
		for request(in) {
			_, _ = io.WriteString(c, hello)
		}
	})
	r := ask("POST")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("abc")), 3
	resp, err := p.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); string(b) != "hello" || err != nil || resp.Body.Close() != nil {
		t.Errorf("%q, %v", b, err)
	}
	for method, want := range map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true, "DELETE": false, "POST": false} {
		if got := Bare(ask(method)); got != want {
			t.Errorf("%s: %v", method, got)
		}
	}
	if r.Method = "GET"; Bare(r) {
		t.Error("a GET with a body is bare")
	}
}

// TestCancel ends the connection when nobody waits for the answer any more, and when nobody
// reads it.
func TestCancel(t *testing.T) {
	for name, answer := range map[string]string{"before the answer": "", "amid it": "HTTP/1.1 200 OK\r\n\r\nhe"} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			p := newPeer(t, func(_ int64, c net.Conn, in *bufio.Reader) {
				if request(in) {
					_, _ = io.WriteString(c, answer)
					asked <- struct{}{}
					request(in) // until it is closed
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-asked; cancel() }()
			resp, err := p.RoundTrip(ask("GET").WithContext(ctx))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			until(t, "the server's end is closed", func() bool { return p.gone.Load() == 1 })
		})
	}
	p := newPeer(t, func(_ int64, c net.Conn, in *bufio.Reader) {
		if request(in) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel")
			request(in)
		}
	})
	resp, err := p.RoundTrip(ask("GET"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	until(t, "the server's end is closed", func() bool { return p.gone.Load() == 1 })
}

// TestSlow gives a server up that takes too long, but not an answer that goes on.
func TestSlow(t *testing.T) {
	goOn := make(chan struct{})
	p := newPeer(t, func(n int64, c net.Conn, in *bufio.Reader) {
		if request(in) && n == 2 {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			<-goOn
			_, _ = io.WriteString(c, "late")
			return
		}
		request(in)
	})
	p.Patience = 50 * time.Millisecond
	began := time.Now()
	if _, err := p.RoundTrip(ask("GET")); !isTimeout(err) {
		t.Errorf("%v", err)
	}
	until(t, "the server's end is closed", func() bool { return p.gone.Load() == 1 })
	resp, err := p.RoundTrip(ask("GET"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	until(t, "more than patience has passed", func() bool { return time.Since(began) > 4*p.Patience })
	close(goOn)
	if b, err := io.ReadAll(resp.Body); string(b) != "late" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// TestAnswers are read as far as they may be.
func TestAnswers(t *testing.T) {
	const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
	for name, tt := range map[string]struct{ answer, want string }{
		"large headers":     {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", ErrHeaders.Error()},
		"many headers":      {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1<<16) + "\r\n", ErrHeaders.Error()},
		"too many before":   {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 1000), "more than 32 answers"},
		"another protocol":  {switched, "nobody asked for"},
		"isn't HTTP":        {"SSH-2.0-x\r\n", "malformed HTTP"},
		"two lengths":       {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 5\r\n\r\nhello", "Content-Length"},
		"an unknown coding": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\nhello", "unsupported transfer encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, func(_ int64, c net.Conn, in *bufio.Reader) {
				if request(in) {
					_, _ = io.WriteString(c, tt.answer)
					request(in)
				}
			})
			if got := p.get(); !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestEarly tells of answers before the one that counts.
func TestEarly(t *testing.T) {
	p := newPeer(t, func(_ int64, c net.Conn, in *bufio.Reader) {
		if request(in) {
			_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"+hello)
		}
	})
	var got []string
	resp, err := p.Ask(t.Context(), "app", "GET", []byte("GET /x HTTP/1.1\r\nHost: app\r\n\r\n"), func(code int, h http.Header) error {
		got = append(got, fmt.Sprint(code, h.Get("Link")))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if want := "[103</a> 102]"; fmt.Sprint(got) != want || resp.StatusCode != 200 {
		t.Errorf("%v, %s", got, resp.Status)
	}
}

// TestTunnel carries both ways what comes after another protocol was agreed on.
func TestTunnel(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	p := newPeer(t, func(_ int64, c net.Conn, in *bufio.Reader) {
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nahead ")
		_, _ = io.Copy(c, in)
	})
	r := ask("GET")
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"x"}}
	resp, err := p.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	both, ok := resp.Body.(interface {
		io.ReadWriteCloser
		CloseWrite() error
	})
	if !ok {
		t.Fatalf("%T", resp.Body)
	}
	// Another socket is the source, as a browser's is.
	near, far := sockets(t)
	go func() {
		_, _ = far.Write(big)
		far.Close()
	}()
	go func() {
		if n, err := io.Copy(both, near); n != int64(len(big)) || err != nil {
			t.Errorf("%d bytes went, %v", n, err)
		}
		if err := both.CloseWrite(); err != nil {
			t.Error(err)
		}
	}()
	var back bytes.Buffer
	if n, err := io.Copy(&back, both); err != nil || back.String() != "ahead "+string(big) {
		t.Errorf("%d bytes came back, %v", n, err)
	}
	if err := both.Close(); err != nil {
		t.Error(err)
	}
	until(t, "the server's end is closed", func() bool { return p.gone.Load() == 1 })
}

// sockets are two that are connected.
func sockets(t *testing.T) (near, far net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if far, err = net.Dial("tcp", l.Addr().String()); err == nil {
		near, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// TestSweep closes what has been idle for too long, what isn't to be kept, and what are too
// many.
func TestSweep(t *testing.T) {
	p := newPeer(t, func(_ int64, c net.Conn, in *bufio.Reader) {
		for request(in) {
			_, _ = io.WriteString(c, hello)
		}
	})
	all := func(string) bool { return true }
	fill := func() {
		t.Helper()
		var open []*http.Response
		for range p.Idle + 2 {
			resp, err := p.RoundTrip(ask("GET"))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, resp)
		}
		for _, resp := range open {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		if got := len(p.idle["app"]); got != p.Idle {
			t.Fatalf("%d connections are kept", got)
		}
	}
	fill()
	until(t, "those beyond are closed", func() bool { return p.gone.Load() == 2 })
	if p.Sweep(all); len(p.idle["app"]) != p.Idle {
		t.Error("new ones are closed")
	}
	p.idle["app"][0].since = time.Now().Add(-2 * p.IdleFor)
	if p.Sweep(all); len(p.idle["app"]) != p.Idle-1 {
		t.Errorf("%d are left", len(p.idle["app"]))
	}
	until(t, "the old one is closed", func() bool { return p.gone.Load() == 3 })
	p.Sweep(func(host string) bool { return host != "app" })
	until(t, "all are closed", func() bool { return p.gone.Load() == p.dials.Load() && len(p.idle) == 0 })
}
