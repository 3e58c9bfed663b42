package sim_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/sim"
)

// bench is a fleet, its clock and one connection.
type bench struct {
	*testing.T
	clock *clock.Virtual
	fleet *sim.Fleet
	engine.Engine
}

func newBench(t *testing.T) *bench {
	v := clock.NewVirtual(noon)
	f := newFleet(t, v)
	return &bench{T: t, clock: v, fleet: f, Engine: f.Connect()}
}

// begin starts an attempt on node0 that does what words say.
func (b *bench) begin(id engine.AttemptID, words ...string) engine.Allocation {
	b.Helper()
	a := engine.Allocation{
		Attempt: id, Job: 118, N: 1, Node: "node0", Instance: instance,
		Container: engine.Container{Image: imageOK, Command: append([]string{"sim"}, words...)},
	}
	b.must(b.Start(b.Context(), a))
	return a
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// only returns the one status listed.
func (b *bench) only() engine.Status {
	b.Helper()
	all, err := b.List(b.Context())
	b.must(err)
	if len(all) != 1 {
		b.Fatalf("listed: %+v", all)
	}
	return all[0]
}

// sketch is what matters of a status, times since noon.
type sketch struct {
	Phase             engine.Phase
	Started, Finished time.Duration
	Exit              int
}

func sketchOf(s engine.Status) sketch {
	k := sketch{Phase: s.Phase, Exit: s.ExitCode}
	if !s.Started.IsZero() {
		k.Started = s.Started.Sub(noon)
	}
	if !s.Finished.IsZero() {
		k.Finished = s.Finished.Sub(noon)
	}
	return k
}

func (b *bench) want(want sketch) {
	b.Helper()
	if diff := cmp.Diff(want, sketchOf(b.only())); diff != "" {
		b.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestAttemptsKeepExactTimes(t *testing.T) {
	b := newBench(t)
	b.begin("a", "delay=5s", "run=90s", "exit=3")
	b.want(sketch{Phase: engine.PhaseCreated})
	b.clock.Advance(10 * time.Second)
	b.want(sketch{Phase: engine.PhaseRunning, Started: 5 * time.Second})
	b.clock.Advance(time.Hour)
	b.want(sketch{Phase: engine.PhaseExited, Started: 5 * time.Second, Finished: 95 * time.Second, Exit: 3})
}

func TestSignals(t *testing.T) {
	tests := map[string]struct {
		words  []string
		signal string
		want   sketch // one minute after the signal, which comes at 10 s
	}{
		"TERM ends":              {[]string{"forever"}, "TERM", sketch{Phase: engine.PhaseExited, Finished: 10 * time.Second, Exit: 143}},
		"SIGINT ends":            {[]string{"forever"}, "SIGINT", sketch{Phase: engine.PhaseExited, Finished: 10 * time.Second, Exit: 130}},
		"WINCH does nothing":     {[]string{"forever"}, "WINCH", sketch{Phase: engine.PhaseRunning}},
		"trap-term takes time":   {[]string{"forever", "trap-term=2s", "exit=4"}, "TERM", sketch{Phase: engine.PhaseExited, Finished: 12 * time.Second, Exit: 4}},
		"trap-term past the end": {[]string{"run=11s", "trap-term=2s"}, "TERM", sketch{Phase: engine.PhaseExited, Finished: 11 * time.Second}},
		"trap goes on":           {[]string{"forever", "trap=USR1"}, "USR1", sketch{Phase: engine.PhaseRunning}},
		"KILL isn't caught":      {[]string{"forever", "trap=KILL", "ignore-term"}, "KILL", sketch{Phase: engine.PhaseExited, Finished: 10 * time.Second, Exit: 137}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.begin("a", test.words...)
			b.clock.Advance(10 * time.Second)
			b.must(b.Signal(t.Context(), engine.AttemptID("a").Primary(), test.signal))
			b.clock.Advance(time.Minute)
			b.want(test.want)
		})
	}
	b := newBench(t)
	b.begin("a", "forever")
	if err := b.Signal(t.Context(), engine.AttemptID("a").Primary(), "NONSENSE"); err == nil {
		t.Error("an unknown signal is no error")
	}
}

func TestPullTakesTimeAndReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFleet(t, clock.System{}).Connect()
		var seen []engine.Progress
		began := time.Now()
		img, err := e.Pull(t.Context(), engine.PullRequest{Ref: "big:1"}, func(p engine.Progress) { seen = append(seen, p) })
		if err != nil || time.Since(began) != time.Minute {
			t.Fatalf("error %v after %v", err, time.Since(began))
		}
		if len(seen) != 10 || seen[9] != (engine.Progress{Done: img.Size, Total: img.Size}) || seen[0].Done >= seen[1].Done {
			t.Errorf("progress: %v", seen)
		}
		if got, ok, err := e.Image(t.Context(), "big:1"); !ok || err != nil || got.ID != img.ID {
			t.Errorf("after the pull: %+v, %v, %v", got, ok, err)
		}
		began = time.Now()
		if _, err := e.Pull(t.Context(), engine.PullRequest{Ref: "big:1"}, nil); err != nil || time.Since(began) != 0 {
			t.Errorf("second pull: error %v after %v", err, time.Since(began))
		}
	})
}

func TestPullIsDeniedWithoutPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFleet(t, clock.System{}).Connect()
		var refused *engine.PullError
		_, err := e.Pull(t.Context(), engine.PullRequest{Ref: "secret:1"}, nil)
		if !errors.As(err, &refused) || !refused.Denied || refused.NotFound {
			t.Errorf("without: %v", err)
		}
		if _, err := e.Pull(t.Context(), engine.PullRequest{Ref: "secret:1", Username: "ada", Password: "open sesame"}, nil); err != nil {
			t.Errorf("with: %v", err)
		}
	})
}

func TestOtherImages(t *testing.T) {
	cfg := config(clock.NewVirtual(noon))
	cfg.OtherImages = &sim.Image{Size: 5}
	f, err := sim.NewFleet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := f.Connect()
	if _, ok, err := e.Image(t.Context(), "any:1"); ok || err != nil {
		t.Errorf("present before the pull: %v, %v", ok, err)
	}
	img, err := e.Pull(t.Context(), engine.PullRequest{Ref: "any:1"}, nil)
	if err != nil || img.Ref != "any:1" || img.Size != 5 {
		t.Errorf("%+v, %v", img, err)
	}
	if _, ok, err := e.Image(t.Context(), "any:2"); ok || err != nil {
		t.Errorf("another became present: %v, %v", ok, err)
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, clock.System{})
		e := f.Connect()
		f.SetLatency(3 * time.Second)
		began := time.Now()
		if _, err := e.List(t.Context()); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("List: error %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("List with less patience: %v", err)
		}
	})
}

func TestWhatRunsOutlivesConnectionAndOutage(t *testing.T) {
	b := newBench(t)
	b.begin("a", "run=90s")
	b.must(b.Close())
	if _, err := b.List(t.Context()); !engine.IsUnavailable(err) {
		t.Errorf("List of a closed connection: %v", err)
	}
	b.fleet.SetDown(true)
	b.Engine = b.fleet.Connect()
	for name, call := range everyCall(b) {
		if err := call(); !engine.IsUnavailable(err) {
			t.Errorf("%s while down: %v", name, err)
		}
	}
	b.clock.Advance(time.Hour)
	b.fleet.SetDown(false)
	b.want(sketch{Phase: engine.PhaseExited, Finished: 90 * time.Second})
}

func everyCall(b *bench) map[string]func() error {
	ctx := b.Context()
	return map[string]func() error{
		"Inventory": func() error { _, err := b.Inventory(ctx); return err },
		"Image":     func() error { _, _, err := b.Image(ctx, imageOK); return err },
		"Pull":      func() error { _, err := b.Pull(ctx, engine.PullRequest{Ref: imageOK}, nil); return err },
		"Start":     func() error { return b.Start(ctx, engine.Allocation{Attempt: "b"}) },
		"Signal":    func() error { return b.Signal(ctx, engine.AttemptID("a").Primary(), "TERM") },
		"Stop":      func() error { return b.Stop(ctx, "a") },
		"Remove":    func() error { return b.Remove(ctx, "a") },
		"List":      func() error { _, err := b.List(ctx); return err },
		"Watch":     func() error { _, err := b.Watch(ctx); return err },
		"Logs":      func() error { return b.Logs(ctx, engine.AttemptID("a").Primary(), engine.LogOptions{}, nil) },
		"Exec":      func() error { _, err := b.Exec(ctx, engine.AttemptID("a").Primary(), engine.ExecRequest{}); return err },
	}
}

func TestFollowersNoticeAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.begin("a", "forever")
		errs := make(chan error, 2)
		go func() {
			errs <- b.Logs(t.Context(), engine.AttemptID("a").Primary(), engine.LogOptions{Follow: true}, new(lines))
		}()
		go func() {
			_, err := b.Exec(t.Context(), engine.AttemptID("a").Primary(), engine.ExecRequest{Command: []string{"sleep", "60"}})
			errs <- err
		}()
		synctest.Wait()
		b.fleet.SetDown(true)
		for range 2 {
			if err := <-errs; !engine.IsUnavailable(err) {
				t.Errorf("error %v", err)
			}
		}
	})
}

// lines collects the lines of a log.
type lines []string

func (*lines) Flush() error { return nil }

func (l *lines) WriteLog(_ time.Time, _ engine.Stream, data []byte) error {
	*l = append(*l, string(data))
	return nil
}

func TestFollowFromALaterTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, fleet: newFleet(t, clock.System{})}
		b.Engine = b.fleet.Connect()
		b.begin("a", "out=a", "pause=10s", "out=b", "pause=10s", "out=c")
		var got lines
		opts := engine.LogOptions{Follow: true, Tail: -1, Since: time.Now().Add(15 * time.Second)}
		b.must(b.Logs(t.Context(), engine.AttemptID("a").Primary(), opts, &got))
		if diff := cmp.Diff(lines{"c\n"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestStartThatIsDoneButAnswersWithAnError(t *testing.T) {
	b := newBench(t)
	b.fleet.FailStarts(1)
	a := engine.Allocation{Attempt: "a", Node: "node0", Instance: instance, Container: engine.Container{Image: imageOK}}
	if err := b.Start(t.Context(), a); !engine.IsUnavailable(err) {
		t.Errorf("first Start: %v", err)
	}
	b.clock.Advance(time.Minute)
	b.must(b.Start(t.Context(), a))
	b.want(sketch{Phase: engine.PhaseRunning})
	if got := b.fleet.Running(); len(got) != 1 {
		t.Errorf("running: %+v", got)
	}
}

func TestStartIsRefused(t *testing.T) {
	tests := map[string]func(*engine.Allocation){
		"unknown node":        func(a *engine.Allocation) { a.Node = "node9" },
		"unknown device":      func(a *engine.Allocation) { a.Devices = []engine.Device{{UUID: "SIM-9-9"}} },
		"device elsewhere":    func(a *engine.Allocation) { a.Devices = []engine.Device{{UUID: "SIM-1-0"}} },
		"image not present":   func(a *engine.Allocation) { a.Image = "big:1" },
		"by the script":       func(a *engine.Allocation) { a.Command = []string{"sim", "refuse=mount source is missing"} },
		"removed before":      func(a *engine.Allocation) { a.Attempt = "removed" },
		"another's attempt":   func(a *engine.Allocation) { a.Attempt = "other" },
		"another's, removed?": func(a *engine.Allocation) { a.Attempt, a.Instance = "removed", "x" },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.begin("removed")
			b.must(b.Remove(t.Context(), "removed"))
			b.must(b.fleet.ConnectAs("other").Start(t.Context(), engine.Allocation{Attempt: "other", Node: "node0", Instance: "other", Container: engine.Container{Image: imageOK}}))
			a := engine.Allocation{Attempt: "a", Node: "node0", Instance: instance, Container: engine.Container{Image: imageOK}}
			spoil(&a)
			var refused *engine.StartError
			if err := b.Start(t.Context(), a); !errors.As(err, &refused) {
				t.Errorf("error %v", err)
			}
			if all, err := b.List(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("listed %+v, error %v", all, err)
			}
		})
	}
}

func TestLostAndKilledNodes(t *testing.T) {
	b := newBench(t)
	b.begin("a", "run=90s")
	b.clock.Advance(time.Minute)

	b.must(b.fleet.LoseNode("node0"))
	b.want(sketch{Phase: engine.PhaseUnknown})
	if err := b.Stop(t.Context(), "a"); !engine.IsUnavailable(err) {
		t.Errorf("Stop on a lost node: %v", err)
	}
	inv, err := b.Inventory(t.Context())
	b.must(err)
	if n := inv.Nodes[0]; n.Ready || n.Reason == "" {
		t.Errorf("lost node: %+v", n)
	}
	b.must(b.fleet.RestoreNode("node0"))
	b.want(sketch{Phase: engine.PhaseRunning})

	b.must(b.fleet.KillNode("node0"))
	b.want(sketch{Phase: engine.PhaseUnknown})
	b.clock.Advance(time.Hour)
	b.must(b.fleet.RestoreNode("node0"))
	b.want(sketch{Phase: engine.PhaseExited, Finished: time.Minute, Exit: 137})
	if b.fleet.LoseNode("node9") == nil {
		t.Error("an unknown node was lost")
	}
}

func TestDeviceFaults(t *testing.T) {
	b := newBench(t)
	b.must(b.fleet.SetForeign("SIM-0-1", engine.Process{PID: 4711, User: "bob", Command: "python"}))
	b.must(b.fleet.SetHealth("SIM-0-2", false, "XID 79"))
	inv, err := b.Inventory(t.Context())
	b.must(err)
	if d := inv.Devices[1]; len(d.Foreign) != 1 || d.Foreign[0].PID != 4711 {
		t.Errorf("device with a foreign process: %+v", d)
	}
	if d := inv.Devices[2]; d.Healthy || d.Reason != "XID 79" {
		t.Errorf("device with an error: %+v", d)
	}
	b.must(b.fleet.SetForeign("SIM-0-1"))
	inv, err = b.Inventory(t.Context())
	b.must(err)
	if d := inv.Devices[1]; len(d.Foreign) != 0 {
		t.Errorf("device after the process: %+v", d)
	}
	if b.fleet.SetForeign("SIM-9-9") == nil {
		t.Error("an unknown device took a process")
	}
}

func TestExecCopiesStdinAndEndsWithThePrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, clock.System{})
		b := &bench{T: t, fleet: f, Engine: f.Connect()}
		b.begin("a", "run=10s")
		var out bytes.Buffer
		code, err := b.Exec(t.Context(), engine.AttemptID("a").Primary(), engine.ExecRequest{
			Command: []string{"cat"}, Stdin: strings.NewReader("hello"), Stdout: &out,
		})
		if code != 0 || err != nil || out.String() != "hello" {
			t.Errorf("cat: %d, %v, %q", code, err, out.String())
		}
		code, err = b.Exec(t.Context(), engine.AttemptID("a").Primary(), engine.ExecRequest{Command: []string{"sleep", "60"}})
		if code != 137 || err != nil {
			t.Errorf("sleep: %d, %v", code, err)
		}
		if _, err := b.Exec(t.Context(), engine.AttemptID("a").Primary(), engine.ExecRequest{Command: []string{"true"}}); err == nil {
			t.Error("Exec after the end: no error")
		}
	})
}

func TestNewFleetChecksItsConfig(t *testing.T) {
	tests := map[string]func(*sim.Config){
		"no clock":         func(c *sim.Config) { c.Clock = nil },
		"node twice":       func(c *sim.Config) { c.Nodes = append(c.Nodes, c.Nodes[0]) },
		"device twice":     func(c *sim.Config) { c.Devices = append(c.Devices, c.Devices[0]) },
		"device elsewhere": func(c *sim.Config) { c.Devices[0].Node = "node9" },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := config(clock.System{})
			spoil(&cfg)
			if _, err := sim.NewFleet(cfg); err == nil {
				t.Error("no error")
			}
		})
	}
}
