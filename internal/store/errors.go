package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"
)

var (
	// ErrUnavailable says that the database can't do it now: disk full, locked,
	// connection lost. Nothing is wrong with what was asked; trying again may help.
	ErrUnavailable = errors.New("the database is unavailable")
	// ErrDeposed says that another server has taken the database over. This one
	// must drop its world and stop.
	ErrDeposed = errors.New("another server has taken over the database")
	// ErrLocked says that another server is using the database.
	ErrLocked = errors.New("another server is using this database")
	// ErrStale says that the log's last row isn't the one that a batch follows.
	ErrStale = errors.New("the log has moved on")
	// ErrNewerSchema says that a newer program has migrated the database.
	ErrNewerSchema = errors.New("the database's schema is newer than this program")
	// ErrNotFound says that there is no such row.
	ErrNotFound = errors.New("no such row")
)

// wrap says what was being done and marks what trying again may cure.
func wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnavailable) || errors.Is(err, ErrDeposed) || errors.Is(err, ErrStale):
		return err
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%s: %w", doing, ErrNotFound)
	case transient(err):
		return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func transient(err error) bool {
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return transientSQLite(lite.Code())
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return transientPostgres(pg.Code)
	}
	var dial *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &dial) || errors.As(err, &network) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// transientSQLite looks at the primary code: the low byte of an extended one.
func transientSQLite(code int) bool {
	switch code & 0xff {
	case sqlitecode.SQLITE_BUSY, sqlitecode.SQLITE_LOCKED, sqlitecode.SQLITE_NOMEM, sqlitecode.SQLITE_READONLY,
		sqlitecode.SQLITE_INTERRUPT, sqlitecode.SQLITE_IOERR, sqlitecode.SQLITE_FULL, sqlitecode.SQLITE_CANTOPEN,
		sqlitecode.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// transientPostgres looks at the SQLSTATE, by class where the class is enough.
// https://www.postgresql.org/docs/15/errcodes-appendix.html
func transientPostgres(state string) bool {
	switch state {
	case "55P03", // lock_not_available
		"57014", // query_canceled
		"25006": // read_only_sql_transaction: a standby
		return true
	}
	if len(state) < 2 {
		return false
	}
	switch state[:2] {
	case "08", // connection exception
		"40", // transaction rollback
		"53", // insufficient resources: disk full, out of memory, too many connections
		"57", // operator intervention: shutdown
		"58": // system error
		return true
	}
	return false
}
