package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/gateway"
	"croft.dev/croft/internal/httpapi"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/mail"
	"croft.dev/croft/internal/people"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/sshgate"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/version"
	"croft.dev/croft/internal/world"
)

// Options of a server. InitPath is the croft-init binary; Confirm, when it yields,
// declares the machine's clock right.
type Options struct {
	Config   config.Config
	InitPath string
	Confirm  <-chan os.Signal
	Log      *slog.Logger
	// Ready, if set, is called once the server answers on its socket.
	Ready func(socket, http string)
}

// server is the parts of a running server.
type server struct {
	Options
	store   *store.Store
	head    store.Head
	clock   *worldClock
	seq     *sequencer.Sequencer
	port    port
	machine machine
	link    *link
	loops   *loops
	api     *httpapi.Server
	gate    *sshgate.Server
	metrics *httpapi.Metrics
	hubs    *registries
	post    *mail.Sender // nil: no mail is sent
	hooks   *hooks       // nil: nothing is posted anywhere

	site     address.Site
	tickets  *gateway.Tickets
	presence *presence.Registry
	web      *gateway.Server
	started  time.Time
}

// Run serves until ctx ends, then stops gracefully: no new commands, those under
// way are finished. Containers run on. The error is a *fault.Error when the
// configuration or the machine is to blame.
func Run(ctx context.Context, o Options) error {
	s := &server{Options: o, started: time.Now(), machine: machine{people.New(people.Config{})}}
	if err := s.open(ctx); err != nil {
		return err
	}
	defer func() {
		if err := s.store.Close(); err != nil {
			s.Log.Error("closing the database", "error", err)
		}
	}()
	return s.run(ctx)
}

// open makes the data directory, opens the store and loads the world.
func (s *server) open(ctx context.Context) error {
	if s.Config.Engine.Kind == config.EngineCRI {
		if err := checkSubids(ctx, subidsOf(s.Config.Subids), subidFiles, s.machine, s.Log); err != nil {
			return err
		}
	}
	for _, d := range []string{"", "logs", "state", "cdi"} {
		// others may pass through: a job's user owns what lies deeper
		if err := os.MkdirAll(s.in(d), 0o711); err != nil {
			return fmt.Errorf("making the data directory: %w", err)
		}
	}
	db, err := databaseOf(s.Config.Database)
	if err != nil {
		return err
	}
	if s.store, err = store.Open(ctx, db); err != nil {
		return storeError(err)
	}
	w := world.New()
	if s.head, err = s.store.Load(ctx, func(c world.Change) { w.Fold([]world.Change{c}) }); err != nil {
		return errors.Join(storeError(err), s.store.Close())
	}
	if s.hubs, err = newRegistries(s.Config); err != nil {
		return errors.Join(err, s.store.Close())
	}
	if s.post, err = s.newPost(); err != nil {
		return errors.Join(err, s.store.Close())
	}
	if s.hooks, err = newHooks(s.Config.Notify.Webhook, s.hubs.key); err != nil {
		return errors.Join(err, s.store.Close())
	}
	s.clock = newWorldClock(s.head.At)
	s.presence = presence.New(s.clock.Nanos)
	dead, err := os.OpenFile(s.in("dead-letters.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Join(err, s.store.Close())
	}
	s.metrics = nil
	s.seq = sequencer.New(sequencer.Config{World: w, Head: s.head, Store: s.timed(), Clock: s.clock.Nanos, Logger: s.Log, DeadLetters: dead})
	s.port = port{s.seq, s.clock}
	s.metrics = httpapi.NewMetrics(s.seq, s.runtime)
	s.Log.Info("world loaded", "seq", s.head.Seq, "jobs", w.Workload.Jobs.Len(), "instance", s.head.Instance)
	return nil
}

func (s *server) in(name string) string { return filepath.Join(string(s.Config.Data), name) }

// run starts the parts in the order in which they need each other, and stops them
// in the reverse order.
func (s *server) run(ctx context.Context) error {
	var wg sync.WaitGroup
	seqCtx, stopSeq := context.WithCancel(context.WithoutCancel(ctx))
	seqErr := make(chan error, 1)
	wg.Go(func() { seqErr <- s.seq.Run(seqCtx) })
	defer wg.Wait()
	defer stopSeq()
	if err := settle(ctx, s.port, s.machine, s.Config, s.head.Instance); err != nil {
		return err
	}
	// before the loops: a server that can't be reached changes nothing
	at, err := s.listen()
	if err != nil {
		return err
	}
	if s.site, err = addressOf(s.Config, at.http); err == nil {
		err = s.build(ctx)
	}
	if err != nil {
		return errors.Join(err, at.close())
	}
	if at.ssh != nil {
		s.gate.At(at.ssh.Addr())
	}
	webCtx, stopWeb := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() { s.web.Run(webCtx) })
	defer stopWeb()
	loopCtx, stopLoops := context.WithCancel(ctx)
	loopsDone := make(chan struct{})
	go func() {
		defer close(loopsDone)
		s.loops.run(loopCtx)
	}()
	err = s.serve(ctx, at, seqErr, stopLoops)
	<-loopsDone
	return errors.Join(err, s.link.Close())
}

// build makes the engine's link, the loops and the API.
func (s *server) build(ctx context.Context) error {
	var err error
	if s.link, err = s.newLink(ctx); err != nil {
		return err
	}
	s.tickets = gateway.NewTickets(s.site, s.clock.Nanos)
	s.loops = s.newLoops()
	login, err := loginOf(s.Config.Login)
	if err != nil {
		return err
	}
	reader := query.New(query.Deps{Worlds: s.seq, History: s.store, Now: s.clock.Nanos, Server: query.Server{
		Version: version.Version, Engine: s.Config.Engine.Kind, Started: s.started,
		Runtime: s.runtime, Clock: s.clock.Words, Progress: s.loops.progress, Coming: s.loops.images.Coming, StepProgress: s.loops.images.StepProgress, Kept: s.loops.kept, Usage: s.loops.usage.Book, Idle: s.loops.idle.Verdict,
		AppURL: s.appURL,
	}})
	keys, err := sshgate.LoadHostKeys(string(s.Config.Data))
	if err != nil {
		return err
	}
	s.gate, err = sshgate.New(sshgate.Deps{Sequencer: s.seq, Reader: reader, Engine: s.link, HostKeys: keys, Host: publicHost(s.Config.PublicURL), Presence: s.presence, Now: s.clock.Nanos, Logger: s.Log})
	if err != nil {
		return err
	}
	templates, err := templatesOf(s.Config)
	if err != nil {
		return err
	}
	s.api, err = httpapi.New(httpapi.Deps{
		Sequencer: s.seq, Reader: reader, Engine: s.link, People: s.people(), Now: s.clock.Nanos, Logger: s.Log, Metrics: s.metrics,
		Presence: s.presence, Ready: s.checks(), Reused: s.loops.reused, Hosts: s.hosts(), Login: login, Templates: templates, Storage: s.storage(), Registries: s.hubs, Hooks: s.hooksAPI(), Queues: s.queuesAPI(), Apps: s.tickets, SSH: s.gate, Saving: s.loops.saver.Progress,
	})
	if err != nil {
		return err
	}
	s.web, err = s.newGateway()
	return err
}

// appURL is where a browser that is logged in gets to an application; empty: nowhere.
func (s *server) appURL(job id.Job, app, page string) string {
	if s.site.None() {
		return ""
	}
	return s.site.URL(address.App{Job: job, Name: app}.OpenPath(page))
}

// publicHost is the host of the URL by which people reach the server.
func publicHost(public string) string {
	u, err := url.Parse(public)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// runtime says whether the container runtime answers.
func (s *server) runtime() (bool, string) {
	if s.link == nil || s.loops == nil {
		return false, "not connected yet"
	}
	if _, err := s.link.get(); err != nil {
		return false, s.link.what + " isn't reachable"
	}
	if err := s.loops.runner.Lost(); err != nil {
		return false, "contact with " + s.link.what + " is lost"
	}
	if err := s.link.failure(); err != nil {
		return false, s.link.what + " can't be kept running: the server's log says why"
	}
	return true, "ok"
}

func (s *server) checks() []httpapi.Check {
	return []httpapi.Check{
		{Name: "database", OK: onceASecond(s.clock.Nanos, func(ctx context.Context) error { _, err := s.store.Head(ctx); return err })},
		{Name: "runtime", OK: func(context.Context) error {
			if ok, what := s.runtime(); !ok {
				return errors.New(what)
			}
			return nil
		}},
	}
}

// onceASecond shares f's answer for a second: anybody on the machine may ask
// whether the server is ready, and asking the database takes the writer's turn.
func onceASecond(now func() int64, f func(context.Context) error) func(context.Context) error {
	var mu sync.Mutex
	var at int64
	var last error
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if t := now(); at == 0 || t-at >= int64(time.Second) {
			at, last = t, f(ctx)
		}
		return last
	}
}
