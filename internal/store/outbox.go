package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// uneventful are commands that put jobs' rows of which nobody is told.
const uneventful = "'meter.post', 'meter.tiles', 'plan.promises'"

// NoticeCursor is the row of the log up to which notices were made.
func (s *Store) NoticeCursor(ctx context.Context) (seq int64, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT seq FROM notice_cursor WHERE one = 1").Scan(&seq)
	return seq, wrap("reading how far notices are", err)
}

// Told lists the rows of the log in (after, upTo] of which somebody may be told, at most
// limit: those of jobs and those of the kinds. End is how far it has looked.
func (s *Store) Told(ctx context.Context, after, upTo int64, kinds []string, limit int) (rows []world.Entry, end int64, err error) {
	var w where
	w.add("seq > ?", after)
	w.add("seq <= ?", upTo)
	named := "(touched LIKE '%job:%' AND kind NOT IN (" + uneventful + "))"
	args := make([]any, len(kinds))
	for i, k := range kinds {
		args[i] = k
	}
	if len(kinds) > 0 {
		named = "(" + named + " OR kind IN (?" + strings.Repeat(", ?", len(kinds)-1) + "))"
	}
	w.add(named, args...)
	err = logRows().each(ctx, s.read, w.page("seq", limit), w.args, func(r *logRow) error {
		rows = append(rows, r.entry())
		return nil
	})
	if end = upTo; limit > 0 && len(rows) == limit {
		end = rows[limit-1].Seq
	}
	return rows, end, err
}

// KeepNotices keeps notices together with the row of the log up to which all are made.
// One that is there already stays as it is. Errors: ErrDeposed, ErrUnavailable.
func (s *Store) KeepNotices(ctx context.Context, upTo int64, rows []notice.Notice) error {
	return s.leading(ctx, "keeping notices", func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE notice_cursor SET seq = $1 WHERE one = 1", upTo); err != nil {
			return err
		}
		rel := notices()
		text := rel.insertSQL(1, true)
		text = text[:strings.Index(text, " DO UPDATE SET ")] + " DO NOTHING"
		for i := range rows {
			args, err := rel.args(nil, &rows[i])
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, text, args...); err != nil {
				return fmt.Errorf("writing notice %s: %w", rows[i].Name, err)
			}
		}
		return nil
	})
}

// SettleNotices writes what has become of notices. Errors: ErrDeposed, ErrUnavailable.
func (s *Store) SettleNotices(ctx context.Context, rows []notice.Notice) error {
	if len(rows) == 0 {
		return nil
	}
	return s.leading(ctx, "settling notices", func(ctx context.Context, tx *sql.Tx) error {
		return insert(ctx, tx, s.dialect, notices(), rows)
	})
}

// GiveUpNotices gives up the notices made before a time that are still waiting at time now,
// both in ns, and returns how many. Why is of those that are mailed.
func (s *Store) GiveUpNotices(ctx context.Context, made, now int64, why string) (n int64, err error) {
	err = s.leading(ctx, "giving notices up", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE notice SET state = 'given up', done = $1, body = '', why = CASE WHEN hook = '' THEN $2 WHEN why = '' THEN 'its webhook took nothing in time' ELSE why END
			WHERE state = 'waiting' AND at < $3`, now, why, made)
		if err == nil {
			n, err = res.RowsAffected()
		}
		return err
	})
	return n, err
}

// JobRows returns jobs, those that have ended too, by id.
func (s *Store) JobRows(ctx context.Context, ids []id.Job) ([]workload.Job, error) {
	var w where
	in(&w, "id", ids)
	return jobs().all(ctx, s.read, w.page("id", 0), w.args...)
}

// DropNotices forgets notices that were through before a time in ns, but for those of jobs
// that go on: they say what was told of them already. It returns how many.
func (s *Store) DropNotices(ctx context.Context, before int64) (n int64, err error) {
	err = s.leading(ctx, "dropping notices", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM notice WHERE state <> 'waiting' AND done < $1
			AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = notice.job AND job.state <> 'ended')`, before)
		if err == nil {
			n, err = res.RowsAffected()
		}
		return err
	})
	return n, err
}

// leading writes in one transaction, while this server leads.
func (s *Store) leading(ctx context.Context, what string, do func(context.Context, *sql.Tx) error) error {
	ctx, cancel := s.dialect.bounded(ctx)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return wrap(what, err)
	}
	defer tx.Rollback() // after a commit it does nothing
	var epoch int64
	switch err := tx.QueryRowContext(ctx, "SELECT epoch FROM leader WHERE epoch = $1"+s.dialect.forShare, s.lead.epoch()).Scan(&epoch); {
	case errors.Is(err, sql.ErrNoRows):
		return ErrDeposed
	case err != nil:
		return wrap(what, err)
	}
	if err := do(ctx, tx); err != nil {
		return wrap(what, err)
	}
	return wrap(what, tx.Commit())
}

// DueNotices lists the notices that are to be mailed at time now, in ns, the longest due
// first, at most limit.
func (s *Store) DueNotices(ctx context.Context, now int64, limit int) ([]notice.Notice, error) {
	var w where
	w.text = append(w.text, "state = 'waiting' AND hook = ''") // as the index has it
	w.add("due <= ?", now)
	return notices().all(ctx, s.read, w.page("due, seq, name", limit), w.args...)
}

// DuePosts lists the notices that are to be posted at time now, in ns: hook by hook, in the
// order of what they are about, of each at most so many, and at most limit in all.
func (s *Store) DuePosts(ctx context.Context, now int64, each, limit int) ([]notice.Notice, error) {
	var w where
	w.add(`name IN (SELECT name FROM (
		SELECT name, ROW_NUMBER() OVER (PARTITION BY person, hook ORDER BY seq, name`+s.dialect.collate+`) AS nth
		FROM notice WHERE state = 'waiting' AND hook <> '' AND due <= ?) AS ranked WHERE nth <= ?)`, now, each)
	return notices().all(ctx, s.read, w.page("person, hook, seq, name"+s.dialect.collate, limit), w.args...)
}

// PostponePosts has nothing posted to a user's hook before a time in ns.
func (s *Store) PostponePosts(ctx context.Context, u id.User, hook string, until int64) error {
	return s.leading(ctx, "postponing notices", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE notice SET due = $1 WHERE state = 'waiting' AND hook <> '' AND person = $2 AND hook = $3 AND due < $1", until, int64(u), hook)
		return err
	})
}

// NoticeFilter narrows a list of notices; what is zero doesn't.
type NoticeFilter struct {
	User   id.User
	Job    id.Job
	States []notice.State
	Before Place // only those that come after it: the last of the page before
}

// Place is where a notice is in a list.
type Place struct {
	Seq  int64
	Name string
}

// Notices lists notices, the newest first, at most limit.
func (s *Store) Notices(ctx context.Context, f NoticeFilter, limit int) ([]notice.Notice, error) {
	var w where
	if f.User != 0 {
		w.add("person = ?", int64(f.User))
	}
	if f.Job != 0 {
		w.add("job = ?", int64(f.Job))
	}
	in(&w, "state", f.States)
	if f.Before != (Place{}) {
		w.add("(seq < ? OR seq = ? AND name"+s.dialect.collate+" > ?)", f.Before.Seq, f.Before.Seq, f.Before.Name)
	}
	all, err := notices().all(ctx, s.read, w.page("seq DESC, name"+s.dialect.collate, limit), w.args...)
	return slices.Clip(all), err
}

// CountNotices says how many notices there are in each state.
func (s *Store) CountNotices(ctx context.Context) (map[notice.State]int64, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT state, COUNT(*) FROM notice GROUP BY state")
	if err != nil {
		return nil, wrap("counting notices", err)
	}
	defer rows.Close()
	out := map[notice.State]int64{}
	for rows.Next() {
		var state string
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return nil, wrap("counting notices", err)
		}
		out[notice.State(state)] = n
	}
	return out, wrap("counting notices", rows.Err())
}
