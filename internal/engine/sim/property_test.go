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
	started map[engine.AttemptID]bool          // asked for, and done
	removed map[engine.AttemptID]bool          // by us
	seen    map[engine.AttemptID]engine.Status // last known status that wasn't unknown
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
			started: make(map[engine.AttemptID]bool),
			removed: make(map[engine.AttemptID]bool),
			seen:    make(map[engine.AttemptID]engine.Status),
		}
		m.engine = m.fleet.Connect()
		t.Repeat(map[string]func(*rapid.T){
			"start":     m.start,
			"signal":    m.signal,
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
	known := m.started[id]
	err := m.engine.Start(t.Context(), engine.Allocation{
		Attempt: id, Node: rapid.SampledFrom([]string{"node0", "node1"}).Draw(t, "node"),
		Instance: instance, Image: imageOK, Command: append([]string{"sim", "out=begun"}, words...),
	})
	var refused *engine.StartError
	switch {
	case err == nil:
		if m.removed[id] || m.down {
			t.Fatalf("Start(%s) succeeded; removed %v, down %v", id, m.removed[id], m.down)
		}
		m.started[id] = true
	case errors.As(err, &refused):
		if !m.removed[id] {
			t.Fatalf("Start(%s): %v", id, err)
		}
	case engine.IsUnavailable(err):
		// Done or not: only the list says.
		if !known && !m.down && m.listed(t)[id].Attempt == id {
			m.started[id] = true
		}
	default:
		t.Fatalf("Start(%s): %v", id, err)
	}
}

func (m *machine) signal(t *rapid.T) {
	sig := rapid.SampledFrom([]string{"TERM", "USR1", "KILL", "CONT"}).Draw(t, "signal")
	m.tolerate(t, m.engine.Signal(t.Context(), drawID(t), sig))
}

func (m *machine) stop(t *rapid.T) { m.tolerate(t, m.engine.Stop(t.Context(), drawID(t))) }

func (m *machine) remove(t *rapid.T) {
	id := drawID(t)
	var before engine.Status
	if !m.down {
		before = m.listed(t)[id]
	}
	err := m.engine.Remove(t.Context(), id)
	switch before.Phase {
	case engine.PhaseExited:
		if err != nil {
			t.Fatalf("Remove of an ended attempt: %v", err)
		}
		m.removed[id] = true
	case engine.PhaseCreated, engine.PhaseRunning:
		if err == nil || engine.IsUnavailable(err) {
			t.Fatalf("Remove of %+v: error %v", before, err)
		}
	case engine.PhaseUnknown:
		if !engine.IsUnavailable(err) {
			t.Fatalf("Remove of %+v: error %v", before, err)
		}
	default: // down, or not listed
		m.tolerate(t, err)
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

// listed returns the list by attempt; an attempt that is there twice fails.
func (m *machine) listed(t *rapid.T) map[engine.AttemptID]engine.Status {
	all, err := m.engine.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byID := make(map[engine.AttemptID]engine.Status)
	for _, s := range all {
		if _, twice := byID[s.Attempt]; twice {
			t.Fatalf("%s is listed twice", s.Attempt)
		}
		byID[s.Attempt] = s
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
		if s, ok := listed[id]; ok == m.removed[id] {
			t.Fatalf("%s: removed %v, listed %v: %+v", id, m.removed[id], ok, s)
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
	if err := m.engine.Logs(t.Context(), s.Attempt, engine.LogOptions{Tail: -1}, &begun); err != nil {
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

func (c *counter) WriteLog(_ time.Time, _ engine.Stream, data []byte) error {
	if string(data) == "begun\n" {
		*c++
	}
	return nil
}
