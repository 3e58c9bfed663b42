package sim

import (
	"errors"
	"slices"
	"time"

	"croft.dev/croft/internal/engine"
)

// faults are the faults in force. Fleet.mu guards them.
type faults struct {
	down       bool
	latency    time.Duration
	loseEvents bool
	badStarts  int // Starts still to be answered with an error though they were done
}

// SetDown makes every call fail as unavailable, or ends that. What runs goes on.
func (f *Fleet) SetDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults.down = down
	for _, a := range f.steps {
		a.notify() // followers notice
	}
}

// SetLatency makes every call wait that long before it does anything.
func (f *Fleet) SetLatency(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults.latency = d
}

// SetLoseEvents makes all watches lose their events, or ends that.
func (f *Fleet) SetLoseEvents(lose bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults.loseEvents = lose
}

// FailStarts makes the next n Starts that are done answer as unavailable.
func (f *Fleet) FailStarts(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults.badStarts = n
}

// LoseNode cuts the contact to a node: what runs there goes on, but nobody knows.
func (f *Fleet) LoseNode(name string) error { return f.setNode(name, true, false) }

// KillNode cuts a node's power: what runs there ends with 137, which is seen only
// after RestoreNode.
func (f *Fleet) KillNode(name string) error { return f.setNode(name, true, true) }

// RestoreNode brings a lost or killed node back, with the truth about it.
func (f *Fleet) RestoreNode(name string) error { return f.setNode(name, false, false) }

func (f *Fleet) setNode(name string, lost, kill bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.node(name)
	if n == nil {
		return errors.New("sim: no such node: " + name)
	}
	n.lost = lost
	for _, a := range f.ordered() {
		if a.Node != name || a.removed {
			continue
		}
		if kill {
			f.kill(a)
		}
		a.notify()
		f.publish(a)
	}
	return nil
}

// SetForeign puts processes that Croft didn't start on a device; none: takes
// them away.
func (f *Fleet) SetForeign(uuid string, processes ...engine.Process) error {
	return f.setDevice(uuid, func(d *engine.Device) { d.Foreign = slices.Clone(processes) })
}

// SetHealth makes a device healthy or, with a reason, not.
func (f *Fleet) SetHealth(uuid string, healthy bool, reason string) error {
	return f.setDevice(uuid, func(d *engine.Device) { d.Healthy, d.Reason = healthy, reason })
}

func (f *Fleet) setDevice(uuid string, set func(*engine.Device)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.device(uuid)
	if d == nil {
		return errors.New("sim: no such device: " + uuid)
	}
	set(d)
	return nil
}
