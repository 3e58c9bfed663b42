package query

import (
	"cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/quantity"
)

// Partitions lists the partitions by name, each with its nodes.
func (r *Reader) Partitions(p access.Principal) []v1.Partition {
	v := r.view(p)
	out := []v1.Partition{}
	for _, row := range v.w.Catalog.Partitions.All() {
		out = append(out, v.partitionWire(row))
	}
	return out
}

// Partition returns one.
func (r *Reader) Partition(p access.Principal, name string) (v1.Partition, error) {
	v := r.view(p)
	row, ok := v.w.Catalog.Partitions.Get(name)
	if !ok {
		return v1.Partition{}, fault.NotFound("partition", clip(name))
	}
	return v.partitionWire(row), nil
}

func (v view) partitionWire(row catalog.Partition) v1.Partition {
	out := v1.Partition{
		Name: row.Name, Nodes: []string{}, Default: row.Default, Configured: row.Configured, Priority: row.Priority,
		MaxTime: spanWire(row.MaxWall), DefaultTime: spanWire(row.DefWall), ShareDevices: row.ShareDevices,
		Restricted: len(row.Allow)+len(row.Deny) > 0, Accounts: v.seen(row.Allow), Deny: v.seen(row.Deny), QoS: row.QoS,
	}
	for name, n := range v.w.Placement.Nodes.All() {
		if !n.Gone && row.Has(name) {
			out.Nodes = append(out.Nodes, name)
		}
	}
	return out
}

// QoSList lists the qualities of service by name.
func (r *Reader) QoSList(p access.Principal) []v1.QoS {
	v := r.view(p)
	out := []v1.QoS{}
	for _, row := range v.w.Catalog.QoS.All() {
		out = append(out, v.qosWire(row))
	}
	return out
}

// QoS returns one.
func (r *Reader) QoS(p access.Principal, name string) (v1.QoS, error) {
	v := r.view(p)
	row, ok := v.w.Catalog.QoS.Get(name)
	if !ok {
		return v1.QoS{}, fault.NotFound("QoS", clip(name))
	}
	return v.qosWire(row), nil
}

func (v view) qosWire(row catalog.QoS) v1.QoS {
	c := row.Contract
	return v1.QoS{
		Name: row.Name, Default: row.Default, Configured: row.Configured, Priority: row.Priority,
		Factor: quantity.FormatDecimal(row.Factor, 3, 0), MaxTime: spanWire(row.MaxWall), DefaultTime: spanWire(row.DefWall),
		Grace: spanWire(row.Grace), MaxGrace: spanWire(row.MaxGrace),
		Restricted: len(row.Allow) > 0, Accounts: v.seen(row.Allow), Partitions: row.Partitions,
		Busy: word(row.Refuse, "refuse", "queue"), Preempts: row.Preempts,
		Exempt: c.Exempt, MinRun: spanWire(c.MinRun), PreemptSignal: cmp.Or(c.Signal, "TERM"), PreemptGrace: spanWire(c.Grace),
		PreemptMode: word(c.Cancel, "cancel", "requeue"), PreemptMoney: word(c.Keep, "keep", "refund"),
	}
}

// seen names those of the accounts that the caller may see.
func (v view) seen(ids []id.Account) []string {
	var out []string
	for _, a := range ids {
		if v.may(access.AccountSee, 0, a) {
			out = append(out, v.account(a))
		}
	}
	return out
}

// spanWire is a time in ns as specs are written; none is "".
func spanWire(ns int64) v1.Quantity {
	if ns == 0 {
		return ""
	}
	return v1.Quantity(limits.Format(limits.Time, ns))
}

func word(cond bool, yes, no string) string {
	if cond {
		return yes
	}
	return no
}
