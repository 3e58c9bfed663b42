package workload

import (
	"iter"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ workload() }

// The changes. An ended job leaves the state: its row lives on in the store.
type (
	JobSet     struct{ Row *Job }
	StepSet    struct{ Row *Step } // one that has ended leaves likewise
	RefusalSet struct{ Row *Refusal }
	// Counted loads the greatest ids handed out.
	Counted struct {
		Job     id.Job
		Refusal id.Refusal
	}
)

func (JobSet) workload()     {}
func (StepSet) workload()    {}
func (RefusalSet) workload() {}
func (Counted) workload()    {}

// State is every job that hasn't ended. Rows are never changed in place.
type State struct {
	Jobs    table.Table[id.Job, *Job]
	Active  table.Table[id.Job, *Job]  // those that hold an allocation
	Steps   table.Table[string, *Step] // that haven't ended, by Pair of job and number
	pending table.Set[waiting]         // those that wait, by lane, then age
	lanes   table.Table[string, lane]  // by Key
	claims  table.Table[id.Job, *Job]  // those that wait and have a Claim
	ofUser  table.Table[string, id.Job]
	timed   table.Set[timed]            // those that something is due for at a time
	awaited table.Table[string, id.Job] // those that wait for another, by Pair of that and their own

	followers table.Table[string, id.Job] // those that wait for an array element by element, by Pair of that and their own
	namesakes table.Set[namesake]         // no elements, no workspaces
	busy      table.Set[namesake]         // those of them that run

	workspaces table.Set[namesake]

	elements table.Table[string, id.Job] // live elements, by Pair of array and index
	arrays   table.Table[id.Job, *Job]   // those in the queue
	reserved table.Table[string, id.Job] // live jobs in reservations, by Pair of that and their own

	lastJob     id.Job
	lastRefusal id.Refusal
}

// NewState returns an empty state.
func NewState() State {
	return State{
		pending: table.NewSet(waiting.before), timed: table.NewSet(timed.before),
		namesakes: table.NewSet(namesake.before), busy: table.NewSet(namesake.before), workspaces: table.NewSet(namesake.before),
	}
}

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{
		Jobs: s.Jobs.Copy(), Active: s.Active.Copy(), Steps: s.Steps.Copy(), pending: s.pending.Copy(), lanes: s.lanes.Copy(), claims: s.claims.Copy(), ofUser: s.ofUser.Copy(),
		timed: s.timed.Copy(), awaited: s.awaited.Copy(), followers: s.followers.Copy(), namesakes: s.namesakes.Copy(), busy: s.busy.Copy(), workspaces: s.workspaces.Copy(), elements: s.elements.Copy(), arrays: s.arrays.Copy(), reserved: s.reserved.Copy(),
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
	case StepSet:
		s.putStep(c.Row)
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
		s.arrays.Delete(j.ID)
		s.unawait(before)
		s.unname(before, j.State == Ended)
		if before.In != 0 && (before.In != j.In || j.State == Ended) {
			s.reserved.Delete(table.Pair(int64(before.In), int64(j.ID)))
		}
	}
	s.lastJob = max(s.lastJob, j.ID)
	if j.State == Ended {
		s.Jobs.Delete(j.ID)
		s.ofUser.Delete(userKey(j.User, j.ID))
		if j.Of != 0 {
			s.elements.Delete(table.Pair(int64(j.Of), j.Index))
		}
		return before
	}
	s.Jobs.Set(j.ID, j)
	s.name(j)
	s.ofUser.Set(userKey(j.User, j.ID), j.ID)
	if j.Of != 0 {
		s.elements.Set(table.Pair(int64(j.Of), j.Index), j.ID)
	}
	if j.In != 0 {
		s.reserved.Set(table.Pair(int64(j.In), int64(j.ID)), j.ID)
	}
	if j.waits() {
		s.enqueue(j)
		if j.Array != nil {
			s.arrays.Set(j.ID, j)
		}
		if j.Claim != 0 {
			s.claims.Set(j.ID, j)
		}
	}
	if RulesOf(j.State).Running {
		s.Active.Set(j.ID, j)
	}
	s.await(j)
	return before
}

// timed is a job that something happens to at a time.
type timed struct {
	due int64 // ns
	job id.Job
}

func (a timed) before(b timed) bool { return a.due < b.due || a.due == b.due && a.job < b.job }

// await and unawait keep when something happens to a job, and what a waiting one waits
// for besides its turn.
func (s *State) await(j *Job) {
	if due := j.Due(); due != 0 {
		s.timed.Add(timed{due, j.ID})
	}
	if RulesOf(j.State).Running {
		return
	}
	for i, d := range j.Spec.After.Of {
		switch {
		case d.Event == AfterCorr:
			s.followers.Set(table.Pair(int64(d.Job), int64(j.ID)), j.ID)
		case j.Met[i].Settled() || d.Event == Singleton:
		default:
			s.awaited.Set(table.Pair(int64(d.Job), int64(j.ID)), j.ID)
		}
	}
}

func (s *State) unawait(j *Job) {
	if due := j.Due(); due != 0 {
		s.timed.Remove(timed{due, j.ID})
	}
	if RulesOf(j.State).Running {
		return
	}
	for _, d := range j.Spec.After.Of {
		s.followers.Delete(table.Pair(int64(d.Job), int64(j.ID)))
		s.awaited.Delete(table.Pair(int64(d.Job), int64(j.ID)))
	}
}

// Timed yields the jobs that something is due for at a time, in the order of
// those times.
func (s *State) Timed() iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for t := range s.timed.All() {
			if j, ok := s.Jobs.Get(t.job); ok && !yield(j) {
				return
			}
		}
	}
}

// Awaiting yields the jobs that wait for another one, or an element by its number, to
// start or to end.
func (s *State) Awaiting(other id.Job) iter.Seq[*Job] { return s.pairs(&s.awaited, other, other) }

// Within yields the live jobs of a reservation.
func (s *State) Within(in id.Reservation) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for k, job := range s.reserved.From(table.Pair(int64(in), 0)) {
			if k >= table.Pair(int64(in)+1, 0) {
				return
			}
			if j, ok := s.Jobs.Get(job); ok && !yield(j) {
				return
			}
		}
	}
}

// Reservations yields those that live jobs are in.
func (s *State) Reservations() iter.Seq[id.Reservation] {
	return func(yield func(id.Reservation) bool) {
		for next := id.Reservation(0); ; {
			in := id.Reservation(0)
			for _, job := range s.reserved.From(table.Pair(int64(next), 0)) {
				if j, ok := s.Jobs.Get(job); ok {
					in = j.In
				}
				break
			}
			if in == 0 || !yield(in) {
				return
			}
			next = in + 1
		}
	}
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

// Claims lists the waiting jobs of a queue for which others were stopped, in
// order.
func (s *State) Claims(queue string) []*Job {
	var out []*Job
	for _, j := range s.claims.All() {
		if j.queue() == queue {
			if j.Array != nil {
				j = j.First()
			}
			out = append(out, j)
		}
	}
	return out
}

// OfUser yields a user's live jobs with ids below before, the newest first.
func (s *State) OfUser(u id.User, before id.Job) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for k, jid := range s.ofUser.Back(userKey(u, before)) {
			if k < userKey(u, 0) {
				return
			}
			if j, ok := s.Jobs.Get(jid); ok && !yield(j) {
				return
			}
		}
	}
}

func userKey(u id.User, j id.Job) string { return table.Pair(int64(u), int64(j)) }
