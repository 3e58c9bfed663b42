package admission

import (
	"fmt"
	"slices"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/workload"
)

// Models says which models the devices of a waiting job may be of now: of those
// that it names, the ones that its limits have room for.
func (v View) Models(j *workload.Job) string {
	d := v.decisionOn(Request{Subject: v.SubjectOf(j), Spec: j.Spec, Gate: Start, Job: j})
	d.narrow()
	return d.shape.Model
}

// narrow takes out the models that limits on a model, or shares of it, rule out: at Accept for good,
// at Start for now. If they rule out all, none is taken out, and bounds says so.
func (d *decision) narrow() {
	if d.shape.GPU == 0 || d.Spot != nil || d.Limits.Limits.Len()+d.Queues.Shares.Len() == 0 || catalog.OneModel(d.shape.Model) {
		return
	}
	offered := d.offered()
	roomy := slices.DeleteFunc(slices.Clone(offered), d.ruledOut)
	switch {
	case len(roomy) == len(offered):
	case len(roomy) > 0:
		d.shape.Model = catalog.ModelSet(roomy)
	case d.Gate == Accept:
		d.shape.Model = offered[0]
	}
}

// ruledOut reports whether a limit on devices that depends on the model leaves no room
// for the job.
func (d *decision) ruledOut(model string) bool {
	ask := d.ask()
	ask.GPU = d.take(model)
	ask.Models = []catalog.ModelCount{{Model: model, Count: ask.GPU}}
	depends := func(r limits.Resource) bool {
		_, ofModel := r.Model()
		return ofModel || d.shape.Sizes != "" && r.Of() == limits.GPU
	}
	return slices.ContainsFunc(d.Limits.Check(d.who(), ask), func(v limits.Violation) bool {
		return depends(v.Limit.Resource) && (d.Gate == Start || v.Never)
	}) || slices.ContainsFunc(d.shares(ask), func(v share.Violation) bool {
		return depends(v.Share.Resource) && (d.Gate == Start || v.Never)
	})
}

func (d *decision) who() limits.Who {
	return limits.Who{Path: d.path, User: d.Subject.User.ID, Partition: d.Subject.Partition.Name, QoS: d.Subject.QoS.Name, Token: d.Subject.Token}
}

// offered lists the models that would do and that the partition has.
func (d *decision) offered() []string { return d.has(d.shape.Model) }

// has lists the models of a set that the partition has or, for a job in a reservation,
// that one.
func (d *decision) has(set string) []string {
	var out []string
	has := d.Placement.Models(d.Subject.Partition)
	if d.Subject.In.ID != 0 {
		has = d.Placement.ModelsIn(d.Subject.In.ID)
	}
	for _, m := range has {
		if catalog.Allows(set, m.Model) {
			out = append(out, m.Model)
		}
	}
	return out
}

// take is how much of a model's devices the job has, on all of its machines.
func (d *decision) take(model string) int64 {
	of := d.shape.Of(model)
	if d.Spec.Gang() { // its devices are whole, so that they are few
		return d.Spec.Nodes * of
	}
	return of
}

// each is what the job's devices would be of each model that would do.
func (d *decision) each() []catalog.ModelCount {
	var out []catalog.ModelCount
	for _, m := range d.offered() {
		out = append(out, catalog.ModelCount{Model: m, Count: d.take(m)})
	}
	return out
}

// models is the devices by model: those of the spot, or what was named, or the
// only model on offer.
func (d *decision) models() []catalog.ModelCount {
	if len(d.out.Spot.Devices) > 0 {
		return d.out.Spot.Models()
	}
	if d.shape.GPU == 0 {
		return nil
	}
	if m := d.shape.Model; catalog.OneModel(m) {
		return []catalog.ModelCount{{Model: m, Count: d.take(m)}}
	}
	if each := d.each(); len(each) == 1 {
		return each
	}
	return nil
}

// memory refuses a job that needs more of a device's memory than any on offer is known
// to have.
func (d *decision) memory() {
	if d.shape.Memory == 0 {
		return
	}
	var most int64
	var largest string
	var unknown []string
	models := d.has(d.out.Demand.Model)
	for _, m := range models {
		switch has := d.Placement.MemoryOf(m); {
		case has >= d.shape.Memory:
			return
		case has == 0:
			unknown = append(unknown, m)
		case has > most:
			most, largest = has, m
		}
	}
	if len(models) == 0 {
		return // place says that there are none
	}
	d.lacksMemory = true
	r := fault.Reason{
		Code: codes.DeviceMemory, Field: "gpu_mem", Observed: quantity.FormatBytes(d.shape.Memory), Bound: quantity.FormatBytes(most), Never: true,
		Scope: "partition " + d.Subject.Partition.Name,
	}
	if d.Subject.In.ID != 0 {
		r.Scope = "reservation " + d.Subject.In.Name
	}
	r.Message = "asked for " + r.Observed + " of a device's memory"
	if most > 0 {
		r.Message += fmt.Sprintf(", the largest that %s has is %s with %s", r.Scope, largest, r.Bound)
	} else {
		r.Code, r.Bound = codes.DeviceMemoryNone, ""
	}
	if len(unknown) > 0 {
		r.Message += ", and how much " + strings.Join(unknown, ", ") + " has isn't known"
	}
	d.refuse(r)
}
