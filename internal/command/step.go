package command

import (
	"cmp"
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// StepAdd has a job run a further program. As with a job, the log keeps only the digest
// of the spec.
type StepAdd struct {
	Job    id.Job
	Spec   workload.StepSpec `json:"-"`
	Digest string            `json:"spec_digest"`
	Home   string            `json:"-"` // host path of the user's home
}

// Kind is step.add.
func (StepAdd) Kind() string { return "step.add" }

// Decide adds the step; it waits for its image and for what it asked for.
func (c StepAdd) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := entered(w, at, c.Job)
	if err != nil {
		return world.Outcome{}, err
	}
	if old.State != workload.Starting && old.State != workload.Running {
		return world.Outcome{}, old.NotRunning()
	}
	live := 0
	for range w.Workload.StepsOf(old.ID) {
		live++
	}
	if live >= workload.MaxSteps {
		return world.Outcome{}, fault.New(codes.Conflict, "job %s has %d steps that haven't ended: wait for some of them", old.Name(), live)
	}
	spec := c.Spec.Within(old.Spec)
	if !spec.Host && spec.Image == "" {
		return world.Outcome{}, fault.Invalid("image", "is missing: job %s has none that the step could run in", old.Name())
	}
	if spec.Host && at.Principal.Narrow.Capped {
		return world.Outcome{}, fault.Invalid("host", "%s", admission.OnMachine)
	}
	view := w.View(at.Now)
	if err := view.Image(old.User, &spec.Image); err != nil {
		return world.Outcome{}, fault.Invalid("image", "%s", err.Message)
	}
	if reasons := view.StepRefused(old, spec, c.Home); len(reasons) > 0 {
		f := fault.New(codes.Refused, "%s", reasons[0].Message)
		f.Reasons = reasons
		return world.Outcome{}, f
	}
	j := edit(old, at)
	j.Steps = max(j.Steps, workload.PrimaryStep) + 1
	s := &workload.Step{
		Job: j.ID, N: j.Steps, Attempt: j.Attempt.N, Spec: spec, State: workload.Queued, Submitted: at.Now, Added: at.Seq, Seq: at.Seq,
	}
	return stepOutcome(j, s, "", workload.JobSet{Row: j}), nil
}

// entered is a job that the caller may act in as its user.
func entered(w *world.World, at world.Context, k id.Job) (*workload.Job, error) {
	j, ok := w.Workload.Jobs.Get(k)
	if !ok || !w.Can(at.Principal, access.JobRead, j.User, j.Account) {
		return nil, fault.New(codes.NotFound, "no such job: %s", k.Name())
	}
	if !w.CanJob(at.Principal, access.JobEnter, j) {
		return nil, fault.New(codes.Denied, "job %s isn't yours to do that with%s", k.Name(), world.OnlyItsOwn(at.Principal, j))
	}
	return j, nil
}

// joined is a job whose terminals the caller may look at or use: his own, or one that is
// shared with him.
func joined(w *world.World, at world.Context, k id.Job, action access.Action) (*workload.Job, error) {
	j, ok := w.Workload.Jobs.Get(k)
	switch {
	case ok && w.CanApp(at.Principal, action, j):
		return j, nil
	case ok && w.CanApp(at.Principal, access.TermView, j):
		return nil, fault.New(codes.Denied, "job %s is shared with you to look at: croft terminal --view %s", k.Name(), k.Name())
	case ok && w.Can(at.Principal, access.JobRead, j.User, j.Account):
		return nil, fault.New(codes.Denied, "job %s isn't yours to do that with%s", k.Name(), world.OnlyItsOwn(at.Principal, j))
	}
	return nil, fault.New(codes.NotFound, "no such job: %s", k.Name())
}

// stepOutcome is an outcome that puts a step's row.
func stepOutcome(j *workload.Job, s *workload.Step, message string, more ...world.Change) world.Outcome {
	text := fmt.Sprintf("step %d %s", s.N, s.State)
	if message != "" {
		text += ": " + message
	}
	return world.Outcome{
		Changes: append(more, workload.StepSet{Row: s}), Result: s,
		Event: world.Event{Job: j.ID, Account: j.Account, State: string(j.State), Message: text},
	}
}

// StepStop ends a step: a waiting one at once, a running one by SIGTERM and, after its
// grace, SIGKILL; with Now by SIGKILL at once.
type StepStop struct {
	Job   id.Job
	N     int32
	Grace int64 // ns; below 0: the step's own
	Now   bool  `json:",omitempty"`
}

// Kind is step.stop.
func (StepStop) Kind() string { return "step.stop" }

// Decide stops the step.
func (c StepStop) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	j, err := controlled(w, at, c.Job, "stop steps of")
	if err != nil {
		return world.Outcome{}, err
	}
	old, ok := w.Workload.Step(c.Job, c.N)
	if !ok {
		if c.N < workload.FirstStep || c.N > j.Steps {
			return world.Outcome{}, fault.New(codes.NotFound, "no such step: %s.%d", j.Name(), c.N)
		}
		return world.Outcome{Event: world.Event{Skip: true}}, nil // it has ended
	}
	s := editStep(old, at)
	by := "cancelled by " + at.Principal.Signature()
	if old.State == workload.Queued {
		s.End(at.Now, codes.Cancelled, 130, by)
		return stepOutcome(j, s, by), nil
	}
	grace := c.Grace
	if grace < 0 {
		grace = cmp.Or(s.Spec.Grace, j.Spec.Grace)
	}
	if !s.Stop(at.Now, grace, c.Now, codes.Cancelled, by) {
		return world.Outcome{Result: old, Event: world.Event{Skip: true}}, nil
	}
	return stepOutcome(j, s, by), nil
}

// editStep returns a copy of a step that the command may change.
func editStep(old *workload.Step, at world.Context) *workload.Step {
	s := *old
	s.Seq = at.Seq
	return &s
}
