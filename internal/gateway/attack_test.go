package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
)

// raw sends bytes to the gateway and returns the answers.
func (h *harness) raw(text string) string {
	h.t.Helper()
	h.browser()
	c, err := net.Dial("tcp", h.web.Listener.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		h.t.Fatal(err)
	}
	b, _ := io.ReadAll(c) // it may be cut off
	return string(b)
}

// cookie is what a user is known by at an application.
func (h *harness) cookie(user string, a address.App) string {
	row := h.session(user)
	w := httptest.NewRecorder()
	h.server.setCookie(w, h.site.AppHost(a), h.server.newBadge(row.User, row.ID))
	c, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	return c
}

func (h *harness) host(a address.App) string {
	_, host, _ := strings.Cut(h.site.AppOrigin(a), "://")
	return host
}

// TestCookieStaysWithItsApplication is neither handed on to one nor good at another.
func TestCookieStaysWithItsApplication(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	seen := make(chan http.Header, 10)
	keep := func(w http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() }
	h.app(8888, keep)
	h.app(6006, keep)
	cookie, board := h.cookie("ada", lab(h)), address.App{Job: h.job, Name: "board"}
	ask := func(a address.App, cookies string) string {
		return h.raw("GET / HTTP/1.1\r\nHost: " + h.host(a) + "\r\nCookie: " + cookies + "\r\nConnection: close\r\n\r\n")
	}
	if got := ask(lab(h), "a=1; "+cookie+"; b=\"2;3\""); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Fatal(got)
	}
	if got := (<-seen)["Cookie"]; len(got) != 1 || got[0] != `a=1; b="2; 3"` {
		t.Errorf("the application sees the cookies %q", got)
	}
	for name, at := range map[string]address.App{"another application": board, "another job": {Job: 77}} {
		if got := ask(at, cookie); !strings.HasPrefix(got, "HTTP/1.1 401") {
			t.Errorf("%s: %q", name, got)
		}
	}
	main := "GET / HTTP/1.1\r\nHost: " + strings.TrimPrefix(h.site.Origin(), "http://") + "\r\nCookie: " + cookie + "\r\nConnection: close\r\n\r\n"
	if got := h.raw(main); !strings.HasPrefix(got, "HTTP/1.1 303") {
		t.Errorf("the server's own pages: %q", got)
	}
}

// TestCookieTossing has another page of the domain put a cookie beside Croft's: of whoever
// put it there nothing is done, and with a bad one nothing changes.
func TestCookieTossing(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, echo)
	h.as("ada", command.JobShare{Job: h.job, User: "zoe", Level: access.ShareFull})
	ada, zoe := h.cookie("ada", lab(h)), h.cookie("zoe", lab(h))
	ask := func(cookies string) string {
		return h.raw("GET / HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\nCookie: " + cookies + "\r\nConnection: close\r\n\r\n")
	}
	name, _, _ := strings.Cut(ada, "=")
	for what, want := range map[string]string{
		name + "=x; " + ada: "as ada", ada + "; " + name + "=": "as ada", ada + "; " + ada: "as ada",
		zoe + "; " + ada: "401", ada + "; " + zoe: "401", name + "=" + strings.Repeat("x", 4000): "401",
	} {
		if got := ask(what); !strings.Contains(got, want) {
			t.Errorf("%.80q: %q", what, got)
		}
	}
}

// TestSetCookie keeps what an application sets to its own host, and away from Croft's name.
func TestSetCookie(t *testing.T) {
	for name, tt := range map[string]struct {
		domain, set string
		want        string // "": none
	}{
		"its own":                      {address.DomainAuto, "a=b; Path=/x; HttpOnly; SameSite=Lax", "a=b; HttpOnly; SameSite=Lax; Path=/x"},
		"for the domain":               {address.DomainAuto, "a=b; Domain=apps.localhost; Secure", "a=b; Secure"},
		"for the domain, in capitals":  {address.DomainAuto, "a=b ; DOMAIN = .localhost", "a=b"},
		"for the domain, twice":        {address.DomainAuto, "a=b; domain=x; domain=localhost", "a=b"},
		"Croft's":                      {address.DomainAuto, "%s=b", ""},
		"Croft's, with blanks":         {address.DomainAuto, " %s =b; Path=/", ""},
		"Croft's over HTTPS":           {address.DomainAuto, "__host-croft=b; Path=/; Secure", ""},
		"without a name":               {address.DomainAuto, "=b", ""},
		"without a value":              {address.DomainAuto, "b", ""},
		"by path, its own":             {address.DomainNone, "a=b; Path=/w/1/x", "a=b; Path=/w/1/x"},
		"by path, the origin's":        {address.DomainNone, "a=b; Path=/", "a=b; Path=/w/1/"},
		"by path, another's":           {address.DomainNone, "a=b; Path=/w/2/", "a=b; Path=/w/1/"},
		"by path, another's all alike": {address.DomainNone, "a=b; Path=/w/1/../2/", "a=b; Path=/w/1/"},
		"by path, one alike":           {address.DomainNone, "a=b; Path=/w/11/", "a=b; Path=/w/1/"},
		"by path, none":                {address.DomainNone, "a=b", "a=b; Path=/w/1/"},
		"by path, Croft's":             {address.DomainNone, "%s=b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "", tt.domain)
			set := strings.ReplaceAll(tt.set, "%s", h.server.cookie)
			h.app(8888, func(w http.ResponseWriter, r *http.Request) { w.Header()["Set-Cookie"] = []string{set} })
			got := h.known("ada", lab(h)).get(h.site.AppURL(lab(h), "/"))
			if c := got.Header.Get("Set-Cookie"); c != tt.want || got.StatusCode != 200 {
				t.Errorf("%d %q, want %q", got.StatusCode, c, tt.want)
			}
		})
	}
}

// TestSpoofedIdentity tells an application who comes only by the gateway's word.
func TestSpoofedIdentity(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	seen := make(chan http.Header, 1)
	h.app(8888, func(w http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() })
	h.raw("GET / HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\nCookie: " + h.cookie("ada", lab(h)) +
		"\r\nCroft-User: root\r\nCroft_User: root\r\nCROFT-ACCESS: owner\r\nCroft-Anything: x\r\nX-Forwarded-User: root\r\nX_Forwarded_User: root\r\nX-Forwarded-For: 10.0.0.1\r\n" +
		"X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Prefix: /evil\r\nX-Forwarded-Email: root@x\r\nForwarded: for=10.0.0.1\r\nX-Real-IP: 10.0.0.1\r\nRemote-User: root\r\n" +
		"Remote_User: root\r\nX-Original-URL: /admin\r\nX-Kept: yes\r\nConnection: close, Croft-User, X-Forwarded-User\r\n\r\n")
	got := <-seen
	for name, want := range map[string]string{
		"Croft-User": "ada", "Croft-Access": "owner", "X-Forwarded-User": "ada", "X-Forwarded-For": "192.0.2.7", "X-Forwarded-Host": h.host(lab(h)), "X-Forwarded-Proto": "http",
		"X-Kept": "yes", "Croft-Anything": "", "X-Forwarded-Prefix": "", "X-Forwarded-Email": "", "Forwarded": "", "X-Real-Ip": "", "Remote-User": "", "X-Original-Url": "",
	} {
		if v := got[name]; want == "" && v != nil || want != "" && (len(v) != 1 || v[0] != want) {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	for name := range got {
		if strings.Contains(name, "_") {
			t.Errorf("%s: %q", name, got[name])
		}
	}
}

// TestSmuggling has one request be read as one, whatever it says of its own length.
func TestSmuggling(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	asked := make(chan string, 10)
	h.app(8888, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked <- fmt.Sprintf("%s %s %q %d %v", r.Method, r.RequestURI, b, r.ContentLength, r.TransferEncoding)
	})
	head := "POST /a HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\nConnection: close\r\nCookie: " + h.cookie("ada", lab(h)) + "\r\nOrigin: " + h.site.AppOrigin(lab(h)) + "\r\n"
	const hidden = "GET /admin HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, tt := range map[string]string{
		"length and chunks":    "Content-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"chunks and length":    "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":          "Content-Length: 0\r\nContent-Length: 34\r\n\r\n" + hidden,
		"lengths in a list":    "Content-Length: 0, 34\r\n\r\n" + hidden,
		"a coding unknown":     "Transfer-Encoding: xchunked\r\n\r\n" + hidden,
		"chunks twice":         "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a coding with a tab":  "Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + hidden,
		"a space before colon": "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a line folded":        "X: y\r\n Transfer-Encoding: chunked\r\n\r\n" + hidden,
		"a length with a sign": "Content-Length: +34\r\n\r\n" + hidden,
		"two hosts":            "Host: other\r\nContent-Length: 0\r\n\r\n",
		"a bare feed":          "X: a\n\nGET /admin HTTP/1.1\nHost: x\n\n",
	} {
		got := h.raw(head + tt)
		for more := true; more; {
			select {
			case a := <-asked:
				if strings.Contains(a, "/admin") && strings.HasPrefix(a, "GET") {
					t.Errorf("%s: a hidden request came through: %s (%q)", name, a, got)
				}
			default:
				more = false
			}
		}
	}
}

// TestHostSpoofing leads nobody elsewhere by the name that he asks for.
func TestHostSpoofing(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, echo)
	cookie := h.cookie("ada", lab(h))
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: evil.example\r\n":                                             "403",
		"GET / HTTP/1.1\r\nHost: 1.apps.localhost.evil.example\r\n":                            "403",
		"GET http://evil.example/ HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\n":                "403",
		"GET / HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: " + h.host(lab(h)) + "\r\n": "403",
		"GET http://" + h.host(lab(h)) + "/ HTTP/1.1\r\nHost: evil.example\r\n":                "as ada", // the line counts, RFC 9112, 3.2.2
		"GET / HTTP/1.1\r\nHost: 169.254.169.254\r\n":                                          "403",
		"GET / HTTP/1.1\r\nHost: 1.apps.localhost:22\r\n":                                      "as ada", // a port says nothing
		"GET / HTTP/1.1\r\nHost: 1-8888.apps.localhost\r\n":                                    "401",
		"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\n":                    "HTTP/1.1 4",
		"GET http://127.0.0.1:22/ HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\n":                "HTTP/1.1 303",
		"GET /@127.0.0.1:22/ HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\n":                     "as ada",
		"GET //127.0.0.1:22/ HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\n":                     "GET //127.0.0.1:22/ as ada",
		"GET / HTTP/1.1\r\nHost: 1.apps.localhost\r\nProxy: http://127.0.0.1:22\r\n":           "as ada",
		"GET / HTTP/1.1\r\nHost: apps.localhost\r\n":                                           "403",
	} {
		if got := h.raw(request + "Cookie: " + cookie + "\r\nConnection: close\r\n\r\n"); !strings.Contains(got, want) {
			t.Errorf("%q: %q", request, got)
		}
	}
	for _, to := range h.engine.dialed() {
		if !strings.HasSuffix(to, ".1:8888") || !strings.HasPrefix(to, "0a1b2c3d-1-1") {
			t.Errorf("%s was dialed", to)
		}
	}
}

// TestOnlyNamedPorts connects to what jobs name and nothing else: not the machine's own
// services, not another port.
func TestOnlyNamedPorts(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	s := &Server{Deps: Deps{Engine: h.engine}}
	for _, to := range []string{"127.0.0.1:22", "localhost:22", "[::1]:22", "169.254.169.254:80", "example.com:80", "x:80", "0a1b2c3d-1-1:80"} {
		if c, err := s.dial(context.Background(), to); err == nil {
			c.Close()
			t.Errorf("%s was connected to", to)
		}
	}
	for _, to := range h.engine.dialed() {
		if !strings.HasPrefix(to, "127.0") || strings.HasPrefix(to, "127.0.0.1") {
			continue
		}
		t.Errorf("the engine was asked for %s", to)
	}
	h.app(8888, echo)
	b := h.known("ada", lab(h))
	for _, host := range []string{"1-22", "1-lab2", "2", "1-Board"} {
		url := strings.Replace(h.site.AppURL(lab(h), "/"), "//1.", "//"+host+".", 1)
		r, _ := http.NewRequest("GET", url, nil)
		r.Header.Set("Authorization", "Bearer secret of ada")
		if got := b.send(r); got.StatusCode == 200 {
			t.Errorf("%s: %d %q", url, got.StatusCode, got.body)
		}
	}
}

// TestCrossSite refuses what a page of another origin has the browser send.
func TestCrossSite(t *testing.T) {
	for kind, domain := range sites {
		t.Run(kind, func(t *testing.T) {
			h := newHarness(t, "", domain)
			h.app(8888, echo)
			b := h.known("ada", lab(h))
			url, own := h.site.AppURL(lab(h), "/api"), h.site.AppOrigin(lab(h))
			for name, tt := range map[string]struct {
				method string
				header map[string]string
				want   int
			}{
				"a form of its own":                  {"POST", map[string]string{"Origin": own}, 200},
				"one of another site":                {"POST", map[string]string{"Origin": "https://evil.example"}, 403},
				"one of another application":         {"POST", map[string]string{"Origin": strings.Replace(own, "localhost", "9.apps.localhost", 1)}, 403},
				"one without an origin":              {"POST", map[string]string{"Origin": "null"}, 403},
				"one of another scheme":              {"DELETE", map[string]string{"Origin": strings.Replace(own, "http", "https", 1)}, 403},
				"one of another port":                {"PUT", map[string]string{"Origin": own + "1"}, 403},
				"said by the browser alone":          {"POST", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403},
				"its own, said by the browser":       {"POST", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
				"a WebSocket":                        {"GET", map[string]string{"Origin": "https://evil.example", "Connection": "Upgrade", "Upgrade": "websocket"}, 403},
				"a WebSocket of the same site":       {"GET", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "websocket", "Connection": "Upgrade", "Upgrade": "websocket"}, 403},
				"a WebSocket that says it is a link": {"GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Connection": "Upgrade", "Upgrade": "websocket"}, 403},
				"a link":                             {"GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
				"typed":                              {"GET", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200},
				"a frame":                            {"GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403},
				"an image":                           {"GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403},
				"a script of another application":    {"GET", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, 403},
				"a method made up":                   {"LOOK", map[string]string{"Origin": "https://evil.example"}, 403},
			} {
				r, _ := http.NewRequest(tt.method, url, nil)
				for k, v := range tt.header {
					r.Header.Set(k, v)
				}
				if got := b.send(r); got.StatusCode != tt.want {
					t.Errorf("%s: %d %q, want %d", name, got.StatusCode, got.body, tt.want)
				}
			}
		})
	}
}

// TestPaths hands a path on as it is written, without what is before the application.
func TestPaths(t *testing.T) {
	for kind, domain := range sites {
		t.Run(kind, func(t *testing.T) {
			h := newHarness(t, "", domain)
			h.app(8888, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) })
			h.app(6006, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "board "+r.RequestURI) })
			base := strings.TrimSuffix(h.site.Base(lab(h)), "/")
			ask := func(path string) string {
				got := h.raw("GET " + base + path + " HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\nCookie: " + h.cookie("ada", lab(h)) + "\r\nConnection: close\r\n\r\n")
				_, body, _ := strings.Cut(got, "\r\n\r\n")
				return body
			}
			for _, path := range []string{
				"/", "/a/b?x=1&y=%20", "/a%2Fb", "/../../etc/passwd", "/%2e%2e/%2e%2e/v1/jobs", "/a//b", "//a", "/a;b", "/?a;b=%zz", "/%E2%82%AC", "/a?", "/.croft", "/..%2f..", "/a/../.croft/open", "/w/2/",
			} {
				want := path
				if path == "/.croft" {
					want = ask(path)
					if !strings.Contains(want, "no such page") {
						t.Errorf("%q: %q", path, want)
					}
					continue
				}
				if got := ask(path); got != want {
					t.Errorf("%q: the application is asked for %q", path, got)
				}
			}
			if got := ask("/.croft/anything"); !strings.Contains(got, "no such page") {
				t.Errorf("what is Croft's: %q", got)
			}
			if domain == address.DomainNone {
				if got := ask("/board/x"); got != "board /x" {
					t.Errorf("the second: %q", got)
				}
				for _, path := range []string{"/w/1", "/w/1/board"} {
					if got := h.raw("GET " + path + "?q HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "307") || !strings.Contains(got, "Location: "+path+"/?q") {
						t.Errorf("%s: %q", path, got)
					}
				}
			}
		})
	}
}

// TestRedirects leads on to where the browser finds the application, when that names itself.
func TestRedirects(t *testing.T) {
	for kind, domain := range sites {
		t.Run(kind, func(t *testing.T) {
			h := newHarness(t, "", domain)
			h.app(8888, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", r.URL.Query().Get("to"))
				w.WriteHeader(302)
			})
			b := h.known("ada", lab(h))
			b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			own := h.site.AppURL(lab(h), "")
			for to, want := range map[string]string{
				"http://127.0.0.1:8888/lab?x=1":       own + "/lab?x=1",
				"http://localhost:8888/lab%2Fx":       own + "/lab%2Fx",
				"http://0.0.0.0:8888/":                own + "/",
				"http://[::1]:8888/#a":                own + "/#a",
				"http://" + h.host(lab(h)) + "/tree":  own + "/tree",
				"https://" + h.host(lab(h)) + "/tree": own + "/tree",
				own + "/lab":                          own + "/lab",
				"//127.0.0.1:8888/x":                  "//" + strings.TrimPrefix(own, "http://") + "/x",
				"http://127.0.0.1:22/":                "http://127.0.0.1:22/",
				"https://github.com/login?a=b":        "https://github.com/login?a=b",
				"lab":                                 "lab",
				"../x":                                "../x",
				"/lab":                                strings.TrimSuffix(h.site.Base(lab(h)), "/") + "/lab",
				strings.TrimSuffix(h.site.Base(lab(h)), "/") + "/lab": strings.TrimSuffix(h.site.Base(lab(h)), "/") + "/lab",
			} {
				r := b.request("GET", own+"/go", nil)
				q := r.URL.Query()
				q.Set("to", to)
				r.URL.RawQuery = q.Encode()
				if got := b.send(r).Header.Get("Location"); got != want {
					t.Errorf("%s becomes %s, want %s", to, got, want)
				}
			}
		})
	}
}

// TestAnswersActOnNobodyElse takes off what would act on the site's other names.
func TestAnswersActOnNobodyElse(t *testing.T) {
	h := newHarness(t, "", address.DomainNone)
	h.app(8888, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range append(forSite, "Service-Worker-Allowed", "X-Kept") {
			w.Header().Set(name, "x")
		}
	})
	got := h.known("ada", lab(h)).get(h.site.AppURL(lab(h), "/"))
	for _, name := range append(forSite, "Service-Worker-Allowed") {
		if got.Header.Get(name) != "" {
			t.Errorf("%s came through", name)
		}
	}
	if got.Header.Get("X-Kept") == "" {
		t.Error("others don't")
	}
}

// TestBadApplications answers for those that hang, break off, say too much or aren't there.
func TestBadApplications(t *testing.T) {
	for name, tt := range map[string]struct {
		app    func(c net.Conn)
		err    error
		status int
		text   string
	}{
		"hangs":             {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, nil, 504, "doesn&#39;t answer"},
		"huge headers":      {func(c net.Conn) { fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX: %s\r\n\r\n", strings.Repeat("x", 1<<20)) }, nil, 502, "larger than 256 KiB"},
		"many headers":      {func(c net.Conn) { fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s\r\n", strings.Repeat("X-A: y\r\n", 1<<16)) }, nil, 502, "larger than 256 KiB"},
		"isn't HTTP":        {func(c net.Conn) { fmt.Fprint(c, "SSH-2.0-OpenSSH_9.2\r\n") }, nil, 502, "isn&#39;t HTTP"},
		"breaks off":        {func(c net.Conn) {}, nil, 502, "cut off"},
		"isn't up":          {nil, &engine.DialError{Port: 8888, Message: engine.NothingListens}, 502, "isn&#39;t up yet"},
		"can't be reached":  {nil, &engine.DialError{Port: 8888, Message: "the job is in the machine's network"}, 502, "machine&#39;s network"},
		"has just ended":    {nil, &engine.NotFoundError{}, 503, "is ending"},
		"no runtime":        {nil, &engine.UnavailableError{Cause: errors.New("secret path /run/x")}, 503, "runtime can&#39;t be reached"},
		"something unknown": {nil, errors.New("secret path /run/x"), 502, "cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "", address.DomainAuto, func(l *Limits) {
				if name == "hangs" {
					l.Header = 100 * time.Millisecond
				}
			})
			h.engine.err = tt.err
			if tt.app != nil {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				h.engine.at[8888] = l.Addr().String()
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						go func() {
							defer c.Close()
							if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
								tt.app(c)
							}
						}()
					}
				}()
			}
			b := h.known("ada", lab(h))
			got := b.get(h.site.AppURL(lab(h), "/"))
			if got.StatusCode != tt.status || !strings.Contains(got.body, tt.text) || strings.Contains(got.body, "secret") {
				t.Errorf("%d %q", got.StatusCode, got.body)
			}
			if again := strings.Contains(got.body, `http-equiv="refresh"`); again != (name == "isn't up") {
				t.Errorf("it goes on by itself: %v", again)
			}
			r, _ := http.NewRequest("GET", h.site.AppURL(lab(h), "/"), nil)
			if got := b.send(r); !strings.Contains(got.Header.Get("Content-Type"), "problem+json") || got.StatusCode != tt.status {
				t.Errorf("a program is answered %d %q", got.StatusCode, got.body)
			}
		})
	}
}

// TestOtherProtocols isn't led into one in which nothing is looked at: with HTTP/2 inside, whoever
// comes would say himself who he is.
func TestOtherProtocols(t *testing.T) {
	for _, upgrade := range []string{"h2c", "HTTP/2.0", "websocket, h2c", "tcp", "websocket\r\nUpgrade: h2c"} {
		t.Run(upgrade, func(t *testing.T) {
			h := newHarness(t, "", address.DomainAuto)
			seen := make(chan http.Header, 1)
			h.app(8888, func(w http.ResponseWriter, r *http.Request) {
				seen <- r.Header.Clone()
				if r.Header.Get("Upgrade") != "" {
					w.Header().Set("Connection", "Upgrade")
					w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
					w.WriteHeader(http.StatusSwitchingProtocols)
				}
			})
			got := h.raw("GET / HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\nCookie: " + h.cookie("ada", lab(h)) +
				"\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: " + upgrade + "\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 200") {
				t.Errorf("%q", got)
			}
			if in := <-seen; in["Upgrade"] != nil || in["Http2-Settings"] != nil || in["Connection"] != nil {
				t.Errorf("the application sees %v", in)
			}
		})
	}
}

// TestHostByPath refuses a name that isn't the server's, under which a page of somebody else's
// could have led a browser here.
func TestHostByPath(t *testing.T) {
	h := newHarness(t, "", address.DomainNone)
	h.app(8888, echo)
	for host, want := range map[string]string{"localhost": "as ada", "evil.example": "403", "localhost.evil.example": "403"} {
		got := h.raw("GET /w/1/ HTTP/1.1\r\nHost: " + host + "\r\nCookie: " + h.cookie("ada", lab(h)) + "\r\nConnection: close\r\n\r\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q", host, got)
		}
	}
}

// TestLimits are of a job and of a user; nobody in particular has none of his own.
func TestLimits(t *testing.T) {
	l := newLive(Limits{PerJob: 3, PerUser: 2})
	enter := func(user id.User, job id.Job) (leave func(), why string) {
		_, leave, err := l.enter(t.Context(), group{user: user, job: job})
		if err != nil {
			return nil, err.Error()
		}
		return leave, ""
	}
	leave, _ := enter(1, 1)
	enter(1, 2)
	if _, why := enter(1, 3); !strings.Contains(why, "you have 2 open connections") {
		t.Errorf("a user's third: %q", why)
	}
	leave()
	if _, why := enter(1, 3); why != "" {
		t.Errorf("after one has left: %q", why)
	}
	for range 3 {
		if _, why := enter(0, 4); why != "" {
			t.Errorf("nobody's: %q", why)
		}
	}
	if _, why := enter(2, 4); !strings.Contains(why, "this job has 3 open connections") {
		t.Errorf("a job's fourth: %q", why)
	}
}

// TestNotRunning says so, and nothing is connected to.
func TestNotRunning(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, echo)
	waits := address.App{Job: h.submit("ada", v1.App{Port: 8888})}
	got := h.known("ada", waits).get(h.site.AppURL(waits, "/"))
	if got.StatusCode != 503 || !strings.Contains(got.body, "waits for its turn") || len(h.engine.dialed()) > 0 {
		t.Errorf("%d %q, %v", got.StatusCode, got.body, h.engine.dialed())
	}
}

// TestHugeRequestHeaders are refused before anything else.
func TestHugeRequestHeaders(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	if got := h.raw("GET / HTTP/1.1\r\nHost: " + h.host(lab(h)) + "\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 431") {
		t.Errorf("%.100q", got)
	}
}

// TestWebSockets carries messages both ways, so many of a job at once, and ends them with
// their right.
func TestWebSockets(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil) // which looks at the origin, too
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, b) != nil {
				return
			}
		}
	})
	h.as("ada", command.JobShare{Job: h.job, User: "zoe", Level: access.ShareFull})
	b := h.known("zoe", lab(h))
	dial := func() (*websocket.Conn, *http.Response, error) {
		return websocket.Dial(t.Context(), h.site.AppURL(lab(h), "/ws"), &websocket.DialOptions{HTTPClient: b.Client, HTTPHeader: http.Header{"Origin": {h.site.AppOrigin(lab(h))}}})
	}
	var open []*websocket.Conn
	for range h.server.Limits.PerJob {
		c, _, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		open = append(open, c)
	}
	if c, resp, err := dial(); err == nil || resp == nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %v, %v, %v", c, resp, err)
	}
	message := make([]byte, 30<<10)
	_, _ = rand.Read(message)
	for _, c := range open {
		if err := c.Write(t.Context(), websocket.MessageBinary, message); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(t.Context()); err != nil || !bytes.Equal(got, message) {
			t.Fatalf("%d bytes came back, %v", len(got), err)
		}
	}
	if err := open[0].Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	h.awaitOpen(len(open) - 1)
	h.as("ada", command.JobUnshare{Job: h.job, User: "zoe"})
	for _, c := range open[1:] {
		if _, _, err := c.Read(t.Context()); err == nil {
			t.Fatal("a WebSocket outlives its right")
		}
	}
	h.awaitOpen(0)
}

// awaitOpen waits until so many requests are open.
func (h *harness) awaitOpen(want int) {
	h.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		got := h.server.Presence.Of(h.job)["app"].Open
		if got == want {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("%d are open, want %d", got, want)
		}
		runtime.Gosched()
	}
}

// TestStreams carries much without keeping it: what is written arrives while more is to come.
func TestStreams(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	next := make(chan struct{})
	h.app(8888, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/down":
			_, _ = io.CopyN(w, zeros{}, streamed)
		case "/up":
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
				if i < 2 {
					<-next // once that has arrived
				}
			}
		}
	})
	b := h.known("ada", lab(h))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got, err := b.Do(b.request("GET", h.site.AppURL(lab(h), "/down"), nil))
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, got.Body)
	got.Body.Close()
	if n != streamed || err != nil {
		t.Errorf("%d bytes came, %v", n, err)
	}
	up := b.request("POST", h.site.AppURL(lab(h), "/up"), io.LimitReader(zeros{}, streamed/10))
	up.Header.Set("Origin", h.site.AppOrigin(lab(h)))
	if got := b.send(up); got.body != fmt.Sprint(streamed/10) {
		t.Errorf("%s bytes went", got.body)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 32<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	r := b.request("GET", h.site.AppURL(lab(h), "/events"), nil)
	events, err := b.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	lines := bufio.NewReader(events.Body)
	for i := range 3 {
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d is %q, %v", i, line, err)
		}
		_, _ = lines.ReadString('\n')
		if i < 2 {
			next <- struct{}{}
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestHTTP2 comes from browsers over TLS, and cookies are for that alone.
func TestHTTP2(t *testing.T) {
	h := newHarness(t, "https://croft.example.org", "apps.croft.example.org")
	h.app(8888, echo)
	h.web.EnableHTTP2 = true
	h.web.StartTLS()
	b := h.browser()
	row := h.session("ada")
	to, _, err := h.tickets.URL(row.User, row.ID, lab(h), "/")
	if err != nil {
		t.Fatal(err)
	}
	got := b.get(to)
	if got.ProtoMajor != 2 || got.body != "GET / as ada (owner)" {
		t.Errorf("%s %d %q", got.Proto, got.StatusCode, got.body)
	}
	c := got.Request.Response.Header.Get("Set-Cookie")
	if !strings.HasPrefix(c, "__Host-croft=") || !strings.Contains(c, "; Secure") || strings.Contains(c, "Domain") || !strings.Contains(c, "Path=/;") {
		t.Errorf("cookie %q", c)
	}
}

// FuzzBadge reads what a cookie says.
func FuzzBadge(f *testing.F) {
	f.Add("1 7 8 9")
	f.Add("1 7 8")
	f.Add("2 -1 8 9")
	f.Fuzz(func(t *testing.T, text string) {
		if b, ok := parseBadge(text); ok && (b.user <= 0 || b.token < 0) {
			t.Errorf("%q is read as %+v", text, b)
		}
	})
}

// FuzzOwnPath never leads to another host.
func FuzzOwnPath(f *testing.F) {
	for _, s := range []string{"/a", "//b", "/\\c", "/d?e=f#g", "/\t/x"} {
		f.Add(s)
	}
	site, _ := address.New("https://croft.example.org", address.DomainNone)
	f.Fuzz(func(t *testing.T, next string) {
		r, err := http.NewRequest("GET", site.URL(ownPath(next)), nil)
		if err == nil && r.URL.Host != "croft.example.org" {
			t.Errorf("%q leads to %s", next, r.URL)
		}
	})
}

// FuzzOwnCookie never lets an application set one for another host, or Croft's.
func FuzzOwnCookie(f *testing.F) {
	for _, s := range []string{"a=b; Domain=x", "croft=1", "a=b; path=/; domain", "; Domain=x; a=b"} {
		f.Add(s)
	}
	site, _ := address.New("http://localhost", address.DomainNone)
	s := &Server{Deps: Deps{Site: site}}
	f.Fuzz(func(t *testing.T, line string) {
		out, ok := s.ownCookie(line, "/w/1")
		if !ok {
			return
		}
		for i, part := range strings.Split(out, ";") {
			key, _, _ := strings.Cut(part, "=")
			key = strings.ToLower(strings.TrimSpace(key))
			if i > 0 && key == "domain" || i == 0 && key == s.cookie {
				t.Errorf("%q becomes %q", line, out)
			}
		}
	})
}
