package workload

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ workload() }

// The changes. An ended job leaves the state: its row lives on in the store.
type (
	JobSet     struct{ Row *Job }
	RefusalSet struct{ Row *Refusal }
	// Counted loads the greatest ids handed out.
	Counted struct {
		Job     id.Job
		Refusal id.Refusal
	}
)

func (JobSet) workload()     {}
func (RefusalSet) workload() {}
func (Counted) workload()    {}

// State is every job that hasn't ended. Rows are never changed in place.
type State struct {
	Jobs    table.Table[id.Job, *Job]
	Active  table.Table[id.Job, *Job] // those that hold an allocation
	pending table.Set[waiting]        // those that wait, by lane, then age
	lanes   table.Table[string, lane] // by Key
	claims  table.Table[id.Job, *Job] // those that wait and have a Claim
	ofUser  table.Table[string, id.Job]

	lastJob     id.Job
	lastRefusal id.Refusal
}

// NewState returns an empty state.
func NewState() State { return State{pending: table.NewSet(waiting.before)} }

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{
		Jobs: s.Jobs.Copy(), Active: s.Active.Copy(), pending: s.pending.Copy(), lanes: s.lanes.Copy(), claims: s.claims.Copy(), ofUser: s.ofUser.Copy(),
		lastJob: s.lastJob, lastRefusal: s.lastRefusal,
	}
}

// Fold puts a change's row and returns the row of that job before, if any.
func (s *State) Fold(c Change) (before *Job) {
	switch c := c.(type) {
	case Counted:
		s.lastJob, s.lastRefusal = max(s.lastJob, c.Job), max(s.lastRefusal, c.Refusal)
	case RefusalSet:
		s.lastRefusal = max(s.lastRefusal, c.Row.ID)
	case JobSet:
		return s.put(c.Row)
	}
	return nil
}

func (s *State) put(j *Job) (before *Job) {
	before, _ = s.Jobs.Get(j.ID)
	if before != nil {
		if before.waits() {
			s.dequeue(before)
		}
		s.Active.Delete(j.ID)
		s.claims.Delete(j.ID)
	}
	s.lastJob = max(s.lastJob, j.ID)
	if j.State == Ended {
		s.Jobs.Delete(j.ID)
		s.ofUser.Delete(userKey(j.User, j.ID))
		return before
	}
	s.Jobs.Set(j.ID, j)
	s.ofUser.Set(userKey(j.User, j.ID), j.ID)
	if j.waits() {
		s.enqueue(j)
		if j.Claim != 0 {
			s.claims.Set(j.ID, j)
		}
	}
	if RulesOf(j.State).Running {
		s.Active.Set(j.ID, j)
	}
	return before
}

func (j *Job) waits() bool { return j.State == Queued }

// NextJob and NextRefusal are the next ids.
func (s *State) NextJob() id.Job { return s.lastJob + 1 }

// NextRefusal is the id of the next refusal.
func (s *State) NextRefusal() id.Refusal { return s.lastRefusal + 1 }

// Claimed is 1 for a job that waits for room which others were stopped to make, 0
// for any other.
func (j *Job) Claimed() int {
	if j.Claim != 0 {
		return 1
	}
	return 0
}

// Claims lists the waiting jobs of a partition for which others were stopped, in
// order.
func (s *State) Claims(partition string) []*Job {
	var out []*Job
	for _, j := range s.claims.All() {
		if j.Spec.Partition == partition {
			out = append(out, j)
		}
	}
	return out
}

// OfUser yields a user's live jobs by id.
func (s *State) OfUser(u id.User) func(yield func(*Job) bool) {
	return func(yield func(*Job) bool) {
		for k, jid := range s.ofUser.From(userKey(u, 0)) {
			if k >= userKey(u+1, 0) {
				return
			}
			if j, ok := s.Jobs.Get(jid); ok && !yield(j) {
				return
			}
		}
	}
}

func userKey(u id.User, j id.Job) string { return table.Pair(int64(u), int64(j)) }
