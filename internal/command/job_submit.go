package command

import (
	"encoding/json"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Submit asks for a job to be accepted. The spec's environment may hold secrets,
// so the log keeps only its digest; the job's row has it whole.
type Submit struct {
	Spec   workload.Spec `json:"-"`
	Digest string        `json:"spec_digest"`
	Home   string        `json:"-"` // host path of the user's home
	Clone  string        `json:"clone,omitempty"`
	// Past has the jobs that this one is to wait for and that have left the world.
	Past []admission.Past `json:"past,omitempty"`
	// Window is when it starts, as its user is told.
	Window placement.Window `json:"window,omitzero"`
}

// Kind is job.submit.
func (Submit) Kind() string { return "job.submit" }

// Decide accepts the job and sets its deposit aside, or records the refusal.
func (c Submit) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	view := w.View(at.Now)
	subject, spec, err := view.Resolve(at.Principal, c.Spec)
	if err != nil {
		return world.Outcome{}, err
	}
	if !w.Can(at.Principal, access.JobSubmit, subject.User.ID, subject.Account.ID) {
		return world.Outcome{}, fault.Invalid("account", "you may not submit to %s", subject.Account.Name)
	}
	subject.Home = c.Home
	met, array, err := view.Dependencies(at.Principal, spec, c.Past)
	if err != nil {
		return world.Outcome{}, err
	}
	req := admission.Request{Subject: subject, Spec: spec, Met: met, Array: array, Gate: admission.Accept}
	v, err := admission.Decide(view, req)
	if err != nil {
		return world.Outcome{}, err
	}
	if !v.Admit {
		return refuse(w, at, view, req, v)
	}
	v.Window = c.Window
	if cost, err := wholeCost(v, spec); err != nil || subject.Token.Caps.Asks(cost) {
		return asks(w, at, req, v, cost, err)
	}
	return accept(w, at, req, v), nil
}

func accept(w *world.World, at world.Context, req admission.Request, v admission.Verdict) world.Outcome {
	j := accepted(w, at, req, v)
	v.Demand.Job = j.ID
	money := metering.SetAside(w.Ledger.NewPosting(at.Seq, at.Now), j, v.Deposit)
	return submitted(at, j, v, wrap(money))
}

// accepted is the row of a job that is accepted, before anything is set aside for it.
func accepted(w *world.World, at world.Context, req admission.Request, v admission.Verdict) *workload.Job {
	j := &workload.Job{
		ID: w.Workload.NextJob(), User: req.Subject.User.ID, Account: req.Subject.Account.ID, Path: v.Demand.Path, Spec: req.Spec, In: req.Subject.In.ID, Token: req.Subject.Token,
		State: workload.Held, Submitted: at.Now, Seq: at.Seq, Met: req.Met, Array: req.Array,
		Billing: string(req.Subject.Account.Billing), Factor: req.Subject.QoS.Factor, Key: at.Key,
	}
	if j.Array == nil {
		j.Quoted = workload.Quoted{Kind: string(v.Window.Kind), Start: v.Window.Start, Cost: v.Cost.Total}
	}
	if j.Spec.Hold {
		j.Hold = workload.HeldByUser
	}
	j.LineUp(at.Now, at.Now)
	return j
}

// submitted is the outcome of a submission with what else it changes.
func submitted(at world.Context, j *workload.Job, v admission.Verdict, more []world.Change) world.Outcome {
	changes := append([]world.Change{workload.JobSet{Row: j}}, more...)
	if at.Key != "" {
		changes = append(changes, world.KeySet{Row: world.Key{Name: at.Key, Digest: at.Digest, Seq: at.Seq, At: at.Now, Job: j.ID}})
	}
	return world.Outcome{Changes: changes, Result: admission.Accepted{Job: j, Verdict: v}, Event: world.Event{Job: j.ID, Account: j.Account, State: string(j.State)}}
}

func refuse(w *world.World, at world.Context, view admission.View, req admission.Request, v admission.Verdict) (world.Outcome, error) {
	f := v.Fault()
	f.Remedy = admission.Remedy(view, req, v)
	r := &workload.Refusal{ID: w.Workload.NextRefusal(), User: req.Subject.User.ID, Account: req.Subject.Account.ID, Spec: req.Spec, At: at.Now, Seq: at.Seq}
	f.ID = r.ID.String()
	f.Message = "refused " + f.ID + ": " + f.Message
	var err error
	if r.Verdict, err = json.Marshal(admission.Kept{Reasons: f.Reasons, Remedy: f.Remedy}); err != nil {
		return world.Outcome{}, err
	}
	changes := []world.Change{workload.RefusalSet{Row: r}}
	if at.Key != "" {
		changes = append(changes, world.KeySet{Row: world.Key{Name: at.Key, Digest: at.Digest, Seq: at.Seq, At: at.Now, Refusal: r.ID}})
	}
	return world.Outcome{
		Changes: changes, Result: r, Fault: f,
		Event: world.Event{Refusal: r.ID, Account: r.Account, State: "refused", Message: v.Reasons[0].Message, Reasons: v.Reasons},
	}, nil
}

// JobStop ends a job: a waiting one at once, a running one by SIGTERM and, after
// its grace, SIGKILL; with Now by SIGKILL at once. A workspace is stopped likewise, but
// ends by it only with Delete.
type JobStop struct {
	Job      id.Job
	Now      bool
	Grace    int64             `json:",omitempty"` // ns; 0: the job's own
	Elements workload.Elements `json:",omitempty"` // of an array, only these
	Delete   bool              `json:",omitempty"`
}

// Kind is job.stop.
func (JobStop) Kind() string { return "job.stop" }

// Decide stops the job.
func (c JobStop) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := controlled(w, at, c.Job, "stop")
	if err != nil {
		return world.Outcome{}, err
	}
	by := "cancelled by " + at.Principal.Signature()
	if old.Array != nil {
		return c.stopArray(w, at, old, by)
	}
	if old.Spec.Workspace() {
		return c.stopWorkspace(w, at, old)
	}
	j := edit(old, at)
	switch old.State {
	case workload.Queued, workload.Held:
		return finish(w, at, j, codes.Cancelled, by)
	}
	if !c.tell(j, at, codes.Cancelled, by) {
		return world.Outcome{Result: old, Event: world.Event{Skip: true}}, nil
	}
	return put(w, j, by), nil
}

// tell tells a job that holds an allocation to end; it reports whether that changes
// anything. One that was told already can be given less time, never more.
func (c JobStop) tell(j *workload.Job, at world.Context, cause codes.Outcome, by string) bool {
	a := &j.Attempt
	if j.State == workload.Stopping {
		again := j.Again(a.Cause) || c.Delete && outlives(j) // by preemption, or a stop: not any more
		sooner := c.Grace > 0 && at.Now+c.Grace < j.KillAt()
		if !again && (a.Kill || !c.Now && !sooner) {
			return false
		}
		if a.Kill = a.Kill || c.Now; sooner {
			a.Grace = at.Now + c.Grace - a.StopAt
		}
		if again {
			a.Cause, j.Message = cause, by
		}
		return true
	}
	j.State, j.Message = workload.Stopping, by
	a.StopAt, a.Cause, a.Kill, a.Grace = at.Now, cause, c.Now, c.Grace
	return true
}

// controlled is a job that the caller may do something to.
func controlled(w *world.World, at world.Context, k id.Job, verb string) (*workload.Job, error) {
	j, ok := w.Workload.Jobs.Get(k)
	if !ok || !w.Can(at.Principal, access.JobRead, j.User, j.Account) && !w.CanApp(at.Principal, access.AppSee, j) {
		return nil, fault.New(codes.NotFound, "no such job: %s", k.Name())
	}
	if !w.CanJob(at.Principal, access.JobControl, j) {
		return nil, fault.New(codes.Denied, "job %s isn't yours to %s%s", j.Name(), verb, world.OnlyItsOwn(at.Principal, j))
	}
	return j, nil
}

// edit returns a copy of a job that the command may change.
func edit(old *workload.Job, at world.Context) *workload.Job {
	j := *old
	j.Seq = at.Seq
	j.Past = slices.Clone(old.Past)
	return &j
}

// put is an outcome that only replaces a job's row.
func put(w *world.World, j *workload.Job, message string) world.Outcome {
	return world.Outcome{Changes: []world.Change{workload.JobSet{Row: j}}, Result: j, Event: world.Event{Job: j.ID, Account: j.Account, State: string(j.State), Message: message}}
}
