package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/password"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/quota"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

const hour = int64(time.Hour)

// harness is a server on a real sequencer and a real SQLite database, with an
// engine of the test's own and a clock that is set by hand.
type harness struct {
	t       testing.TB
	seq     *sequencer.Sequencer
	reader  *query.Reader
	server  *Server
	web     *httptest.Server
	engine  *fakeEngine
	people  *fakePeople
	storage *fakeStorage
	now     atomic.Int64
	tokens  map[string]string // by user
}

type fakeEngine struct {
	removed   []string
	logs      func(ctx context.Context, a engine.StepID, o engine.LogOptions, w engine.LogWriter) error
	exec      func(ctx context.Context, a engine.StepID, req engine.ExecRequest) (int, error)
	terminals func(ctx context.Context, a engine.StepID, start bool) (io.ReadWriteCloser, error)
	join      func(ctx context.Context, a engine.StepID, req engine.AttachRequest) error
}

func (e *fakeEngine) Logs(ctx context.Context, a engine.StepID, o engine.LogOptions, w engine.LogWriter) error {
	return e.logs(ctx, a, o, w)
}

func (e *fakeEngine) Exec(ctx context.Context, a engine.StepID, req engine.ExecRequest) (int, error) {
	return e.exec(ctx, a, req)
}

func (e *fakeEngine) Attach(ctx context.Context, a engine.StepID, req engine.AttachRequest) error {
	return e.join(ctx, a, req)
}

func (e *fakeEngine) Terminals(ctx context.Context, a engine.StepID, start bool) (io.ReadWriteCloser, error) {
	return e.terminals(ctx, a, start)
}

// Volumes has one of ada's, who is 1001, that is in use, and any number that aren't.
func (e *fakeEngine) Volumes(_ context.Context, uid int64) ([]engine.Volume, error) {
	return []engine.Volume{{Name: "cache", Size: 4096}, {Name: "used", Size: 1 << 20, InUse: true}}, nil
}

func (e *fakeEngine) RemoveVolume(_ context.Context, uid int64, name string) error {
	e.removed = append(e.removed, fmt.Sprint(uid, "/", name))
	return nil
}

type fakePeople struct {
	names map[int64]string
	known map[string]Person
	err   error
	asked func() // during each Lookup; nil: nothing happens
}

func (p *fakePeople) NameOf(_ context.Context, uid int64) (string, error) {
	return p.names[uid], p.err
}

func (p *fakePeople) Lookup(_ context.Context, name string) (Person, bool, error) {
	if p.asked != nil {
		p.asked()
	}
	who, ok := p.known[name]
	return who, ok, p.err
}

// newHarness is a machine with four devices, 64 cores and 512 GiB; an enforcing
// account nlp with 500 credits, ada its member, mia its manager; vision below it,
// with ben; and olga the operator, otto the auditor, root the admin, zoe nobody.
func newHarness(t testing.TB) *harness {
	t.Helper()
	h := &harness{t: t, storage: &fakeStorage{uses: map[string]quota.Use{}}, engine: &fakeEngine{}, people: &fakePeople{names: map[int64]string{}, known: map[string]Person{}}, tokens: map[string]string{}}
	h.now.Store(time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC).UnixNano())
	ctx, cancel := context.WithCancel(context.Background())
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
	done := make(chan error, 1)
	go func() { done <- h.seq.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	h.reader = query.New(query.Deps{Worlds: h.seq, History: db, Now: h.now.Load, Server: query.Server{Version: "test", Engine: "sim"}})
	hasher, err := password.New(password.Config{Params: password.Params{Memory: 64, Time: 1, Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	h.server, err = New(Deps{
		Sequencer: h.seq, Reader: h.reader, Engine: h.engine, People: h.people, Now: h.now.Load,
		Login:      Login{Hasher: hasher, Session: 7 * 24 * time.Hour, Idle: 24 * time.Hour, Forwarded: true},
		Registries: fakeRegistries{}, Hooks: fakeHooks{}, Storage: h.storage, Presence: presence.New(h.now.Load), SSH: fakeSSH{h},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.server.recheck = 5 * time.Millisecond
	h.web = httptest.NewUnstartedServer(h.server.Handler())
	h.web.Config = h.server.HTTP(nil)
	h.web.Start()
	t.Cleanup(func() { h.server.Close(); h.web.Close() })
	h.furnish()
	return h
}

func (h *harness) furnish() {
	h.site(func(s *world.Site) {
		*s = world.Site{Instance: "0a1b2c3d-test", PlanDepth: 50, MountRoots: []string{"~"}, MaxGrace: hour, DefCPU: 1000, DefMem: 1 << 30, DefWall: hour, UserImages: 1 << 30, Apps: world.Apps{Shared: true, Pages: true}, Hooks: notice.HookRules{Hosts: []string{"bot.example.org"}}}
	})
	inv := command.InventoryObserved{Nodes: []placement.Node{{Name: "gpu1", CPU: 64000, Memory: 512 << 30, Ready: true}}}
	for i := range 4 {
		inv.Devices = append(inv.Devices, placement.Device{
			UUID: fmt.Sprintf("SIM-%d", i), Node: "gpu1", Index: i, Name: fmt.Sprintf("gpu%d", i), Model: "a100", Healthy: true,
		})
	}
	h.system(inv)
	for _, u := range []struct{ name, role string }{
		{"root", "admin"}, {"olga", "operator"}, {"otto", "auditor"}, {"ada", "user"}, {"mia", "user"}, {"ben", "user"}, {"zoe", "user"},
	} {
		h.system(command.UserPut{Create: true, Name: u.name, Role: &u.role})
		h.tokens[u.name] = h.token(u.name, 0)
	}
	enforce := "enforce"
	h.as("root", command.PricePut{CPU: 10_000, Mem: 1_000, Devices: []catalog.ModelRate{{Model: "a100", Rate: money.Rate(money.Credit)}}})
	h.as("root", command.AccountPut{Create: true, Name: "nlp", Billing: &enforce})
	h.as("root", command.AccountPut{Create: true, Name: "vision", Parent: "nlp"})
	h.as("root", command.MemberPut{Account: "nlp", User: "ada", Role: "member"})
	h.as("root", command.MemberPut{Account: "nlp", User: "mia", Role: "manager"})
	h.as("root", command.MemberPut{Account: "vision", User: "ben", Role: "member"})
	h.as("root", command.GrantGive{Account: "nlp", Amount: 500 * money.Credit, Source: "DFG-123"})
}

// site changes what the site says.
func (h *harness) site(change func(*world.Site)) {
	h.t.Helper()
	site := h.seq.World().Site
	change(&site)
	h.system(command.SitePut{
		Site:       site,
		Partitions: []catalog.Partition{{Name: "main", Default: true, DefWall: hour, MaxWall: 48 * hour}},
		QoS:        []catalog.QoS{{Name: "normal", Default: true, Factor: 1000}},
	})
}

// token makes a personal token of a user; expires in ns, 0 never.
func (h *harness) token(user string, expires int64) string {
	h.t.Helper()
	secret, err := newToken(rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	h.system(command.TokenPut{User: user, Name: "test", Hash: hashToken(secret), Expires: expires})
	return secret
}

// secret is what a user's password is in tests.
func secret(user string) string { return "correct horse of " + user[:1] }

// password gives a user one.
func (h *harness) password(user string) {
	h.t.Helper()
	kept, err := h.server.Login.Hasher.Hash(context.Background(), secret(user))
	if err != nil {
		h.t.Fatal(err)
	}
	h.system(command.PasswordPut{User: user, Hash: kept})
}

// login opens a session and lets requests of the name as be sent with it.
func (h *harness) login(user, as string) v1.Session {
	h.t.Helper()
	s := get[v1.Session](h, 201, request{method: "POST", path: "/v1/login", body: v1.LoginRequest{User: user, Password: secret(user), Name: as}})
	h.tokens[as] = s.Secret
	return s
}

func (h *harness) system(cmd world.Command) sequencer.Answer {
	h.t.Helper()
	got, err := h.seq.Do(context.Background(), sequencer.Actor{System: true}, cmd, sequencer.Key{})
	if err != nil {
		h.t.Fatalf("%s: %v", cmd.Kind(), err)
	}
	return got
}

func (h *harness) as(user string, cmd world.Command) sequencer.Answer {
	h.t.Helper()
	u, _ := h.seq.World().Tenancy.User(user)
	got, err := h.seq.Do(context.Background(), sequencer.Actor{User: u.ID}, cmd, sequencer.Key{})
	if err != nil {
		h.t.Fatalf("%s: %v", cmd.Kind(), err)
	}
	return got
}

// start gives a queued job its devices and lets its program begin.
func (h *harness) start(job string) {
	h.t.Helper()
	k, _ := id.ParseJob(job)
	h.system(command.JobStart{Job: k, Image: "sha256:1"})
	j, ok := h.seq.World().Workload.Jobs.Get(k)
	if !ok || j.State != "starting" {
		h.t.Fatalf("job %s didn't start", job)
	}
	h.system(command.JobObserved{Job: k, N: j.Attempt.N, Running: true, Started: h.now.Load()})
}

// end lets a job's program exit.
func (h *harness) end(job string, code int32) {
	h.t.Helper()
	k, _ := id.ParseJob(job)
	j, _ := h.seq.World().Workload.Jobs.Get(k)
	h.system(command.JobObserved{Job: k, N: j.Attempt.N, Exited: true, Finished: h.now.Load(), ExitCode: code})
}

// pass moves the clock.
func (h *harness) pass(d time.Duration) { h.now.Add(int64(d)) }

// request is what a test sends.
type request struct {
	method, path, user string
	body               any // a string is sent as it is
	header             map[string]string
}

type answer struct {
	status int
	body   []byte
	header http.Header
}

func (h *harness) send(r request) answer {
	h.t.Helper()
	var body io.Reader
	switch b := r.body.(type) {
	case nil:
	case string:
		body = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			h.t.Fatal(err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequest(r.method, h.web.URL+r.path, body)
	if err != nil {
		h.t.Fatal(err)
	}
	if r.user != "" {
		req.Header.Set("Authorization", "Bearer "+h.tokens[r.user])
	}
	for k, v := range r.header {
		if k == "Host" {
			req.Host = v
		}
		req.Header.Set(k, v)
	}
	resp, err := h.web.Client().Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer{resp.StatusCode, text, resp.Header}
}

// get decodes an answer that must have the status.
func get[T any](h *harness, status int, r request) T {
	h.t.Helper()
	a := h.send(r)
	var out T
	if a.status != status {
		h.t.Fatalf("%s %s as %q: status %d, want %d: %s", r.method, r.path, r.user, a.status, status, a.body)
	}
	if err := json.Unmarshal(a.body, &out); err != nil {
		h.t.Fatal(err)
	}
	return out
}

// example is the job of the README.
func example() v1.JobSpec {
	return v1.JobSpec{Image: "train:1", Command: []string{"python", "train.py"}, Account: "nlp", GPU: "1", CPU: "8", Mem: "64G", Time: "2h"}
}

// submit submits the example as a user and returns its id.
func (h *harness) submit(user string) string {
	h.t.Helper()
	spec := example()
	if user == "ben" {
		spec.Account = "vision"
	}
	return get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: user, body: spec}).ID
}

func (h *harness) parse(spec v1.JobSpec) (workload.Spec, error) {
	return workload.Parse(spec, h.reader.Defaults())
}

// readerOn is a reader of other worlds with the same history.
func (h *harness) readerOn(w query.Worlds) *query.Reader {
	d := h.reader.Deps
	d.Worlds = w
	return query.New(d)
}
