// Package queues keeps the queues of a batch scheduler as the account tree and its shares
// are, where the engine has such queues.
package queues

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/world"
)

// Config of a Loop.
type Config struct {
	Port   loop.Port
	Engine engine.Queues
	// Period is between looks at the world, Repair between looks at the queues: what others
	// have changed there is put right.
	Period, Repair time.Duration
	// Watch has differences only shown, by Plan.
	Watch bool
	Log   *slog.Logger
}

// Loop is the loop.
type Loop struct {
	cfg Config

	mu      sync.Mutex
	applied []engine.Queue
	at      time.Time
	warned  map[string]bool
}

// New returns a loop.
func New(cfg Config) *Loop { return &Loop{cfg: cfg, warned: map[string]bool{}} }

// Run keeps the queues until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	loop.Every(ctx, l.cfg.Log, "queues", l.cfg.Period, func(ctx context.Context) error {
		err := l.Once(ctx, time.Now())
		if engine.IsUnavailable(err) || errors.Is(err, engine.ErrNoQueues) {
			return nil // said elsewhere, or nothing to keep
		}
		return err
	})
}

// Once puts the queues right if something has changed in the world, or it is time to look
// at them again.
func (l *Loop) Once(ctx context.Context, now time.Time) error {
	w := l.cfg.Port.World()
	want := Of(w)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cfg.Watch || w.Placement.Nodes.Len() == 0 {
		return nil
	}
	if reflect.DeepEqual(want, l.applied) && now.Sub(l.at) < l.cfg.Repair {
		return nil
	}
	plan, err := l.cfg.Engine.ApplyQueues(ctx, want)
	if err != nil {
		return err
	}
	l.applied, l.at = want, now
	l.warn(plan)
	return nil
}

// warn says once of each change why it isn't made.
func (l *Loop) warn(plan engine.QueuePlan) {
	now := map[string]bool{}
	for _, c := range plan.Changes {
		if c.Error == "" {
			continue
		}
		key := c.Kind + " " + c.Name + " " + c.Error
		if now[key] = true; !l.warned[key] {
			l.cfg.Log.Warn("a queue of the batch scheduler can't be put right", "scheduler", plan.Scheduler, "action", c.Action, "kind", c.Kind, "name", c.Name, "error", c.Error)
		}
	}
	l.warned = now
}

// Applies reports whether differences are put right, and not only shown.
func (l *Loop) Applies() bool { return !l.cfg.Watch }

// Plan is what differs now.
func (l *Loop) Plan(ctx context.Context) (engine.QueuePlan, error) {
	return l.cfg.Engine.PlanQueues(ctx, Of(l.cfg.Port.World()))
}

// Of are the queues that a world's partitions and shares are.
func Of(w *world.World) []engine.Queue {
	var out []engine.Queue
	for _, part := range w.Catalog.Partitions.All() {
		if part.Retired {
			continue
		}
		offered := w.Placement.Offered(part)
		q := engine.Queue{QueueName: engine.QueueName{Partition: part.Name}}
		q.Bounds = append(q.Bounds, whole(limits.CPU, offered.CPU), whole(limits.Mem, offered.Mem))
		for _, m := range offered.Models {
			q.Bounds = append(q.Bounds, whole(limits.Devices(m.Model), m.Count))
		}
		out = append(out, q)
		for _, row := range w.Queues.Of(part.Name) {
			name := nameOf(w, row.Account, part.Name)
			if i := len(out) - 1; out[i].QueueName != name {
				path := w.Tenancy.Path(row.Account)
				out = append(out, engine.Queue{QueueName: name, Parent: nameOf(w, w.Queues.Nearest(path[1:], part.Name), part.Name)})
			}
			i := len(out) - 1
			out[i].Bounds = append(out[i].Bounds, bound(w, row))
		}
	}
	return out
}

func nameOf(w *world.World, a id.Account, partition string) engine.QueueName {
	row, _ := w.Tenancy.Accounts.Get(a)
	return engine.QueueName{Partition: partition, Account: row.Name}
}

func whole(r limits.Resource, n int64) engine.QueueBound {
	return inUnits(engine.QueueBound{Resource: string(r), Guaranteed: n, Limit: share.Any, Borrow: share.Any, Lend: share.Any, Weight: 1})
}

func bound(w *world.World, row share.Share) engine.QueueBound {
	weight := row.Weight
	if a, ok := w.Tenancy.Accounts.Get(row.Account); ok && weight == 0 {
		weight = a.Weight
	}
	return inUnits(engine.QueueBound{
		Resource: string(row.Resource), Guaranteed: row.Guaranteed, Limit: row.Limit, Borrow: row.Borrow, Lend: row.Lend, Weight: max(weight, 1),
	})
}

// inUnits counts devices in whole ones, as batch schedulers do. No bound gets tighter by it.
func inUnits(b engine.QueueBound) engine.QueueBound {
	if r := limits.Resource(b.Resource); r == limits.CPU || r == limits.Mem {
		return b
	}
	up := func(n int64) int64 {
		if n == share.Any {
			return engine.AnyAmount
		}
		return (n + quantity.Device - 1) / quantity.Device
	}
	b.Guaranteed /= quantity.Device
	b.Limit, b.Borrow, b.Lend = up(b.Limit), up(b.Borrow), up(b.Lend)
	return b
}
