package admission

import (
	"strings"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/workload"
)

// offer checks that the account may use the partition and the QoS, and those two
// each other.
func (d *decision) offer() {
	p, q := d.Subject.Partition, d.Subject.QoS
	if !p.Admits(d.path) {
		d.refuse(fault.Reason{
			Code: codes.PartitionDenied, Field: "partition", Observed: p.Name, Scope: "account " + d.Subject.Account.Name, Never: true,
			Message: "account " + d.Subject.Account.Name + " may not use partition " + p.Name,
		})
	}
	switch {
	case !q.Admits(d.path):
		d.refuse(fault.Reason{
			Code: codes.QoSDenied, Field: "qos", Observed: q.Name, Scope: "account " + d.Subject.Account.Name, Never: true,
			Message: "account " + d.Subject.Account.Name + " may not use QoS " + q.Name,
		})
	case !p.Takes(q):
		d.refuse(fault.Reason{
			Code: codes.QoSDenied, Field: "qos", Observed: q.Name, Scope: "partition " + p.Name, Never: true,
			Bound:   strings.Join(d.qosIn(p.Name), " "),
			Message: "QoS " + q.Name + " isn't for partition " + p.Name,
		})
	}
}

// qosIn names the QoS that the account may use in a partition.
func (d *decision) qosIn(partition string) []string {
	p, _ := d.Catalog.Partitions.Get(partition)
	var out []string
	for name, q := range d.Catalog.QoS.All() {
		if p.Takes(q) && q.Admits(d.path) {
			out = append(out, name)
		}
	}
	return out
}

// atOnce refuses a job that would have to wait where its QoS lets none wait: what
// keeps it now is said, and when it could start. A job for which others are stopped
// doesn't count as waiting.
func (d *decision) atOnce() {
	if d.Gate != Accept || !d.Subject.QoS.Refuse || d.out.Never() {
		return
	}
	now := Request{Subject: d.Subject, Spec: d.Spec, Gate: Start}
	start := decision{View: d.View, Request: now, path: d.path, shape: d.shape}
	start.out.Demand = d.out.Demand
	start.bounds()
	w := StartWindow(d.View, now, start.out)
	if w.Start != 0 && (w.Start <= d.Now || w.Stops > 0) {
		return
	}
	start.place()
	for _, r := range start.out.Reasons {
		d.refuse(r)
	}
	r := fault.Reason{
		Code: codes.QoSBusy, Field: "qos", Observed: d.Subject.QoS.Name, Scope: "QoS " + d.Subject.QoS.Name,
		Message: "QoS " + d.Subject.QoS.Name + " doesn't wait, and when this could start isn't known",
	}
	if w.Start != 0 {
		r.Bound = time.Unix(0, w.Start).UTC().Format(time.RFC3339)
		r.Message = "QoS " + d.Subject.QoS.Name + " doesn't wait: this could start at " + r.Bound
	}
	d.refuse(r)
}

// patient is the spec with a QoS that lets it wait, if the account may use one: the
// default one, else the first by name.
func patient(v View, r Request) (workload.Spec, bool) {
	d := decision{View: v, Request: r, path: v.Tenancy.Path(r.Subject.Account.ID)}
	names := d.qosIn(r.Subject.Partition.Name)
	if q, ok := v.Catalog.QoSNamed(""); ok {
		names = append([]string{q.Name}, names...)
	}
	for _, name := range names {
		if q, _ := v.Catalog.QoS.Get(name); !q.Refuse && q.Admits(d.path) && r.Subject.Partition.Takes(q) {
			r.Spec.QoS = name
			return r.Spec, true
		}
	}
	return r.Spec, false
}
