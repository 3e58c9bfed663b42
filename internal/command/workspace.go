package command

import (
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// outlives reports whether a job whose attempt is over, or that won't have one, is there
// still: a workspace ends only when somebody deletes it.
func outlives(j *workload.Job) bool {
	return j.Spec.Workspace() && j.Attempt.Cause != codes.Cancelled
}

// rests puts a workspace to rest whose attempt is over. money and changes are what else
// follows from that.
func rests(w *world.World, at world.Context, p *ledger.Posting, j *workload.Job, changes []world.Change, b metering.Boundary, outcome codes.Outcome, exit int32, message string) (world.Outcome, error) {
	changes = append(changes, wrap(metering.Close(p, &w.Ledger, j))...)
	j.Rests(at.Now, outcome, exit, message)
	return moved(w, at, p, j, changes, b, "stopped: "+restMessage(outcome, message))
}

// rest puts a workspace to rest that holds no allocation.
func rest(w *world.World, at world.Context, j *workload.Job, outcome codes.Outcome, message string) world.Outcome {
	p := w.Ledger.NewPosting(at.Seq, at.Now)
	money := append(wrap(metering.Close(p, &w.Ledger, j)), unasked(w, at, j)...)
	j.Rests(at.Now, outcome, 125, message)
	out := put(w, j, "stopped: "+restMessage(outcome, message))
	out.Changes = append(out.Changes, money...)
	return out
}

func restMessage(o codes.Outcome, message string) string {
	if o == codes.Stopped && message != "" {
		return message
	}
	return endMessage(o, message)
}

// stopWorkspace stops a workspace, which stays, or deletes it.
func (c JobStop) stopWorkspace(w *world.World, at world.Context, old *workload.Job) (world.Outcome, error) {
	by := "by " + at.Principal.Signature()
	cause := codes.Stopped
	if c.Delete {
		by, cause = "deleted "+by, codes.Cancelled
	}
	j := edit(old, at)
	switch idle := !workload.RulesOf(old.State).Running; {
	case idle && c.Delete:
		return finish(w, at, j, cause, by)
	case old.State == workload.Stopped:
		return world.Outcome{Result: old, Event: world.Event{Skip: true}}, nil
	case idle:
		return rest(w, at, j, cause, by), nil
	case !c.tell(j, at, cause, by):
		return world.Outcome{Result: old, Event: world.Event{Skip: true}}, nil
	}
	return put(w, j, by), nil
}

// WorkspaceStart lets a stopped workspace wait for its turn again, at today's price. The
// spec may be another than before; as that of a submission it isn't in the log.
type WorkspaceStart struct {
	Job    id.Job
	Spec   *workload.Spec `json:"-"` // nil: as it was
	Digest string         `json:"spec_digest,omitempty"`
	Home   string         `json:"-"` // host path of its user's home
}

// Kind is workspace.start.
func (WorkspaceStart) Kind() string { return "workspace.start" }

// Decide accepts it as if it were submitted now by its user, or says why not. One that
// isn't stopped is started already.
func (c WorkspaceStart) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := controlled(w, at, c.Job, "start")
	switch {
	case err != nil:
		return world.Outcome{}, err
	case !old.Spec.Workspace():
		return world.Outcome{}, fault.New(codes.Conflict, "job %s isn't a workspace: croft clone %s submits it anew", old.Name(), old.Name())
	case old.State == workload.Stopping && old.Attempt.Cause == codes.Cancelled:
		return world.Outcome{}, fault.New(codes.Conflict, "workspace %s is being deleted", old.Spec.Name)
	case old.State == workload.Stopping:
		return world.Outcome{}, fault.New(codes.Conflict, "workspace %s is being stopped: start it when it has", old.Spec.Name)
	case old.State != workload.Stopped:
		return world.Outcome{Result: old, Event: world.Event{Skip: true}}, nil
	}
	spec, err := c.spec(old)
	if err != nil {
		return world.Outcome{}, err
	}
	view := w.View(at.Now)
	owner := w.Principal(old.User, 0, at.Now)
	subject, resolved, err := view.Resolve(owner, spec)
	if err != nil {
		return world.Outcome{}, err
	}
	if !w.Can(owner, access.JobSubmit, old.User, old.Account) {
		return world.Outcome{}, fault.New(codes.Denied, "%s may not submit to %s any more", owner.Name, subject.Account.Name)
	}
	if c.Spec != nil {
		spec = resolved
	}
	subject.Home, subject.Token = c.Home, old.Token
	req := admission.Request{Subject: subject, Spec: spec, Gate: admission.Accept, Wakes: old.ID}
	v, err := admission.Decide(view, req)
	if err != nil {
		return world.Outcome{}, err
	}
	if !v.Admit {
		return staysStopped(w, at, view, req, old, v), nil
	}
	if err := againAsks(w, at, old, spec); err != nil {
		return world.Outcome{}, err
	}
	j := edit(old, at)
	j.Path, j.In = v.Demand.Path, subject.In.ID
	j.Wakes(at.Now, spec, string(subject.Account.Billing), subject.QoS.Factor)
	v.Demand.Job = j.ID
	out := put(w, j, "to be started by "+at.Principal.Signature())
	out.Changes = append(out.Changes, wrap(metering.SetAside(w.Ledger.NewPosting(at.Seq, at.Now), j, v.Deposit))...)
	out.Result = admission.Accepted{Job: j, Verdict: v}
	return out, nil
}

// spec is what the workspace is to run as. What it is known and billed by stays.
func (c WorkspaceStart) spec(old *workload.Job) (workload.Spec, error) {
	if c.Spec == nil {
		return old.Spec, nil
	}
	spec := *c.Spec
	var bad fault.Fields
	for _, f := range []struct{ field, is, was string }{
		{"kind", string(spec.Kind), string(old.Spec.Kind)}, {"name", spec.Name, old.Spec.Name}, {"account", spec.Account, old.Spec.Account},
	} {
		if f.is != f.was {
			bad.Add(f.field, "a workspace keeps it (%s): make another one", f.was)
		}
	}
	return spec, bad.Err()
}

// staysStopped is a start that is refused: the workspace says why.
func staysStopped(w *world.World, at world.Context, view admission.View, req admission.Request, old *workload.Job, v admission.Verdict) world.Outcome {
	f := v.Fault()
	f.Remedy = admission.Remedy(view, req, v)
	f.ID = old.Name()
	f.Message = "refused to start " + old.Spec.Name + ": " + f.Message
	j := edit(old, at)
	j.Message = "not started: " + v.Reasons[0].Message
	out := put(w, j, j.Message)
	out.Fault, out.Event.Reasons = f, slices.Clone(v.Reasons)
	return out
}

// AppsReady notes that all apps of an attempt were seen to answer.
type AppsReady struct {
	Job id.Job
	N   int32
}

// Kind is app.ready.
func (AppsReady) Kind() string { return "app.ready" }

// Decide notes it once.
func (c AppsReady) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	old, ok := w.Workload.Active.Get(c.Job)
	if !ok || old.Attempt.N != c.N || old.Attempt.Started == 0 || old.Attempt.Ready != 0 {
		return skip, nil
	}
	j := edit(old, at)
	j.Attempt.Ready = at.Now
	return put(w, j, "ready"), nil
}

// restsAlready is what whoever wants to change how a workspace runs or waits is told that
// does neither.
func restsAlready(j *workload.Job) error {
	return fault.New(codes.Conflict, "workspace %s is stopped: croft workspace start %s starts it", j.Spec.Name, j.Spec.Name)
}
