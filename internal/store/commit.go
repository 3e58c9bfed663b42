package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Commit writes batches in one transaction: all of them, or none. They must follow
// the log's last row without a gap.
//
// Errors: ErrStale when the log ends elsewhere, ErrDeposed, ErrUnavailable. After
// any error it may be unknown whether the transaction was committed: ask Head,
// which answers when it is settled. It isn't interrupted by ctx.
func (s *Store) Commit(ctx context.Context, batches []Batch) error {
	if len(batches) == 0 {
		return nil
	}
	ctx, cancel := s.dialect.bounded(ctx)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.rows.reset()
	if err := s.gather(batches); err != nil {
		return err
	}
	puts, err := s.rows.puts(ctx, &s.stmts)
	if err != nil {
		return wrap("preparing a batch", err)
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return wrap("beginning a batch", err)
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := s.follows(ctx, tx, batches[0]); err != nil {
		return err
	}
	for _, p := range puts {
		if err := p.do(ctx, tx); err != nil {
			return wrap("writing a batch", err)
		}
	}
	for _, p := range s.rows.closed.rows {
		if err := s.keepBooks(ctx, tx, *p); err != nil {
			return wrap("keeping a period's books", err)
		}
	}
	return wrap("committing a batch", tx.Commit())
}

func (s *Store) gather(batches []Batch) error {
	seq, hash := batches[0].Entry.Seq-1, batches[0].Entry.Prev
	for i := range batches {
		e := &batches[i].Entry
		if seq++; e.Seq != seq || e.Prev != hash {
			return fmt.Errorf("a batch with a gap at log row %d", seq)
		}
		hash = e.Hash
		for _, c := range batches[i].Changes {
			if err := s.rows.add(c); err != nil {
				return fmt.Errorf("log row %d: %w", seq, err)
			}
		}
		if err := s.rows.log.put(newLogRow(*e)); err != nil {
			return err
		}
	}
	return nil
}

// follows checks that this server leads and that the log ends where the batch
// begins. The leader's row stays locked until the transaction ends.
func (s *Store) follows(ctx context.Context, tx *sql.Tx, first Batch) error {
	var seq int64
	var hash string
	err := tx.QueryRowContext(ctx, `SELECT COALESCE((SELECT MAX(seq) FROM log), 0),
		COALESCE((SELECT hash FROM log ORDER BY seq DESC LIMIT 1), '')
		FROM leader WHERE epoch = $1`+s.dialect.forShare, s.lead.epoch()).Scan(&seq, &hash)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrDeposed
	case err != nil:
		return wrap("reading the log's end", err)
	case seq != first.Entry.Seq-1 || hash != first.Entry.Prev:
		return fmt.Errorf("%w: it ends at row %d and the batch begins at %d", ErrStale, seq, first.Entry.Seq)
	}
	return nil
}

// Head returns where the log ends. It waits for a transaction whose outcome isn't
// settled: on PostgreSQL one may still be running on a connection that was lost.
func (s *Store) Head(ctx context.Context) (Head, error) {
	ctx, cancel := s.dialect.bounded(ctx)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return Head{}, wrap("reading the log's end", err)
	}
	defer tx.Rollback() // it has only read
	var epoch int64
	err = tx.QueryRowContext(ctx, "SELECT epoch FROM leader WHERE epoch = $1"+s.dialect.forAll, s.lead.epoch()).Scan(&epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return Head{}, ErrDeposed
	}
	if err != nil {
		return Head{}, wrap("reading the log's end", err)
	}
	return readHead(ctx, tx)
}

func readHead(ctx context.Context, q querier) (Head, error) {
	var h Head
	err := q.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = $1", settingInstance).Scan(&h.Instance)
	if err != nil {
		return Head{}, wrap("reading meta", err)
	}
	err = q.QueryRowContext(ctx, "SELECT seq, at, hash FROM log ORDER BY seq DESC LIMIT 1").Scan(&h.Seq, &h.At, &h.Hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Head{}, wrap("reading the log's end", err)
	}
	return h, nil
}
