package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
)

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s as %s (%s)", r.Method, r.RequestURI, r.Header.Get("Croft-User"), r.Header.Get("Croft-Access"))
}

// sites are the two ways to applications.
var sites = map[string]string{"by name": address.DomainAuto, "by path": address.DomainNone}

// TestTicket lets a browser in once: the address alone does the second time nothing.
func TestTicket(t *testing.T) {
	for name, domain := range sites {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "", domain)
			h.app(8888, echo)
			row := h.session("ada")
			to, _, err := h.tickets.URL(row.User, row.ID, lab(h), "/lab?x=1")
			if err != nil {
				t.Fatal(err)
			}
			b := h.browser()
			got := b.get(to)
			if got.StatusCode != 200 || got.body != "GET /lab?x=1 as ada (owner)" {
				t.Errorf("%d %q", got.StatusCode, got.body)
			}
			if u := got.Request.URL.String(); u != h.site.AppURL(lab(h), "/lab?x=1") || strings.Contains(u, "ticket") {
				t.Errorf("it ends at %s", u)
			}
			if got := b.get(to); got.StatusCode != 200 { // the browser's history
				t.Errorf("once more, known: %d", got.StatusCode)
			}
			if got := h.browser().get(to); !strings.Contains(got.body, "Log in to Croft") {
				t.Errorf("once more by another: %d %q", got.StatusCode, got.body)
			}
			if c := got.Request.Response.Header.Get("Set-Cookie"); domain == address.DomainAuto && (!strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Lax") || strings.Contains(c, "Domain")) {
				t.Errorf("cookie %q", c)
			}
		})
	}
}

// TestTicketIsForOneApplication and for a short time.
func TestTicketIsForOneApplication(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, echo)
	h.app(6006, echo)
	row := h.session("ada")
	board := address.App{Job: h.job, Name: "board"}
	open := func(change func(u string) string) string {
		to, _, err := h.tickets.URL(row.User, row.ID, lab(h), "/")
		if err != nil {
			t.Fatal(err)
		}
		return h.browser().get(change(to)).body
	}
	for name, change := range map[string]func(string) string{
		"another application": func(u string) string {
			return strings.Replace(u, h.site.AppOrigin(lab(h)), h.site.AppOrigin(board), 1)
		},
		"too late":          func(u string) string { h.now.Add(int64(TicketLife)); return u },
		"one that is cut":   func(u string) string { return u[:len(u)-1] },
		"one that is empty": func(u string) string { u, _, _ = strings.Cut(u, "="); return u + "=" },
	} {
		if got := open(change); !strings.Contains(got, "Log in to Croft") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := open(func(u string) string { return u }); !strings.Contains(got, "as ada") {
		t.Errorf("the right one: %q", got)
	}
	// What only looks ahead spends nothing.
	to, _, _ := h.tickets.URL(row.User, row.ID, lab(h), "/")
	b := h.browser()
	r := b.request("GET", to, nil)
	r.Header.Set("Sec-Purpose", "prefetch")
	if got := b.send(r); got.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("looked ahead: %d", got.StatusCode)
	}
	if got := b.get(to); !strings.Contains(got.body, "as ada") {
		t.Errorf("after that: %q", got.body)
	}
}

// TestTicketsAreBounded gives one user so many, and others theirs.
func TestTicketsAreBounded(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	for range maxTickets {
		if _, _, err := h.tickets.URL(1, 0, lab(h), "/"); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := h.tickets.URL(1, 0, lab(h), "/"); err == nil {
		t.Error("one more")
	}
	if _, _, err := h.tickets.URL(2, 0, lab(h), "/"); err != nil {
		t.Errorf("another's: %v", err)
	}
	h.now.Add(int64(TicketLife))
	if _, _, err := h.tickets.URL(1, 0, lab(h), "/"); err != nil {
		t.Errorf("later: %v", err)
	}
}

// TestLoginPage asks who comes, and leads on to where he wanted to be.
func TestLoginPage(t *testing.T) {
	for name, domain := range sites {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "", domain)
			h.app(8888, echo)
			b := h.browser()
			page := b.get(h.site.AppURL(lab(h), "/lab?x=1"))
			if page.StatusCode != 200 || !strings.Contains(page.body, "Log in to Croft") || !strings.Contains(page.body, "<code>croft app open "+lab(h).Job.Name()+"</code>") {
				t.Fatalf("%d %q", page.StatusCode, page.body)
			}
			next := page.Request.URL.Query().Get("next")
			fields := url.Values{"user": {"ada"}, "password": {"wrong"}, "next": {next}}
			if got := b.form(h.site.URL("/login"), h.site.Origin(), fields); got.StatusCode != 401 || !strings.Contains(got.body, "is wrong") {
				t.Errorf("a wrong password: %d", got.StatusCode)
			}
			fields.Set("password", "secret of ada")
			got := b.form(h.site.URL("/login"), h.site.Origin(), fields)
			if got.body != "GET /lab?x=1 as ada (owner)" {
				t.Errorf("%d %q at %s", got.StatusCode, got.body, got.Request.URL)
			}
			if got := b.get(h.site.URL("/")); !strings.Contains(got.body, ">a:1 (1)</a>") || !strings.Contains(got.body, "board") {
				t.Errorf("the first page: %q", got.body)
			}
			if got := b.form(h.site.URL("/logout"), h.site.Origin(), nil); !strings.Contains(got.body, "Log in to Croft") {
				t.Errorf("logged out: %q", got.body)
			}
			// The session has ended, and with it what the browser is known by elsewhere.
			if got := b.get(h.site.AppURL(lab(h), "/lab")); !strings.Contains(got.body, "Log in to Croft") {
				t.Errorf("after logging out: %q", got.body)
			}
		})
	}
}

// TestOpenRedirect leads nobody to another site.
func TestOpenRedirect(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, echo)
	for _, next := range []string{
		"https://evil.example/", "//evil.example/", "/\\evil.example", "\\/evil.example", "/\t/evil.example", "/%0d%0aLocation:x\r\ny: z", "javascript:alert(1)", " //evil.example", "",
	} {
		b := h.browser()
		b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		got := b.form(h.site.URL("/login"), h.site.Origin(), url.Values{"user": {"ada"}, "password": {"secret of ada"}, "next": {next}})
		if to := got.Header.Get("Location"); got.StatusCode != 303 || to != h.site.URL("/") {
			t.Errorf("next %q: %d to %q", next, got.StatusCode, to)
		}
		led := b.get(h.site.URL("/open/1?" + url.Values{"next": {next}}.Encode())).Header
		if led.Get("Referrer-Policy") != "no-referrer" || led.Get("Cache-Control") != "no-store" {
			t.Errorf("the ticket's address gets about: %v", led)
		}
		to := led.Get("Location")
		if u, err := url.Parse(to); err != nil || u.Host != strings.TrimPrefix(h.site.AppOrigin(lab(h)), "http://") {
			t.Errorf("open, next %q: to %q", next, to)
		}
	}
}

// TestLoginCSRF takes no form of another page.
func TestLoginCSRF(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	for _, origin := range []string{"", "null", "https://evil.example", h.site.AppOrigin(lab(h)), "https" + strings.TrimPrefix(h.site.Origin(), "http")} {
		for _, page := range []string{"/login", "/logout"} {
			got := h.browser().form(h.site.URL(page), origin, url.Values{"user": {"ada"}, "password": {"secret of ada"}})
			if got.StatusCode != 403 || got.Header.Get("Set-Cookie") != "" {
				t.Errorf("%s from %q: %d", page, origin, got.StatusCode)
			}
		}
	}
}

// TestLongForm reads no more of one than there can be.
func TestLongForm(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	fields := url.Values{"user": {"ada"}, "password": {"secret of ada"}, "x": {strings.Repeat("x", maxForm)}}
	got := h.browser().form(h.site.URL("/login"), h.site.Origin(), fields)
	if got.Header.Get("Set-Cookie") != "" || !strings.Contains(got.body, "the form can&#39;t be read") && !strings.Contains(got.body, "the form can't be read") {
		t.Errorf("%d %q", got.StatusCode, got.body)
	}
}

// FuzzTicket lets in by the text of a ticket that was sold, whole, and once.
func FuzzTicket(f *testing.F) {
	for _, s := range []string{"", "x", "AAAA", strings.Repeat("A", 32), strings.Repeat("=", 1000)} {
		f.Add(s)
	}
	site, _ := address.New("http://localhost", address.DomainAuto)
	f.Fuzz(func(t *testing.T, text string) {
		tickets := NewTickets(site, func() int64 { return 1 })
		at := address.App{Job: 1}
		to, _, err := tickets.URL(7, 0, at, "/")
		if err != nil {
			t.Fatal(err)
		}
		_, secret, _ := strings.Cut(to, "?ticket=")
		for _, bad := range []string{text, secret + text, text + secret, secret[:len(secret)-1] + text} {
			if _, ok := tickets.redeem(bad, at); ok != (bad == secret) {
				t.Errorf("%q lets in: %v", bad, ok)
			} else if ok {
				return
			}
		}
		if tk, ok := tickets.redeem(secret, at); !ok || tk.user != 7 {
			t.Error("the ticket doesn't let in")
		}
		if _, ok := tickets.redeem(secret, at); ok {
			t.Error("the ticket lets in twice")
		}
	})
}

// TestPrograms answers programs with codes, and takes tokens from them, which no application
// sees.
func TestPrograms(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, func(w http.ResponseWriter, r *http.Request) {
		echo(w, r)
		fmt.Fprintf(w, " %q", r.Header.Get("Authorization"))
	})
	b := h.browser()
	ask := func(authorization string) answer {
		r, _ := http.NewRequest("POST", h.site.AppURL(lab(h), "/api"), strings.NewReader("x"))
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		return b.send(r)
	}
	if got := ask(""); got.StatusCode != 401 || !strings.Contains(got.body, `"code":"unauthenticated"`) {
		t.Errorf("nobody: %d %q", got.StatusCode, got.body)
	}
	if got := ask("Bearer secret of ada"); got.body != `POST /api as ada (owner) ""` {
		t.Errorf("%d %q", got.StatusCode, got.body)
	}
	if got := ask("Bearer secret of zoe"); got.StatusCode != 404 {
		t.Errorf("another: %d", got.StatusCode)
	}
	if got := ask("token of the application's own"); got.StatusCode != 401 {
		t.Errorf("an application's: %d", got.StatusCode)
	}
	known := h.known("ada", lab(h))
	r := known.request("GET", h.site.AppURL(lab(h), "/api"), nil)
	r.Header.Set("Authorization", "token of the application's own")
	if got := known.send(r); got.body != `GET /api as ada (owner) "token of the application's own"` {
		t.Errorf("handed on: %q", got.body)
	}
}

// TestEntriesAreLogged has a row for whoever comes, not for each request.
func TestEntriesAreLogged(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, echo)
	before := h.seq.World().Seq
	b := h.known("ada", lab(h))
	opened := h.seq.World().Seq
	for range 5 {
		b.get(h.site.AppURL(lab(h), "/"))
	}
	if got := h.seq.World().Seq - opened; got != 1 || opened == before {
		t.Errorf("%d rows", got)
	}
	h.now.Add(entryLife)
	if got := b.get(h.site.AppURL(lab(h), "/")); !strings.Contains(got.body, "Log in") {
		t.Errorf("known for ever: %q", got.body)
	}
}

// TestVisitsAreBounded has so many rows of those who come without a login, wherever they say
// that they come from.
func TestVisitsAreBounded(t *testing.T) {
	n := newEntries()
	rows := 0
	for range 3 * maxVisits {
		if n.room(1, 7) {
			rows++
		}
	}
	if rows != maxVisits || !n.room(2, 7) || !n.room(1, 7+visitLife) || len(n.visits) != 1 {
		t.Errorf("%d rows, %d jobs are counted", rows, len(n.visits))
	}
}

// TestViewSafe lets those who only look have WebSockets where the application says that it
// takes care of them, and nothing else.
func TestViewSafe(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	seen := make(chan http.Header, 1)
	h.app(8888, func(w http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() })
	h.app(6006, func(w http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() })
	h.as("ada", command.JobShare{Job: h.job, User: "zoe", Level: access.ShareView})
	for name, tt := range map[string]struct {
		app    address.App
		socket int
	}{"one that is": {address.App{Job: h.job, Name: "board"}, 200}, "another": {lab(h), 403}} {
		t.Run(name, func(t *testing.T) {
			b := h.known("zoe", tt.app)
			r := b.request("GET", h.site.AppURL(tt.app, "/"), nil)
			r.Header.Set("X-HTTP-Method-Override", "DELETE")
			r.Header.Set("X-HTTP_Method", "DELETE")
			if got := b.send(r); got.StatusCode != 200 {
				t.Fatal(got.Status)
			}
			if in := <-seen; in.Get("Croft-Access") != "view" || in.Get("X-Http-Method-Override") != "" || in["X-Http_method"] != nil {
				t.Errorf("the application sees %v", in)
			}
			r = b.request("POST", h.site.AppURL(tt.app, "/"), nil)
			r.Header.Set("Origin", h.site.AppOrigin(tt.app))
			if got := b.send(r); got.StatusCode != 403 {
				t.Errorf("POST: %s", got.Status)
			}
			r = b.request("GET", h.site.AppURL(tt.app, "/"), nil)
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Connection", "Upgrade")
			if got := b.send(r); got.StatusCode != tt.socket {
				t.Errorf("WebSocket: %s", got.Status)
			} else if got.StatusCode == 200 {
				if in := <-seen; in.Get("Upgrade") != "websocket" || in.Get("Croft-Access") != "view" {
					t.Errorf("the application sees %v", in)
				}
			}
		})
	}
}

// TestRestart keeps browsers known: cookies are the key's, not the server's memory.
func TestRestart(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, echo)
	b := h.known("ada", lab(h))
	again, err := New(h.server.Deps)
	if err != nil {
		t.Fatal(err)
	}
	h.web.Config.Handler = again.Over(http.NotFoundHandler())
	if got := b.get(h.site.AppURL(lab(h), "/")); !strings.Contains(got.body, "as ada") {
		t.Errorf("%q", got.body)
	}
}

// TestAccess asks the world at every request, as everybody.
func TestAccess(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, echo)
	status := func(b *browser, method string, change ...func(*http.Request)) int {
		r := b.request(method, h.site.AppURL(lab(h), "/"), nil)
		if method == "POST" {
			r.Header.Set("Origin", h.site.AppOrigin(lab(h)))
		}
		for _, f := range change {
			f(r)
		}
		return b.send(r).StatusCode
	}
	socket := func(r *http.Request) { r.Header.Set("Upgrade", "websocket"); r.Header.Set("Connection", "Upgrade") }
	who := map[string]*browser{}
	for _, name := range []string{"ada", "ben", "vic", "zoe", "root"} {
		who[name] = h.known(name, lab(h))
	}
	check := func(when string, want map[string][3]int) {
		t.Helper()
		for name, b := range who {
			w, ok := want[name]
			if !ok {
				w = [3]int{404, 404, 404}
			}
			if got := [3]int{status(b, "GET"), status(b, "POST"), status(b, "GET", socket)}; got != w {
				t.Errorf("%s: %s is answered %v, want %v", when, name, got, w)
			}
		}
	}
	all, looks := [3]int{200, 200, 200}, [3]int{200, 403, 403}
	check("at first", map[string][3]int{"ada": all})
	h.as("ada", command.JobShare{Job: h.job, User: "zoe", Level: access.ShareView})
	check("shown to zoe", map[string][3]int{"ada": all, "zoe": looks})
	h.as("ada", command.JobShare{Job: h.job, User: "zoe", Level: access.ShareFull, Until: h.now.Load() + hour})
	check("shared with zoe", map[string][3]int{"ada": all, "zoe": all})
	h.now.Add(hour)
	check("an hour later", map[string][3]int{"ada": all})
	h.as("ada", command.JobShare{Job: h.job, Account: "nlp", Level: access.ShareFull})
	check("shared with the account", map[string][3]int{"ada": all, "ben": all})
	h.as("ada", command.JobShare{Job: h.job, Account: "nlp", Level: access.ShareView})
	check("shown to the account", map[string][3]int{"ada": all, "ben": looks, "vic": looks})
	h.as("ada", command.JobUnshare{Job: h.job, Account: "nlp"})
	check("no longer", map[string][3]int{"ada": all})
	h.as("ada", command.JobShare{Job: h.job, Public: true, Level: access.ShareView})
	check("public", map[string][3]int{"ada": all, "ben": looks, "vic": looks, "zoe": looks, "root": looks})
	opened := h.seq.World().Seq
	for range 3 {
		if got := status(h.browser(), "GET"); got != 200 {
			t.Errorf("whoever comes: %d", got)
		}
	}
	if got := h.seq.World().Seq - opened; got != 1 {
		t.Errorf("%d rows say that somebody came", got)
	}
	h.now.Add(visitLife)
	if status(h.browser(), "GET"); h.seq.World().Seq-opened != 2 {
		t.Error("an hour later there is no other row")
	}
	site := h.seq.World().Site
	site.Apps.Public = false
	h.system(command.SitePut{Site: site})
	check("the site doesn't allow it any more", map[string][3]int{"ada": all})
	blocked := true
	h.system(command.UserPut{Name: "ada", Blocked: &blocked})
	if got := status(who["ada"], "POST"); got != 401 {
		t.Errorf("blocked: %d", got)
	}
}

// TestRevocationEndsStreams ends what is open as soon as its right ends.
func TestRevocationEndsStreams(t *testing.T) {
	for name, end := range map[string]func(h *harness, user string){
		"the share":   func(h *harness, _ string) { h.as("ada", command.JobUnshare{Job: h.job, User: "zoe"}) },
		"the session": func(h *harness, u string) { h.revoke(u) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "", address.DomainAuto)
			over := make(chan struct{})
			h.app(8888, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintln(w, "begun")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				close(over)
			})
			h.as("ada", command.JobShare{Job: h.job, User: "zoe", Level: access.ShareView})
			b := h.known("zoe", lab(h))
			r := b.request("GET", h.site.AppURL(lab(h), "/"), nil)
			got, err := b.Do(r)
			if err != nil || got.StatusCode != 200 {
				t.Fatal(got, err)
			}
			defer got.Body.Close()
			if _, err := got.Body.Read(make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			if n := h.server.Presence.Of(h.job)["app"].Open; n != 1 {
				t.Errorf("%d are there", n)
			}
			end(h, "zoe")
			if _, err := io.ReadAll(got.Body); err == nil {
				t.Error("the stream ended as if all of it had come")
			}
			select {
			case <-over:
			case <-time.After(10 * time.Second):
				t.Error("the application isn't told")
			}
		})
	}
}

func (h *harness) revoke(user string) {
	u, _ := h.seq.World().Tenancy.User(user)
	for _, t := range h.seq.World().Tenancy.TokensOf(u.ID) {
		h.system(command.TokenRevoke{User: user, Token: id.Token(t.ID)})
	}
}
