package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/loop/notify"
	"croft.dev/croft/internal/mail"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/storetest"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
	"croft.dev/croft/test/mailbox"
)

var postgres storetest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	postgres.Stop()
	os.Exit(code)
}

const hour = int64(time.Hour)

// onBoth runs a test on either database.
func onBoth(t *testing.T, do func(t *testing.T, cfg store.Config)) {
	t.Run("sqlite", func(t *testing.T) { do(t, store.Config{Path: filepath.Join(t.TempDir(), "croft.db")}) })
	t.Run("postgres", func(t *testing.T) { do(t, store.Config{DSN: postgres.DSN(t)}) })
}

// site is a server with a clock that is set by hand, and a mail server beside it.
type site struct {
	t    *testing.T
	db   *store.Store
	seq  *sequencer.Sequencer
	now  atomic.Int64
	halt func()
	log  bytes.Buffer

	loop   *notify.Loop
	outbox notify.Outbox
	poster *notify.Poster
	hosts  []string // that hooks may be on

	mu    sync.Mutex
	down  bool               // the mail server isn't there
	rcpt  func(string) error // what it says to an address
	taken func() error       // and once it has kept a mail
	box   *mailbox.Server
	send  *mail.Sender
}

func newSite(t *testing.T, cfg store.Config) *site {
	t.Helper()
	s := &site{t: t}
	s.now.Store(time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC).UnixNano())
	var err error
	if s.db, err = store.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	s.outbox = s.db
	s.begin()
	s.post()
	t.Cleanup(func() {
		s.halt()
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	role, enforce := "admin", "enforce"
	s.settle(idle.Policy{})
	inv := command.InventoryObserved{Nodes: []placement.Node{{Name: "gpu1", CPU: 64000, Memory: 512 << 30, Ready: true}}}
	s.do(0, inv)
	s.do(0, command.UserPut{Create: true, Name: "root", Role: &role})
	s.do(0, command.PricePut{CPU: 1_000_000})
	s.do(0, command.AccountPut{Create: true, Name: "nlp", Billing: &enforce})
	for _, name := range []string{"ada", "mia"} {
		s.do(0, command.UserPut{Create: true, Name: name})
		address := name + "@example.org"
		s.do(0, command.ContactPut{User: name, Address: &address})
	}
	s.do(0, command.MemberPut{Account: "nlp", User: "ada", Role: "member"})
	s.do(0, command.MemberPut{Account: "nlp", User: "mia", Role: "owner"})
	s.do(0, command.GrantGive{Account: "nlp", Amount: 100 * money.Credit, Source: "DFG-123"})
	s.restart()
	return s
}

// settle says how the site is set up, with a policy for what is idle.
func (s *site) settle(policy idle.Policy) {
	s.do(0, command.SitePut{
		Site: world.Site{
			Idle:     []idle.Policy{policy},
			Instance: "0a1b2c3d-test", PlanDepth: 50, MaxGrace: hour, DefCPU: 1000, DefMem: 1 << 30, DefWall: hour, HostPrograms: true,
			Mail: notice.Rules{On: true, Domains: []string{"example.org"}}, Hooks: notice.HookRules{Hosts: s.hosts},
		},
		Partitions: []catalog.Partition{{Name: "main", Default: true, DefWall: hour}},
		QoS:        []catalog.QoS{{Name: "normal", Default: true, Factor: 1000}},
	})
}

// begin has a sequencer go on with what the database has.
func (s *site) begin() {
	s.t.Helper()
	w := world.New()
	head, err := s.db.Load(context.Background(), func(c world.Change) { w.Fold([]world.Change{c}) })
	if err != nil {
		s.t.Fatal(err)
	}
	s.seq = sequencer.New(sequencer.Config{World: w, Head: head, Store: s.db, Clock: s.now.Load})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.seq.Run(ctx) }()
	s.halt = func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
}

// post puts the mail server up.
func (s *site) post() {
	s.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.box = mailbox.Serve(ln, mailbox.Config{
		Rcpt: func(to string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.rcpt == nil {
				return nil
			}
			return s.rcpt(to)
		},
		Taken: func(mailbox.Mail) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.taken == nil {
				return nil
			}
			return s.taken()
		},
	})
	s.t.Cleanup(func() { _ = s.box.Close() })
	s.send, err = mail.New(mail.Config{Host: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port, TLS: mail.Plain, From: "croft@example.org", Helo: "localhost"})
	if err != nil {
		s.t.Fatal(err)
	}
}

// restart gives the server a new loop, as it has after kill -9: of the one before nothing is
// left but rows.
func (s *site) restart() { s.loop = notify.New(s.config()) }

func (s *site) config() notify.Config {
	return notify.Config{
		Port: s, Outbox: s.outbox, Open: s.open, Instance: "0a1b2c3d-test", Server: "https://croft.example.org", Zone: time.UTC,
		Keep: 5 * 24 * time.Hour, PerHour: 100, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
	}
}

func (s *site) open(ctx context.Context) (notify.Session, error) {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	c, err := s.send.Open(ctx)
	if err != nil {
		return nil, err
	}
	return session{c}, nil
}

type session struct{ *mail.Session }

func (c session) Send(m notify.Mail) error {
	err := c.Session.Send(mail.Message{ID: m.ID, To: m.To, Subject: m.Subject, Body: m.Body, At: m.At})
	var no *mail.Refused
	if errors.As(err, &no) {
		return &notify.Refusal{Never: no.Never, Code: no.Code, Err: err}
	}
	return err
}

// World, Changed, Now and Command implement loop.Port.
func (s *site) World() *world.World      { return s.seq.World() }
func (s *site) Changed() <-chan struct{} { return s.seq.Watch() }
func (s *site) Now() (int64, bool)       { return max(s.now.Load(), s.seq.World().Now), true }
func (s *site) Command(ctx context.Context, cmd world.Command) (any, error) {
	a, err := s.seq.Do(ctx, sequencer.Actor{System: true}, cmd, sequencer.Key{})
	return a.Result, err
}

// do has a command decided for a user; 0 is the server itself.
func (s *site) do(user id.User, cmd world.Command) any {
	s.t.Helper()
	got, err := s.seq.Do(context.Background(), sequencer.Actor{User: user, System: user == 0}, cmd, sequencer.Key{})
	if err != nil {
		s.t.Fatalf("%s: %v", cmd.Kind(), err)
	}
	return got.Result
}

func (s *site) user(name string) id.User {
	u, _ := s.World().Tenancy.User(name)
	return u.ID
}

// once lets the loop look once; whether it failed is for the test.
func (s *site) once() error {
	s.t.Helper()
	return s.loop.Once(s.t.Context())
}

// look lets it look, and time pass by a second.
func (s *site) look() {
	s.t.Helper()
	s.now.Add(1e9)
	if err := s.once(); err != nil {
		s.t.Fatal(err)
	}
}

// submit has ada submit a job, which change may change.
func (s *site) submit(change ...func(*workload.Spec)) id.Job {
	s.t.Helper()
	spec := workload.Spec{Name: "train", Kind: workload.KindContainer, Image: "a:1", Command: []string{"secret-command"}, Env: map[string]string{"KEY": "secret-value"}, CPU: 1000, Mem: 1 << 30, Time: hour, Mail: "end"}
	for _, f := range change {
		f(&spec)
	}
	return s.do(s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job.ID
}

// run lets a job begin.
func (s *site) run(k id.Job, n int32) {
	s.t.Helper()
	s.do(0, command.JobStart{Job: k})
	s.now.Add(3e9)
	s.do(0, command.JobObserved{Job: k, N: n, Running: true, Started: s.now.Load() - 1e9})
}

// exit lets a job end with a code.
func (s *site) exit(k id.Job, n, code int32) {
	s.t.Helper()
	s.now.Add(60e9)
	s.do(0, command.JobObserved{Job: k, N: n, Exited: true, ExitCode: code, Finished: s.now.Load() - 5e8})
}

// ends lets ada have a job that ends with a code.
func (s *site) ends(code int32, change ...func(*workload.Spec)) id.Job {
	s.t.Helper()
	k := s.submit(change...)
	s.run(k, 1)
	s.exit(k, 1, code)
	return k
}

// rows are the notices, the oldest first, as "name state tries".
func (s *site) rows() (out []string) {
	s.t.Helper()
	all, err := s.db.Notices(s.t.Context(), store.NoticeFilter{}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, n := range all {
		out = append([]string{fmt.Sprintf("%s %s %d", n.Name, n.State, n.Tries)}, out...)
	}
	return out
}

func sqlite(t *testing.T) store.Config {
	return store.Config{Path: filepath.Join(t.TempDir(), "croft.db")}
}

func with(c notify.Config, change func(*notify.Config)) notify.Config {
	change(&c)
	return c
}
