package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// milliDevices is the part of migration 14 that looks into JSON: numbers of devices
// in specs, attempts and limits become thousandths of one. It names fields as they
// were called then, whatever the types of today call them.
func milliDevices(ctx context.Context, tx *sql.Tx) error {
	for _, c := range []struct {
		table, column, where string
		edit                 func(map[string]json.RawMessage) error
	}{
		{"job", "spec", `spec LIKE '%"gpu":%'`, scaleSpec},
		{"refusal", "spec", `spec LIKE '%"gpu":%'`, scaleSpec},
		{"job", "body", `body LIKE '%"Models":[%'`, scaleAttempts},
		{"limits", "body", `(resource = 'gpu-hours' OR resource LIKE 'gpu-hours:%') AND body LIKE '%"carry":%'`, scaleCarry},
	} {
		if err := rewrite(ctx, tx, c.table, c.column, c.where, c.edit); err != nil {
			return fmt.Errorf("%s.%s in milli-devices: %w", c.table, c.column, err)
		}
	}
	return nil
}

// rewriteRows is how many rows a migration reads at a time.
const rewriteRows = 1000

// rewrite edits the JSON objects of a column in some of its rows, in the order of ids.
func rewrite(ctx context.Context, tx *sql.Tx, table, column, where string, edit func(map[string]json.RawMessage) error) error {
	for after := int64(0); ; {
		texts, last, err := readTexts(ctx, tx, "SELECT id, "+column+" FROM "+table+" WHERE id > $1 AND "+where+" ORDER BY id LIMIT $2", after)
		if err != nil || len(texts) == 0 {
			return err
		}
		for id, text := range texts {
			var object map[string]json.RawMessage
			if err := json.Unmarshal([]byte(text), &object); err != nil {
				return fmt.Errorf("row %d: %w", id, err)
			}
			if err := edit(object); err != nil {
				return fmt.Errorf("row %d: %w", id, err)
			}
			out, err := json.Marshal(object)
			if err != nil {
				return fmt.Errorf("row %d: %w", id, err)
			}
			if _, err := tx.ExecContext(ctx, "UPDATE "+table+" SET "+column+" = $1 WHERE id = $2", string(out), id); err != nil {
				return err
			}
		}
		after = last
	}
}

func readTexts(ctx context.Context, tx *sql.Tx, query string, after int64) (texts map[int64]string, last int64, err error) {
	rows, err := tx.QueryContext(ctx, query, after, rewriteRows)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	texts = map[int64]string{}
	for rows.Next() {
		var text string
		if err := rows.Scan(&last, &text); err != nil {
			return nil, 0, err
		}
		texts[last] = text
	}
	return texts, last, rows.Err()
}

func scaleSpec(spec map[string]json.RawMessage) error { return scale(spec, "gpu") }

func scaleCarry(body map[string]json.RawMessage) error {
	return within(body, "carry", func(carry map[string]json.RawMessage) error { return scale(carry, "amount") })
}

func scaleAttempts(body map[string]json.RawMessage) error {
	if err := within(body, "attempt", scaleModels); err != nil {
		return err
	}
	return each(body, "past", scaleModels)
}

func scaleModels(attempt map[string]json.RawMessage) error {
	return each(attempt, "Models", func(count map[string]json.RawMessage) error { return scale(count, "Count") })
}

// scale multiplies a number by 1000, as far as it goes.
func scale(object map[string]json.RawMessage, field string) error {
	text, ok := object[field]
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return err
	}
	if n > math.MaxInt64/1000 {
		n = math.MaxInt64 / 1000
	}
	object[field] = strconv.AppendInt(nil, n*1000, 10)
	return nil
}

// within edits an object in a field.
func within(object map[string]json.RawMessage, field string, edit func(map[string]json.RawMessage) error) error {
	return decoded(object, field, func(inner *map[string]json.RawMessage) error { return edit(*inner) })
}

// each edits the objects of a list in a field.
func each(object map[string]json.RawMessage, field string, edit func(map[string]json.RawMessage) error) error {
	return decoded(object, field, func(list *[]map[string]json.RawMessage) error {
		for _, inner := range *list {
			if err := edit(inner); err != nil {
				return err
			}
		}
		return nil
	})
}

func decoded[T any](object map[string]json.RawMessage, field string, edit func(*T) error) error {
	text, ok := object[field]
	if !ok {
		return nil
	}
	var v T
	err := json.Unmarshal(text, &v)
	if err == nil {
		err = edit(&v)
	}
	if err == nil {
		object[field], err = json.Marshal(v)
	}
	return err
}
