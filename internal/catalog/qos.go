package catalog

import (
	"slices"

	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
)

// QoS is a quality of service.
type QoS struct {
	Name     string
	Default  bool
	Priority int64
	Factor   int64 // price factor in thousandths
	MaxWall  int64 // ns; 0: unbounded
	DefWall  int64 // ns; what a job gets that names no time; 0: the partition's
	Grace    int64 // ns between SIGTERM and SIGKILL where the job names none
	MaxGrace int64 // ns

	Allow      []id.Account // sorted; these and those below them may use it; empty: all
	Partitions []string     // sorted; where it may be used; empty: everywhere
	Refuse     bool         // a job that can't start at once is refused rather than left waiting

	// Preempts lists, sorted, the QoS whose running jobs may be stopped to make room
	// for one of this. Each has a lower priority: see CheckPreempts.
	Preempts []string
	// Contract is what jobs of this QoS are promised if they are stopped for others.
	Contract Contract

	// Configured says that the server's configuration defines the QoS: what can be
	// said there isn't changed elsewhere.
	Configured bool
	Retired    bool // removed; kept for what was recorded under its name
}

// Contract is how jobs of a QoS may be preempted.
type Contract struct {
	Exempt bool   `json:"exempt,omitempty"`  // they never are, but for what they have borrowed
	MinRun int64  `json:"min_run,omitempty"` // ns that a job runs at least before it may be
	Signal string `json:"signal,omitempty"`  // what a job is told it with, without SIG; "": TERM
	Grace  int64  `json:"grace,omitempty"`   // ns from that signal to SIGKILL; 0: the job's own
	Cancel bool   `json:"cancel,omitempty"`  // the job ends; otherwise it is queued again
	Keep   bool   `json:"keep,omitempty"`    // what the attempt cost is kept; otherwise all of it is given back
}

// Admits reports whether an account with this path (itself first, then its
// ancestors) may use the QoS.
func (q QoS) Admits(path []id.Account) bool { return below(q.Allow, path) }

// MayPreempt reports whether jobs of q may take the place of running jobs of o. It
// holds only towards a lower priority, whatever is listed: the stopped job must
// come after the one that it made room for, or both would go round for ever.
func (q QoS) MayPreempt(o QoS) bool {
	return !o.Contract.Exempt && o.Priority < q.Priority && slices.Contains(q.Preempts, o.Name)
}

// Configure is q as the configuration's row c says it is, with what can only be
// said at run time left as it was.
func (q QoS) Configure(c QoS) QoS {
	c.DefWall, c.Allow, c.Partitions, c.Refuse = q.DefWall, q.Allow, q.Partitions, q.Refuse
	c.Preempts, c.Contract = q.Preempts, q.Contract
	c.Configured = true
	return c
}

// CheckPreempts says what is wrong with whom q may preempt, and who may preempt q,
// if q is put: as priorities fall along every step, no chain of preemptions leads
// back to where it began. The error is a *fault.Error.
func (s *State) CheckPreempts(q QoS) error {
	for _, name := range q.Preempts {
		o, ok := s.QoS.Get(name)
		switch {
		case name == q.Name:
			return fault.Invalid("preempts", "%s can't preempt itself", name)
		case !ok:
			return fault.Invalid("preempts", "no such QoS: %s", name)
		case o.Priority >= q.Priority:
			return fault.Invalid("preempts", "%s has priority %d, %s has %d: only a QoS of lower priority can be preempted, or jobs could stop each other for ever", name, o.Priority, q.Name, q.Priority)
		}
	}
	for _, o := range s.QoS.All() {
		if o.Name != q.Name && slices.Contains(o.Preempts, q.Name) && o.Priority <= q.Priority {
			return fault.Invalid("priority", "%s may preempt %s and has priority %d: it must stay below that", o.Name, q.Name, o.Priority)
		}
	}
	return nil
}
