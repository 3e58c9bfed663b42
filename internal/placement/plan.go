package placement

import (
	"iter"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// Lane is the queue of one partition, or of one of its reservations. Partitions may have nodes in common, so a
// pass plans all of them on one timeline, jobs in the order of their places.
type Lane struct {
	Partition catalog.Partition
	In        id.Reservation
	Queue     iter.Seq2[*workload.Job, workload.Place] // the waiting jobs in order; read twice
	// Claims lists, in order, those of them for which others were stopped: they come
	// before all the rest, so that nobody else takes what was freed for them.
	Claims []*workload.Job
}

// PlanInput is what a pass looks at.
type PlanInput struct {
	State *State
	Lanes []Lane
	Now   int64 // ns

	// Depth is how many eligible jobs of each lane get a slot.
	Depth int
	// Budget bounds how many deeper jobs are looked at closely; those that an
	// earlier try rules out are free. 0: no bound.
	Budget int
	// Margin, in ns, lengthens every slot: the time from the decision to
	// start a job until its wall clock runs.
	Margin int64
	// Standing is the promises that the last pass gave. Each is kept or improved
	// unless a node or device was lost or a job of higher place needs it. A job
	// that isn't listed, but has a Promise, is put on any node that can keep it.
	Standing []Promise

	// Eligible says whether nothing but resources keeps the job waiting; one that
	// limits or funds block gets no slot. A no holds for every job of the
	// same user, account, partition, QoS and shape: they aren't asked about. nil:
	// all are.
	Eligible func(*workload.Job) bool
	// CanStart is asked last, when a spot for the job is there now: true means that
	// it becomes one of the Starts, so that the caller may count what it uses
	// against limits. One that can't (its image is missing) keeps its slot.
	CanStart func(*workload.Job, Spot) bool
	// Models says which models the devices of a job that leaves a choice may be now,
	// as those may be limited apart. It is asked once for jobs of the same user,
	// account, partition, QoS, number and set of models. nil: what the job names.
	Models func(*workload.Job) string
	// Yields says which running jobs may be stopped for a waiting one; nil, or a nil
	// answer, is none.
	Yields func(waiting *workload.Job) Yields
}

// Start is a job that can start now.
type Start struct {
	Job  *workload.Job
	Spot Spot
}

// Promise is a reserved start.
type Promise struct {
	Job    id.Job
	At     int64 // ns
	Node   string
	Models []catalog.ModelCount // its devices; only matters to a job that names no model
	// Shared is, for a part of a device, which: its UUID, or that of a job whose place
	// opens it. What was promised together stays together.
	Shared string
}

// Planned is what a pass came to: what to start, in order, the promises of the
// others that have a slot, and whom to stop for those that may ask for it.
type Planned struct {
	Starts      []Start
	Promises    []Promise
	Preemptions []Preemption
}

// Plan finds what can start now without delaying the promised start of any job
// that comes before: conservative backfill with compression (Mu'alem and
// Feitelson, see Timeline). The first jobs of each lane get the earliest start
// that the slots before theirs leave. A standing promise is laid out first
// and then only moved forward, so that an early end elsewhere can't cost a job
// its slot; a new job of higher place may take it. All other jobs only start if
// they fit now beside every slot. A job with a slot that may preempt
// others gets a place that those free who lose least by it, if that is sooner.
//
// It is deterministic, and changes nothing that it is given.
func Plan(in PlanInput) Planned {
	p := newPlanner(in)
	p.lay()
	p.startHeads()
	p.backfill()
	p.label()
	return p.out
}
