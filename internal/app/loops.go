package app

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri"
	"croft.dev/croft/internal/engine/kube"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/loop/allowance"
	"croft.dev/croft/internal/loop/expire"
	"croft.dev/croft/internal/loop/explain"
	"croft.dev/croft/internal/loop/groups"
	"croft.dev/croft/internal/loop/idle"
	"croft.dev/croft/internal/loop/images"
	"croft.dev/croft/internal/loop/inventory"
	"croft.dev/croft/internal/loop/meter"
	"croft.dev/croft/internal/loop/notify"
	"croft.dev/croft/internal/loop/period"
	"croft.dev/croft/internal/loop/plan"
	"croft.dev/croft/internal/loop/queues"
	"croft.dev/croft/internal/loop/ready"
	"croft.dev/croft/internal/loop/renew"
	"croft.dev/croft/internal/loop/reserve"
	"croft.dev/croft/internal/loop/run"
	"croft.dev/croft/internal/loop/save"
	usageloop "croft.dev/croft/internal/loop/usage"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/usage"
	"croft.dev/croft/internal/workload"
)

// Periods of the loops that look at something outside the world.
const (
	inventoryPeriod = 5 * time.Second
	usagePeriod     = 5 * time.Second
	groupsPeriod    = time.Minute
	periodsPeriod   = 10 * time.Second
	bookingRetry    = time.Minute
	maintainPeriod  = 10 * time.Second
	resyncPeriod    = 30 * time.Second
	queuesPeriod    = 5 * time.Second
	queuesRepair    = time.Minute
	postPeriod      = time.Hour
	pullRetry       = 10 * time.Second
	pullPatience    = time.Hour
	pullTrust       = 10 * time.Minute
	parallelStarts  = 8
	parallelSaves   = 2
	saveRetry       = 10 * time.Second
	saveSweep       = 30 * time.Second
	planBudget      = 2000
)

// loops is every loop of a server.
type loops struct {
	s         *server
	images    *images.Store
	planner   *plan.Planner
	runner    *run.Runner
	inventory inventory.Loop
	expire    expire.Loop
	meter     meter.Loop
	groups    groups.Loop
	period    period.Loop
	allowance allowance.Loop
	renew     renew.Loop
	reserve   reserve.Loop
	usage     usageloop.Loop
	queues    *queues.Loop // nil: there is no batch scheduler
	ready     ready.Loop
	saver     *save.Loop
	idle      *idle.Loop
	notify    *notify.Loop
	poster    *notify.Poster
	explain   *explain.Loop
	looking   atomic.Bool // at the bindings of uids, out of turn
}

func (s *server) newLoops() *loops {
	l := &loops{s: s}
	l.images = images.New(images.Config{
		Engine: s.link, Port: s.port, Parallel: s.Config.Engine.Pulls, Retry: pullRetry, Patience: pullPatience, Trust: pullTrust, Open: s.hubs.open, Ready: func() { l.runner.Wake() }, Log: s.Log,
	})
	l.planner = plan.New(plan.Config{Port: s.port, Images: l.images, Depth: s.Config.Plan.Depth, Budget: planBudget, Window: s.window(), Passed: s.planned, Log: s.Log})
	l.runner = run.New(run.Config{
		Port: s.port, Engine: s.link, Images: l.images, People: s.people(), Instance: s.head.Instance, Resync: resyncPeriod, Parallel: parallelStarts, Patience: s.Config.Engine.Patience.Std(),
		Subids: s.subids(), Address: s.appAddress, Site: s.runSite(),
		OnEnd: l.images.Forget, OnStep: l.images.ForgetStep, Log: s.Log,
	})
	l.inventory = inventory.Loop{Port: s.port, Engine: s.link, Period: inventoryPeriod, Memory: deviceMemory(s.Config), Log: s.Log}
	l.expire = expire.Loop{Port: s.port, Log: s.Log}
	l.meter = meter.Loop{Port: s.port, Post: postPeriod, Log: s.Log}
	l.groups = groups.Loop{Port: s.port, People: s.people(), Period: groupsPeriod, Log: s.Log}
	l.reserve = reserve.Loop{Port: s.port, Retry: bookingRetry, Want: l.images.Want, Log: s.Log}
	l.saver = save.New(save.Config{Port: s.port, Engine: s.link, Instance: s.head.Instance, Parallel: parallelSaves, Retry: saveRetry, Sweep: saveSweep, Log: s.Log})
	l.allowance = allowance.Loop{Port: s.port, Log: s.Log}
	l.renew = renew.Loop{Port: s.port, Tell: s.presence.Tell, Log: s.Log}
	l.period = period.Loop{Port: s.port, Every: periodsPeriod, Log: s.Log}
	l.usage = usageloop.Loop{Port: s.port, Engine: s.link, Book: usage.NewBook(), Instance: s.head.Instance, Period: usagePeriod, Log: s.Log}
	asks := idle.Prober{Dial: s.link.Dial, Instance: s.head.Instance, Base: s.basePath}
	l.idle = idle.New(idle.Config{
		Port: s.port, Book: l.usage.Book, Period: usagePeriod, Connections: s.connections, Forget: s.presence.Keep, Activities: asks.Ask, Tell: s.presence.Tell, Log: s.Log,
	})
	l.notify, l.poster = s.newNotify(), s.newPoster()
	l.explain = &explain.Loop{Port: s.port, Keep: s.store.KeepWaits, Log: s.Log}
	l.queues = s.newQueues()
	l.ready = ready.Loop{Port: s.port, Engine: s.link, Instance: s.head.Instance, Base: s.basePath, Log: s.Log}
	return l
}

// planned tells the metrics how long a plan took.
func (s *server) planned(took time.Duration) {
	if m := s.metrics; m != nil {
		m.Planned(took)
	}
}

// runSite is what every program is given.
func (s *server) runSite() run.Site {
	e := s.Config.Engine
	site := run.Site{HTTPProxy: e.Proxy.HTTP, HTTPSProxy: e.Proxy.HTTPS, NoProxy: e.Proxy.NoProxy}
	if e.Kind == config.EngineKube {
		site.Mounts = clusterClient()
		return site
	}
	site.CAFile, site.Mounts, site.Socket = string(e.CAFile), s.client(), string(s.Config.Listen.Socket)
	return site
}

// client is croft's own program where it is installed beside croft-init; jobs get it
// in their containers.
func (s *server) client() []engine.Mount {
	path := filepath.Join(filepath.Dir(s.InitPath), "croft")
	if _, err := os.Stat(path); err != nil {
		s.Log.Warn("croft isn't installed beside croftd: batch scripts won't run", "path", path)
		return nil
	}
	return []engine.Mount{{Source: path, Target: v1.JobClient, ReadOnly: true, Site: true}}
}

// run runs all loops until ctx ends.
func (l *loops) run(ctx context.Context) {
	var wg sync.WaitGroup
	// The first connection is waited for a little: most often it is there at once,
	// and the first inventory and listing then see it.
	first, cancel := context.WithTimeout(ctx, 10*time.Second)
	if err := l.s.link.try(first); err != nil {
		l.s.Log.Warn(l.s.link.what+" isn't there yet", "error", err)
	}
	cancel()
	if l.queues != nil {
		wg.Go(func() { l.queues.Run(ctx) })
	}
	for _, f := range []func(context.Context){
		l.s.link.run, l.inventory.Run, l.runner.Run, l.planner.Run, l.expire.Run, l.meter.Run, l.groups.Run, l.period.Run, l.allowance.Run, l.renew.Run, l.reserve.Run, l.usage.Run, l.ready.Run, l.idle.Run, l.saver.Run, l.notify.Run, l.poster.Run, l.explain.Run, l.maintain, l.confirm,
	} {
		wg.Go(func() { f(ctx) })
	}
	wg.Wait()
}

// maintain lets the engine rotate logs and collect images.
func (l *loops) maintain(ctx context.Context) {
	loop.Every(ctx, l.s.Log, "maintain", maintainPeriod, func(ctx context.Context) error {
		eng, err := l.s.link.get()
		if err != nil {
			return nil // said elsewhere
		}
		switch e := eng.(type) {
		case *cri.Engine:
			return e.Maintain(ctx, l.wanted()...)
		case *kube.Engine:
			return e.Maintain(ctx)
		}
		return nil
	})
}

// wanted lists the images of the jobs that have their allocation, whose container
// may not exist yet, and of those that are next.
func (l *loops) wanted() []string {
	var refs []string
	w := l.s.seq.World()
	for _, j := range w.Workload.Active.All() {
		refs = append(refs, j.Spec.Image, j.Attempt.Image)
	}
	for _, s := range w.Workload.Steps.All() {
		refs = append(refs, s.Spec.Image, s.Image)
	}
	for ref := range w.Assets.Images.All() {
		refs = append(refs, ref)
	}
	order := w.View(w.Now).Order()
	next := func(queue string) {
		n := 0
		for j := range w.Workload.Queue(order, queue) {
			if n++; n > l.s.Config.Plan.Depth {
				break
			}
			refs = append(refs, j.Spec.Image)
		}
	}
	for name := range w.Catalog.Partitions.All() {
		next(name)
	}
	refs = append(refs, w.Placement.Images(w.Now)...)
	for _, r := range w.Placement.Reservations.All() {
		next(workload.QueueOf(r.Partition, r.ID))
	}
	return refs
}

// confirm declares the clock right when it is told to.
func (l *loops) confirm(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.s.Confirm:
			l.s.clock.Confirm()
			l.s.Log.Info("the machine's clock was confirmed", "clock", l.s.clock.Words())
		}
	}
}

// progress says how far a waiting job's image is.
func (l *loops) progress(k id.Job) string {
	j, ok := l.s.seq.World().Workload.Jobs.Get(k)
	if !ok || j.State != "queued" {
		return ""
	}
	return l.images.Progress(j)
}

// kept says what keeps an attempt from beginning where it was placed.
func (l *loops) kept(a id.Attempt) *fault.Reason {
	wait, ok := l.runner.Kept(a)
	if !ok {
		return nil
	}
	code := map[engine.WaitFor]codes.Reason{
		engine.WaitForPlace: codes.ClusterPlace, engine.WaitForImage: codes.ClusterImage, engine.WaitForQueue: codes.ClusterQueue,
		engine.WaitForCluster: codes.ClusterRefuses,
	}[wait.For]
	return &fault.Reason{Code: code, Message: wait.Message}
}

// reused has the bindings looked at as soon as a request shows one to be wrong.
func (l *loops) reused(u tenancy.User, now string) {
	if !l.looking.CompareAndSwap(false, true) {
		return // one look sees them all
	}
	l.s.Log.Warn("a uid has another name now", "user", u.Name, "uid", u.UID, "name", now)
	go func() {
		defer l.looking.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.groups.Once(ctx); err != nil {
			l.s.Log.Warn("looking at uid bindings failed", "error", err)
		}
	}()
}
