package sim_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/sim"
)

// machine is a fleet under random calls and what must be true of it.
type machine struct {
	clock  *clock.Virtual
	fleet  *sim.Fleet
	engine engine.Engine

	down    bool
	started map[engine.StepID]bool          // asked for, and done
	removed map[engine.AttemptID]bool       // by us
	seen    map[engine.StepID]engine.Status // last known status that wasn't unknown
}

// Whatever is called in whatever order, with servers that come and go, outages,
// lost nodes and starts that are done but answer with an error: no attempt is
// lost, none runs twice, none comes back from its end.
func TestNoAttemptIsLostOrRunTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := clock.NewVirtual(noon)
		m := &machine{
			clock:   v,
			fleet:   newFleet(t, v),
			started: make(map[engine.StepID]bool),
			removed: make(map[engine.AttemptID]bool),
			seen:    make(map[engine.StepID]engine.Status),
		}
		m.engine = m.fleet.Connect()
		t.Repeat(map[string]func(*rapid.T){
			"start":     m.start,
			"step":      m.step,
			"signal":    m.signal,
			"stop step": m.stopStep,
			"stop":      m.stop,
			"remove":    m.remove,
			"time":      m.time,
			"reconnect": m.reconnect,
			"outage":    m.outage,
			"node":      m.node,
			"bad start": func(*rapid.T) { m.fleet.FailStarts(1) },
			"":          m.check,
		})
	})
}

func drawID(t *rapid.T) engine.AttemptID {
	return engine.AttemptID(fmt.Sprintf("3f2a9c1e-%d-1", rapid.IntRange(1, 8).Draw(t, "job")))
}

func (m *machine) start(t *rapid.T) {
	id := drawID(t)
	words := rapid.SampledFrom([][]string{
		{"run=5s"}, {"forever"}, {"delay=3s", "run=10s"}, {"exit=3"},
		{"forever", "ignore-term"}, {"forever", "trap-term=4s"}, {"not-found"},
	}).Draw(t, "words")
	known := m.started[id.Primary()]
	err := m.engine.Start(t.Context(), engine.Allocation{
		Attempt: id, Node: rapid.SampledFrom([]string{"node0", "node1"}).Draw(t, "node"),
		Instance: instance, Container: engine.Container{Image: imageOK, Command: append([]string{"sim", "out=begun"}, words...)},
	})
	var refused *engine.StartError
	switch {
	case err == nil:
		if m.removed[id] || m.down {
			t.Fatalf("Start(%s) succeeded; removed %v, down %v", id, m.removed[id], m.down)
		}
		m.started[id.Primary()] = true
	case errors.As(err, &refused):
		if !m.removed[id] {
			t.Fatalf("Start(%s): %v", id, err)
		}
	default:
		m.unsure(t, id.Primary(), known, err)
	}
}

// unsure deals with a start that was answered as unavailable: done or not, only the
// list says.
func (m *machine) unsure(t *rapid.T, id engine.StepID, known bool, err error) {
	if !engine.IsUnavailable(err) {
		t.Fatalf("start of %s: %v", id, err)
	}
	if !known && !m.down && m.listed(t)[id].Attempt == id.Attempt {
		m.started[id] = true
	}
}

func drawStep(t *rapid.T) engine.StepID {
	return engine.StepID{Attempt: drawID(t), N: rapid.IntRange(1, 3).Draw(t, "step")}
}

// step adds a step to an attempt that may have ended, or never been.
func (m *machine) step(t *rapid.T) {
	id := engine.StepID{Attempt: drawID(t), N: rapid.IntRange(2, 3).Draw(t, "step")}
	words := rapid.SampledFrom([][]string{{"run=5s"}, {"forever"}, {"delay=3s", "run=10s"}, {"not-found"}}).Draw(t, "words")
	known := m.started[id]
	var primary engine.Status
	if !m.down {
		primary = m.listed(t)[id.Attempt.Primary()]
	}
	err := m.engine.StartStep(t.Context(), engine.Allocation{Attempt: id.Attempt, Node: primary.Node, Instance: instance}, engine.Step{
		N: id.N, Container: engine.Container{Image: imageOK, Command: append([]string{"sim", "out=begun"}, words...)},
	})
	var refused *engine.StartError
	var none *engine.NotFoundError
	switch {
	case err == nil:
		if primary.Attempt == "" || primary.Phase == engine.PhaseExited && !known {
			t.Fatalf("StartStep(%s) succeeded; its primary is %+v", id, primary)
		}
		m.started[id] = true
	case errors.As(err, &refused):
		if known || primary.Phase != engine.PhaseExited && primary.Phase != engine.PhaseUnknown {
			t.Fatalf("StartStep(%s): %v; its primary is %+v", id, err, primary)
		}
	case errors.As(err, &none):
		if primary.Attempt != "" {
			t.Fatalf("StartStep(%s): %v; its primary is %+v", id, err, primary)
		}
	default:
		m.unsure(t, id, known, err)
	}
}

func (m *machine) signal(t *rapid.T) {
	sig := rapid.SampledFrom([]string{"TERM", "USR1", "KILL", "CONT"}).Draw(t, "signal")
	m.tolerate(t, m.engine.Signal(t.Context(), drawStep(t), sig))
}

func (m *machine) stop(t *rapid.T) { m.tolerate(t, m.engine.Stop(t.Context(), drawID(t))) }

func (m *machine) stopStep(t *rapid.T) {
	m.tolerate(t, m.engine.StopStep(t.Context(), drawStep(t)))
}

func (m *machine) remove(t *rapid.T) {
	id := drawID(t)
	phases := map[engine.Phase]bool{}
	if !m.down {
		for other, s := range m.listed(t) {
			if other.Attempt == id {
				phases[s.Phase] = true
			}
		}
	}
	err := m.engine.Remove(t.Context(), id)
	switch {
	case len(phases) == 0: // down, or not listed
		m.tolerate(t, err)
	case phases[engine.PhaseUnknown]:
		if !engine.IsUnavailable(err) {
			t.Fatalf("Remove of what nobody can see: error %v", err)
		}
	case phases[engine.PhaseCreated], phases[engine.PhaseRunning]:
		if err == nil || engine.IsUnavailable(err) {
			t.Fatalf("Remove of %v: error %v", phases, err)
		}
	default:
		if err != nil {
			t.Fatalf("Remove of an ended attempt: %v", err)
		}
		m.removed[id] = true
	}
}

// tolerate fails on any error but an unavailable fleet.
func (m *machine) tolerate(t *rapid.T, err error) {
	if err != nil && !engine.IsUnavailable(err) {
		t.Fatal(err)
	}
}

func (m *machine) time(t *rapid.T) {
	m.clock.Advance(time.Duration(rapid.IntRange(0, 6000).Draw(t, "ms")) * time.Millisecond)
}

func (m *machine) reconnect(t *rapid.T) {
	if err := m.engine.Close(); err != nil {
		t.Fatal(err)
	}
	m.engine = m.fleet.Connect()
}

func (m *machine) outage(*rapid.T) {
	m.down = !m.down
	m.fleet.SetDown(m.down)
}

func (m *machine) node(t *rapid.T) {
	change := rapid.SampledFrom([]func(string) error{
		m.fleet.LoseNode, m.fleet.KillNode, m.fleet.RestoreNode, m.fleet.RestoreNode,
	}).Draw(t, "change")
	m.tolerate(t, change(rapid.SampledFrom([]string{"node0", "node1"}).Draw(t, "node")))
}

// listed returns the list by step; one that is there twice fails.
func (m *machine) listed(t *rapid.T) map[engine.StepID]engine.Status {
	all, err := m.engine.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byID := make(map[engine.StepID]engine.Status)
	for _, s := range all {
		if _, twice := byID[s.ID()]; twice {
			t.Fatalf("%s is listed twice", s.ID())
		}
		byID[s.ID()] = s
	}
	return byID
}

func (m *machine) check(t *rapid.T) {
	if m.down {
		if _, err := m.engine.List(t.Context()); !engine.IsUnavailable(err) {
			t.Fatalf("List while down: %v", err)
		}
		return
	}
	listed := m.listed(t)
	for id := range m.started {
		if s, ok := listed[id]; ok == m.removed[id.Attempt] {
			t.Fatalf("%s: removed %v, listed %v: %+v", id, m.removed[id.Attempt], ok, s)
		}
	}
	for id, s := range listed {
		if !m.started[id] {
			t.Fatalf("%s is listed and was never started", id)
		}
		if s.Phase == engine.PhaseUnknown {
			continue
		}
		m.checkHistory(t, m.seen[id], s)
		m.seen[id] = s
		m.checkOneRun(t, s)
	}
}

// checkHistory compares two looks at one attempt.
func (m *machine) checkHistory(t *rapid.T, before, now engine.Status) {
	if before.Phase == engine.PhaseExited && before != now {
		t.Fatalf("an ended attempt changed:\n%+v\n%+v", before, now)
	}
	if !before.Started.IsZero() && !before.Started.Equal(now.Started) {
		t.Fatalf("a running attempt began again:\n%+v\n%+v", before, now)
	}
	if before.Phase == engine.PhaseRunning && now.Phase == engine.PhaseCreated {
		t.Fatalf("an attempt went back:\n%+v\n%+v", before, now)
	}
}

// checkOneRun counts how often the program has begun.
func (m *machine) checkOneRun(t *rapid.T, s engine.Status) {
	var begun counter
	if err := m.engine.Logs(t.Context(), s.ID(), engine.LogOptions{Tail: -1}, &begun); err != nil {
		t.Fatal(err)
	}
	want := 1
	if s.Started.IsZero() {
		want = 0
	}
	if int(begun) != want {
		t.Fatalf("the program has begun %d times: %+v", begun, s)
	}
}

// counter counts "begun" lines.
type counter int

func (*counter) Flush() error { return nil }

func (c *counter) WriteLog(_ time.Time, _ engine.Stream, data []byte) error {
	if string(data) == "begun\n" {
		*c++
	}
	return nil
}
