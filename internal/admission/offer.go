package admission

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

// offer checks that the account may use the partition and the QoS, and those two
// each other, and that the reservation isn't over.
func (d *decision) offer() {
	p, q := d.Subject.Partition, d.Subject.QoS
	if name := d.Spec.Reservation; name != "" && d.Subject.In.ID == 0 {
		d.refuse(ReservationOver(name))
	}
	d.apiece()
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

// ReservationOver is why a job that was to run in a reservation never will.
func ReservationOver(name string) fault.Reason {
	return fault.Reason{Code: codes.ReservationOver, Field: "reservation", Observed: name, Message: "reservation " + name + " is over", Never: true}
}

// apiece refuses a job of a user of whom as many run in the reservation as of each may.
func (d *decision) apiece() {
	r := d.Subject.In
	if d.Gate != Start || r.Each == 0 {
		return
	}
	var own []string
	for j := range d.inside(r, d.Subject.User.ID) {
		own = append(own, j.Name())
	}
	if int64(len(own)) < r.Each {
		return
	}
	d.refuse(fault.Reason{
		Code: codes.ReservationEach, Observed: strconv.Itoa(len(own)), Bound: strconv.FormatInt(r.Each, 10), Scope: "reservation " + r.Name,
		Message: fmt.Sprintf("reservation %s runs %d at once of each user's jobs: yours are %s", r.Name, r.Each, strings.Join(own, ", ")),
	})
}

// inside yields a user's jobs that run in a reservation.
func (v View) inside(r placement.Reservation, u id.User) iter.Seq[*workload.Job] {
	return func(yield func(*workload.Job) bool) {
		for j := range v.Workload.Within(r.ID) {
			if j.User == u && workload.RulesOf(j.State).Running && !yield(j) {
				return
			}
		}
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
	now := Request{Subject: d.Subject, Spec: d.Spec, Met: d.Met, Array: d.Array, Gate: Start}
	start := decision{View: d.View, Request: now, path: d.path, shape: d.shape}
	start.out.Demand = d.out.Demand
	start.bounds()
	w := StartWindow(d.View, now, start.out)
	if w.Start != 0 && (w.Start <= d.Now || w.Stops > 0) {
		return
	}
	start.inLine()
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
