package gateway

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/workload"
)

// written is what an application reads of a request that r stands for.
func written(t *testing.T, text []byte) (line string, headers http.Header) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(text))
	r, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("%q is more than one request: %v", text, err)
	}
	h := r.Header.Clone()
	h["Host"] = []string{r.Host}
	return r.Method + " " + r.RequestURI, h
}

// FuzzHead holds the request that is written here against the one that httputil.ReverseProxy
// makes and http.Request writes. One that has a body there, or that can't be, isn't written.
func FuzzHead(f *testing.F) {
	f.Add("/a?b=c", "X-A: 1\r\nX-A: 2\r\nCookie: croft8000=x; y=z\r\nConnection: X-A, keep-alive\r\n", "0")
	f.Add("/%2e%2e/x//y?", "X_Forwarded-For: 10.0.0.1\r\nCroft-User: root\r\nRemote_User: root\r\nX-HTTP-Method-Override: PUT\r\n", "view")
	f.Add("/", "Content-Length: 0\r\nTe: trailers\r\nTrailer: x\r\nAuthorization: Bearer secret\r\nUser-Agent: x\r\n", "bearer")
	f.Add("*", "Proxy-Authorization: x\r\nKeep-Alive: 1\r\nForwarded: for=x\r\nCookie: croft=\xff; croft8000=1\r\n", "base")
	f.Add("http://h/x", "Connection: close, cookie, host, croft-access\r\nCookie: a=b\r\n", "base")
	f.Fuzz(func(t *testing.T, target, headers, kind string) {
		in, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: 7.apps.localhost:8000\r\n" + headers + "\r\n")))
		if err != nil || len(in.TransferEncoding) > 0 || in.ContentLength != 0 || in.Header.Get("Upgrade") != "" {
			return
		}
		site, err := address.New("http://localhost:8000", address.DomainAuto)
		if err != nil {
			t.Fatal(err)
		}
		in.RemoteAddr = "192.0.2.7:1"
		s := &Server{Deps: Deps{Site: site, Logins: new(fakeLogins)}}
		v := &visit{p: access.Principal{User: 1, Name: "ada"}, job: &workload.Job{User: 1}, app: workload.App{Name: "lab", Port: 8888}, action: access.AppUse}
		switch kind {
		case "view":
			v.action = access.AppView
		case "bearer":
			v.bearer = true
		case "base":
			v.base = "/apps/7"
		}
		got, good := s.head(nil, in, v)
		if !good {
			return
		}
		var want bytes.Buffer
		proxy := &httputil.ReverseProxy{
			Rewrite: func(p *httputil.ProxyRequest) {
				p.Out.URL, p.Out.Host = v.url(p.In.URL), p.In.Host
				s.requestHeaders(p.In, p.Out.Header, v)
			},
			Transport: writer{&want},
		}
		proxy.ServeHTTP(httptest.NewRecorder(), in)
		if want.Len() == 0 {
			t.Fatalf("%q is written, and not by http.Request", got)
		}
		line, h := written(t, got)
		wantLine, wantH := written(t, want.Bytes())
		if len(wantH["User-Agent"]) == 1 && len(h["User-Agent"]) > 1 { // of several it writes the first
			h["User-Agent"] = h["User-Agent"][:1]
		}
		if diff := cmp.Diff(wantH, h); diff != "" || line != wantLine {
			t.Errorf("%q instead of %q (-http.Request +here):\n%s", line, wantLine, diff)
		}
	})
}

// writer keeps a request as it would be sent.
type writer struct{ to *bytes.Buffer }

func (w writer) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Write(w.to); err != nil {
		w.to.Reset()
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
}

// TestHeadLeaves leaves to others what could be read as another request than it is.
func TestHeadLeaves(t *testing.T) {
	site, err := address.New("http://localhost:8000", address.DomainAuto)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Deps: Deps{Site: site, Logins: new(fakeLogins)}}
	v := &visit{job: new(workload.Job)}
	for name, change := range map[string]func(r *http.Request){
		"nothing":               func(*http.Request) {},
		"a space in the path":   func(r *http.Request) { r.URL.RawQuery = "a b" },
		"a line in the query":   func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1\r\nX: y" },
		"a line in the host":    func(r *http.Request) { r.Host = "localhost\r\nX: y" },
		"no host":               func(r *http.Request) { r.Host = "" },
		"a line in a value":     func(r *http.Request) { r.Header["X"] = []string{"a\r\nCroft-User: root"} },
		"a line in a name":      func(r *http.Request) { r.Header["X: y\r\nCroft-User"] = []string{"root"} },
		"a line in a cookie":    func(r *http.Request) { r.Header["Cookie"] = []string{"a=b\nx"} },
		"a colon after a space": func(r *http.Request) { r.Header["X "] = []string{"a"} },
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "http://7.apps.localhost:8000/x", nil)
			change(r)
			if _, good := s.head(nil, r, v); good != (name == "nothing") {
				t.Errorf("it is written: %v", good)
			}
		})
	}
}

// TestOpened remembers cookies for their own host, and no more of them than it may.
func TestOpened(t *testing.T) {
	o := newOpened()
	o.put("v", "a", badge{1, 2, 3})
	if b, ok := o.get("v", "a"); !ok || b != (badge{1, 2, 3}) {
		t.Errorf("%v, %v", b, ok)
	}
	if _, ok := o.get("v", "b"); ok {
		t.Error("it is good at another host")
	}
	for i := range 3 * maxOpened {
		o.put(string(rune('a'+i)), "a", badge{})
	}
	if len(o.by) > maxOpened {
		t.Errorf("%d are remembered", len(o.by))
	}
}
