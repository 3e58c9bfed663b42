package sshgate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/sshkey"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

const hour = int64(time.Hour)

// machine is an engine that runs what it is told here, without any container.
type machine struct {
	mu     sync.Mutex
	asked  []engine.ExecRequest
	dialed []uint16
	exec   func(ctx context.Context, step engine.StepID, req engine.ExecRequest) (int, error) // nil: it is run
}

func (m *machine) Exec(ctx context.Context, step engine.StepID, req engine.ExecRequest) (int, error) {
	m.mu.Lock()
	m.asked = append(m.asked, req)
	run := m.exec
	m.mu.Unlock()
	if req.SFTP {
		req.Command = []string{os.Args[0]}
		run = runHere
	}
	if run == nil {
		run = runHere
	}
	return run(ctx, step, req)
}

// Dial reaches what listens on this machine's loopback, in place of a job's.
func (m *machine) Dial(ctx context.Context, step engine.StepID, port uint16) (net.Conn, error) {
	m.mu.Lock()
	m.dialed = append(m.dialed, port)
	m.mu.Unlock()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, &engine.DialError{Port: port, Message: engine.NothingListens}
	}
	return c, nil
}

// Listen listens on it.
func (m *machine) Listen(ctx context.Context, step engine.StepID, port uint16) (net.Listener, error) {
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, &engine.ListenError{Port: port, Message: engine.PortTaken}
	}
	return ln, nil
}

func (m *machine) set(f func(ctx context.Context, step engine.StepID, req engine.ExecRequest) (int, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exec = f
}

// runHere runs a command as an engine does: what it reads may go on coming after its end.
func runHere(ctx context.Context, _ engine.StepID, req engine.ExecRequest) (int, error) {
	cmd := exec.CommandContext(ctx, req.Command[0], req.Command[1:]...)
	cmd.Env = append(os.Environ(), "SHELL=/bin/sh")
	if req.SFTP {
		cmd.Env = append(cmd.Env, "CROFT_TEST_SFTP=1")
	}
	cmd.Stdout, cmd.Stderr = req.Stdout, req.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		var buf [32 << 10]byte
		for {
			n, err := req.Stdin.Read(buf[:])
			if n > 0 {
				if _, err := in.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				in.Close()
				return
			}
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.As(err, &exit):
		if exit.ExitCode() < 0 {
			return 128 + 9, nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

// harness is a gate on a real sequencer and a real database, with one machine and a clock
// that is set by hand. Of nlp are ada, who has a key, and mia.
type harness struct {
	testing.TB
	db      *store.Store
	seq     *sequencer.Sequencer
	reader  *query.Reader
	gate    *Server
	engine  *machine
	addr    string
	keys    string // the host keys' folder
	now     atomic.Int64
	present *presence.Registry
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	h := &harness{TB: t, engine: &machine{}, keys: t.TempDir()}
	h.now.Store(time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC).UnixNano())
	ctx, cancel := context.WithCancel(context.Background())
	db, err := store.Open(ctx, store.Config{Path: filepath.Join(t.TempDir(), "croft.db")})
	if err != nil {
		t.Fatal(err)
	}
	h.db = db
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
		if err := errors.Join(<-done, db.Close()); err != nil {
			t.Error(err)
		}
	})
	h.reader = query.New(query.Deps{Worlds: h.seq, History: db, Now: h.now.Load, Server: query.Server{Version: "test", Engine: "sim"}})
	h.present = presence.New(h.now.Load)
	h.furnish()
	h.open()
	return h
}

// open starts the gate, with the host keys that are there.
func (h *harness) open() {
	h.Helper()
	keys, err := LoadHostKeys(h.keys)
	if err != nil {
		h.Fatal(err)
	}
	h.gate, err = New(Deps{Sequencer: h.seq, Reader: h.reader, Engine: h.engine, HostKeys: keys, Presence: h.present, Now: h.now.Load})
	if err != nil {
		h.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.Fatal(err)
	}
	h.addr = ln.Addr().String()
	gate, served := h.gate, make(chan error, 1)
	go func() { served <- gate.Serve(ln) }()
	h.Cleanup(func() {
		gate.Close()
		if err := <-served; err != nil {
			h.Error(err)
		}
	})
}

func (h *harness) furnish() {
	h.system(command.SitePut{
		Site:       world.Site{Instance: "0a1b2c3d-test", PlanDepth: 50, MountRoots: []string{"~"}, MaxGrace: hour, DefCPU: 1000, DefMem: 1 << 30, DefWall: hour},
		Partitions: []catalog.Partition{{Name: "main", Default: true, DefWall: hour, MaxWall: 48 * hour}},
		QoS:        []catalog.QoS{{Name: "normal", Default: true, Factor: 1000}},
	})
	h.system(command.InventoryObserved{Nodes: []placement.Node{{Name: "gpu1", CPU: 64000, Memory: 512 << 30, Ready: true}}})
	h.system(command.AccountPut{Create: true, Name: "nlp"})
	for _, name := range []string{"ada", "mia"} {
		h.system(command.UserPut{Create: true, Name: name})
		h.system(command.MemberPut{Account: "nlp", User: name, Role: "member"})
	}
	h.register("ada", 1)
}

// signer is the private half of the n-th key.
func signer(n int) ssh.Signer {
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(n)}, ed25519.SeedSize)))
	if err != nil {
		panic(err)
	}
	return s
}

// register makes the n-th key one of a user's, and returns its fingerprint.
func (h *harness) register(user string, n int) string {
	h.Helper()
	key, err := sshkey.Parse(string(ssh.MarshalAuthorizedKey(signer(n).PublicKey())))
	if err != nil {
		h.Fatal(err)
	}
	h.as(user, command.SSHKeyAdd{User: user, Fingerprint: key.Fingerprint, Type: key.Type, Blob: key.Blob, Name: "test"})
	return key.Fingerprint
}

func (h *harness) system(cmd world.Command) sequencer.Answer {
	h.Helper()
	return h.do(sequencer.Actor{System: true}, cmd)
}

func (h *harness) as(user string, cmd world.Command) sequencer.Answer {
	h.Helper()
	u, _ := h.seq.World().Tenancy.User(user)
	return h.do(sequencer.Actor{User: u.ID}, cmd)
}

func (h *harness) do(a sequencer.Actor, cmd world.Command) sequencer.Answer {
	h.Helper()
	got, err := h.seq.Do(context.Background(), a, cmd, sequencer.Key{})
	if err != nil {
		h.Fatalf("%s: %v", cmd.Kind(), err)
	}
	return got
}

// submit gives a user a job that waits.
func (h *harness) submit(user, name string) id.Job {
	h.Helper()
	h.as(user, command.Submit{Spec: workload.Spec{Name: name, Kind: workload.KindContainer, Account: "nlp", Image: "train:1", CPU: 1000, Mem: 1 << 30, Time: hour, Pull: "missing"}})
	var last id.Job
	for k := range h.seq.World().Workload.Jobs.All() {
		last = k
	}
	return last
}

// run gives a user a job that runs.
func (h *harness) run(user, name string) id.Job {
	h.Helper()
	k := h.submit(user, name)
	h.system(command.JobStart{Job: k, Image: "sha256:1"})
	j, _ := h.seq.World().Workload.Jobs.Get(k)
	h.system(command.JobObserved{Job: k, N: j.Attempt.N, Running: true, Started: h.now.Load()})
	return k
}

// end lets a job's program exit.
func (h *harness) end(k id.Job) {
	h.Helper()
	j, _ := h.seq.World().Workload.Jobs.Get(k)
	h.system(command.JobObserved{Job: k, N: j.Attempt.N, Exited: true, Finished: h.now.Load()})
}

// dial logs in with the n-th key.
func (h *harness) dial(user string, n int) (*ssh.Client, string, error) {
	var banner string
	c, err := ssh.Dial("tcp", h.addr, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer(n))}, Timeout: 10 * time.Second,
		HostKeyCallback: ssh.FixedHostKey(h.gate.HostKeys[0].PublicKey()), HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
		BannerCallback: func(text string) error { banner += text; return nil },
	})
	return c, banner, err
}

// login is dial where it succeeds.
func (h *harness) login(user string, n int) *ssh.Client {
	h.Helper()
	c, banner, err := h.dial(user, n)
	if err != nil {
		h.Fatalf("%v (%s)", err, banner)
	}
	h.Cleanup(func() { c.Close() })
	return c
}

func (h *harness) session(c *ssh.Client) *ssh.Session {
	h.Helper()
	s, err := c.NewSession()
	if err != nil {
		h.Fatal(err)
	}
	return s
}

// eventually waits until ok returns true.
func (h *harness) eventually(what string, ok func() bool) {
	h.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			h.Fatalf("waited for %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// last is what the engine was asked last.
func (m *machine) last() engine.ExecRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[len(m.asked)-1]
}

// messages are those of the log, the oldest first.
func (h *harness) messages() []string {
	h.Helper()
	rows, err := h.db.Log(context.Background(), store.LogFilter{}, 1000)
	if err != nil {
		h.Fatal(err)
	}
	var out []string
	for _, e := range rows {
		out = append(out, e.Event.Message)
	}
	return out
}

// job is the one of a name that runs.
func (h *harness) job(name string) *workload.Job {
	h.Helper()
	for _, j := range h.seq.World().Workload.Jobs.All() {
		if j.Spec.Name == name {
			return j
		}
	}
	h.Fatalf("no job %s", name)
	return nil
}
