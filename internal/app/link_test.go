package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/sim"
)

var step = engine.StepID{Attempt: "a", N: 2}

// Every call of an engine, so that none forgets that there may be none.
var calls = map[string]func(context.Context, engine.Engine) error{
	"Inventory": func(ctx context.Context, e engine.Engine) error { _, err := e.Inventory(ctx); return err },
	"Image":     func(ctx context.Context, e engine.Engine) error { _, _, err := e.Image(ctx, "a"); return err },
	"Pull": func(ctx context.Context, e engine.Engine) error {
		_, err := e.Pull(ctx, engine.PullRequest{Ref: "a"}, nil)
		return err
	},
	"Start": func(ctx context.Context, e engine.Engine) error { return e.Start(ctx, engine.Allocation{}) },
	"StartStep": func(ctx context.Context, e engine.Engine) error {
		return e.StartStep(ctx, engine.Allocation{}, engine.Step{})
	},
	"Signal":   func(ctx context.Context, e engine.Engine) error { return e.Signal(ctx, step, "TERM") },
	"StopStep": func(ctx context.Context, e engine.Engine) error { return e.StopStep(ctx, step) },
	"Stop":     func(ctx context.Context, e engine.Engine) error { return e.Stop(ctx, "a") },
	"Remove":   func(ctx context.Context, e engine.Engine) error { return e.Remove(ctx, "a") },
	"List":     func(ctx context.Context, e engine.Engine) error { _, err := e.List(ctx); return err },
	"Watch":    func(ctx context.Context, e engine.Engine) error { _, err := e.Watch(ctx); return err },
	"Logs":     func(ctx context.Context, e engine.Engine) error { return e.Logs(ctx, step, engine.LogOptions{}, nil) },
	"Exec": func(ctx context.Context, e engine.Engine) error {
		_, err := e.Exec(ctx, step, engine.ExecRequest{Stdout: io.Discard})
		return err
	},
	"Listen": func(ctx context.Context, e engine.Engine) error { _, err := e.Listen(ctx, step, 0); return err },
	"Dial":   func(ctx context.Context, e engine.Engine) error { _, err := e.Dial(ctx, step, 80); return err },
}

// Before there is a connection every call answers unavailable, with the reason:
// nobody may conclude anything from it.
func TestLinkBeforeConnection(t *testing.T) {
	down := errors.New("connection refused")
	l := &link{connect: func(context.Context) (engine.Engine, error) { return nil, down }}
	for _, tried := range []bool{false, true} {
		if tried && !errors.Is(l.try(t.Context()), down) {
			t.Error("the failure isn't told")
		}
		for name, call := range calls {
			err := call(t.Context(), l)
			if !engine.IsUnavailable(err) || tried && !errors.Is(err, down) {
				t.Errorf("%s, tried %v: %v", name, tried, err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Errorf("closing nothing: %v", err)
	}
}

// The link connects by itself as soon as there is something to connect to, once,
// and sees to the runtime all along.
func TestLinkConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := sim.NewFleet(sim.Config{Clock: clock.System{}, Instance: "x"})
		if err != nil {
			t.Fatal(err)
		}
		up, connected, ensured := false, 0, 0
		l := &link{log: slog.New(slog.DiscardHandler), cut: make(chan struct{}, 1)}
		l.ensure = func(context.Context) error {
			ensured++
			if !up {
				return errors.New("not started yet")
			}
			return nil
		}
		l.connect = func(context.Context) (engine.Engine, error) { connected++; return f.Connect(), nil }
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); l.run(ctx) }()
		<-time.After(11 * time.Second)
		if _, err := l.List(ctx); !engine.IsUnavailable(err) || connected != 0 || ensured != 6 {
			t.Errorf("%v after %d tries, connected %d times", err, ensured, connected)
		}
		up = true
		<-time.After(2 * time.Second)
		if _, err := l.List(ctx); err != nil {
			t.Errorf("connected: %v", err)
		}
		<-time.After(time.Minute)
		if connected != 1 || ensured != 13 {
			t.Errorf("connected %d times, saw to the runtime %d times", connected, ensured)
		}
		// when its events are cut off it is seen to at once, however often that is told
		l.lost()
		l.lost()
		synctest.Wait()
		if before := 13; ensured != before+1 && ensured != before+2 {
			t.Errorf("saw to it %d times at once", ensured-before)
		}
		// what keeps it from being seen to later on is told, though calls still reach it
		if err := l.failure(); err != nil {
			t.Errorf("all is well: %v", err)
		}
		up = false
		<-time.After(11 * time.Second)
		if _, err := l.List(ctx); err != nil || l.failure() == nil {
			t.Errorf("its files are gone: %v; calls: %v", l.failure(), err)
		}
		cancel()
		<-done
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
