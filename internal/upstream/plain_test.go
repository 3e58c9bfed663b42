package upstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzPlain holds what is read of answers of the usual kind against http.ReadResponse: what
// isn't read alike is left to that one.
func FuzzPlain(f *testing.F) {
	for _, head := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 404\r\ncontent-length:0\r\nSet-Cookie: a=1\r\nset-cookie: b=2 \r\nconnection: Keep-Alive\r\nX_Y: z\tz\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n X: folded\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\rX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nPragma: no-cache\r\n\r\n",
		"HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
	} {
		f.Add(head)
	}
	f.Fuzz(func(t *testing.T, head string) {
		end := strings.Index(head, "\r\n\r\n")
		if end < 0 {
			return
		}
		head = head[:end+4]
		got := parsePlain(head[:end+2])
		if got == nil {
			return
		}
		want, err := http.ReadResponse(bufio.NewReader(strings.NewReader(head)), &http.Request{Method: "GET"})
		if err != nil {
			t.Fatalf("%q is read, and isn't an answer: %v", head, err)
		}
		if want.Close || want.TransferEncoding != nil || want.Trailer != nil || want.StatusCode == http.StatusSwitchingProtocols {
			t.Errorf("%q isn't of the usual kind", head)
		}
		if diff := cmp.Diff([]any{want.Status, want.StatusCode, want.ContentLength, want.Header}, []any{got.Status, got.StatusCode, got.ContentLength, got.Header}); diff != "" {
			t.Errorf("%q (-ReadResponse +here):\n%s", head, diff)
		}
	})
}

// TestPlain says which answers are of the usual kind.
func TestPlain(t *testing.T) {
	for name, tt := range map[string]struct {
		head string
		want bool
	}{
		"a length":        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", true},
		"kept":            {"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n", true},
		"nothing in it":   {"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n", true},
		"no length":       {"HTTP/1.1 200 OK\r\nX: y\r\n", false},
		"two lengths":     {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n", false},
		"both":            {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", false},
		"it ends":         {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n", false},
		"a name's spaces": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX : y\r\n", false},
		"folded":          {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n z: z\r\n", false},
		"a line feed":     {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\nTransfer-Encoding: chunked\r\n", false},
		"before it":       {"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n", false},
		"another one":     {"HTTP/1.1 101 Switching Protocols\r\nContent-Length: 5\r\n", false},
		"not changed":     {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n", false},
		"many":            {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + strings.Repeat("X: y\r\n", maxPlainLines), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parsePlain(tt.head) != nil; got != tt.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestDeadlines are those of one request: neither does a kept connection end by an old one, nor
// an answer that goes on.
func TestDeadlines(t *testing.T) {
	p := newPeer(t, func(n int64, c net.Conn, in *bufio.Reader) {
		for request(in) {
			_, _ = io.WriteString(c, hello)
		}
	})
	p.Patience = 20 * time.Millisecond
	if got := p.get(); got != "hello" {
		t.Fatal(got)
	}
	c := p.pop("app")
	until(t, "its deadline is over", func() bool { return time.Now().After(c.until) })
	p.keep(c)
	if got := p.get(); got != "hello" || p.dials.Load() != 1 {
		t.Errorf("%q with %d connections", got, p.dials.Load())
	}
}
