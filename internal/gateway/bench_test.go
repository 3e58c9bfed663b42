package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"croft.dev/croft/internal/address"
)

// kilobyte is an application that answers with one whatever it is asked, and costs next to
// nothing.
func (h *harness) kilobyte(port uint16) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { l.Close() })
	h.engine.at[port] = l.Addr().String()
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nDate: Sun, 01 Nov 2026 09:00:00 GMT\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 4096)
				for {
					n, err := c.Read(b)
					if err != nil {
						return
					}
					if strings.HasSuffix(string(b[:n]), "\r\n\r\n") {
						if _, err := c.Write(answer); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
}

// BenchmarkRequest is a request of a kilobyte through the gateway, known by a cookie, on
// connections that stay open: with what the client and the application take, which is little.
func BenchmarkRequest(b *testing.B) {
	h := newHarness(b, "", address.DomainAuto)
	h.kilobyte(8888)
	h.browser()
	ask := []byte("GET / HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\nCookie: " + h.cookie("ada", lab(h)) + "\r\n\r\n")
	b.ReportAllocs()
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		c, err := net.Dial("tcp", h.web.Listener.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for p.Next() {
			if err := once(c, r, ask); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// once asks, and reads the answer to its end.
func once(c net.Conn, r *bufio.Reader, ask []byte) error {
	if _, err := c.Write(ask); err != nil {
		return err
	}
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !strings.HasPrefix(string(line), "HTTP/1.1 200 ") {
			return fmt.Errorf("answered %q", line)
		}
		if len(line) == 2 {
			_, err := io.CopyN(io.Discard, r, 1024)
			return err
		}
	}
}
