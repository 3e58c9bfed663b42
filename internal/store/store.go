// Package store keeps Croft's rows and its log in SQLite or PostgreSQL. Rows are
// the truth of state, the log is the truth of history; both are written together,
// a batch of decisions in one transaction.
//
// There is one SQL text for both databases; what differs is in dialect. One server
// writes at a time: every transaction checks that this one still leads.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"croft.dev/croft/internal/world"
)

// Config says which database. One of Path and DSN is given.
type Config struct {
	Path   string // SQLite file; its directory must exist
	DSN    string // PostgreSQL, as a URL or as keyword=value
	Holder string // names this server to others; empty: host and process id
}

// Store is an open database. Its reads may be called concurrently; so may Commit,
// which does one batch after the other.
type Store struct {
	dialect dialect
	read    *sql.DB
	lead    leadership

	mu    sync.Mutex // one commit at a time
	write *sql.DB
	stmts statements
	rows  *batchRows
}

// Head is where the log ends.
type Head struct {
	Seq      int64
	At       int64  // ns; of that row
	Hash     string // of that row
	Instance string // UUID of this installation
}

// Batch is one log row with the changes that it stands for.
type Batch struct {
	Entry   world.Entry
	Changes []world.Change
}

// Open opens the database, brings its schema up to date and takes the lead.
// Errors: ErrLocked when another server has it, ErrNewerSchema, ErrUnavailable.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx, cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func connect(cfg Config) (*Store, error) {
	s := &Store{rows: newBatchRows()}
	var err error
	switch {
	case (cfg.Path == "") == (cfg.DSN == ""):
		return nil, errors.New("a database is either a path or a DSN")
	case cfg.Path != "":
		// Made here, since SQLite would leave it readable by everybody.
		f, err := os.OpenFile(cfg.Path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening the database: %w", err)
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		s.dialect = sqliteDialect()
		s.write, s.read, err = openSQLite(cfg.Path)
		if err != nil {
			return nil, fmt.Errorf("opening %s: %w", filepath.Base(cfg.Path), err)
		}
	default:
		s.dialect = postgresDialect()
		if s.write, s.read, err = openPostgres(cfg.DSN); err != nil {
			return nil, errors.New("the database's DSN can't be read") // it may hold a password
		}
	}
	s.stmts = statements{
		db: s.write, params: s.dialect.params, numbered: s.dialect.numbered, ready: map[statement]*sql.Stmt{},
	}
	return s, nil
}

// begin takes the lock before it touches the schema, and the epoch after.
func (s *Store) begin(ctx context.Context, cfg Config) error {
	var err error
	if s.lead, err = lock(ctx, cfg); err != nil {
		return err
	}
	return s.ready(ctx)
}

// lock keeps every other server away from the database. Only take makes a leader of who
// has it.
func lock(ctx context.Context, cfg Config) (leadership, error) {
	holder := cfg.Holder
	if holder == "" {
		host, _ := os.Hostname() // only a name for people
		holder = host + ":" + strconv.Itoa(os.Getpid())
	}
	if cfg.Path != "" {
		return lockFile(cfg.Path+".lock", holder)
	}
	return lockSession(ctx, cfg.DSN, holder)
}

// ready makes a database that is locked one to work with.
func (s *Store) ready(ctx context.Context) error {
	if err := migrate(ctx, s.write, s.dialect); err != nil {
		return wrap("opening the database", err)
	}
	if err := s.lead.take(ctx, s.write); err != nil {
		return err
	}
	return s.introduce(ctx)
}

// introduce gives a new database its instance and notes the rules in force.
func (s *Store) introduce(ctx context.Context) error {
	keep := "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING"
	if _, err := s.write.ExecContext(ctx, keep, settingInstance, uuid.NewString()); err != nil {
		return wrap("writing meta", err)
	}
	_, err := s.write.ExecContext(ctx, settings().insertSQL(1, true), settingRules, strconv.Itoa(world.RulesVersion))
	return wrap("writing meta", err)
}

// Deposed is closed when this server may not lead any more: another has taken
// over, or the lease couldn't be renewed in time. Nothing may be started then.
func (s *Store) Deposed() <-chan struct{} { return s.lead.deposed() }

// Close gives the lead up and closes the database.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stmts.close()
	errs := []error{}
	if s.lead != nil {
		errs = append(errs, s.lead.release(s.write))
	}
	return errors.Join(append(errs, s.read.Close(), s.write.Close())...)
}
