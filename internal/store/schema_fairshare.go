package store

import (
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
)

func shares() *relation[fairshare.Use] {
	type row = fairshare.Use
	return &relation[row]{name: "share", keys: 2, columns: []column[row]{
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("person", func(r *row) *id.User { return &r.User }),
		num("remains", func(r *row) *money.Micros { return &r.Left }),
		num("at", func(r *row) *int64 { return &r.At }),
	}}
}
