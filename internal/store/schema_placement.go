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
			attr[row]{"memory", func(r *row) any { return &r.Memory }},
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

func reservations() *relation[placement.Reservation] {
	type row = placement.Reservation
	return &relation[row]{name: "reservation", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.Reservation { return &r.ID }),
		str("name", func(r *row) *string { return &r.Name }),
		str("partition", func(r *row) *string { return &r.Partition }),
		num("payer", func(r *row) *id.Account { return &r.Payer }),
		num("starts", func(r *row) *int64 { return &r.From }),
		num("upcoming", func(r *row) *int64 { return &r.Next }),
		flag("closed", func(r *row) *bool { return &r.Over }),
		body(
			attr[row]{"accounts", func(r *row) any { return &r.Accounts }},
			attr[row]{"users", func(r *row) any { return &r.Users }},
			attr[row]{"count", func(r *row) any { return &r.Count }},
			attr[row]{"cpu", func(r *row) any { return &r.CPU }},
			attr[row]{"mem", func(r *row) any { return &r.Mem }},
			attr[row]{"gpu", func(r *row) any { return &r.GPU }},
			attr[row]{"model", func(r *row) any { return &r.Model }},
			attr[row]{"where", func(r *row) any { return &r.Where }},
			attr[row]{"nodes", func(r *row) any { return &r.Nodes }},
			attr[row]{"length", func(r *row) any { return &r.Length }},
			attr[row]{"repeat", func(r *row) any { return &r.Repeat }},
			attr[row]{"until", func(r *row) any { return &r.Until }},
			attr[row]{"join", func(r *row) any { return &r.Join }},
			attr[row]{"each", func(r *row) any { return &r.Each }},
			attr[row]{"images", func(r *row) any { return &r.Images }},
			attr[row]{"reason", func(r *row) any { return &r.Reason }},
			attr[row]{"author", func(r *row) any { return &r.By }},
			attr[row]{"created", func(r *row) any { return &r.Created }},
		),
	}}
}

func bookings() *relation[placement.Booking] {
	type row = placement.Booking
	return &relation[row]{name: "booking", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.Booking { return &r.ID }),
		num("reservation", func(r *row) *id.Reservation { return &r.Reservation }),
		num("starts", func(r *row) *int64 { return &r.From }),
		num("ends", func(r *row) *int64 { return &r.To }),
		flag("closed", func(r *row) *bool { return &r.Over }),
		body(
			attr[row]{"parts", func(r *row) any { return &r.Parts }},
			attr[row]{"failed", func(r *row) any { return &r.Failed }},
			attr[row]{"begun", func(r *row) any { return &r.Begun }},
		),
	}}
}
