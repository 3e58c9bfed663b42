package command

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

var skip = world.Outcome{Event: world.Event{Skip: true}}

// StepStart gives a waiting step what it asked for, if that is free. Image is the content
// digest that was resolved.
type StepStart struct {
	Job   id.Job
	N     int32
	Image string
}

// Kind is step.start.
func (StepStart) Kind() string { return "step.start" }

// Decide lets the step begin.
func (c StepStart) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	j, old, err := stepRun(w, at, c.Job, c.N, 0)
	if err != nil || old == nil || old.State != workload.Queued || j.State != workload.Running {
		return skip, err
	}
	devices, ok := w.Workload.Room(j, old)
	if !ok {
		return skip, nil
	}
	s := editStep(old, at)
	s.State, s.Devices, s.Image, s.Message = workload.Starting, devices, c.Image, ""
	return stepOutcome(j, s, ""), nil
}

// stepRun is a live step for the loop that runs it, with its job; nil if there is none, or
// attempt isn't 0 and not the step's.
func stepRun(w *world.World, at world.Context, k id.Job, n, attempt int32) (*workload.Job, *workload.Step, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return nil, nil, onlyServer
	}
	s, ok := w.Workload.Step(k, n)
	if !ok || attempt != 0 && attempt != s.Attempt {
		return nil, nil, nil
	}
	j, ok := w.Workload.Jobs.Get(k)
	if !ok {
		return nil, nil, nil
	}
	return j, s, nil
}

// StepObserved is what an engine saw of a step.
type StepObserved struct {
	Job      id.Job
	N        int32
	Attempt  int32 // of the job
	Running  bool
	Exited   bool
	Lost     bool // it ended unseen
	Started  int64
	Finished int64
	ExitCode int32
	OOM      bool
	Failure  string
}

// Kind is step.observed.
func (StepObserved) Kind() string { return "step.observed" }

// Decide follows what was seen.
func (c StepObserved) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	j, old, err := stepRun(w, at, c.Job, c.N, c.Attempt)
	if err != nil || old == nil || old.State == workload.Queued {
		return skip, err
	}
	s := editStep(old, at)
	if s.Started == 0 && c.Started != 0 {
		s.Started = clamp(c.Started, s.Submitted, at.Now)
		if s.Spec.Time > 0 {
			s.Until = s.Started + s.Spec.Time
		}
	}
	switch {
	case c.Lost:
		s.End(at.Now, codes.NodeFailed, 137, "the machine or its runtime went down under it")
	case c.Exited:
		s.End(clamp(c.Finished, max(s.Started, s.Submitted), at.Now), c.outcome(j, s), c.ExitCode, c.Failure)
	case c.Running && s.State == workload.Starting:
		s.State = workload.Running
	default:
		return skip, nil
	}
	return stepOutcome(j, s, c.Failure), nil
}

// outcome says what an exit means: what Croft itself did comes first.
func (c StepObserved) outcome(j *workload.Job, s *workload.Step) codes.Outcome {
	switch {
	case s.Cause != "":
		return s.Cause
	case j.State == workload.Stopping && c.ExitCode != 0: // it was told to end with its job
		return j.Attempt.Cause
	}
	return exited(c.OOM, c.Failure, c.ExitCode)
}

// StepFail ends a step that can't run: its image can't be had, its command doesn't exist.
type StepFail struct {
	Job     id.Job
	N       int32
	Attempt int32 // of the job; 0: only while it waits
	Message string
}

// Kind is step.fail.
func (StepFail) Kind() string { return "step.fail" }

// Decide ends the step as failed.
func (c StepFail) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	j, old, err := stepRun(w, at, c.Job, c.N, c.Attempt)
	if err != nil || old == nil || c.Attempt == 0 && old.State != workload.Queued {
		return skip, err
	}
	s := editStep(old, at)
	s.End(at.Now, codes.Failed, 125, c.Message)
	return stepOutcome(j, s, c.Message), nil
}

// StepDue moves a step along its clock: SIGTERM at its limit, SIGKILL after the grace.
type StepDue struct {
	Job id.Job
	N   int32
}

// Kind is step.due.
func (StepDue) Kind() string { return "step.due" }

// Decide takes whatever is due now.
func (c StepDue) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	j, old, err := stepRun(w, at, c.Job, c.N, 0)
	if err != nil || old == nil || old.Due() == 0 || old.Due() > at.Now {
		return skip, err
	}
	s := editStep(old, at)
	if s.State == workload.Stopping {
		s.Kill = true
		return stepOutcome(j, s, "grace is over: SIGKILL"), nil
	}
	grace := s.Spec.Grace
	if grace == 0 {
		grace = j.Spec.Grace
	}
	s.Stop(at.Now, grace, false, codes.TimedOut, "its time is up")
	return stepOutcome(j, s, "time is up: SIGTERM"), nil
}

// stepsEnd ends the steps of a job's attempt, which is over: the engine kills what runs.
func stepsEnd(w *world.World, at world.Context, j *workload.Job) []world.Change {
	var out []world.Change
	for old := range w.Workload.StepsOf(j.ID) {
		s := editStep(old, at)
		exit := int32(137)
		if old.State == workload.Queued {
			exit = 130
		}
		s.End(at.Now, codes.Cancelled, exit, "the job has ended")
		out = append(out, workload.StepSet{Row: s})
	}
	return out
}
