// Package id has the identifiers of Croft's rows. Ids are dense counters of the
// world, never random; names are labels that may change.
package id

import (
	"fmt"
	"strconv"
	"strings"
)

// Account, User, Job and the others are row ids; zero is none.
type (
	Account     int64
	User        int64
	Job         int64
	Refusal     int64
	Grant       int64
	Limit       int64
	Price       int64
	Token       int64
	Transfer    int64
	Maintenance int64
)

// Attempt names the n-th attempt of a job.
type Attempt struct {
	Job Job
	N   int32
}

// String is "118.1".
func (a Attempt) String() string { return fmt.Sprintf("%d.%d", a.Job, a.N) }

func (r Refusal) String() string { return fmt.Sprintf("R-%d", int64(r)) }

// ParseJob reads a job id, "118".
func ParseJob(s string) (Job, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return Job(n), err == nil && n > 0
}

// ParseRefusal reads a refusal's id, "R-7".
func ParseRefusal(s string) (Refusal, bool) {
	rest, ok := strings.CutPrefix(strings.ToUpper(s), "R-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	return Refusal(n), err == nil && n > 0
}

// Engine is the attempt's name at an engine: instance prefix, job and number. It
// is unique among all instances on a machine.
func (a Attempt) Engine(instance string) string {
	short := instance
	if len(short) > 8 {
		short = short[:8]
	}
	return fmt.Sprintf("%s-%d-%d", short, a.Job, a.N)
}
