package command

import (
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// JobPrioritize fixes a job's priority, or with nil lets it be what follows from the
// job again.
type JobPrioritize struct {
	Job    id.Job
	Points *int64
}

// Kind is job.prioritize.
func (JobPrioritize) Kind() string { return "job.prioritize" }

// Decide fixes the priority. It is for operators: whose job comes first is at the cost
// of everybody else.
func (c JobPrioritize) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, ok := w.Workload.Jobs.Get(c.Job)
	switch {
	case !ok || !w.Can(at.Principal, access.JobRead, old.User, old.Account):
		return world.Outcome{}, fault.New(codes.NotFound, "no such job: %d", c.Job)
	case !w.Can(at.Principal, access.JobRaise, old.User, old.Account):
		return world.Outcome{}, fault.New(codes.Denied, "only an operator may fix a job's priority")
	case c.Points != nil && (*c.Points < -workload.MaxPin || *c.Points > workload.MaxPin):
		return world.Outcome{}, fault.Invalid("points", "must be from -%d to %d", workload.MaxPin, workload.MaxPin)
	}
	j, message := edit(old, at), "priority as it follows from the job"
	if j.Pinned, j.Pin = c.Points != nil, 0; j.Pinned {
		j.Pin = *c.Points
		message = fmt.Sprintf("priority fixed at %d", j.Pin)
	}
	if j.Pinned == old.Pinned && j.Pin == old.Pin {
		return world.Outcome{Result: old, Event: world.Event{Skip: true}}, nil
	}
	return put(w, j, message), nil
}
