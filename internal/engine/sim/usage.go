package sim

import (
	"context"
	"time"

	"croft.dev/croft/internal/engine"
)

// stepMemory is what a step that runs has in use, in bytes.
const stepMemory = 1 << 20

// Usage implements engine.Engine: what programs use is what Script made of their words.
// Of a node with which contact is lost nothing is known.
func (c *conn) Usage(ctx context.Context) (engine.Usage, error) {
	if err := c.enter(ctx); err != nil {
		return engine.Usage{}, err
	}
	f := c.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	var out engine.Usage
	at := make(map[engine.AttemptID]int)
	busy := make(map[string]int64)
	for _, a := range f.ordered() {
		f.settle(a)
		if a.removed || f.contact(a) != nil {
			continue
		}
		for i, d := range a.Devices {
			if i < len(a.program.GPU) && a.computes(now) {
				busy[d.UUID] = min(busy[d.UUID]+a.program.GPU[i], 1000)
			}
		}
		if a.Instance != c.instance {
			continue
		}
		i, ok := at[a.Attempt]
		if !ok {
			i = len(out.Attempts)
			at[a.Attempt], out.Attempts = i, append(out.Attempts, engine.AttemptUsage{Attempt: a.Attempt, At: now})
		}
		out.Attempts[i].CPU += a.used(now)
		if a.phase == engine.PhaseRunning {
			out.Attempts[i].Memory += stepMemory
		}
	}
	for _, d := range f.devices {
		if !f.node(d.Node).lost {
			out.Devices = append(out.Devices, engine.DeviceUsage{UUID: d.UUID, At: now, Busy: busy[d.UUID]})
		}
	}
	return out, nil
}

// computes reports whether the step uses what its program does.
func (a *step) computes(now time.Time) bool {
	return a.phase == engine.PhaseRunning && (a.program.Busy == 0 || now.Sub(a.started) < a.program.Busy)
}

// used is how much CPU the step has used.
func (a *step) used(now time.Time) time.Duration {
	if a.started.IsZero() {
		return 0
	}
	if a.phase == engine.PhaseExited {
		now = a.finished
	}
	ran := now.Sub(a.started)
	if a.program.Busy > 0 {
		ran = min(ran, a.program.Busy)
	}
	return ran / 1000 * time.Duration(a.program.CPU)
}
