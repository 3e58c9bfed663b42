package workload

import (
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
)

// Wait is why a job waited, and until when, as it was found at a time. It holds until the
// next of the job's, or until it starts.
type Wait struct {
	Job      id.Job
	At       int64 // ns
	Position int64 // in the queue; 1 is the next
	Queue    int64 // how many waited there
	Kind     string
	Start    int64 // ns, when it was expected to start, as surely as Kind says; 0: unknown
	Reasons  []fault.Reason
}
