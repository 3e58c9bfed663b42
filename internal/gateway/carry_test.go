package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/command"
)

// TestBothWays has requests with a body, which httputil.ReverseProxy carries, and without one
// be handed on alike.
func TestBothWays(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			h := newHarness(t, "", address.DomainAuto)
			goOn := make(chan struct{})
			seen := make(chan http.Header, 1)
			h.app(8888, func(w http.ResponseWriter, r *http.Request) {
				out := w.Header()
				switch r.URL.Path {
				case "/headers":
					seen <- r.Header.Clone()
					out["Connection"], out["X-Hop"], out["Keep-Alive"], out["X-Kept"] = []string{"X-Hop"}, []string{"1"}, []string{"1"}, []string{"1", "2"}
				case "/trailers":
					out.Set("Trailer", "X-Sum")
					_, _ = io.WriteString(w, "x")
					out.Set("X-Sum", "7")
					out.Set(http.TrailerPrefix+"X-More", "8")
				case "/early":
					out.Set("Link", "</a>; rel=preload")
					out.Set("Set-Cookie", "croft=1")
					out.Set("Clear-Site-Data", "*")
					w.WriteHeader(http.StatusEarlyHints)
					out.Del("Set-Cookie")
					out.Del("Clear-Site-Data")
				case "/stream":
					_, _ = io.WriteString(w, "a")
					_ = http.NewResponseController(w).Flush()
					<-goOn
				case "/events":
					out.Set("Content-Type", "Text/Event-Stream; charset=utf-8")
					out.Set("Content-Length", "1000")
					_, _ = io.WriteString(w, "a")
					_ = http.NewResponseController(w).Flush()
					<-goOn
					panic(http.ErrAbortHandler)
				case "/cut":
					out.Set("Content-Length", "1000")
					_, _ = io.WriteString(w, "a")
				case "/none":
					w.WriteHeader(http.StatusNotModified)
				}
			})
			b := h.known("ada", lab(h))
			ask := func(path string, more ...string) *http.Response {
				t.Helper()
				var body io.Reader
				if method == "POST" {
					body = strings.NewReader("x")
				}
				r := b.request(method, h.site.AppURL(lab(h), path), body)
				r.Header.Set("Origin", h.site.AppOrigin(lab(h)))
				for i := 0; i < len(more); i += 2 {
					r.Header.Set(more[i], more[i+1])
				}
				if path == "/early" {
					r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
						if code != 103 || h.Get("Link") == "" || len(h) != 1 {
							t.Errorf("before the answer: %d %v", code, h)
						}
						seen <- nil
						return nil
					}}))
				}
				got, err := b.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { got.Body.Close() })
				return got
			}

			got := ask("/headers", "Connection", "X-Hop", "X-Hop", "1", "Te", "trailers", "Proxy-Authorization", "x", "X-Kept", "1", "User-Agent", "")
			if in := <-seen; in.Get("X-Hop") != "" || in.Get("Proxy-Authorization") != "" || in.Get("X-Kept") != "1" || in["User-Agent"] != nil || in.Get("Te") != "trailers" {
				t.Errorf("the application sees %v", in)
			}
			// After a body the connection ends: Go's server then names no other header in Connection.
			if method == "GET" && got.Header.Get("X-Hop") != "" || got.Header.Get("Keep-Alive") != "" || fmt.Sprint(got.Header["X-Kept"]) != "[1 2]" {
				t.Errorf("the browser sees %v", got.Header)
			}

			got = ask("/trailers")
			if body, err := io.ReadAll(got.Body); string(body) != "x" || err != nil || got.Trailer.Get("X-Sum") != "7" || got.Trailer.Get("X-More") != "8" {
				t.Errorf("%q, %v, trailers %v", body, err, got.Trailer)
			}

			if got = ask("/early"); got.StatusCode != 200 {
				t.Error(got.Status)
			}
			<-seen

			for _, path := range []string{"/stream", "/events"} {
				got = ask(path)
				first := make([]byte, 1)
				if _, err := io.ReadFull(got.Body, first); err != nil || string(first) != "a" {
					t.Errorf("%s: %q, %v", path, first, err)
				}
				goOn <- struct{}{}
			}
			cut := b.request(method, h.site.AppURL(lab(h), "/cut"), nil)
			cut.Header.Set("Origin", h.site.AppOrigin(lab(h)))
			if got, err := b.Do(cut); err == nil {
				if _, err = io.ReadAll(got.Body); err == nil {
					t.Error("half an answer is taken for a whole one")
				}
				got.Body.Close()
			}
			if got = ask("/none"); got.StatusCode != http.StatusNotModified || got.ContentLength > 0 {
				t.Errorf("%s, %d bytes", got.Status, got.ContentLength)
			}
		})
	}
}

// TestHead has an answer without a body be one that says how long it would be.
func TestHead(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "77") })
	b := h.known("ada", lab(h))
	for range 2 {
		if got := b.send(b.request("HEAD", h.site.AppURL(lab(h), "/"), nil)); got.StatusCode != 200 || got.ContentLength != 77 {
			t.Errorf("%s, %d bytes", got.Status, got.ContentLength)
		}
	}
}

// TestKeptConnections are those of jobs that run: with others nothing of them stays.
func TestKeptConnections(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	closed := make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h.engine.at[8888] = l.Addr().String()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer close(closed)
		defer c.Close()
		for in := bufio.NewReader(c); ; {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	}()
	b := h.known("ada", lab(h))
	for range 2 {
		b.get(h.site.AppURL(lab(h), "/"))
	}
	h.system(command.JobObserved{Job: h.job, N: 1, Exited: true, Finished: h.now.Load()})
	<-closed
}

// TestEarlyKeepsOwn has an application say something before its answer: what the server has
// said of itself is in the answer all the same.
func TestEarlyKeepsOwn(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	})
	gateway := h.web.Config.Handler
	h.web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=1")
		gateway.ServeHTTP(w, r)
	})
	b := h.known("ada", lab(h))
	for _, r := range []*http.Request{
		b.request("GET", h.site.AppURL(lab(h), "/"), nil),
		b.request("POST", h.site.AppURL(lab(h), "/"), strings.NewReader("a body")),
	} {
		got, err := b.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if own := got.Header["Strict-Transport-Security"]; got.StatusCode != http.StatusOK || len(own) != 1 || got.Header.Get("Link") != "" {
			t.Errorf("%s: %s %v", r.Method, got.Status, got.Header)
		}
	}
}
