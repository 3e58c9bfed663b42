// Package explain keeps why jobs wait, so that it can be asked for later: for those that
// are the next in each queue, whenever it has become something else. It is the answer of
// the decision that starts jobs, as croft why gives it.
package explain

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Period is how often it looks.
const Period = 30 * time.Second

// Depth is how many jobs of each queue it looks at.
const Depth = 100

// Loop is the loop. The zero value of kept is that of a server that has just begun: it
// keeps everything anew, as it can't know what became of things meanwhile.
type Loop struct {
	Port loop.Port
	Keep func(context.Context, []workload.Wait) error
	Log  *slog.Logger

	kept map[id.Job]string
}

// Run looks until ctx ends.
func (l *Loop) Run(ctx context.Context) { loop.Every(ctx, l.Log, "explain", Period, l.Once) }

// Once keeps what has changed. While the wall clock has jumped it does nothing.
func (l *Loop) Once(ctx context.Context) error {
	now, ok := l.Port.Now()
	if !ok {
		return nil
	}
	w := l.Port.World()
	view, found := w.View(now), map[id.Job]string{}
	order := view.Order()
	var rows []workload.Wait
	for _, queue := range queues(w) {
		n := 0
		for j := range w.Workload.Queue(order, queue) {
			if n++; n > Depth || ctx.Err() != nil {
				break
			}
			if _, ok := found[j.Row()]; ok {
				continue // a further element of its array
			}
			row, err := waits(view, j)
			if err != nil {
				l.Log.Warn("could not say why a job waits", "job", int64(j.ID), "error", err)
				continue
			}
			found[row.Job] = gist(row)
			if l.kept[row.Job] != found[row.Job] {
				rows = append(rows, row)
			}
		}
	}
	if len(rows) > 0 {
		if err := l.Keep(ctx, rows); err != nil {
			return err
		}
	}
	l.kept = found
	return nil
}

// queues are those of all partitions, and of the reservations that jobs wait for.
func queues(w *world.World) []string {
	var out []string
	for name := range w.Catalog.Partitions.All() {
		out = append(out, name)
	}
	for k, r := range w.Placement.Reservations.All() {
		out = append(out, workload.QueueOf(r.Partition, k))
	}
	return out
}

// waits is why a job waits now; of an array, its next element, under the array's id.
func waits(view admission.View, j *workload.Job) (workload.Wait, error) {
	verdict, _, err := admission.Why(view, j)
	if err != nil {
		return workload.Wait{}, err
	}
	win := verdict.Window
	return workload.Wait{Job: j.Row(), At: view.Now, Position: win.Position, Queue: win.Queue, Kind: string(win.Kind), Start: win.Start, Reasons: verdict.Reasons}, nil
}

// gist is what has to change for it to be kept again: what stands in the way, not how much
// of it, and how sure the start is.
func gist(w workload.Wait) string {
	parts := []string{w.Kind}
	for _, r := range w.Reasons {
		parts = append(parts, string(r.Code)+" "+r.Scope+" "+r.Field)
	}
	return strings.Join(parts, "\n")
}
