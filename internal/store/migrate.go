package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrate brings the schema up to this program's version. A newer schema than that
// is refused and left as it is.
func migrate(ctx context.Context, db *sql.DB, d dialect) error {
	p, own, err := provider(db, d)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	have, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema's version: %w", err)
	}
	if have > own {
		return fmt.Errorf("%w: the database has version %d and this program knows up to %d; use the newer croftd", ErrNewerSchema, have, own)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrating the schema: %w", err)
	}
	return nil
}

// provider has the migrations; own is the last one's version.
func provider(db *sql.DB, d dialect) (p *goose.Provider, own int64, err error) {
	steps, err := migrations(d)
	if err != nil {
		return nil, 0, err
	}
	p, err = goose.NewProvider(d.goose, db, nil,
		goose.WithGoMigrations(steps...), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	return p, steps[len(steps)-1].Version, err
}

// rewrites is what a migration does after its file, where SQL that both databases
// know doesn't suffice.
var rewrites = map[int64]func(context.Context, *sql.Tx) error{14: milliDevices}

// migrations reads the embedded files, in order, in the dialect's types. A file is
// run whole, with its rewrite, in one transaction.
func migrations(d dialect) ([]*goose.Migration, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var out []*goose.Migration
	for _, name := range names {
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", name, err)
		}
		script := d.ddl.Replace(string(text))
		out = append(out, goose.NewGoMigration(version, &goose.GoFunc{
			RunTx: func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, script)
				if rewrite := rewrites[version]; err == nil && rewrite != nil {
					err = rewrite(ctx, tx)
				}
				return err
			},
		}, nil))
	}
	return out, nil
}
