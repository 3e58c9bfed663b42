package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
)

// Event is what of another job a dependency waits for.
type Event string

// The events, by Slurm's names (sbatch(1), --dependency).
const (
	AfterStart Event = "after"      // it has started, or ended without
	AfterOK    Event = "afterok"    // it has completed
	AfterNotOK Event = "afternotok" // it has ended in any other way
	AfterAny   Event = "afterany"   // it has ended
	AfterCorr  Event = "aftercorr"  // of two arrays: each element, that the same one of the other has completed
	Singleton  Event = "singleton"  // of no certain job: all of this user and name that came before have ended
)

var events = []Event{AfterOK, AfterNotOK, AfterAny, AfterStart, AfterCorr}

// Dependency is one job that another waits for. Job is the number of an element of an
// array, as id.Element has it, where it is named as that.
type Dependency struct {
	Event Event  `json:"event"`
	Job   id.Job `json:"job,omitempty"`
	Delay int64  `json:"delay,omitempty"` // ns from then
}

// Dependencies is what a job waits for: for all of it or for any.
type Dependencies struct {
	Any bool         `json:"any,omitempty"`
	Of  []Dependency `json:"of,omitempty"`
}

// maxDependencies bounds what one job waits for.
const maxDependencies = 256

// ParseDependencies reads "afterok:12:13_7,afterany:14+30m,singleton". A ? instead of the
// commas lets any one of them do.
func ParseDependencies(s string) (Dependencies, error) {
	var d Dependencies
	if s == "" {
		return d, nil
	}
	sep := ","
	if strings.Contains(s, "?") {
		if d.Any, sep = true, "?"; strings.Contains(s, ",") {
			return d, fmt.Errorf("has both , and ?: either all of them must come about or any")
		}
	}
	for clause := range strings.SplitSeq(s, sep) {
		if err := d.clause(strings.TrimSpace(clause)); err != nil {
			return d, err
		}
	}
	return d, d.corresponding()
}

func (d *Dependencies) clause(s string) error {
	event, jobs, named := strings.Cut(s, ":")
	switch {
	case Event(event) == Singleton && !named:
		d.add(Dependency{Event: Singleton})
		return nil
	case Event(event) == Singleton:
		return fmt.Errorf("singleton names no job: it waits for those of the same name that came before")
	case !slices.Contains(events, Event(event)):
		return fmt.Errorf("%q isn't afterok, afternotok, afterany, after, aftercorr or singleton: write e.g. afterok:12:13,afterany:14+30m", clip(event))
	}
	for one := range strings.SplitSeq(jobs, ":") {
		dep, err := parseDependency(Event(event), one)
		if err != nil {
			return err
		}
		if d.add(dep); len(d.Of) > maxDependencies {
			return fmt.Errorf("names more than %d jobs", maxDependencies)
		}
	}
	return nil
}

func (d *Dependencies) add(dep Dependency) {
	if !slices.Contains(d.Of, dep) {
		d.Of = append(d.Of, dep)
	}
}

// corresponding refuses what can't be said element by element.
func (d *Dependencies) corresponding() error {
	n := 0
	for _, dep := range d.Of {
		if dep.Event != AfterCorr {
			continue
		}
		_, _, element := dep.Job.Array()
		switch n++; {
		case element:
			return fmt.Errorf("aftercorr:%s names one element: name the array", dep.Job.Name())
		case dep.Delay > 0:
			return fmt.Errorf("aftercorr:%d has a delay: leave it out", dep.Job)
		case d.Any:
			return fmt.Errorf("has both aftercorr and ?: all must come about")
		case n > 1:
			return fmt.Errorf("names several jobs after aftercorr: an array can wait for one, element by element")
		}
	}
	return nil
}

func parseDependency(e Event, s string) (Dependency, error) {
	name, delay, delayed := strings.Cut(s, "+")
	dep := Dependency{Event: e}
	array, index, ok := id.ParseElement(name)
	if dep.Job = id.Element(array, index); !ok {
		dep.Job, ok = id.ParseJob(name)
	}
	if !ok {
		return dep, fmt.Errorf("%q isn't a job's number: write e.g. %s:12 or %s:12_7", clip(name), e, e)
	}
	if !delayed {
		return dep, nil
	}
	n, err := quantity.ParseDuration(delay)
	if err != nil || n > MaxTime {
		return dep, fmt.Errorf("%q isn't a delay: write e.g. %s:%s+30m", clip(delay), e, dep.Job.Name())
	}
	dep.Delay = wholeSeconds(n)
	return dep, nil
}

// String is what ParseDependencies reads.
func (d Dependencies) String() string {
	var b strings.Builder
	for i, dep := range d.Of {
		switch {
		case i > 0 && d.Of[i-1].Event == dep.Event:
		case i > 0 && d.Any:
			b.WriteString("?" + string(dep.Event))
		case i > 0:
			b.WriteString("," + string(dep.Event))
		default:
			b.WriteString(string(dep.Event))
		}
		if dep.Event != Singleton {
			b.WriteString(":" + dep.Job.Name())
		}
		if dep.Delay > 0 {
			b.WriteString("+" + quantity.FormatDuration(dep.Delay))
		}
	}
	return b.String()
}

// Words says what a dependency waits for: "job 12 has completed".
func (d Dependency) Words() string {
	switch d.Event {
	case AfterCorr:
		return fmt.Sprintf("the same element of job %d has completed", d.Job)
	case Singleton:
		return "no other job of this user and name, which came before, is left"
	}
	done := map[Event]string{AfterStart: "started", AfterOK: "completed", AfterNotOK: "failed", AfterAny: "ended"}[d.Event]
	return fmt.Sprintf("job %s has %s", d.Job.Name(), done)
}

// Fate is what has become of a job, as far as it matters to those that wait for it.
type Fate struct {
	Job     id.Job
	Started int64         // ns, for the first time; 0: not yet
	Ended   int64         // ns; 0: not yet
	Outcome codes.Outcome // once ended
}

// Fate is what has become of the job.
func (j *Job) Fate() Fate {
	f := Fate{Job: j.ID, Started: j.Attempt.Started}
	for _, a := range slices.Backward(j.Past) {
		if a.Started != 0 {
			f.Started = a.Started
		}
	}
	if j.State == Ended {
		f.Ended, f.Outcome = j.Ended, j.Outcome
	}
	return f
}

// Met is where a dependency stands. The zero value is: not settled.
type Met struct {
	At    int64         `json:"at,omitempty"`    // ns: when it came about, its delay included
	Never bool          `json:"never,omitempty"` // it can't come about any more
	As    codes.Outcome `json:"as,omitempty"`    // how that job ended
}

// Settled reports whether nothing changes it any more.
func (m Met) Settled() bool { return m.Never || m.At != 0 }

// Met is where the dependency stands, given what has become of its job.
func (d Dependency) Met(f Fate) Met {
	switch {
	case d.Event == AfterStart && f.Started != 0:
		return Met{At: f.Started + d.Delay, As: f.Outcome}
	case f.Ended == 0:
		return Met{}
	case d.Event == AfterOK && f.Outcome != codes.Completed, d.Event == AfterNotOK && f.Outcome == codes.Completed:
		return Met{Never: true, As: f.Outcome}
	}
	return Met{At: f.Ended + d.Delay, As: f.Outcome}
}

// Opens is when a job of this spec, whose dependencies stand so, may join the queue,
// in ns; known is false while that isn't settled, and never is true once it can't.
func (s Spec) Opens(met []Met) (at int64, known, never bool) {
	first, last, open, lost := int64(math.MaxInt64), int64(0), false, false
	for _, m := range met {
		switch {
		case m.Never:
			lost = true
		case m.At == 0:
			open = true
		default:
			first, last = min(first, m.At), max(last, m.At)
		}
	}
	switch {
	case len(met) == 0:
		return s.Begin, true, false
	case s.After.Any && first < math.MaxInt64:
		return max(s.Begin, first), true, false
	case s.After.Any:
		return 0, false, !open
	case lost || open:
		return 0, false, lost
	}
	return max(s.Begin, last), true, false
}

// Settle tells a waiting job what has become of another, and reports whether that
// settled anything.
func (j *Job) Settle(f Fate) bool {
	changed := false
	for i, d := range j.Spec.After.Of {
		if d.Job != f.Job || j.Met[i].Settled() {
			continue
		}
		if m := d.Met(f); m.Settled() {
			if !changed {
				j.Met, changed = slices.Clone(j.Met), true
			}
			j.Met[i] = m
		}
	}
	return changed
}
