package store

import (
	"context"
	"database/sql"

	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

func waits() *relation[workload.Wait] {
	type row = workload.Wait
	return &relation[row]{name: "wait", keys: 2, columns: []column[row]{
		num("job", func(r *row) *id.Job { return &r.Job }),
		num("at", func(r *row) *int64 { return &r.At }),
		num("position", func(r *row) *int64 { return &r.Position }),
		num("queue", func(r *row) *int64 { return &r.Queue }),
		str("kind", func(r *row) *string { return &r.Kind }),
		num("starts", func(r *row) *int64 { return &r.Start }),
		doc("reasons", func(r *row) *[]fault.Reason { return &r.Reasons }),
	}}
}

// KeepWaits keeps why jobs wait. Errors: ErrDeposed, ErrUnavailable.
func (s *Store) KeepWaits(ctx context.Context, rows []workload.Wait) error {
	return s.leading(ctx, "keeping why jobs wait", func(ctx context.Context, tx *sql.Tx) error {
		return insert(ctx, tx, s.dialect, waits(), rows)
	})
}

// Waits lists why a job waited, the oldest first.
func (s *Store) Waits(ctx context.Context, job id.Job) ([]workload.Wait, error) {
	return waits().all(ctx, s.read, "WHERE job = $1 ORDER BY at", int64(job))
}
