package query

import (
	"math"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// OwnNamed is the caller's own job of a name that runs; if none does, the newest of that
// name that lives, and nil without any. Several that run are told apart by their numbers.
func (r *Reader) OwnNamed(p access.Principal, name string) (*workload.Job, error) {
	v := r.view(p)
	var running []*workload.Job
	var other *workload.Job
	for j := range v.w.Workload.OfUser(id.User(p.User), math.MaxInt64) {
		switch {
		case j.Spec.Name != name || !v.w.CanJob(v.p, access.JobEnter, j):
		case j.State == workload.Running:
			running = append(running, j)
		case other == nil:
			other = j
		}
	}
	switch len(running) {
	case 0:
		return other, nil
	case 1:
		return running[0], nil
	}
	var numbers []string
	for _, j := range running {
		numbers = append(numbers, j.Name())
	}
	return nil, fault.New(codes.Conflict, "%d jobs of yours that run are called %s: give the number of one, %s", len(running), name, strings.Join(numbers[:min(len(numbers), 10)], " "))
}
