// Package usage samples what running jobs use.
package usage

import (
	"context"
	"log/slog"
	"time"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/usage"
	"croft.dev/croft/internal/workload"
)

// Engine is the part of an engine that is asked.
type Engine interface {
	Usage(ctx context.Context) (engine.Usage, error)
}

// Loop is the loop.
type Loop struct {
	Port     loop.Port
	Engine   Engine
	Book     *usage.Book
	Instance string
	Period   time.Duration
	Log      *slog.Logger
}

// Run samples until ctx ends.
func (l Loop) Run(ctx context.Context) { loop.Every(ctx, l.Log, "usage", l.Period, l.Once) }

// Once takes a sample. What the engine doesn't say stays unknown.
func (l Loop) Once(ctx context.Context) error {
	running := make(map[id.Attempt]*workload.Job)
	keep := make(map[id.Attempt]bool)
	for _, j := range l.Port.World().Workload.Active.All() {
		if j.Attempt.Started != 0 {
			a := id.Attempt{Job: j.ID, N: j.Attempt.N}
			running[a], keep[a] = j, true
		}
	}
	l.Book.Keep(keep)
	if len(running) == 0 {
		return nil
	}
	got, err := l.Engine.Usage(ctx)
	if err != nil {
		return err
	}
	attempts := make(map[engine.AttemptID]engine.AttemptUsage, len(got.Attempts))
	for _, a := range got.Attempts {
		attempts[a.Attempt] = a
	}
	devices := make(map[string]engine.DeviceUsage, len(got.Devices))
	for _, d := range got.Devices {
		devices[d.UUID] = d
	}
	for a, j := range running {
		if u, ok := together(attempts, a.Ranks(l.Instance, len(j.Attempt.Others))); ok {
			l.Book.Put(a, seen(u, j.Attempt.AllDevices(), devices))
		}
	}
	return nil
}

// together sums up what the ranks of an attempt use; ok is false unless all are known.
func together(of map[engine.AttemptID]engine.AttemptUsage, ranks []string) (sum engine.AttemptUsage, ok bool) {
	for i, r := range ranks {
		u, known := of[engine.AttemptID(r)]
		if !known {
			return sum, false
		}
		if i == 0 || u.At.Before(sum.At) {
			sum.At = u.At
		}
		sum.CPU += u.CPU
		sum.Memory += u.Memory
	}
	return sum, true
}

func seen(u engine.AttemptUsage, uuids []string, devices map[string]engine.DeviceUsage) usage.Seen {
	s := usage.Seen{At: u.At.UnixNano(), CPU: int64(u.CPU), Memory: u.Memory}
	for _, uuid := range uuids {
		d, ok := devices[uuid]
		s.Devices = append(s.Devices, usage.Device{UUID: uuid, Known: ok, Busy: d.Busy, Memory: d.Memory})
	}
	return s
}
