package workload

import (
	"iter"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Bounds of waiting element by element: what may start is noted in the waiting row
// whenever an element of the other array ends.
const (
	maxCorresponding = 10_000 // elements of an array that waits
	MaxFollowers     = 16     // arrays that wait for one
)

// Corresponds is the array that one of these dependencies waits for element by element.
func (d Dependencies) Corresponds() (id.Job, bool) {
	for _, dep := range d.Of {
		if dep.Event == AfterCorr {
			return dep.Job, true
		}
	}
	return 0, false
}

// Correspond says how the elements of an array stand that wait for those of other, of
// which active tells the ones that are jobs and haven't ended.
func Correspond(elements Elements, other *Array, active func(int64) bool) *Array {
	a := &Array{Pending: elements}
	var ready, lost []int64
	for i := range elements.All {
		switch {
		case other.Pending.Has(i) || active(i):
		case other.Failed.Has(i):
			lost = append(lost, i)
		default:
			ready = append(ready, i)
		}
	}
	a.Ready, a.Lost = compress(ready), compress(lost)
	return a
}

// Follow tells an array that waits element by element what has become of elements of the
// other, and reports whether that settled anything.
func (j *Job) Follow(ended Elements, as codes.Outcome) bool {
	a := *j.Array
	var common []int64
	if len(ended) == 1 && ended[0].Len() == 1 {
		if i := ended[0].First; a.Pending.Has(i) {
			common = []int64{i}
		}
	} else {
		for i := range a.Pending.All {
			if ended.Has(i) {
				common = append(common, i)
			}
		}
	}
	common = slices.DeleteFunc(common, func(i int64) bool { return a.Ready.Has(i) || a.Lost.Has(i) })
	into := &a.Lost
	if as == codes.Completed {
		into = &a.Ready
	}
	if len(common) == 1 {
		*into = into.with(common[0])
	} else {
		*into = into.join(compress(common))
	}
	j.Array = &a
	return len(common) > 0
}

// Single reports whether no other job of the same user and name may run beside one with
// these dependencies.
func (d Dependencies) Single() bool {
	return !d.Any && slices.ContainsFunc(d.Of, func(d Dependency) bool { return d.Event == Singleton })
}

// lasting is what an element of an array goes on to heed of what that waited for.
func (j *Job) lasting() (d Dependencies, met []Met) {
	if j.Spec.After.Any {
		return d, nil
	}
	for i, dep := range j.Spec.After.Of {
		if dep.Event == Singleton {
			return Dependencies{Of: []Dependency{dep}}, []Met{j.Met[i]}
		}
	}
	return d, nil
}

// SettleSingle tells a job that none of its user and name is left that came before it,
// as of a time in ns.
func (j *Job) SettleSingle(at int64) bool {
	for i, d := range j.Spec.After.Of {
		if d.Event == Singleton && !j.Met[i].Settled() {
			j.Met = slices.Clone(j.Met)
			j.Met[i] = Met{At: at}
			return true
		}
	}
	return false
}

// namesake is a job, no element, among those of its user and name.
type namesake struct {
	user id.User
	name string
	job  id.Job
}

func (a namesake) before(b namesake) bool {
	switch {
	case a.user != b.user:
		return a.user < b.user
	case a.name != b.name:
		return a.name < b.name
	}
	return a.job < b.job
}

func (j *Job) namesake() namesake { return namesake{j.User, j.Spec.Name, j.Whole()} }

// busy reports whether a job, no element, has a part that runs.
func (j *Job) busy() bool { return RulesOf(j.State).Running || j.Array != nil && j.Array.Active > 0 }

// name and unname keep who has which name.
func (s *State) name(j *Job) {
	switch {
	case j.Spec.Kind == KindWorkspace:
		s.workspaces.Add(j.namesake())
		return
	case j.Of != 0:
		return
	}
	s.namesakes.Add(j.namesake())
	if j.busy() {
		s.busy.Add(j.namesake())
	}
}

func (s *State) unname(before *Job, gone bool) {
	switch {
	case before.Spec.Kind == KindWorkspace && gone:
		s.workspaces.Remove(before.namesake())
		return
	case before.Spec.Kind == KindWorkspace, before.Of != 0:
		return
	}
	if gone {
		s.namesakes.Remove(before.namesake())
	}
	if before.busy() {
		s.busy.Remove(before.namesake())
	}
}

// Namesakes yields the jobs of a user that have a name and haven't ended, the first
// first; no elements of arrays, and no workspaces, which nobody waits for by their name.
func (s *State) Namesakes(u id.User, name string) iter.Seq[id.Job] {
	return of(s.namesakes, u, name)
}

// Beside reports whether another job of the user and name of j runs.
func (s *State) Beside(j *Job) bool {
	for k := range of(s.busy, j.User, j.Spec.Name) {
		if k != j.Whole() {
			return true
		}
	}
	return false
}

func of(set table.Set[namesake], u id.User, name string) iter.Seq[id.Job] {
	return func(yield func(id.Job) bool) {
		for n := range set.From(namesake{u, name, 0}) {
			if n.user != u || n.name != name || !yield(n.job) {
				return
			}
		}
	}
}

// Followers yields the arrays that wait for another element by element.
func (s *State) Followers(array id.Job) iter.Seq[*Job] { return s.pairs(&s.followers, array, array) }

// AwaitingElements yields the jobs that wait for elements of an array, each with the
// number of the element.
func (s *State) AwaitingElements(array id.Job) iter.Seq2[id.Job, *Job] {
	first, last := id.Elements(array)
	return func(yield func(id.Job, *Job) bool) {
		for k, waiting := range s.awaited.From(table.Pair(int64(first), 0)) {
			element := id.Job(table.First(k))
			if element > last {
				return
			}
			if j, ok := s.Jobs.Get(waiting); ok && !yield(element, j) {
				return
			}
		}
	}
}

// pairs yields the jobs of a table by pairs whose first number is from first to last.
func (s *State) pairs(t *table.Table[string, id.Job], first, last id.Job) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for k, one := range t.From(table.Pair(int64(first), 0)) {
			if k >= table.Pair(int64(last)+1, 0) {
				return
			}
			if j, ok := s.Jobs.Get(one); ok && !yield(j) {
				return
			}
		}
	}
}
