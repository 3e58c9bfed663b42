// Package ready finds out when the web programs of jobs answer, so that nobody is sent to
// one that doesn't yet.
package ready

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/workload"
)

// Engine is the part of an engine that is asked.
type Engine interface {
	Dial(ctx context.Context, step engine.StepID, port uint16) (net.Conn, error)
}

// Loop is the loop. It looks at each attempt whose apps haven't answered yet, often at
// first and less so when it takes long.
type Loop struct {
	Port     loop.Port
	Engine   Engine
	Instance string
	// Base is the path that an app's address begins with.
	Base func(j *workload.Job, app workload.App) string
	Log  *slog.Logger
}

// How often one that doesn't answer is asked, how long it may take to answer, and how many
// are asked at a time.
const (
	first    = 100 * time.Millisecond
	longest  = 5 * time.Second
	patience = 5 * time.Second
	parallel = 32
)

// Run looks until ctx ends.
func (l Loop) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, parallel)
	watched := map[id.Attempt]bool{}
	gone := make(chan id.Attempt)
	for {
		changed := l.Port.Changed()
		for _, j := range l.Port.World().Workload.Active.All() {
			a := id.Attempt{Job: j.ID, N: j.Attempt.N}
			if !waits(j) || watched[a] {
				continue
			}
			watched[a] = true
			wg.Go(func() {
				l.watch(ctx, a, slots)
				select {
				case gone <- a:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case a := <-gone:
			delete(watched, a)
		case <-changed:
		}
	}
}

// waits reports whether a job runs that has apps which weren't seen to answer.
func waits(j *workload.Job) bool {
	return j.State == workload.Running && j.Attempt.Started != 0 && j.Attempt.Ready == 0 && len(j.Spec.Apps) > 0
}

// watch asks an attempt's apps until all have answered or it is over.
func (l Loop) watch(ctx context.Context, a id.Attempt, slots chan struct{}) {
	for begun := time.Now(); ; {
		j, ok := l.Port.World().Workload.Active.Get(a.Job)
		if !ok || j.Attempt.N != a.N || !waits(j) {
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := l.ask(ctx, j)
		<-slots
		if err == nil {
			if _, err = l.Port.Command(ctx, command.AppsReady{Job: a.Job, N: a.N}); err == nil {
				return
			}
			l.Log.Warn("command failed, will try again", "command", command.AppsReady{}.Kind(), "error", err)
		}
		select {
		// A twentieth of the time that it has taken: nobody waits much longer for that.
		case <-time.After(min(max(first, time.Since(begun)/20), longest)):
		case <-ctx.Done():
			return
		}
	}
}

// ask asks each of a job's apps once.
func (l Loop) ask(ctx context.Context, j *workload.Job) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	step := engine.AttemptID(id.Attempt{Job: j.ID, N: j.Attempt.N}.Engine(l.Instance)).Primary()
	for _, app := range j.Spec.Apps {
		if err := l.askApp(ctx, step, app, l.Base(j, app)); err != nil {
			return err
		}
	}
	return nil
}

var errNotReady = errors.New("it answers that it can't yet")

// askApp asks whether an app takes connections and, if it names a path for that, whether
// it says there that it is ready.
func (l Loop) askApp(ctx context.Context, step engine.StepID, app workload.App, base string) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Engine.Dial(ctx, step, app.Port) }
	if app.Health == "" {
		conn, err := dial(ctx, "", "")
		if err != nil {
			return err
		}
		return conn.Close()
	}
	path := app.Health
	if !app.Strip {
		path = strings.TrimSuffix(base, "/") + path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost:"+strconv.Itoa(int(app.Port))+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "croft")
	// A transport for each question: what a job's program sends is kept apart, and bounded.
	t := &http.Transport{DialContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	res, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusInternalServerError {
		return errNotReady
	}
	return nil
}
