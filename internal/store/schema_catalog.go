package store

import (
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
)

func partitions() *relation[catalog.Partition] {
	type row = catalog.Partition
	return &relation[row]{name: "partition", keys: 1, columns: []column[row]{
		str("name", func(r *row) *string { return &r.Name }),
		doc("nodes", func(r *row) *[]string { return &r.Nodes }),
		flag("is_default", func(r *row) *bool { return &r.Default }),
		num("max_wall", func(r *row) *int64 { return &r.MaxWall }),
		num("def_wall", func(r *row) *int64 { return &r.DefWall }),
		flag("retired", func(r *row) *bool { return &r.Retired }),
		body(
			attr[row]{"priority", func(r *row) any { return &r.Priority }},
			attr[row]{"share_devices", func(r *row) any { return &r.ShareDevices }},
			attr[row]{"allow", func(r *row) any { return &r.Allow }},
			attr[row]{"deny", func(r *row) any { return &r.Deny }},
			attr[row]{"qos", func(r *row) any { return &r.QoS }},
			attr[row]{"configured", func(r *row) any { return &r.Configured }},
		),
	}}
}

func repositories() *relation[catalog.Repository] {
	type row = catalog.Repository
	return &relation[row]{name: "repository", keys: 1, columns: []column[row]{
		str("name", func(r *row) *string { return &r.Name }),
		num("since", func(r *row) *int64 { return &r.Since }),
	}}
}

func qualities() *relation[catalog.QoS] {
	type row = catalog.QoS
	return &relation[row]{name: "qos", keys: 1, columns: []column[row]{
		str("name", func(r *row) *string { return &r.Name }),
		flag("is_default", func(r *row) *bool { return &r.Default }),
		num("priority", func(r *row) *int64 { return &r.Priority }),
		num("factor", func(r *row) *int64 { return &r.Factor }),
		num("max_wall", func(r *row) *int64 { return &r.MaxWall }),
		num("grace", func(r *row) *int64 { return &r.Grace }),
		num("max_grace", func(r *row) *int64 { return &r.MaxGrace }),
		flag("retired", func(r *row) *bool { return &r.Retired }),
		body(
			attr[row]{"def_wall", func(r *row) any { return &r.DefWall }},
			attr[row]{"allow", func(r *row) any { return &r.Allow }},
			attr[row]{"partitions", func(r *row) any { return &r.Partitions }},
			attr[row]{"refuse", func(r *row) any { return &r.Refuse }},
			attr[row]{"preempts", func(r *row) any { return &r.Preempts }},
			attr[row]{"contract", func(r *row) any { return &r.Contract }},
			attr[row]{"configured", func(r *row) any { return &r.Configured }},
		),
	}}
}

func prices() *relation[catalog.Price] {
	type row = catalog.Price
	return &relation[row]{name: "price", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.Price { return &r.ID }),
		str("partition", func(r *row) *string { return &r.Partition }),
		num("starts", func(r *row) *int64 { return &r.From }),
		num("cpu", func(r *row) *money.Rate { return &r.CPU }),
		num("memory", func(r *row) *money.Rate { return &r.Memory }),
		doc("devices", func(r *row) *[]catalog.ModelRate { return &r.Devices }),
		num("author", func(r *row) *id.User { return &r.By }),
		num("published", func(r *row) *int64 { return &r.Published }),
	}}
}

func bounds() *relation[limits.Limit] {
	type row = limits.Limit
	return &relation[row]{name: "limits", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.Limit { return &r.ID }),
		num("account", func(r *row) *id.Account { return &r.Scope.Account }),
		num("person", func(r *row) *id.User { return &r.Scope.User }),
		str("partition", func(r *row) *string { return &r.Scope.Partition }),
		str("qos", func(r *row) *string { return &r.Scope.QoS }),
		str("resource", func(r *row) *limits.Resource { return &r.Resource }),
		num("bound", func(r *row) *int64 { return &r.Max }),
		num("author", func(r *row) *id.User { return &r.By }),
		flag("removed", func(r *row) *bool { return &r.Removed }),
		body(
			attr[row]{"per", func(r *row) any { return &r.Per }},
			attr[row]{"carry", func(r *row) any { return &r.Carry }},
		),
	}}
}

func periods() *relation[limits.Period] {
	type row = limits.Period
	return &relation[row]{name: "limit_period", keys: 2, columns: []column[row]{
		num("limit_id", func(r *row) *id.Limit { return &r.Limit }),
		num("starts", func(r *row) *int64 { return &r.From }),
		num("ends", func(r *row) *int64 { return &r.To }),
		num("bound", func(r *row) *int64 { return &r.Max }),
		num("carried", func(r *row) *int64 { return &r.Carried }),
		num("used", func(r *row) *int64 { return &r.Used }),
		flag("over", func(r *row) *bool { return &r.Over }),
	}}
}
