package metering

import (
	"fmt"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// Unsettled is a job of which it isn't known yet what it cost up to a time.
type Unsettled struct {
	Job  id.Job
	What string // of it isn't known
	Do   string // about it
}

func (u Unsettled) String() string { return fmt.Sprintf("job %d %s: %s", u.Job, u.What, u.Do) }

// UnsettledBy lists the jobs whose time up to t isn't charged yet, or may still turn out to
// be another's to pay.
func UnsettledBy(cat *catalog.State, jobs *workload.State, t int64) []Unsettled {
	var out []Unsettled
	for k, j := range jobs.Active.All() {
		a := j.Attempt
		if a.Assigned >= t || a.Started >= t {
			continue
		}
		switch cost, err := Accrued(cat, j, a, t); {
		case a.Started == 0:
			out = append(out, Unsettled{k, "has its devices and hasn't begun", "wait until it runs, or stop it"})
		case a.Lost != 0 && a.Lost < t:
			out = append(out, Unsettled{k, "is out of contact", "wait until its node answers again; how long it ran isn't known before"})
		case err != nil || cost.Total > a.Posted && Left(j) > 0:
			out = append(out, Unsettled{k, "isn't charged up to the end", "the server does that within minutes; try again"})
		}
	}
	return out
}
