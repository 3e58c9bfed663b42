package store

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// MigrateTo makes an empty database as an earlier program made it.
func MigrateTo(tb testing.TB, cfg Config, db *sql.DB, version int64) {
	tb.Helper()
	d := sqliteDialect()
	if cfg.DSN != "" {
		d = postgresDialect()
	}
	p, _, err := provider(db, d)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := p.UpTo(tb.Context(), version); err != nil {
		tb.Fatal(err)
	}
}

// BoundPages makes the disk full beyond the database's present size and so many
// pages, until the function that it returns is called.
func BoundPages(tb testing.TB, s *Store, more int) (restore func()) {
	tb.Helper()
	var pages int
	if err := s.write.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		tb.Fatal(err)
	}
	set := func(n int) {
		if _, err := s.write.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", n)); err != nil {
			tb.Fatal(err)
		}
	}
	set(pages + more)
	return func() { set(1 << 30) }
}

// ImpatientFor makes the store wait for no lock.
func ImpatientFor(tb testing.TB, s *Store) {
	tb.Helper()
	if _, err := s.write.Exec("PRAGMA busy_timeout = 1"); err != nil {
		tb.Fatal(err)
	}
}

// LoseSession breaks the leader's session, as if its process had gone: the lease
// isn't renewed any more and the lock is free.
func LoseSession(tb testing.TB, s *Store) {
	tb.Helper()
	l := s.lead.(*sessionLead)
	if err := l.db.Close(); err != nil {
		tb.Fatal(err)
	}
	_ = l.conn.Close()
}

// Migration is the text of a migration.
func Migration(version int) (string, error) {
	names, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		return "", err
	}
	for _, f := range names {
		if strings.HasPrefix(f.Name(), fmt.Sprintf("%05d_", version)) {
			text, err := migrationFiles.ReadFile("migrations/" + f.Name())
			return string(text), err
		}
	}
	return "", fmt.Errorf("there is no migration %d", version)
}
