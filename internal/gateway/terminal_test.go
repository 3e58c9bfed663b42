package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/workload"
)

// fakeTerminals are of the harness's jobs.
type fakeTerminals struct {
	h     *harness
	joins atomic.Int64
}

func (f *fakeTerminals) Seat(_ context.Context, p access.Principal, job string) (*workload.Job, bool, error) {
	w := f.h.seq.World()
	k, _ := id.ParseJob(job)
	j, ok := w.Workload.Jobs.Get(k)
	if !ok && k == f.h.job { // the real ones know its history
		return &workload.Job{ID: k, State: workload.Ended}, false, nil
	}
	if !ok || !w.CanApp(p, access.TermView, j) {
		return nil, false, fault.NotFound("job", job)
	}
	return j, !w.CanApp(p, access.TermUse, j), nil
}

func (f *fakeTerminals) JoinTerminal(w http.ResponseWriter, r *http.Request, p access.Principal) {
	f.joins.Add(1)
	w.Header().Set("X-Joined", p.Name+" "+r.PathValue("id")+" "+r.PathValue("name"))
	w.WriteHeader(http.StatusAccepted)
}

// page is the path of the terminal of the harness's job.
func (h *harness) page(of string) string { return "/t/" + h.job.Name() + of }

// atPages is a browser that is known as a user at the server's own pages, by an address that
// lets it in once.
func (h *harness) atPages(user string) *browser {
	h.t.Helper()
	b := h.browser()
	row := h.session(user)
	to, _, err := h.tickets.Page(row.User, row.ID, h.page("/main"))
	if err != nil {
		h.t.Fatal(err)
	}
	if got := b.get(to); got.Request.URL.String() != h.site.URL(h.page("/main")) {
		h.t.Fatalf("the address leads to %s", got.Request.URL)
	}
	return b
}

// TestTerminalPage shows a terminal to whom it is for, and lets the page run nothing but its
// own files.
func TestTerminalPage(t *testing.T) {
	for name, domain := range sites {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "", domain)
			got := h.atPages("ada").get(h.site.URL(h.page("")))
			csp := got.Header.Get("Content-Security-Policy")
			switch {
			case got.StatusCode != 200 || !strings.Contains(got.body, `data-access="full"`) || !strings.Contains(got.body, "/main/socket"):
				t.Errorf("%d %s", got.StatusCode, got.body)
			case !strings.Contains(csp, "default-src 'none'; script-src 'self';") || strings.Contains(got.body, "<script>") || got.Header.Get("Cache-Control") != "no-store":
				t.Errorf("policy %q", csp)
			}
			for _, file := range []string{"xterm.js", "addon-fit.js", "page.js", "xterm.css", "page.css"} {
				got := h.browser().get(h.site.URL("/t/-/" + file))
				if got.StatusCode != 200 || !strings.Contains(got.Header.Get("Content-Type"), "charset=utf-8") {
					t.Errorf("%s: %d", file, got.StatusCode)
				}
			}
			for path, want := range map[string]string{
				"/t/x": "404", "/t/0x1": "404", "/t/999": "404", "/t/-/README.md": "404", "/t/-/..%2fwebterm.go": "404", h.page("/-x"): "404", h.page("/a%20b"): "404",
				h.page("/%3Cscript%3E"): "404", h.page("?step=x"): "404", h.page("/a/b"): "418",
			} {
				if got := h.atPages("ada").get(h.site.URL(path)); !strings.HasPrefix(got.Status, want) {
					t.Errorf("%s: %s, want %s", path, got.Status, want)
				}
			}
			if got := h.browser().get(h.site.URL(h.page("/logs?view=true"))); !strings.Contains(got.body, "Log in to Croft") || !strings.Contains(got.body, h.page("/logs?view=true")) {
				t.Errorf("a stranger: %d %s", got.StatusCode, got.body)
			}
			if got := h.atPages("zoe"); got.get(h.site.URL(h.page(""))).StatusCode != 404 {
				t.Error("somebody else sees that there is such a job")
			}
		})
	}
}

// TestTerminalPageOfShared: whom a job is shared with looks at its terminals, or uses them,
// and nobody else does; least of all who comes without a login.
func TestTerminalPageOfShared(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.as("ada", command.JobShare{Job: h.job, User: "ben", Level: access.ShareView})
	h.as("ada", command.JobShare{Job: h.job, User: "zoe", Level: access.ShareFull})
	h.as("ada", command.JobShare{Job: h.job, Public: true, Level: access.ShareFull})
	for user, want := range map[string]string{"ben": `data-access="view"`, "zoe": `data-access="full"`, "root": "not found"} {
		got := h.atPages(user).get(h.site.URL(h.page("")))
		if !strings.Contains(strings.ToLower(got.body), want) {
			t.Errorf("%s: %d, want %s", user, got.StatusCode, want)
		}
	}
}

// TestTerminalPageOfAnother application's origin: where such pages could type in a terminal,
// there is none.
func TestTerminalPageOfAnother(t *testing.T) {
	h := newHarness(t, "", address.DomainNone)
	b := h.atPages("ada")
	site := h.seq.World().Site
	site.Apps.Shared, site.Apps.Pages = true, false
	h.system(command.SitePut{Site: site})
	if got := b.get(h.site.URL(h.page(""))); got.StatusCode != 403 || !strings.Contains(got.body, "croft terminal") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	if got := b.socket(h.site.Origin()); got.StatusCode != 403 || h.terminals.joins.Load() != 0 {
		t.Errorf("its WebSocket: %d", got.StatusCode)
	}
}

// socket asks for a terminal's WebSocket as a page of an origin has a browser do.
func (b *browser) socket(origin string, more ...string) answer {
	b.h.t.Helper()
	r := b.request("GET", b.h.site.URL(b.h.page("/main/socket")), nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-WebSocket-Version", "13")
	r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	for i := 0; i < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	return b.send(r)
}

// TestTerminalSocket is for pages of the server's own origin, and who has logged in there:
// no page of another can use a visitor's cookie, not even one of an application's.
func TestTerminalSocket(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	b := h.atPages("ada")
	own := h.site.Origin()
	for name, tt := range map[string]struct {
		b      *browser
		origin string
		more   []string
		want   int
	}{
		"its own page":         {b, own, nil, 202},
		"likewise, said twice": {b, own, []string{"Sec-Fetch-Site", "same-origin"}, 202},
		"no origin":            {b, "", nil, 403},
		"null":                 {b, "null", nil, 403},
		"another site":         {b, "https://evil.example", nil, 403},
		"an application's":     {b, h.site.AppOrigin(lab(h)), nil, 403},
		"another scheme":       {b, strings.Replace(own, "http:", "https:", 1), nil, 403},
		"another port":         {b, "http://localhost:1", nil, 403},
		"a longer name":        {b, own + ".evil.example", nil, 403},
		"the same site only":   {b, own, []string{"Sec-Fetch-Site", "same-site"}, 403},
		"a stranger":           {h.browser(), own, nil, 401},
		"known to the app":     {h.known("ada", lab(h)), own, nil, 401},
		"a token":              {h.browser(), own, []string{"Authorization", "Bearer secret of ada"}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			before := h.terminals.joins.Load()
			got := tt.b.socket(tt.origin, tt.more...)
			if got.StatusCode != tt.want {
				t.Errorf("%d %s, want %d", got.StatusCode, got.body, tt.want)
			}
			if joined := h.terminals.joins.Load() > before; joined != (tt.want == 202) {
				t.Errorf("joined: %v", joined)
			}
		})
	}
	if got := b.socket(own); got.Header.Get("X-Joined") != "ada "+h.job.Name()+" main" {
		t.Errorf("joined as %q", got.Header.Get("X-Joined"))
	}
	// The API itself takes no cookie.
	r := b.request("GET", h.site.URL("/v1/jobs/"+h.job.Name()+"/terminals/main"), nil)
	if got := b.send(r); got.StatusCode != http.StatusTeapot || got.Header.Get("X-Joined") != "" {
		t.Errorf("%d", got.StatusCode)
	}
}

// TestPageTicket lets a browser in once, and at the server's own pages only.
func TestPageTicket(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	row := h.session("ada")
	to, _, err := h.tickets.Page(row.User, row.ID, h.page("/main"))
	if err != nil {
		t.Fatal(err)
	}
	there := h.browser().get(strings.Replace(to, h.site.Origin(), h.site.AppOrigin(lab(h)), 1))
	if !strings.Contains(there.body, "Log in to Croft") {
		t.Errorf("at an application: %d", there.StatusCode)
	}
	if got := h.browser().get(to); !strings.Contains(got.body, "Log in to Croft") {
		t.Errorf("spent by that: %d", got.StatusCode)
	}
	to, _, err = h.tickets.URL(row.User, row.ID, lab(h), "/")
	if err != nil {
		t.Fatal(err)
	}
	if got := h.browser().get(strings.Replace(to, h.site.AppOrigin(lab(h)), h.site.Origin(), 1)); !strings.Contains(got.body, "Log in to Croft") {
		t.Errorf("an application's at the server: %d", got.StatusCode)
	}
}

// TestTerminalPageWaits for a job that doesn't run, and says when it has ended.
func TestTerminalPageWaits(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	b := h.atPages("ada")
	next := h.submit("ada")
	if got := b.get(h.site.URL("/t/" + next.Name())); got.StatusCode != 503 || !strings.Contains(got.body, "waits for its turn") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	h.system(command.JobObserved{Job: h.job, N: 1, Exited: true, Finished: h.now.Load()})
	r := b.request("GET", h.site.URL(h.page("")), nil)
	r.Header.Set("Accept", "application/json")
	if got := b.send(r); got.StatusCode != 410 || !strings.Contains(got.body, `"code":"gone"`) {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// TestHome leads to terminals too, also of jobs without applications, and says what is to be
// stopped; applications are told by a header that they can't set themselves.
func TestHome(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	bare := h.submit("ada")
	h.start(bare)
	h.app(8888, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Croft-Stops-At", "never") })
	b := h.atPages("ada")
	got := b.get(h.site.URL("/")).body
	for _, want := range []string{h.site.URL(h.page("/main")), h.site.URL("/t/" + bare.Name() + "/main"), ">lab<"} {
		if !strings.Contains(got, want) {
			t.Errorf("the first page lacks %s:\n%s", want, got)
		}
	}
	app := h.known("ada", lab(h))
	if got := app.get(h.site.AppURL(lab(h), "/")).Header.Get("Croft-Stops-At"); got != "" || strings.Contains(b.get(h.site.URL("/")).body, "stops at") {
		t.Errorf("before anybody was told: %q", got)
	}
	began, stop := h.now.Load(), h.now.Load()+hour
	h.server.StopsAt = func(id.Attempt) int64 { return stop }
	site := h.seq.World().Site
	site.Idle = []idle.Policy{{Mode: idle.Stop, After: hour, Notice: hour / 6}}
	h.system(command.SitePut{Site: site})
	h.now.Add(hour * 5 / 6)
	h.system(command.JobNotice{Job: h.job, N: 1, Since: began, Idle: hour * 5 / 6, StopAt: stop, Text: "idle for 50m"})
	if got := app.get(h.site.AppURL(lab(h), "/")).Header.Get("Croft-Stops-At"); got != "2026-11-01T10:00:00Z" {
		t.Errorf("the application is told %q", got)
	}
	if got := b.get(h.site.URL("/")).body; strings.Count(got, "idle: stops at") != 2 { // of both its applications
		t.Errorf("the first page:\n%s", got)
	}
}
