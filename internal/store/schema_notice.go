package store

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/notice"
)

func contacts() *relation[notice.Contact] {
	type row = notice.Contact
	return &relation[row]{name: "contact", keys: 1, columns: []column[row]{
		num("person", func(r *row) *id.User { return &r.User }),
		str("address", func(r *row) *string { return &r.Address }),
		str("wants", func(r *row) *notice.Wants { return &r.Wants }),
		num("changed", func(r *row) *int64 { return &r.Changed }),
	}}
}

func creditLevels() *relation[notice.Level] {
	type row = notice.Level
	return &relation[row]{name: "credit_level", keys: 1, columns: []column[row]{
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("percent", func(r *row) *int64 { return &r.Percent }),
		flag("overdrawn", func(r *row) *bool { return &r.Over }),
		num("changed", func(r *row) *int64 { return &r.Changed }),
	}}
}

func hooks() *relation[notice.Hook] {
	type row = notice.Hook
	return &relation[row]{name: "webhook", keys: 2, secret: []string{"url", "sealed", "former"}, columns: []column[row]{
		num("person", func(r *row) *id.User { return &r.User }),
		str("name", func(r *row) *string { return &r.Name }),
		str("url", func(r *row) *string { return &r.URL }),
		str("wants", func(r *row) *notice.Wants { return &r.Wants }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		str("sealed", func(r *row) *string { return &r.Sealed }),
		str("former", func(r *row) *string { return &r.Former }),
		num("until", func(r *row) *int64 { return &r.Until }),
		str("off", func(r *row) *string { return &r.Off }),
		num("changed", func(r *row) *int64 { return &r.Changed }),
	}}
}

func notices() *relation[notice.Notice] {
	type row = notice.Notice
	return &relation[row]{name: "notice", keys: 1, columns: []column[row]{
		str("name", func(r *row) *string { return &r.Name }),
		num("seq", func(r *row) *int64 { return &r.Seq }),
		num("at", func(r *row) *int64 { return &r.At }),
		str("kind", func(r *row) *string { return &r.Kind }),
		num("person", func(r *row) *id.User { return &r.User }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("job", func(r *row) *id.Job { return &r.Job }),
		str("address", func(r *row) *string { return &r.Address }),
		str("hook", func(r *row) *string { return &r.Hook }),
		str("subject", func(r *row) *string { return &r.Subject }),
		str("body", func(r *row) *string { return &r.Body }),
		str("state", func(r *row) *notice.State { return &r.State }),
		num("tries", func(r *row) *int64 { return &r.Tries }),
		num("due", func(r *row) *int64 { return &r.Due }),
		num("done", func(r *row) *int64 { return &r.Done }),
		str("why", func(r *row) *string { return &r.Why }),
	}}
}
