package kube

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"croft.dev/croft/internal/engine"
)

// knowing is an engine that has models.
func knowing(t *testing.T, models ...Model) *Engine {
	t.Helper()
	e, err := New(t.Context(), Config{
		Kubeconfig: shared.Kubeconfig(), Instance: uuid.NewString(), Namespace: "croft-test", Image: shared.registry + "/tools:1", Models: models,
		LogDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// run starts an attempt, which goes with the test.
func run(t *testing.T, e *Engine, a engine.Allocation) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := e.Stop(ctx, a.Attempt); err != nil {
			t.Error(err)
		}
		for e.Remove(ctx, a.Attempt) != nil && ctx.Err() == nil {
			pause(ctx)
		}
	})
	must(t, e.Start(t.Context(), a))
}

// devicesOf awaits that what the inventory says of a model's devices is ok.
func devicesOf(t *testing.T, e *Engine, model, what string, ok func([]engine.Device) bool) []engine.Device {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out []engine.Device
	for ; ctx.Err() == nil; pause(ctx) {
		inv, err := e.Inventory(t.Context())
		must(t, err)
		out = slices.DeleteFunc(inv.Devices, func(d engine.Device) bool { return d.Model != model })
		if ok(out) {
			return out
		}
	}
	t.Fatalf("waited for %s; last: %+v", what, out)
	return nil
}

func healthy(n int) func([]engine.Device) bool {
	return func(all []engine.Device) bool {
		free := 0
		for _, d := range all {
			if d.Healthy && len(d.Foreign) == 0 {
				free++
			}
		}
		return free == n
	}
}

type logText struct{ strings.Builder }

func (t *logText) WriteLog(_ time.Time, _ engine.Stream, data []byte) error {
	t.Write(data)
	return nil
}
func (t *logText) Flush() error { return nil }

// logOf awaits that an attempt's primary has written something with a newline.
func logOf(t *testing.T, e *Engine, a engine.Allocation) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ; ctx.Err() == nil; pause(ctx) {
		var w logText
		must(t, e.Logs(t.Context(), a.Attempt.Primary(), engine.LogOptions{Tail: -1}, &w))
		if strings.Contains(w.String(), "\n") {
			return strings.TrimSpace(w.String())
		}
	}
	t.Fatal("nothing is written")
	return ""
}

// A device plugin's devices: a job sees exactly those that it was given, which ones is read
// back, and one that is ill is offered to nobody.
func TestDevicePlugin(t *testing.T) {
	const resource = "test.croft.dev/card"
	plugin, err := node.AddDevices(t.Context(), resource, "card-a", "card-b", "card-c")
	must(t, err)
	t.Cleanup(func() {
		if err := plugin.Close(); err != nil {
			t.Error(err)
		}
	})
	e := knowing(t, Model{Name: "card", Resource: resource, Memory: 1 << 30})
	all := devicesOf(t, e, "card", "three devices", healthy(3))

	a := job(e, 1, "sh", "-c", "echo $(ls /dev | grep card); "+sleep)
	a.Devices = all[1:]
	run(t, e, a)
	s := await(t, e, a, "running with two devices", func(s engine.Status) bool { return strings.Count(s.Given, resource+"=card-") == 2 })
	if got := logOf(t, e, a); "test.croft.dev/card="+strings.Join(strings.Fields(got), ","+resource+"=") != s.Given {
		t.Errorf("sees %q, was given %q", got, s.Given)
	}

	// One of those that it has falls ill: that very seat is, and the free one isn't.
	ids := strings.Split(strings.ReplaceAll(s.Given, resource+"=", ""), ",")
	plugin.SetHealth(ids[1], false)
	got := devicesOf(t, e, "card", "one that is ill", healthy(2))
	if got[2].Healthy || !strings.Contains(got[2].Reason, ids[1]) {
		t.Errorf("%+v; %s is ill", got, ids[1])
	}
	plugin.SetHealth(ids[1], true)
	devicesOf(t, e, "card", "all to be well", healthy(3))

	// Another has the third: nobody of Croft's gets it.
	other := knowing(t)
	theirs := job(other, 1, "sh", "-c", sleep)
	theirs.Devices = all[:1]
	run(t, other, theirs)
	got = devicesOf(t, e, "card", "one that somebody else has", healthy(2))
	if len(got[0].Foreign) != 1 || got[0].Foreign[0].Command != "a Pod of namespace croft-test" {
		t.Errorf("%+v", got)
	}

	// What doesn't fit says so.
	more := job(e, 2, "true")
	more.Devices = all[:1]
	run(t, e, more)
	s = await(t, e, more, "kept from starting", func(s engine.Status) bool { return s.Waits.For != "" })
	if s.Waits.For != engine.WaitForPlace || s.Waits.Message != "node1 has too little "+resource+" left" {
		t.Errorf("%+v", s.Waits)
	}
}

// An image that can't be had: what there isn't, and what one may not have, never starts; a
// registry that is away may come back.
func TestPullsFail(t *testing.T) {
	e := knowing(t)
	missing := job(e, 1, "true")
	missing.Image = shared.registry + "/none:1"
	run(t, e, missing)
	away := job(e, 2, "true")
	away.Image = "127.0.0.1:1/tiny:1"
	run(t, e, away)
	s := await(t, e, missing, "ended", phase(engine.PhaseExited))
	if !strings.HasPrefix(s.Failure, "there is no such image: ") || !strings.Contains(s.Failure, "/none:1") {
		t.Errorf("%+v", s)
	}
	s = await(t, e, away, "kept from starting", func(s engine.Status) bool { return s.Waits.For != "" })
	if s.Waits.For != engine.WaitForImage || !strings.Contains(s.Waits.Message, "connection refused") {
		t.Errorf("%+v", s.Waits)
	}
}
