package store

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// dialect is all that differs between the databases. Everything else is one SQL
// text.
type dialect struct {
	goose    goose.Dialect
	ddl      *strings.Replacer
	forShare string // locks the leader row against change
	forAll   string // waits for every writer of it and keeps others out
	collate  string // orders text by its bytes
	snapshot sql.TxOptions
	params   int           // of one statement, at most
	numbered bool          // parameters of long statements; both know $1
	timeout  time.Duration // for a commit; 0: it isn't interrupted
}

func sqliteDialect() dialect {
	return dialect{
		goose:    goose.DialectSQLite3,
		ddl:      strings.NewReplacer(),
		snapshot: sql.TxOptions{ReadOnly: true},
		params:   32766, // SQLITE_MAX_VARIABLE_NUMBER
		// To SQLite $1 is a name, and its driver looks every name up in a list: 40 %
		// of the time of a batch of 64.
		numbered: false,
	}
}

func postgresDialect() dialect {
	return dialect{
		goose:    goose.DialectPostgres,
		ddl:      strings.NewReplacer("INTEGER PRIMARY KEY", "BIGINT PRIMARY KEY"),
		forShare: " FOR SHARE OF leader",
		forAll:   " FOR UPDATE",
		collate:  ` COLLATE "C"`,
		snapshot: sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead},
		params:   65535,
		numbered: true,
		timeout:  30 * time.Second,
	}
}

// readers is how many connections serve reads at once.
const readers = 8

// openSQLite opens one writing connection and a pool of reading ones. Full sync: a
// committed transaction survives a power cut.
func openSQLite(path string) (write, read *sql.DB, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, nil, err
	}
	dsn := func(more string) string {
		u := url.URL{Scheme: "file", Path: abs}
		return u.String() + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)" + more
	}
	if write, err = sql.Open("sqlite", dsn("&_txlock=immediate&_pragma=cache_size(-65536)")); err != nil {
		return nil, nil, err
	}
	write.SetMaxOpenConns(1)
	write.SetConnMaxIdleTime(0)
	if read, err = sql.Open("sqlite", dsn("&_pragma=query_only(1)")); err != nil {
		return nil, nil, err
	}
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	return write, read, nil
}

// openPostgres opens one writing connection and a pool of reading ones.
func openPostgres(dsn string) (write, read *sql.DB, err error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, nil, err
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "croftd"
	}
	// A batch that waits longer than this for a lock is told to try again.
	cfg.RuntimeParams["lock_timeout"] = "5000"
	write = stdlib.OpenDB(*cfg)
	write.SetMaxOpenConns(1)
	read = stdlib.OpenDB(*cfg)
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	return write, read, nil
}

// bounded is the context of a write. A caller that gives up must not cut a commit
// in two, so it ends by time alone, and on SQLite not at all: there the work is
// local, and watching a context costs a goroutine per statement.
func (d dialect) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if d.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d.timeout)
}
