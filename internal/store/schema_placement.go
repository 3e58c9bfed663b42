package store

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
)

func nodes() *relation[placement.Node] {
	type row = placement.Node
	return &relation[row]{name: "node", keys: 1, columns: []column[row]{
		str("name", func(r *row) *string { return &r.Name }),
		num("cpu", func(r *row) *int64 { return &r.CPU }),
		num("memory", func(r *row) *int64 { return &r.Memory }),
		flag("ready", func(r *row) *bool { return &r.Ready }),
		flag("gone", func(r *row) *bool { return &r.Gone }),
		flag("drained", func(r *row) *bool { return &r.Drained }),
		body(
			attr[row]{"reason", func(r *row) any { return &r.Reason }},
			attr[row]{"why", func(r *row) any { return &r.Why }},
			attr[row]{"labels", func(r *row) any { return &r.Labels }},
			attr[row]{"added", func(r *row) any { return &r.Added }},
		),
	}}
}

func devices() *relation[placement.Device] {
	type row = placement.Device
	return &relation[row]{name: "device", keys: 1, columns: []column[row]{
		str("uuid", func(r *row) *string { return &r.UUID }),
		str("node", func(r *row) *string { return &r.Node }),
		num("idx", func(r *row) *int { return &r.Index }),
		str("model", func(r *row) *string { return &r.Model }),
		flag("healthy", func(r *row) *bool { return &r.Healthy }),
		flag("gone", func(r *row) *bool { return &r.Gone }),
		body(
			attr[row]{"name", func(r *row) any { return &r.Name }},
			attr[row]{"cdi", func(r *row) any { return &r.CDI }},
			attr[row]{"reason", func(r *row) any { return &r.Reason }},
			attr[row]{"foreign", func(r *row) any { return &r.Foreign }},
		),
	}}
}

func windows() *relation[placement.Maintenance] {
	type row = placement.Maintenance
	return &relation[row]{name: "maintenance", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.Maintenance { return &r.ID }),
		str("node", func(r *row) *string { return &r.Node }),
		num("starts", func(r *row) *int64 { return &r.From }),
		num("ends", func(r *row) *int64 { return &r.To }),
		str("reason", func(r *row) *string { return &r.Reason }),
		num("author", func(r *row) *id.User { return &r.By }),
		flag("closed", func(r *row) *bool { return &r.Over }),
	}}
}
