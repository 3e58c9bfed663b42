package store

import (
	"encoding/json"

	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/world"
)

// logRow is an entry with a place for its key, whether it has one or not.
type logRow struct {
	world.Entry
	key world.Key
}

func newLogRow(e world.Entry) *logRow {
	r := &logRow{Entry: e}
	if e.Key != nil {
		r.key = *e.Key
	}
	return r
}

// entry gives the key back the columns that it shares with the row.
func (r *logRow) entry() world.Entry {
	if r.key.Name != "" {
		r.key.Seq, r.key.At = r.Seq, r.At
		r.Key = &r.key
	}
	return r.Entry
}

func logRows() *relation[logRow] {
	type row = logRow
	return &relation[row]{name: "log", keys: 1, append: true, columns: []column[row]{
		num("seq", func(r *row) *int64 { return &r.Seq }),
		num("at", func(r *row) *int64 { return &r.At }),
		num("person", func(r *row) *id.User { return &r.User }),
		str("principal", func(r *row) *string { return &r.Principal }),
		str("kind", func(r *row) *string { return &r.Kind }),
		raw("command", func(r *row) *[]byte { return &r.Command }),
		str("touched", func(r *row) *string { return &r.Touched }),
		raw("changed", func(r *row) *[]byte { return &r.Changed }),
		num("job", func(r *row) *id.Job { return &r.Event.Job }),
		num("refusal", func(r *row) *id.Refusal { return &r.Event.Refusal }),
		num("account", func(r *row) *id.Account { return &r.Event.Account }),
		str("state", func(r *row) *string { return &r.Event.State }),
		str("message", func(r *row) *string { return &r.Event.Message }),
		encoded("reasons", marshalReasons, unmarshalReasons),
		str("key_name", func(r *row) *string { return &r.key.Name }),
		str("key_digest", func(r *row) *string { return &r.key.Digest }),
		num("key_job", func(r *row) *id.Job { return &r.key.Job }),
		num("key_refusal", func(r *row) *id.Refusal { return &r.key.Refusal }),
		str("prev", func(r *row) *string { return &r.Prev }),
		str("hash", func(r *row) *string { return &r.Hash }),
	}}
}

func marshalReasons(r *logRow) (string, error) {
	if len(r.Event.Reasons) == 0 {
		return "", nil
	}
	b, err := json.Marshal(r.Event.Reasons)
	return string(b), err
}

func unmarshalReasons(r *logRow, s string) error {
	if s == "" {
		return nil
	}
	var all []fault.Reason
	err := json.Unmarshal([]byte(s), &all)
	r.Event.Reasons = all
	return err
}

// setting is a row of meta.
type setting struct{ name, value string }

func settings() *relation[setting] {
	type row = setting
	return &relation[row]{name: "meta", keys: 1, columns: []column[row]{
		str("name", func(r *row) *string { return &r.name }),
		str("value", func(r *row) *string { return &r.value }),
	}}
}

// The names of settings.
const (
	settingInstance = "instance"
	settingRules    = "rules_version"
	settingSite     = "site"
)
