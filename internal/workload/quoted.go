package workload

import "croft.dev/croft/internal/money"

// Quoted is what its user was told of a job as it was submitted, to be compared with what
// became of it. An array has none: it was told of all of its elements together.
type Quoted struct {
	Kind  string       `json:",omitempty"` // of placement.Window: how sure the start was; empty: nothing was said
	Start int64        `json:",omitempty"` // ns; 0: unknown
	Cost  money.Micros `json:",omitempty"` // of all of its time and grace
}

// FirstAssigned is when it was first given an allocation, in ns; 0: it hasn't been.
func (j *Job) FirstAssigned() int64 {
	if len(j.Past) > 0 {
		return j.Past[0].Assigned
	}
	return j.Attempt.Assigned
}

// FirstStart is when its program began for the first time, in ns; 0: it hasn't.
func (j *Job) FirstStart() int64 {
	for _, a := range j.Past {
		if a.Started != 0 {
			return a.Started
		}
	}
	return j.Attempt.Started
}
