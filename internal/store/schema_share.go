package store

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/share"
)

func queueShares() *relation[share.Share] {
	type row = share.Share
	return &relation[row]{name: "queue_share", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.Share { return &r.ID }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		str("partition", func(r *row) *string { return &r.Partition }),
		str("resource", func(r *row) *limits.Resource { return &r.Resource }),
		num("guaranteed", func(r *row) *int64 { return &r.Guaranteed }),
		num("bound", func(r *row) *int64 { return &r.Limit }),
		num("borrows", func(r *row) *int64 { return &r.Borrow }),
		num("lends", func(r *row) *int64 { return &r.Lend }),
		num("weight", func(r *row) *int64 { return &r.Weight }),
		num("author", func(r *row) *id.User { return &r.By }),
		flag("removed", func(r *row) *bool { return &r.Removed }),
	}}
}
