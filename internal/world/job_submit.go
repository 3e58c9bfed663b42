package world

import (
	"encoding/json"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/workload"
)

// View is what admission decides on, at time now.
func (w *World) View(now int64) admission.View {
	return admission.View{
		Now: max(now, w.Now), Tenancy: &w.Tenancy, Catalog: &w.Catalog, Ledger: &w.Ledger, Limits: &w.Limits,
		Workload: &w.Workload, Placement: &w.Placement, MountRoots: w.Site.MountRoots, PlanDepth: w.Site.PlanDepth, DefWall: w.Site.DefWall, NeedUID: w.Site.NeedUID,
	}
}

// Submit asks for a job to be accepted. The spec's environment may hold secrets,
// so the log keeps only its digest; the job's row has it whole.
type Submit struct {
	Spec   workload.Spec `json:"-"`
	Digest string        `json:"spec_digest"`
	Home   string        `json:"-"` // host path of the user's home
	Clone  string        `json:"clone,omitempty"`
}

// Kind is job.submit.
func (Submit) Kind() string { return "job.submit" }

// Decide accepts the job and sets its deposit aside, or records the refusal.
func (c Submit) Decide(w *World, at Context) (Outcome, error) {
	user, ok := w.Tenancy.Users.Get(id.User(at.Principal.User))
	if !ok {
		return Outcome{}, fault.New(codes.Denied, "you aren't a Croft user: ask an admin to run croft user add %s", at.Principal.Name)
	}
	view := w.View(at.Now)
	subject, spec, err := view.Resolve(user, c.Spec)
	if err != nil {
		return Outcome{}, err
	}
	if !w.Can(at.Principal, access.JobSubmit, user.ID, subject.Account.ID) {
		return Outcome{}, fault.Invalid("account", "you may not submit to %s", subject.Account.Name)
	}
	subject.Home = c.Home
	req := admission.Request{Subject: subject, Spec: spec, Gate: admission.Accept}
	v, err := admission.Decide(view, req)
	if err != nil {
		return Outcome{}, err
	}
	if !v.Admit {
		return refuse(w, at, view, req, v)
	}
	return accept(w, at, req, v), nil
}

func accept(w *World, at Context, req admission.Request, v admission.Verdict) Outcome {
	j := &workload.Job{
		ID: w.Workload.NextJob(), User: req.Subject.User.ID, Account: req.Subject.Account.ID, Path: v.Demand.Path, Spec: req.Spec,
		State: workload.Queued, Submitted: at.Now, Priority: v.Demand.Priority, Seq: at.Seq,
		Billing: string(req.Subject.Account.Billing), Factor: req.Subject.QoS.Factor, Key: at.Key,
	}
	v.Demand.Job = j.ID
	money := metering.SetAside(w.Ledger.NewPosting(at.Seq, at.Now), j, v.Deposit)
	changes := append([]Change{workload.JobSet{Row: j}}, wrap(money)...)
	if at.Key != "" {
		changes = append(changes, KeySet{Key{Name: at.Key, Digest: at.Digest, Seq: at.Seq, At: at.Now, Job: j.ID}})
	}
	return Outcome{Changes: changes, Result: Accepted{j, v}, Event: Event{Job: j.ID, Account: j.Account, State: string(j.State)}}
}

// Accepted is the result of an accepted submission.
type Accepted struct {
	Job     *workload.Job
	Verdict admission.Verdict
}

func refuse(w *World, at Context, view admission.View, req admission.Request, v admission.Verdict) (Outcome, error) {
	f := v.Fault()
	f.Remedy = admission.Remedy(view, req, v)
	r := &workload.Refusal{ID: w.Workload.NextRefusal(), User: req.Subject.User.ID, Account: req.Subject.Account.ID, Spec: req.Spec, At: at.Now, Seq: at.Seq}
	f.ID = r.ID.String()
	f.Message = "refused " + f.ID + ": " + f.Message
	var err error
	if r.Verdict, err = json.Marshal(Kept{f.Reasons, f.Remedy}); err != nil {
		return Outcome{}, err
	}
	changes := []Change{workload.RefusalSet{Row: r}}
	if at.Key != "" {
		changes = append(changes, KeySet{Key{Name: at.Key, Digest: at.Digest, Seq: at.Seq, At: at.Now, Refusal: r.ID}})
	}
	return Outcome{
		Changes: changes, Result: r, Fault: f,
		Event: Event{Refusal: r.ID, Account: r.Account, State: "refused", Message: v.Reasons[0].Message, Reasons: v.Reasons},
	}, nil
}

// Kept is a refusal's verdict as it is stored.
type Kept struct {
	Reasons []fault.Reason
	Remedy  *fault.Remedy
}

// JobStop ends a job: a waiting one at once, a running one by SIGTERM and, after
// its grace, SIGKILL; with Now by SIGKILL at once.
type JobStop struct {
	Job id.Job
	Now bool
}

// Kind is job.stop.
func (JobStop) Kind() string { return "job.stop" }

// Decide stops the job.
func (c JobStop) Decide(w *World, at Context) (Outcome, error) {
	old, ok := w.Workload.Jobs.Get(c.Job)
	if !ok {
		return Outcome{}, fault.New(codes.NotFound, "no such job: %d", c.Job)
	}
	if !w.Can(at.Principal, access.JobRead, old.User, old.Account) {
		return Outcome{}, fault.New(codes.NotFound, "no such job: %d", c.Job)
	}
	if !w.Can(at.Principal, access.JobControl, old.User, old.Account) {
		return Outcome{}, fault.New(codes.Denied, "job %d isn't yours to stop", c.Job)
	}
	j := edit(old, at)
	by := "cancelled by " + at.Principal.Name
	switch old.State {
	case workload.Queued, workload.Held:
		return w.finish(at, j, codes.Cancelled, by)
	case workload.Stopping:
		if !c.Now || j.Attempt.Kill {
			return Outcome{Result: old, Event: Event{Skip: true}}, nil
		}
		j.Attempt.Kill = true
	default:
		j.State, j.Message = workload.Stopping, by
		j.Attempt.StopAt, j.Attempt.Cause, j.Attempt.Kill = at.Now, codes.Cancelled, c.Now
	}
	return w.put(j, by), nil
}

// edit returns a copy of a job that the command may change.
func edit(old *workload.Job, at Context) *workload.Job {
	j := *old
	j.Seq = at.Seq
	j.Past = slices.Clone(old.Past)
	return &j
}

// put is an outcome that only replaces a job's row.
func (w *World) put(j *workload.Job, message string) Outcome {
	return Outcome{Changes: []Change{workload.JobSet{Row: j}}, Result: j, Event: Event{Job: j.ID, Account: j.Account, State: string(j.State), Message: message}}
}
