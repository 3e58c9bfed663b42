package ready_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/ready"
	"croft.dev/croft/internal/workload"
)

// programs answer on their ports from a time on, at first that they can't yet.
type programs struct {
	mu    sync.Mutex
	opens map[uint16]time.Time // takes connections
	ready map[uint16]time.Time // says that it is ready
	asked []string             // paths
	hangs bool                 // takes connections and never answers
}

func (p *programs) Dial(_ context.Context, _ engine.StepID, port uint16) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.opens[port]; !ok || time.Now().Before(at) {
		return nil, errors.New("nothing listens")
	}
	ours, theirs := net.Pipe()
	if p.hangs {
		return ours, nil
	}
	go p.answer(theirs, port)
	return ours, nil
}

func (p *programs) answer(conn net.Conn, port uint16) {
	defer conn.Close()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return // it only connected
	}
	p.mu.Lock()
	if !slices.Contains(p.asked, req.URL.Path) {
		p.asked = append(p.asked, req.URL.Path)
	}
	status := "503 Service Unavailable"
	if !time.Now().Before(p.ready[port]) {
		status = "404 Not Found" // it answers
	}
	p.mu.Unlock()
	_, _ = conn.Write([]byte("HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n\r\n"))
}

func TestReady(t *testing.T) {
	for name, tt := range map[string]struct {
		apps  []workload.App
		hangs bool
		do    func(t *testing.T, p *looptest.Port, k id.Job) // after three seconds
		ready bool
		asked []string
	}{
		"a port":            {apps: []workload.App{{Name: "a", Port: 1}}, ready: true},
		"a path":            {apps: []workload.App{{Name: "a", Port: 2, Health: "/api", Strip: true}}, ready: true, asked: []string{"/api"}},
		"below its address": {apps: []workload.App{{Name: "a", Port: 2, Health: "/api"}}, ready: true, asked: []string{"/w/1/api"}},
		"of two one":        {apps: []workload.App{{Name: "a", Port: 1}, {Name: "b", Port: 3}}},
		"one that hangs":    {apps: []workload.App{{Name: "a", Port: 2, Health: "/"}}, hangs: true},
		"none":              {},
		"stopped before": {apps: []workload.App{{Name: "a", Port: 2, Health: "/", Strip: true}}, asked: []string{"/"}, do: func(t *testing.T, p *looptest.Port, k id.Job) {
			p.Do(t, command.JobStop{Job: k})
		}},
		"the log is full": {apps: []workload.App{{Name: "a", Port: 1}}, ready: true, do: func(t *testing.T, p *looptest.Port, k id.Job) {
			p.Fail("app.ready", nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				port := looptest.New(t, looptest.NewFleet(t))
				if name == "the log is full" {
					port.Fail("app.ready", errors.New("the disk is full"))
				}
				now := time.Now()
				e := &programs{hangs: tt.hangs, opens: map[uint16]time.Time{1: now.Add(2 * time.Second), 2: now.Add(time.Second)}, ready: map[uint16]time.Time{2: now.Add(10 * time.Second)}}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					ready.Loop{Port: port, Engine: e, Instance: looptest.Instance, Base: func(*workload.Job, workload.App) string { return "/w/1/" }, Log: looptest.Log()}.Run(ctx)
				}()
				spec := looptest.Spec("forever")
				spec.Apps = tt.apps
				k := port.Submit(t, spec)
				port.Do(t, command.JobStart{Job: k})
				port.Do(t, command.JobObserved{Job: k, N: 1, Running: true, Started: now.UnixNano()})
				<-time.After(3 * time.Second)
				if tt.do != nil {
					tt.do(t, port, k)
				}
				<-time.After(time.Minute)
				if got := port.Job(k).Attempt.Ready; (got != 0) != tt.ready || got != 0 && time.Unix(0, got).Sub(now) > 20*time.Second {
					t.Errorf("ready at %v after the start: %v", time.Unix(0, got).Sub(now), tt.ready)
				}
				e.mu.Lock()
				if !slices.Equal(e.asked, tt.asked) {
					t.Errorf("asked for %q, want %q", e.asked, tt.asked)
				}
				e.mu.Unlock()
				cancel()
				<-done
			})
		})
	}
}
