package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"croft.dev/croft/internal/store/archive"
)

// shape is the tables of one version of the schema, whichever database has them. The
// migrations are run to find it, so that it is what they make.
type shape struct {
	version int64
	tables  []shapeTable
}

type shapeTable struct {
	name    string
	columns []string
	order   string // the key, in the same order on every database
	flags   []bool // columns that are BOOLEAN
}

// aside are tables that say how a database is used, not what is in it.
var aside = []string{"leader", "goose_db_version"}

// shapeOf is the shape of a version that this program knows.
func shapeOf(ctx context.Context, version int64, collate string) (shape, error) {
	out := shape{version: version}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return out, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // another connection would have another memory
	p, own, err := provider(db, sqliteDialect())
	if err != nil {
		return out, fmt.Errorf("migrations: %w", err)
	}
	if version > own {
		return out, fmt.Errorf("%w: it has version %d and this program knows up to %d; use the newer croftd", ErrNewerSchema, version, own)
	}
	if _, err := p.UpTo(ctx, version); err != nil {
		return out, fmt.Errorf("making schema %d: %w", version, err)
	}
	names, err := texts(ctx, db, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name")
	if err != nil {
		return out, err
	}
	for _, name := range names {
		if slices.Contains(aside, name) {
			continue
		}
		t := shapeTable{name: name}
		if err := t.read(ctx, db, collate); err != nil {
			return out, fmt.Errorf("the columns of %s: %w", name, err)
		}
		out.tables = append(out.tables, t)
	}
	return out, nil
}

func (t *shapeTable) read(ctx context.Context, db *sql.DB, collate string) error {
	rows, err := db.QueryContext(ctx, "SELECT name, type, pk FROM pragma_table_info($1) ORDER BY cid", t.name)
	if err != nil {
		return err
	}
	defer rows.Close()
	keys := map[int]string{}
	for rows.Next() {
		var name, kind string
		var key int
		if err := rows.Scan(&name, &kind, &key); err != nil {
			return err
		}
		t.columns, t.flags = append(t.columns, name), append(t.flags, kind == "BOOLEAN")
		if kind == "TEXT" {
			name += collate
		}
		if key > 0 {
			keys[key] = name
		}
	}
	var order []string
	for i := range len(keys) {
		order = append(order, keys[i+1])
	}
	t.order = strings.Join(order, ", ")
	if t.order == "" {
		return fmt.Errorf("%s has no key", t.name)
	}
	return rows.Err()
}

// selectSQL reads all rows, in order.
func (t shapeTable) selectSQL() string {
	return "SELECT " + strings.Join(t.columns, ", ") + " FROM " + t.name + " ORDER BY " + t.order
}

// matches checks that an archive's tables are those of the shape.
func (s shape) matches(m archive.Manifest) error {
	same := slices.EqualFunc(s.tables, m.Tables, func(t shapeTable, a archive.Table) bool {
		return t.name == a.Name && slices.Equal(t.columns, a.Columns)
	})
	if !same {
		return fmt.Errorf("%w: its tables aren't those of schema %d", archive.ErrDamaged, s.version)
	}
	return nil
}

func texts(ctx context.Context, q querier, query string) (out []string, err error) {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}
