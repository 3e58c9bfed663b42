package admission

import (
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

// Models says which models the devices of a waiting job may be of now: of those
// that it names, the ones that its limits have room for.
func (v View) Models(j *workload.Job) string {
	d := decision{View: v, Request: Request{Subject: v.SubjectOf(j), Spec: j.Spec, Gate: Start, Job: j}, path: j.Path}
	d.shape = placement.ShapeOf(j.Demand())
	d.narrow()
	return d.shape.Model
}

// narrow takes out the models that limits on a model rule out: at Accept for good,
// at Start for now. If they rule out all, none is taken out, and bounds says so.
func (d *decision) narrow() {
	if d.shape.GPU == 0 || d.Spot != nil || d.Limits.Limits.Len() == 0 || catalog.OneModel(d.shape.Model) {
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

// ruledOut reports whether a limit on the devices of a model leaves no room for the
// job.
func (d *decision) ruledOut(model string) bool {
	ask := limits.Demand{Models: []catalog.ModelCount{{Model: model, Count: d.shape.GPU}}}
	return slices.ContainsFunc(d.Limits.Check(d.who(), ask, 0), func(v limits.Violation) bool { return d.Gate == Start || v.Never })
}

func (d *decision) who() limits.Who {
	return limits.Who{Path: d.path, User: d.Subject.User.ID, Partition: d.Subject.Partition.Name}
}

// offered lists the models that would do and that the partition has.
func (d *decision) offered() []string {
	var out []string
	for _, m := range d.Placement.Models(d.Subject.Partition) {
		if catalog.Allows(d.shape.Model, m.Model) {
			out = append(out, m.Model)
		}
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
	if catalog.OneModel(d.shape.Model) {
		return []catalog.ModelCount{{Model: d.shape.Model, Count: d.shape.GPU}}
	}
	if offered := d.offered(); len(offered) == 1 {
		return []catalog.ModelCount{{Model: offered[0], Count: d.shape.GPU}}
	}
	return nil
}
