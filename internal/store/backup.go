package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"

	"croft.dev/croft/internal/store/archive"
)

// Progress is told how many of how many rows are through. It may be nil.
type Progress func(done, total int64)

// Backup writes all rows of a database as of one moment, whoever writes to it meanwhile.
// It takes no lock, and changes nothing. It returns what was written and its SHA-256.
func Backup(ctx context.Context, cfg Config, to io.Writer, progress Progress) (archive.Manifest, string, error) {
	if cfg.Path != "" {
		if _, err := os.Stat(cfg.Path); err != nil {
			return archive.Manifest{}, "", fmt.Errorf("no database to read: %w; name the server's own configuration (--config) or data directory (--data)", err)
		}
	}
	s, err := connect(cfg)
	if err != nil {
		return archive.Manifest{}, "", err
	}
	defer s.Close()
	tx, err := s.read.BeginTx(ctx, &s.dialect.snapshot)
	if err != nil {
		return archive.Manifest{}, "", wrap("backing up", err)
	}
	defer tx.Rollback() // it has only read
	var version int64
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version").Scan(&version); err != nil {
		return archive.Manifest{}, "", wrap("reading the schema's version", err)
	}
	sh, err := shapeOf(ctx, version, s.dialect.collate)
	if err != nil {
		return archive.Manifest{}, "", err
	}
	return sh.export(ctx, tx, to, progress)
}

// export writes what a transaction sees.
func (s shape) export(ctx context.Context, q querier, to io.Writer, progress Progress) (m archive.Manifest, sum string, err error) {
	if m, err = s.manifest(ctx, q); err != nil {
		return m, "", err
	}
	w, err := archive.NewWriter(to, m)
	if err != nil {
		return m, "", err
	}
	done, total := int64(0), m.Rows()
	for _, t := range s.tables {
		err := t.each(ctx, q, func(row []any) error {
			if done++; progress != nil && done%progressRows == 0 {
				progress(done, total)
			}
			return w.Row(row)
		})
		if err != nil {
			return m, "", err
		}
	}
	sum, err = w.Close()
	return m, sum, err
}

// progressRows is how many rows are read between two words about it.
const progressRows = 1000

func (s shape) manifest(ctx context.Context, q querier) (archive.Manifest, error) {
	head, err := readHead(ctx, q)
	if err != nil {
		return archive.Manifest{}, err
	}
	m := archive.Manifest{Schema: s.version, Instance: head.Instance, Seq: head.Seq, At: head.At, Hash: head.Hash}
	for _, t := range s.tables {
		a := archive.Table{Name: t.name, Columns: t.columns}
		if err := q.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+t.name).Scan(&a.Rows); err != nil {
			return m, wrap("counting "+t.name, err)
		}
		m.Tables = append(m.Tables, a)
	}
	return m, nil
}

// each reads every row as values that an archive holds.
func (t shapeTable) each(ctx context.Context, q querier, do func([]any) error) error {
	rows, err := q.QueryContext(ctx, t.selectSQL())
	if err != nil {
		return wrap("reading "+t.name, err)
	}
	defer rows.Close()
	row, dst := make([]any, len(t.columns)), make([]any, len(t.columns))
	for i := range row {
		dst[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(dst...); err != nil {
			return wrap("reading "+t.name, err)
		}
		for i, flag := range t.flags {
			if n, ok := row[i].(int64); ok && flag {
				row[i] = n != 0
			}
		}
		if err := do(row); err != nil {
			return err
		}
	}
	return wrap("reading "+t.name, rows.Err())
}

// errNotRead says that what was written to a database isn't what is read from it.
var errNotRead = errors.New("what was written isn't what is read again")

// fill puts all rows of an archive into the empty tables of a database, in one transaction,
// and commits once what is read from them again is the same.
func (s *Store) fill(ctx context.Context, sh shape, r *archive.Reader, progress Progress) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return wrap("restoring", err)
	}
	defer tx.Rollback() // after a commit it does nothing
	for _, t := range sh.tables {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+t.name); err != nil {
			return wrap("emptying "+t.name, err)
		}
	}
	if err := sh.insert(ctx, tx, s.dialect, r, progress); err != nil {
		return err
	}
	m, sum, err := sh.export(ctx, tx, io.Discard, nil)
	if err != nil {
		return err
	}
	if sum != r.Sum() || m.Seq != r.Manifest.Seq || m.Hash != r.Manifest.Hash || m.Instance != r.Manifest.Instance {
		return fmt.Errorf("%w: %d rows up to row %d of the log with SHA-256 %s, in place of %d up to row %d with %s",
			errNotRead, m.Rows(), m.Seq, sum, r.Manifest.Rows(), r.Manifest.Seq, r.Sum())
	}
	return wrap("restoring", tx.Commit())
}

func (s shape) insert(ctx context.Context, tx *sql.Tx, d dialect, r *archive.Reader, progress Progress) error {
	in := &inserter{tx: tx, dialect: d, of: -1}
	done, total := int64(0), r.Manifest.Rows()
	for {
		table, row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return in.flush(ctx)
		}
		if err != nil {
			return err
		}
		if table != in.of {
			if err := in.flush(ctx); err != nil {
				return err
			}
			in.of, in.table = table, s.tables[table]
		}
		if err := in.add(ctx, row); err != nil {
			return err
		}
		if done++; progress != nil && done%progressRows == 0 {
			progress(done, total)
		}
	}
}

// inserter gathers rows of a table for one statement.
type inserter struct {
	tx      *sql.Tx
	dialect dialect
	table   shapeTable
	of      int
	rows    int
	args    []any
}

func (in *inserter) add(ctx context.Context, row []any) error {
	in.rows, in.args = in.rows+1, append(in.args, row...)
	if in.rows < min(maxChunk, in.dialect.params/len(row)) {
		return nil
	}
	return in.flush(ctx)
}

func (in *inserter) flush(ctx context.Context) error {
	if in.rows == 0 {
		return nil
	}
	names := make([]column[struct{}], len(in.table.columns))
	for i, name := range in.table.columns {
		names[i].name = name
	}
	rel := relation[struct{}]{name: in.table.name, append: true, columns: names}
	_, err := in.tx.ExecContext(ctx, rel.insertSQL(in.rows, in.dialect.numbered), in.args...)
	in.rows, in.args = 0, in.args[:0]
	return wrap("writing "+in.table.name, err)
}
