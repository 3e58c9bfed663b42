package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sys/unix"
)

// leadership is the right to write. Whoever takes it raises the epoch, and every
// transaction of the leader before fails from then on.
type leadership interface {
	take(ctx context.Context, write *sql.DB) error
	epoch() int64
	deposed() <-chan struct{}
	release(write *sql.DB) error
}

// takeEpoch is the takeover itself.
func takeEpoch(ctx context.Context, db *sql.DB, holder, expires string) (epoch int64, err error) {
	err = db.QueryRowContext(ctx, `INSERT INTO leader (one, epoch, holder, expires) VALUES (1, 1, $1, `+expires+`)
		ON CONFLICT (one) DO UPDATE SET epoch = leader.epoch + 1, holder = excluded.holder, expires = excluded.expires
		RETURNING epoch`, holder).Scan(&epoch)
	return epoch, wrap("taking the lead", err)
}

// fileLead leads a SQLite database: a lock on a file, which the kernel gives up
// with the process.
type fileLead struct {
	file   *os.File
	holder string
	mine   int64
	never  chan struct{}
}

func lockFile(path, holder string) (leadership, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the lock file: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		by := make([]byte, 256)
		n, _ := f.ReadAt(by, 0) // whom the error names; it stands without
		return nil, fmt.Errorf("%w: %s has locked %s", ErrLocked, cmp.Or(strings.TrimSpace(string(by[:n])), "another process"), path)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(holder+"\n"), 0) // for people; on a full disk the lock holds all the same
	}
	return &fileLead{file: f, holder: holder, never: make(chan struct{})}, nil
}

func (l *fileLead) take(ctx context.Context, write *sql.DB) (err error) {
	l.mine, err = takeEpoch(ctx, write, l.holder, "0")
	return err
}

func (l *fileLead) epoch() int64             { return l.mine }
func (l *fileLead) deposed() <-chan struct{} { return l.never }

// release unlocks before it closes: a program that is just being started has the file too,
// for a moment.
func (l *fileLead) release(*sql.DB) error {
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}

// The lease of a leader on PostgreSQL. A session lock alone would split the brain:
// the server may lose the connection, and with it the lock, and go on.
const (
	lease   = 4 * time.Second
	renewal = time.Second
	// lockPause is how long to wait for a lock that is being given up.
	lockPause = 50 * time.Millisecond
	// dbNow is the database's time in ns; there is no other that servers share.
	dbNow = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000000 AS BIGINT)"
	// expiry is when a lease that is renewed now ends: dbNow plus lease.
	expiry = dbNow + " + 4000000000"
	// sessionLock is this database's advisory lock number: "croft" in ASCII.
	sessionLock = 0x63726f6674
)

// sessionLead leads a PostgreSQL database: the session lock refuses a second
// server at once, the epoch fences what an old leader still writes, and the lease
// tells it when to stop by itself.
type sessionLead struct {
	db     *sql.DB // a connection of its own
	conn   *sql.Conn
	holder string
	mine   int64
	lost   chan struct{}
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func lockSession(ctx context.Context, dsn, holder string) (leadership, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the database's DSN can't be read")
	}
	l := &sessionLead{db: stdlib.OpenDB(*cfg), holder: holder, lost: make(chan struct{})}
	l.db.SetMaxOpenConns(1)
	ok, err := l.lock(ctx)
	for began := time.Now(); err == nil && !ok && l.given(ctx) && time.Since(began) < lease; {
		if err = sleep(ctx, lockPause); err == nil {
			ok, err = l.tryLock(ctx)
		}
	}
	if err != nil {
		return nil, errors.Join(wrap("locking the database", err), l.closeDB())
	}
	if !ok {
		return nil, errors.Join(fmt.Errorf("%w: %s has locked it", ErrLocked, l.current(ctx)), l.closeDB())
	}
	return l, nil
}

func (l *sessionLead) lock(ctx context.Context) (ok bool, err error) {
	if l.conn, err = l.db.Conn(ctx); err != nil {
		return false, err
	}
	return l.tryLock(ctx)
}

func (l *sessionLead) tryLock(ctx context.Context) (ok bool, err error) {
	err = l.conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", int64(sessionLock)).Scan(&ok)
	return ok, err
}

// given reports whether nobody's lease runs: then who has the lock is on the way out, and
// the database hasn't noticed that its connection is closed, or on the way in.
func (l *sessionLead) given(ctx context.Context) bool {
	var left int64
	err := l.conn.QueryRowContext(ctx, "SELECT expires - "+dbNow+" FROM leader").Scan(&left)
	return err == nil && left <= 0
}

// current names the leader, for an error's text.
func (l *sessionLead) current(ctx context.Context) string {
	var holder string
	if err := l.conn.QueryRowContext(ctx, "SELECT holder FROM leader").Scan(&holder); err != nil {
		return "another server"
	}
	return holder
}

// take waits for the lease of a leader that has gone without giving it up.
func (l *sessionLead) take(ctx context.Context, write *sql.DB) error {
	for wait := true; wait; {
		var left int64
		err := l.conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(expires), 0) - "+dbNow+" FROM leader").Scan(&left)
		if err != nil {
			return wrap("taking the lead", err)
		}
		if wait = left > 0; wait {
			if err := sleep(ctx, min(time.Duration(left), lease)); err != nil {
				return err
			}
		}
	}
	started := time.Now()
	epoch, err := takeEpoch(ctx, write, l.holder, expiry)
	if err != nil {
		return err
	}
	l.mine = epoch
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.done.Go(func() { l.keep(run, started) })
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// keep renews the lease until it is lost. It never waits beyond the lease's end:
// from then on another server may lead.
func (l *sessionLead) keep(ctx context.Context, renewed time.Time) {
	for sleep(ctx, min(renewal, lease-time.Since(renewed))) == nil {
		at := time.Now()
		ours, err := l.renew(ctx, min(renewal, lease-at.Sub(renewed)))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && ours:
			renewed = at
		case err == nil || time.Since(renewed) >= lease:
			close(l.lost)
			return
		}
	}
}

// renew reports, within patience, whether the epoch is still this server's. A
// broken connection is replaced; what counts is the row.
func (l *sessionLead) renew(ctx context.Context, patience time.Duration) (ours bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if l.conn == nil {
		if _, err := l.lock(ctx); err != nil {
			return false, err
		}
	}
	res, err := l.conn.ExecContext(ctx, "UPDATE leader SET expires = "+expiry+" WHERE epoch = $1", l.mine)
	if err != nil {
		_ = l.conn.Close() // already broken
		l.conn = nil
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

func (l *sessionLead) epoch() int64             { return l.mine }
func (l *sessionLead) deposed() <-chan struct{} { return l.lost }

// release lets the next server take over without waiting.
func (l *sessionLead) release(write *sql.DB) error {
	if l.stop != nil {
		l.stop()
		l.done.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), renewal)
		defer cancel()
		// If the database is away, the lease runs out by itself.
		_, _ = write.ExecContext(ctx, "UPDATE leader SET expires = 0 WHERE epoch = $1", l.mine)
	}
	return l.closeDB()
}

func (l *sessionLead) closeDB() error {
	if l.conn != nil {
		_ = l.conn.Close() // gives it back to the pool that is closed next
	}
	return l.db.Close()
}
