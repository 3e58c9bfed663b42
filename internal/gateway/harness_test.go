package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/seal"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// harness is a gateway over a real sequencer, before applications that a test writes.
type harness struct {
	t         testing.TB
	seq       *sequencer.Sequencer
	server    *Server
	site      address.Site
	tickets   *Tickets
	web       *httptest.Server
	engine    *fakeEngine
	logins    *fakeLogins
	terminals *fakeTerminals
	now       atomic.Int64
	stop      context.CancelFunc
	job       id.Job // ada's, with the applications lab (8888) and board (6006)
}

// fakeEngine has an application's server for each port; of any step that was started.
type fakeEngine struct {
	mu    sync.Mutex
	at    map[uint16]string // address
	err   error
	dials []string
}

func (e *fakeEngine) Dial(ctx context.Context, step engine.StepID, port uint16) (net.Conn, error) {
	e.mu.Lock()
	at, err := e.at[port], e.err
	e.dials = append(e.dials, fmt.Sprintf("%s:%d", step, port))
	e.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case at == "":
		return nil, &engine.DialError{Port: port, Message: engine.NothingListens}
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", at)
}

func (e *fakeEngine) dialed() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.dials...)
}

// fakeLogins knows users by passwords and tokens that are "secret of NAME".
type fakeLogins struct {
	h    *harness
	host string // the only one allowed
}

func (l *fakeLogins) Allowed(r *http.Request) error {
	if name := address.BareHost(r.Host); name != l.host && name != "127.0.0.1" {
		return fault.New(codes.Denied, "this server isn't called that")
	}
	return nil
}
func (*fakeLogins) Passwords() bool             { return true }
func (*fakeLogins) From(r *http.Request) string { return "192.0.2.7" }
func (l *fakeLogins) user(name string) tenancy.User {
	u, _ := l.h.seq.World().Tenancy.User(name)
	return u
}

func (l *fakeLogins) LogIn(_ *http.Request, user, password, name string) (tenancy.Token, error) {
	if password != "secret of "+user {
		return tenancy.Token{}, fault.New(codes.Unauthenticated, "the user or the password is wrong")
	}
	return l.h.session(user), nil
}

func (l *fakeLogins) ByLinks(ctx context.Context, user id.User, until int64) (id.Token, error) {
	u, _ := l.h.seq.World().Tenancy.Users.Get(user)
	got, err := l.h.seq.Do(ctx, sequencer.Actor{User: user}, command.SessionByLinks{User: u.Name, Expires: until}, sequencer.Key{})
	if err != nil {
		return 0, err
	}
	return got.Result.(tenancy.Token).ID, nil
}

func (l *fakeLogins) LogOut(ctx context.Context, p access.Principal) error {
	row, _ := l.h.seq.World().Tenancy.Tokens.Get(id.Token(p.Narrow.Token))
	_, err := l.h.seq.Do(ctx, sequencer.Actor{System: true}, command.TokenRevoke{User: p.Name, Token: row.ID, Session: row.Session()}, sequencer.Key{})
	return err
}

func (l *fakeLogins) Bearer(r *http.Request) (access.Principal, bool, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer secret of ")
	if !ok {
		return access.Principal{}, false, nil
	}
	p, known := l.Known(r.Context(), l.user(name).ID, 0)
	if !known {
		return p, true, fault.New(codes.Unauthenticated, "this token isn't valid")
	}
	return p, true, nil
}

func (l *fakeLogins) Known(_ context.Context, user id.User, token id.Token) (access.Principal, bool) {
	w := l.h.seq.World()
	p := w.Principal(user, token, max(l.h.now.Load(), w.Now))
	return p, p.User != 0 && !p.Blocked
}

const hour = int64(time.Hour)

// newHarness is a site with the users ada, ben and zoe, and the account nlp with ada and ben.
func newHarness(t testing.TB, public, domain string, limits ...func(*Limits)) *harness {
	t.Helper()
	h := &harness{t: t, engine: &fakeEngine{at: map[uint16]string{}}}
	h.now.Store(time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC).UnixNano())
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	db, err := store.Open(ctx, store.Config{Path: filepath.Join(t.TempDir(), "croft.db")})
	if err != nil {
		t.Fatal(err)
	}
	w := world.New()
	head, err := db.Load(ctx, func(c world.Change) { w.Fold([]world.Change{c}) })
	if err != nil {
		t.Fatal(err)
	}
	h.seq = sequencer.New(sequencer.Config{World: w, Head: head, Store: db, Clock: h.now.Load})
	var all sync.WaitGroup
	all.Go(func() {
		if err := h.seq.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	h.web = httptest.NewUnstartedServer(nil)
	if public == "" {
		public = "http://localhost:" + fmt.Sprint(h.web.Listener.Addr().(*net.TCPAddr).Port)
	}
	if h.site, err = address.New(public, domain); err != nil {
		t.Fatal(err)
	}
	h.logins = &fakeLogins{h, h.site.Hostname()}
	h.terminals = &fakeTerminals{h: h}
	key, err := seal.New(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	h.tickets = NewTickets(h.site, h.now.Load)
	limit := Limits{PerJob: 64, PerUser: 100, Header: 10 * time.Second}
	for _, change := range limits {
		change(&limit)
	}
	h.server, err = New(Deps{
		Site: h.site, Sequencer: h.seq, Engine: h.engine, Logins: h.logins, Terminals: h.terminals, Tickets: h.tickets, Key: key, Now: h.now.Load,
		Presence: presence.New(h.now.Load), Limits: limit,
		Progress: func(id.Job) string { return "pulling 40%" },
	})
	if err != nil {
		t.Fatal(err)
	}
	all.Go(func() { h.server.Run(ctx) })
	h.web.Config.Handler = h.server.Over(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "the API")
	}))
	h.web.Config.MaxHeaderBytes = 64 << 10
	h.furnish(domain)
	t.Cleanup(func() {
		h.web.CloseClientConnections()
		cancel()
		h.web.Close()
		all.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *harness) furnish(domain string) {
	h.system(command.SitePut{
		Site: world.Site{Instance: "0a1b2c3d-test", PlanDepth: 50, MountRoots: []string{"~"}, MaxGrace: hour, DefCPU: 1000, DefMem: 1 << 30, DefWall: hour,
			Apps: world.Apps{Shared: domain != address.DomainNone, Pages: true, Public: true}},
		Partitions: []catalog.Partition{{Name: "main", Default: true, DefWall: hour, MaxWall: 48 * hour}},
		QoS:        []catalog.QoS{{Name: "normal", Default: true, Factor: 1000}},
	})
	h.system(command.InventoryObserved{Nodes: []placement.Node{{Name: "gpu1", CPU: 64000, Memory: 512 << 30, Ready: true}}})
	user, admin := "user", "admin"
	for name, role := range map[string]*string{"root": &admin, "ada": &user, "ben": &user, "zoe": &user, "vic": &user} {
		h.system(command.UserPut{Create: true, Name: name, Role: role})
	}
	h.as("root", command.AccountPut{Create: true, Name: "nlp"})
	h.as("root", command.MemberPut{Account: "nlp", User: "ada", Role: "member"})
	h.as("root", command.MemberPut{Account: "nlp", User: "ben", Role: "member"})
	h.as("root", command.MemberPut{Account: "nlp", User: "vic", Role: "viewer"})
	h.job = h.submit("ada", v1.App{Name: "lab", Port: 8888, Path: "/lab"}, v1.App{Name: "board", Port: 6006, ViewSafe: true})
	h.start(h.job)
}

func (h *harness) submit(user string, apps ...v1.App) id.Job {
	h.t.Helper()
	spec, err := workload.Parse(v1.JobSpec{Image: "a:1", Account: "nlp", Apps: apps, CPU: "1", Mem: "1G", Time: "2h"}, workload.Defaults{CPU: 1000, Mem: 1 << 30, Time: hour})
	if err != nil {
		h.t.Fatal(err)
	}
	got, ok := h.as(user, command.Submit{Spec: spec}).Result.(admission.Accepted)
	if !ok {
		h.t.Fatal("no job was submitted")
	}
	return got.Job.ID
}

func (h *harness) start(k id.Job) {
	h.t.Helper()
	h.system(command.JobStart{Job: k, Image: "sha256:1"})
	h.system(command.JobObserved{Job: k, N: 1, Running: true, Started: h.now.Load()})
}

func (h *harness) system(cmd world.Command) sequencer.Answer {
	return h.do(sequencer.Actor{System: true}, cmd)
}

func (h *harness) as(user string, cmd world.Command) sequencer.Answer {
	u, _ := h.seq.World().Tenancy.User(user)
	return h.do(sequencer.Actor{User: u.ID}, cmd)
}

func (h *harness) do(a sequencer.Actor, cmd world.Command) sequencer.Answer {
	h.t.Helper()
	got, err := h.seq.Do(context.Background(), a, cmd, sequencer.Key{})
	if err != nil {
		h.t.Fatalf("%s: %v", cmd.Kind(), err)
	}
	return got
}

var sessions atomic.Int64

// session opens one for a user.
func (h *harness) session(user string) tenancy.Token {
	hash := fmt.Sprintf("%064x", sessions.Add(1))
	row, ok := h.system(command.TokenPut{User: user, Name: "s" + hash[50:], Hash: hash}).Result.(tenancy.Token)
	if !ok {
		h.t.Fatal("no session was opened")
	}
	return row
}

// app lets an application answer at a port.
func (h *harness) app(port uint16, f http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(f)
	h.t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	h.engine.mu.Lock()
	h.engine.at[port] = s.Listener.Addr().String()
	h.engine.mu.Unlock()
	return s
}

// browser is one with cookies of its own, for which all names lead to the test's server.
type browser struct {
	*http.Client
	h *harness
}

func (h *harness) browser() *browser {
	if h.web.URL == "" {
		h.web.Start()
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	at := h.web.Listener.Addr().String()
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", at)
	}}
	if h.web.TLS != nil {
		t = h.web.Client().Transport.(*http.Transport).Clone()
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", at)
		}
		t.TLSClientConfig.ServerName = "example.com"
	}
	h.t.Cleanup(t.CloseIdleConnections)
	return &browser{&http.Client{Transport: t, Jar: jar}, h}
}

// as is a browser that is known as a user at the job's application.
func (h *harness) known(user string, a address.App) *browser {
	h.t.Helper()
	b := h.browser()
	row := h.session(user)
	to, _, err := h.tickets.URL(row.User, row.ID, a, "/")
	if err != nil {
		h.t.Fatal(err)
	}
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.get(to)
	b.CheckRedirect = nil
	return b
}

type answer struct {
	*http.Response
	body string
}

func (b *browser) get(to string) answer {
	b.h.t.Helper()
	return b.send(b.request("GET", to, nil))
}

// request is a navigation, as browsers send it.
func (b *browser) request(method, to string, body io.Reader) *http.Request {
	b.h.t.Helper()
	r, err := http.NewRequest(method, to, body)
	if err != nil {
		b.h.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	return r
}

func (b *browser) send(r *http.Request) answer {
	b.h.t.Helper()
	got, err := b.Do(r)
	if err != nil {
		b.h.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		b.h.t.Fatal(err)
	}
	return answer{got, string(text)}
}

// form sends a form from a page of an origin.
func (b *browser) form(to, origin string, fields url.Values) answer {
	b.h.t.Helper()
	r := b.request("POST", to, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", origin)
	return b.send(r)
}

func lab(h *harness) address.App { return address.App{Job: h.job} }
