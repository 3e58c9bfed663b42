package command

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// maxImages is how many images a reservation may have fetched.
const maxImages = 20

// terms checks how jobs come into a reservation.
func (c ReservationPut) terms(r placement.Reservation, bad *fault.Fields) {
	if c.Name == admission.NoReservation {
		bad.Add("name", "%q is what a job says that is to run in none", c.Name)
	}
	if c.Join && r.Count == 0 {
		bad.Add("join", "is for places: give count rather than nodes")
	}
	within(bad, "each", c.Each, 0, maxPlaces)
	if len(c.Images) > maxImages {
		bad.Add("images", "must be %d at most", maxImages)
	}
	for _, ref := range c.Images {
		if !workload.IsImage(ref) {
			bad.Add("images", "%q isn't an image reference", ref)
		}
	}
}

// burst checks that no limit keeps some of the jobs out that a reservation takes in by
// itself, should all its places be taken at once. Its windows are booked, so its amounts
// are those of nodes.
func burst(w *world.World, r placement.Reservation, now int64) error {
	if !r.Join {
		return nil
	}
	ask := limits.Ask{Demand: limits.Demand{CPU: r.CPU * r.Count, Mem: r.Mem * r.Count, GPU: r.GPU * r.Count, Running: r.Count}, Now: now}
	if catalog.OneModel(r.Model) && r.GPU > 0 {
		ask.Models = []catalog.ModelCount{{Model: r.Model, Count: ask.GPU}}
	}
	for _, a := range r.Accounts {
		for _, v := range w.Limits.Check(limits.Who{Path: w.Tenancy.Path(a), Partition: r.Partition}, ask) {
			if of := v.Limit.Resource; v.Never && !of.PerJob() && !of.Hours() {
				return fault.New(codes.Conflict, "all %d places at once come to %s %s, and %s may have %s: raise that limit first, or reserve less",
					r.Count, limits.Format(of, v.Asked), of, w.View(now).BoundName(v.Bound), limits.Format(of, v.Max))
			}
		}
	}
	return nil
}
