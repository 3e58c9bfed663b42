package store

import (
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
)

func requests() *relation[approval.Request] {
	type row = approval.Request
	return &relation[row]{name: "request", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.Request { return &r.ID }),
		num("person", func(r *row) *id.User { return &r.User }),
		doc("token", func(r *row) *tenancy.ByToken { return &r.Token }),
		str("kind", func(r *row) *approval.Kind { return &r.Kind }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("other", func(r *row) *id.Account { return &r.Other }),
		doc("wish", func(r *row) *approval.Wish { return &r.Wish }),
		str("message", func(r *row) *string { return &r.Message }),
		str("state", func(r *row) *approval.Stage { return &r.State }),
		num("created", func(r *row) *int64 { return &r.Created }),
		num("expires", func(r *row) *int64 { return &r.Expires }),
		num("reminded", func(r *row) *int64 { return &r.Reminded }),
		num("decided", func(r *row) *int64 { return &r.Decided }),
		num("decided_by", func(r *row) *id.User { return &r.By }),
		str("said", func(r *row) *string { return &r.Said }),
		str("failed", func(r *row) *string { return &r.Failed }),
	}}
}
