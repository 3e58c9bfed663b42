package admission

import (
	"fmt"
	"strconv"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

// Past is a job that has left the world, as far as those that wait for it care.
type Past struct {
	workload.Fate
	User     id.User
	Account  id.Account
	Absent   bool              `json:",omitempty"` // it isn't there: there is no such element
	Elements workload.Elements `json:",omitempty"` // of an array
	Array    *workload.Array   `json:",omitempty"`
}

// ErrEndedMeanwhile says that a job which others are to wait for has left the world
// since its past was looked up: look again.
var ErrEndedMeanwhile = fault.New(codes.Conflict, "a job that this one is to wait for has ended just now: try again")

// Dependencies says where what a spec is to wait for stands, for whoever asks, and of an
// array where its elements stand. past has those of the jobs that have left the world. A
// job that the caller may not read isn't there.
func (v View) Dependencies(p access.Principal, spec workload.Spec, past []Past) ([]workload.Met, *workload.Array, error) {
	var met []workload.Met
	var array *workload.Array
	var bad fault.Fields
	if elements := spec.Array.Elements; len(elements) > 0 {
		array = &workload.Array{Pending: elements}
	}
	for _, d := range spec.After.Of {
		if d.Event == workload.Singleton {
			met = append(met, v.single(id.User(p.User), spec.Name))
			continue
		}
		other, ok := v.lookUp(d.Job, past)
		if number, _, _ := d.Job.Array(); !ok && !other.Absent && number < v.Workload.NextJob() {
			return nil, nil, ErrEndedMeanwhile
		}
		t := access.Target{Owner: int64(other.User), Role: v.Tenancy.Role(id.User(p.User), other.Account, v.Now), Within: v.Tenancy.Within(other.Account, id.Account(p.Narrow.Account))}
		switch {
		case !ok || !access.Authorize(p, access.JobRead, t):
			bad.Add("after", "no such job: %s", d.Job.Name())
		case d.Event == workload.AfterCorr && array != nil:
			var m workload.Met
			if array, m = v.correspond(array, d.Job, other, &bad); array != nil {
				met = append(met, m)
			}
		default:
			met = append(met, d.Met(other.Fate))
		}
	}
	return met, array, bad.Err()
}

// single says whether a job of a user and name would be the only one of them.
func (v View) single(u id.User, name string) workload.Met {
	for range v.Workload.Namesakes(u, name) {
		return workload.Met{}
	}
	return workload.Met{At: v.Now}
}

// correspond says how the elements of an array stand that is to wait for another's, or
// why it can't.
func (v View) correspond(array *workload.Array, k id.Job, other Past, bad *fault.Fields) (*workload.Array, workload.Met) {
	n := 0
	for range v.Workload.Followers(k) {
		n++
	}
	switch {
	case other.Array == nil:
		bad.Add("after", "aftercorr:%d: job %d isn't an array; write afterok:%d", k, k, k)
		return nil, workload.Met{}
	case n >= workload.MaxFollowers:
		bad.Add("after", "aftercorr:%d: %d arrays wait for it so already, which is as many as may", k, n)
		return nil, workload.Met{}
	case other.Array.More > 0:
		bad.Add("after", "aftercorr:%d: more of its elements have failed than are noted one by one; write afterok:%d", k, k)
		return nil, workload.Met{}
	}
	for i := range array.Pending.All {
		if !other.Elements.Has(i) {
			bad.Add("after", "aftercorr:%d: job %d has no element %d", k, k, i)
			return nil, workload.Met{}
		}
	}
	array = workload.Correspond(array.Pending, other.Array, func(i int64) bool {
		_, active := v.Workload.Element(k, i)
		return active
	})
	if array.Lost.Len() == array.Pending.Len() {
		return array, workload.Met{Never: true, As: codes.Failed}
	}
	return array, workload.Met{At: v.Now}
}

func (v View) lookUp(k id.Job, past []Past) (Past, bool) {
	if array, index, element := k.Array(); element {
		if j, ok := v.Workload.Element(array, index); ok {
			f := j.Fate()
			f.Job = k
			return Past{Fate: f, User: j.User, Account: j.Account}, true
		}
		if j, ok := v.Workload.Jobs.Get(array); ok && j.Array != nil && j.Array.Pending.Has(index) {
			return Past{Fate: workload.Fate{Job: k}, User: j.User, Account: j.Account}, true
		}
	}
	if j, ok := v.Workload.Jobs.Get(k); ok {
		return Past{Fate: j.Fate(), User: j.User, Account: j.Account, Elements: j.Spec.Array.Elements, Array: j.Array}, true
	}
	for _, p := range past {
		if p.Job == k {
			return p, !p.Absent
		}
	}
	return Past{}, false
}

// job is the request's job or, before there is one, what it would be.
func (r Request) job() *workload.Job {
	if r.Job != nil {
		return r.Job
	}
	j := &workload.Job{User: r.Subject.User.ID, Spec: r.Spec, Met: r.Met, Array: r.Array, State: workload.Held}
	if r.Spec.Hold {
		j.Hold = workload.HeldByUser
	}
	return j
}

// inTime refuses what can't end by its deadline or can never be let into the queue.
func (d *decision) inTime() {
	j := d.job()
	start := d.Now
	if d.Gate == Accept {
		start = max(start, d.Spec.Begin)
	}
	if deadline := d.Spec.Deadline; deadline != 0 && start > d.Spec.LastStart() {
		left := max(0, deadline-start)
		d.refuse(fault.Reason{
			Code: codes.DeadlineTooSoon, Field: "time", Observed: span(d.Spec.Time), Bound: span(left - left%1e9), Never: true,
			Message: "asked for time " + span(d.Spec.Time) + ", until its deadline at " + day(deadline) + " there are " + span(left-left%1e9),
		})
	}
	if _, _, never := j.Opens(); never {
		d.refuse(neverMet(j))
	}
}

// neverMet names the dependency that can't be met any more.
func neverMet(j *workload.Job) fault.Reason {
	for i, m := range j.Met {
		if m.Never {
			dep := j.Spec.After.Of[i]
			return fault.Reason{
				Code: codes.DependencyNever, Field: "after", Observed: string(m.As), Bound: string(dep.Event), Scope: "job " + dep.Job.Name(), Never: true,
				Message: fmt.Sprintf("it was to wait until %s, which %s", dep.Words(), became(m.As)),
			}
		}
	}
	return fault.Reason{}
}

// became words an outcome as what a job did.
func became(o codes.Outcome) string {
	switch o {
	case codes.Completed, codes.Failed:
		return string(o)
	case codes.Cancelled, codes.Preempted:
		return "was " + string(o)
	case codes.TimedOut:
		return "ran out of time"
	case codes.OutOfMemory:
		return "ran out of memory"
	case codes.OutOfCredit:
		return "ran out of credit"
	case codes.NodeFailed:
		return "lost its node"
	case codes.Deadline:
		return "missed its deadline"
	}
	return "ended"
}

// NeverMet is the reason for which a waiting job can't ever start, if its dependencies
// give one.
func NeverMet(j *workload.Job) (fault.Reason, bool) {
	_, _, never := j.Opens()
	if !never {
		return fault.Reason{}, false
	}
	return neverMet(j), true
}

// inLine refuses a job that is kept out of the queue: by a hold, by what it waits for,
// or by its begin time.
func (d *decision) inLine() {
	j, index, one := d.row(d.job())
	switch name := strconv.FormatInt(int64(j.ID), 10); j.Hold {
	case workload.HeldByUser:
		d.refuse(fault.Reason{Code: codes.JobHeld, Message: "held until it is released: croft release " + name})
	case workload.HeldToAsk:
		d.refuse(fault.Reason{Code: codes.JobHeldToAsk, Observed: j.Message, Message: j.Message})
	case workload.HeldByOperator:
		d.refuse(fault.Reason{Code: codes.JobHeldByStaff, Message: "held by an operator, who alone can release it"})
	}
	switch dep, corresponds := corresponding(j); {
	case one && corresponds && !j.Ready(index):
		d.refuse(awaited(dep, workload.Met{}))
	case !j.Room() && j.Array != nil:
		d.refuse(fullArray(j))
	}
	if d.beside(j) {
		d.refuse(fault.Reason{
			Code: codes.Dependency, Field: "after", Bound: string(workload.Singleton),
			Message: "waits until no other job of this user and name runs",
		})
	}
	at, known, _ := j.Opens()
	if known && at <= d.Now {
		return
	}
	for i, dep := range j.Spec.After.Of {
		if m := j.Met[i]; !m.Never && (m.At == 0 || m.At > d.Now) {
			d.refuse(awaited(dep, m))
		}
	}
	if d.Now < d.Spec.Begin {
		d.refuse(fault.Reason{Code: codes.BeginTime, Field: "begin", Bound: day(d.Spec.Begin), Message: "not to begin before " + day(d.Spec.Begin)})
	}
}

// row is the row that a job waits in: of an element that is no job yet its array's, with
// the index in that.
func (v View) row(j *workload.Job) (row *workload.Job, index int64, element bool) {
	k, index, element := j.ID.Array()
	if array, ok := v.Workload.Jobs.Get(k); ok && element {
		return array, index, true
	}
	return j, 0, false
}

// beside reports whether a job that is to run alone among those of its user and name
// can't now, since another runs.
func (v View) beside(j *workload.Job) bool {
	return j.Spec.After.Single() && v.Workload.Beside(j)
}

// fullArray says why no element of an array waits for its turn.
func fullArray(j *workload.Job) fault.Reason {
	if len(j.Array.Pending) == 0 {
		return fault.Reason{Code: codes.ArrayStarted, Message: "all its elements have started"}
	}
	if dep, ok := corresponding(j); ok && len(j.Array.Ready) == 0 {
		return awaited(dep, workload.Met{})
	}
	most := strconv.FormatInt(j.Spec.Array.Most, 10)
	return fault.Reason{
		Code: codes.ArrayFull, Field: "array", Observed: strconv.FormatInt(j.Array.Active, 10), Bound: most,
		Message: "as many of its elements run as may at once: " + most,
	}
}

// corresponding is the dependency by which an array waits element by element.
func corresponding(j *workload.Job) (workload.Dependency, bool) {
	k, ok := j.Spec.After.Corresponds()
	return workload.Dependency{Event: workload.AfterCorr, Job: k}, ok
}

// Unfollowed says why elements of an array can't start any more that waits element by
// element.
func Unfollowed(j *workload.Job) string {
	dep, _ := corresponding(j)
	return "it was to wait until " + dep.Words() + ", which it didn't"
}

func awaited(dep workload.Dependency, m workload.Met) fault.Reason {
	r := fault.Reason{Code: codes.Dependency, Field: "after", Bound: string(dep.Event), Message: "waits until " + dep.Words()}
	if dep.Event != workload.Singleton {
		r.Scope = "job " + dep.Job.Name()
	}
	switch {
	case m.At != 0:
		r.Message = fmt.Sprintf("waits until %s, %s after %s", day(m.At), span(dep.Delay), dep.Words())
	case dep.Delay > 0:
		r.Message += ", and " + span(dep.Delay) + " more"
	}
	return r
}

// held turns the window of one that may not join the queue yet into what is known of
// it, and takes a start away that its deadline rules out.
func (v View) held(j *workload.Job, w placement.Window) placement.Window {
	j, index, one := v.row(j)
	at, known, _ := j.Opens()
	out := j.Hold != workload.NoHold || !known || v.beside(j) || j.Array != nil && !j.Room() || one && !j.Ready(index)
	switch {
	case out:
		return placement.Window{Kind: placement.StartUnknown}
	case at > v.Now && w.Start != 0:
		w = placement.Window{Kind: placement.StartEstimated, Start: max(w.Start, at)}
	case at > v.Now:
		w.Position = 0
	}
	if w.Start > j.Spec.LastStart() {
		w.Kind, w.Start, w.Stops = placement.StartUnknown, 0, 0
	}
	return w
}
