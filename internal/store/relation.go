package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// relation maps a row type to a table. It is the only place that knows the
// columns: the statements, writing and reading all follow from it.
type relation[R any] struct {
	name    string
	keys    int // so many of the first columns are the key
	append  bool
	adds    bool     // a row with a key that is there already adds to it
	secret  []string // fields whose values no log has, as values names them
	columns []column[R]
}

// column is one column of R: what is written, and where what is read goes.
type column[R any] struct {
	name string
	json bool // its text is JSON
	get  func(*R) (any, error)
	dst  func(*R) any
}

// num is a BIGINT column.
func num[R any, T ~int64 | ~int32 | ~int8 | ~int](name string, field func(*R) *T) column[R] {
	return column[R]{
		name: name,
		get:  func(r *R) (any, error) { return int64(*field(r)), nil },
		dst:  func(r *R) any { return scanNum[T]{field(r)} },
	}
}

// scanNum spares what database/sql does to a type of ours: to text and back.
type scanNum[T ~int64 | ~int32 | ~int8 | ~int] struct{ to *T }

// Scan implements sql.Scanner.
func (s scanNum[T]) Scan(v any) error {
	n, ok := v.(int64)
	if *s.to = T(n); !ok || int64(*s.to) != n {
		return fmt.Errorf("%v (%T) where a number is expected", v, v)
	}
	return nil
}

// str is a TEXT column.
func str[R any, T ~string](name string, field func(*R) *T) column[R] {
	return column[R]{
		name: name,
		get:  func(r *R) (any, error) { return string(*field(r)), nil },
		dst: func(r *R) any {
			return scanFunc(func(s string) error {
				*field(r) = T(s)
				return nil
			})
		},
	}
}

// flag is a BOOLEAN column.
func flag[R any](name string, field func(*R) *bool) column[R] {
	return column[R]{
		name: name,
		get:  func(r *R) (any, error) { return *field(r), nil },
		dst:  func(r *R) any { return field(r) },
	}
}

// doc is a TEXT column with the JSON of a field.
func doc[R, T any](name string, field func(*R) *T) column[R] {
	c := encoded(name,
		func(r *R) (string, error) {
			b, err := json.Marshal(field(r))
			return string(b), err
		},
		func(r *R, s string) error { return json.Unmarshal([]byte(s), field(r)) })
	c.json = true
	return c
}

// raw is a TEXT column with bytes that are UTF-8 already.
func raw[R any](name string, field func(*R) *[]byte) column[R] {
	return encoded(name,
		func(r *R) (string, error) { return string(*field(r)), nil },
		func(r *R, s string) error {
			if *field(r) = nil; s != "" {
				*field(r) = []byte(s)
			}
			return nil
		})
}

// encoded is a TEXT column with a form of its own.
func encoded[R any](name string, get func(*R) (string, error), set func(*R, string) error) column[R] {
	return column[R]{
		name: name,
		get:  func(r *R) (any, error) { return get(r) },
		dst:  func(r *R) any { return scanFunc(func(s string) error { return set(r, s) }) },
	}
}

// attr is a field in a JSON object, for what nothing queries by.
type attr[R any] struct {
	name  string
	field func(*R) any // a pointer to it
}

const bodyColumn = "body"

// body is a TEXT column with a JSON object of fields, without those that are zero.
func body[R any](attrs ...attr[R]) column[R] {
	c := encoded(bodyColumn, func(r *R) (string, error) {
		b := []byte{'{'}
		for _, a := range attrs {
			v := a.field(r)
			if reflect.ValueOf(v).Elem().IsZero() {
				continue
			}
			text, err := json.Marshal(v)
			if err != nil {
				return "", fmt.Errorf("%s: %w", a.name, err)
			}
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(append(strconv.AppendQuote(b, a.name), ':'), text...)
		}
		return string(append(b, '}')), nil
	}, func(r *R, s string) error {
		var parts map[string]json.RawMessage
		if err := json.Unmarshal([]byte(s), &parts); err != nil {
			return err
		}
		for _, a := range attrs {
			if text, ok := parts[a.name]; ok {
				if err := json.Unmarshal(text, a.field(r)); err != nil {
					return fmt.Errorf("%s: %w", a.name, err)
				}
			}
		}
		return nil
	})
	c.json = true
	return c
}

type scanFunc func(string) error

// Scan implements sql.Scanner.
func (f scanFunc) Scan(v any) error {
	switch v := v.(type) {
	case string:
		return f(v)
	case []byte:
		return f(string(v))
	}
	return fmt.Errorf("a %T where text is expected", v)
}

func (r *relation[R]) list() string {
	names := make([]string, len(r.columns))
	for i, c := range r.columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

// insertSQL is the statement that puts n rows, with numbered parameters or plain
// ones: see dialect.
func (r *relation[R]) insertSQL(n int, numbered bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES ", r.name, r.list())
	arg := 0
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		for j := range r.columns {
			sep := ", "
			if j == 0 {
				sep = "("
			}
			b.WriteString(sep)
			if arg++; numbered {
				b.WriteString("$" + strconv.Itoa(arg))
			} else {
				b.WriteByte('?')
			}
		}
		b.WriteByte(')')
	}
	if r.append {
		return b.String()
	}
	b.WriteString(" ON CONFLICT (")
	for j, c := range r.columns[:r.keys] {
		if j > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c.name)
	}
	b.WriteString(") DO UPDATE SET ")
	for j, c := range r.columns[r.keys:] {
		if j > 0 {
			b.WriteString(", ")
		}
		if r.adds {
			fmt.Fprintf(&b, "%s = %s.%s + excluded.%s", c.name, r.name, c.name, c.name)
		} else {
			fmt.Fprintf(&b, "%s = excluded.%s", c.name, c.name)
		}
	}
	return b.String()
}

// args appends the values of a row.
func (r *relation[R]) args(dst []any, row *R) ([]any, error) {
	for _, c := range r.columns {
		v, err := c.get(row)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", r.name, c.name, err)
		}
		dst = append(dst, v)
	}
	return dst, nil
}

// querier is a *sql.DB or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// each reads rows: rest is what follows "SELECT columns FROM name". Every row is a
// value of its own.
func (r *relation[R]) each(ctx context.Context, q querier, rest string, args []any, do func(*R) error) error {
	rows, err := q.QueryContext(ctx, "SELECT "+r.list()+" FROM "+r.name+" "+rest, args...)
	if err != nil {
		return wrap("reading "+r.name, err)
	}
	defer rows.Close()
	var next, none R
	dst := make([]any, len(r.columns))
	for i, c := range r.columns {
		dst[i] = c.dst(&next)
	}
	for rows.Next() {
		next = none
		if err := rows.Scan(dst...); err != nil {
			return wrap("reading "+r.name, err)
		}
		row := next
		if err := do(&row); err != nil {
			return err
		}
	}
	return wrap("reading "+r.name, rows.Err())
}

// all collects the rows that each reads.
func (r *relation[R]) all(ctx context.Context, q querier, rest string, args ...any) ([]R, error) {
	var out []R
	err := r.each(ctx, q, rest, args, func(row *R) error {
		out = append(out, *row)
		return nil
	})
	return out, err
}
