package command

import (
	"slices"
	"strconv"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

var onlyServer = fault.New(codes.Denied, "only the server itself does this")

// JobStart gives a waiting job its allocation. The planner proposes it, with the
// spot that keeps every promise; it is decided again here. Image is the content
// digest that was resolved.
type JobStart struct {
	Job     id.Job
	Element int64 // of an array: which
	Image   string
	Node    string // "": anywhere
	Devices []string
	Others  []workload.Rank `json:",omitempty"` // of a job on several machines, by rank from 1 on
}

// Kind is job.start.
func (JobStart) Kind() string { return "job.start" }

// Decide allocates, if the job still passes the start gate.
func (c JobStart) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	old, ok := w.Workload.Jobs.Get(c.Job)
	if !ok || old.State != workload.Queued {
		return world.Outcome{Event: world.Event{Skip: true}}, nil
	}
	var array *workload.Job
	if old.Array != nil {
		if array = old; !array.Ready(c.Element) {
			return world.Outcome{Event: world.Event{Skip: true}}, nil
		}
		old = array.Element(w.Workload.NextJob(), c.Element)
	}
	view := w.View(at.Now)
	v, err := admission.Decide(view, admission.Request{Subject: view.SubjectOf(old), Spec: old.Spec, Gate: admission.Start, Job: old, Spot: spot(w, c, old)})
	if err != nil {
		return world.Outcome{}, err
	}
	if !v.Admit {
		return world.Outcome{Event: world.Event{Skip: true}, Result: v}, nil
	}
	j := edit(old, at)
	if j.Attempt.N > 0 {
		j.Past = append(j.Past, j.Attempt)
	}
	metering.NewAttempt(j)
	p := w.Ledger.NewPosting(at.Seq, at.Now)
	j.Attempt = workload.Attempt{
		N: j.Attempt.N + 1, Node: v.Spot.Node, Models: v.Spot.Models(), Image: c.Image, Book: at.Now,
		Assigned: at.Now, Until: at.Now + j.Spec.Time, Seen: at.Now,
	}
	j.Attempt.Devices = v.Spot.UUIDs()
	j.Attempt.Others = v.Spot.Rest()
	j.Attempt.Rate = fairshare.RateOf(w.Catalog.Book(j.Spec.Partition, at.Now), metering.UseOf(j, j.Attempt), at.Now)
	if j.Spec.Rolling() && j.Billing != string(tenancy.BillingOff) {
		j.Attempt.Paid = at.Now + j.Spec.Ahead(view.Rolling)
	}
	j.State, j.Promise, j.Claim, j.Message = workload.Starting, 0, 0, ""
	changes := append(reserve(w, at, j), started(at, p, array, j)...)
	changes = append(changes, wrap(metering.SetAside(p, j, v.Deposit))...)
	return moved(w, at, p, j, changes, metering.Boundary{}, "on "+v.Spot.String())
}

// spot is the proposed one; devices that are gone don't fit and are found missing.
func spot(w *world.World, c JobStart, j *workload.Job) *placement.Spot {
	if c.Node == "" {
		return nil
	}
	sh, _ := w.Placement.Sized(placement.ShapeOf(j.Demand()))
	s, ok := spotOn(w, sh, c.Node, c.Devices)
	for _, r := range c.Others {
		of, there := spotOn(w, sh, r.Node, r.Devices)
		s.Others, ok = append(s.Others, of), ok && there
	}
	if !ok {
		return nil
	}
	return &s
}

// spotOn is the proposed one on a machine; false if a device of it is gone.
func spotOn(w *world.World, sh placement.Shape, node string, devices []string) (placement.Spot, bool) {
	s := placement.Spot{Node: node}
	for _, uuid := range devices {
		d, ok := w.Placement.Devices.Get(uuid)
		if !ok {
			return s, false
		}
		s.Devices = append(s.Devices, d)
		s.Part = sh.PartOn(d.Model)
	}
	return s, true
}

// moved completes an outcome in which a job's row and its devices' payers change.
// p has the transfers that changes already holds.
func moved(w *world.World, at world.Context, p *ledger.Posting, j *workload.Job, changes []world.Change, b metering.Boundary, message string) (world.Outcome, error) {
	b.Job = j.ID
	changes = append([]world.Change{workload.JobSet{Row: j}}, changes...)
	after := w.Copy()
	after.Fold(changes)
	var devices []placement.Device
	for _, uuid := range j.Attempt.AllDevices() {
		if d, ok := w.Placement.Devices.Get(uuid); ok {
			devices = append(devices, d)
		}
	}
	tiles, err := scene(after, at.Now).Retile(p, devices, b)
	if err != nil {
		return world.Outcome{}, err
	}
	after.Fold(wrap(tiles))
	others, err := beside(after, at, p, j)
	if err != nil {
		return world.Outcome{}, err
	}
	return world.Outcome{
		Changes: append(append(changes, wrap(tiles)...), wrap(others)...), Result: j,
		Event: world.Event{Job: j.ID, Account: j.Account, State: string(j.State), Message: message},
	}, nil
}

// beside moves the tiles of the other devices of a job's nodes, where some are reserved:
// which of those that nobody has are, depends on those that somebody has.
func beside(w *world.World, at world.Context, p *ledger.Posting, j *workload.Job) ([]ledger.Change, error) {
	var others []placement.Device
	for _, r := range j.Attempt.Ranks() {
		if w.Placement.Reserves(r.Node, at.Now) {
			others = append(others, slices.DeleteFunc(w.Placement.DevicesOn(r.Node), func(d placement.Device) bool { return slices.Contains(r.Devices, d.UUID) })...)
		}
	}
	if len(others) == 0 {
		return nil, nil
	}
	return scene(w, at.Now).Retile(p, others, metering.Boundary{})
}

// JobObserved is what an engine saw of an attempt.
type JobObserved struct {
	Job      id.Job
	N        int32
	Running  bool
	Exited   bool
	Gone     bool // the engine answered, and has nothing of it any more
	Lost     bool // it ended unseen: the machine or its runtime went down under it
	Started  int64
	Finished int64
	ExitCode int32
	OOM      bool
	Failure  string
	Taken    string   // why somebody else than Croft or its program ended it
	Given    []string // the devices that its node has chosen
}

// Kind is job.observed.
func (JobObserved) Kind() string { return "job.observed" }

// Decide follows what was seen. What concerns an attempt that is over is ignored.
func (c JobObserved) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	old, ok := w.Workload.Jobs.Get(c.Job)
	if !ok || old.Attempt.N != c.N || !workload.RulesOf(old.State).Running {
		return world.Outcome{Event: world.Event{Skip: true}}, nil
	}
	j := edit(old, at)
	given := len(c.Given) > 0 && !slices.Equal(c.Given, j.Attempt.Given)
	if given {
		j.Attempt.Given = c.Given
	}
	switch {
	case c.Lost:
		return ended(w, at, j, metering.Boundary{}, codes.NodeFailed, "the machine or its runtime went down under it", at.Now, 0)
	case c.Exited:
		taken := j.Attempt.Cause == codes.Preempted || j.Attempt.Cause == codes.Requeued || j.Attempt.Cause == codes.Withdrawn
		if taken && c.Finished != 0 && c.before(j.Attempt.StopAt) {
			j.Attempt.Cause, j.Attempt.Why, j.Attempt.Preempt = "", "", workload.Preemption{} // it was through before
		}
		if j.Attempt.Cause != codes.Withdrawn {
			c.begin(j, at.Now)
		}
		b := metering.Boundary{}
		if old.Attempt.Started == 0 && j.Attempt.Started != 0 {
			b.Began, b.Payer = j.Attempt.Started, ledger.Payer{Account: j.Account, User: j.User}
		}
		if c.Taken != "" && j.Attempt.Cause == "" {
			return ended(w, at, j, b, codes.NodeFailed, c.Taken, clamp(c.Finished, j.Attempt.Started, at.Now), c.ExitCode)
		}
		return ended(w, at, j, b, c.outcome(j), c.Failure, clamp(c.Finished, j.Attempt.Started, at.Now), c.ExitCode)
	case c.Gone && j.Attempt.Started != 0 && at.Now > j.Attempt.Until+j.Spec.Grace:
		// it had all the time that it asked for: what was lost after that is no loss
		return ended(w, at, j, metering.Boundary{}, j.OutOfTime(), "its time was up", at.Now, 137)
	case c.Gone:
		return ended(w, at, j, metering.Boundary{}, codes.NodeFailed, "its container is gone: the machine or its runtime lost it", at.Now, 0)
	case c.Running && j.Attempt.Started == 0:
		c.begin(j, at.Now)
		if j.State == workload.Starting {
			j.State = workload.Running
		}
		j.Attempt.Lost, j.Attempt.Seen = 0, at.Now
		var err error
		if j.Attempt.Paid, err = w.View(at.Now).Covered(j); err != nil {
			return world.Outcome{}, err
		}
		return moved(w, at, w.Ledger.NewPosting(at.Seq, at.Now), j, settle(w, at, told(w, j)), metering.Boundary{At: j.Attempt.Started}, "")
	case c.Running && j.Attempt.Lost != 0:
		j.Attempt.Lost, j.Attempt.Seen = 0, at.Now
		return put(w, j, "in contact again"), nil
	case c.Running && given:
		return put(w, j, "has "+strings.Join(c.Given, ", ")), nil
	}
	return world.Outcome{Event: world.Event{Skip: true}}, nil
}

// before reports that the program had ended before a time. Some engines know the second
// alone: one that ended in that of the time is taken to have been ended then.
func (c JobObserved) before(at int64) bool {
	const second = int64(1e9)
	if c.Finished%second == 0 {
		at -= at % second
	}
	return c.Finished < at
}

// begin notes the primary's start as the engine saw it, within what is possible.
func (c JobObserved) begin(j *workload.Job, now int64) {
	if j.Attempt.Started == 0 && c.Started != 0 {
		j.Begun(clamp(c.Started, j.Attempt.Assigned, now))
	}
}

func clamp(t, least, most int64) int64 { return min(max(t, least), most) }

// outcome says what an exit means: what Croft itself did comes first.
func (c JobObserved) outcome(j *workload.Job) codes.Outcome {
	if j.Attempt.Cause != "" {
		return j.Attempt.Cause
	}
	return exited(c.OOM, c.Failure, c.ExitCode)
}

// exited is what the end of a program means that ended by itself.
func exited(oom bool, failure string, exit int32) codes.Outcome {
	switch {
	case oom:
		return codes.OutOfMemory
	case failure != "" || exit != 0:
		return codes.Failed
	}
	return codes.Completed
}

// JobFail ends a job that can't run: its image can't be had, its command doesn't
// exist. N is 0 before the first attempt.
type JobFail struct {
	Job     id.Job
	N       int32
	Message string
}

// Kind is job.fail.
func (JobFail) Kind() string { return "job.fail" }

// Decide ends the job as failed.
func (c JobFail) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	old, ok := w.Workload.Jobs.Get(c.Job)
	if !ok || old.Attempt.N != c.N && !(c.N == 0 && old.State == workload.Queued) {
		return world.Outcome{Event: world.Event{Skip: true}}, nil
	}
	j := edit(old, at)
	switch running := workload.RulesOf(j.State).Running; {
	case !running && c.N > 0:
		return world.Outcome{Event: world.Event{Skip: true}}, nil // it waits again: that attempt is over
	case !running:
		return finish(w, at, j, codes.Failed, c.Message)
	}
	return ended(w, at, j, metering.Boundary{}, codes.Failed, c.Message, at.Now, 125)
}

// Contact notes that an engine can't be asked, or can be again. Nothing ends by
// it and nothing is released.
type Contact struct{ Lost bool }

// Kind is node.contact.
func (Contact) Kind() string { return "node.contact" }

// Decide marks every active attempt.
func (c Contact) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	var out []world.Change
	for _, old := range w.Workload.Active.All() {
		if c.Lost == (old.Attempt.Lost != 0) {
			continue
		}
		j := edit(old, at)
		j.Attempt.Lost = 0
		if c.Lost {
			j.Attempt.Lost = at.Now
		}
		out = append(out, workload.JobSet{Row: j})
	}
	message := "the runtime answers again"
	if c.Lost {
		message = "contact with the runtime is lost: nothing is concluded from it"
	}
	return world.Outcome{Changes: out, Event: world.Event{Skip: len(out) == 0, Message: message + " (" + strconv.Itoa(len(out)) + " attempts)"}}, nil
}
