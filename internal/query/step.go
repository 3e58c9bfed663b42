package query

import (
	"context"
	"slices"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
)

// StepQuery selects steps of a job: live, or all of them.
type StepQuery struct {
	State  string
	Limit  int
	Cursor string
}

// Steps lists the further steps of a job that the caller may read, by number.
func (r *Reader) Steps(ctx context.Context, p access.Principal, name string, q StepQuery) (v1.Page[v1.Step], error) {
	out := v1.Page[v1.Step]{Items: []v1.Step{}}
	v := r.view(p)
	size, err := pageSize(q.Limit)
	if err != nil {
		return out, err
	}
	if q.State != "" && q.State != "live" && q.State != "all" {
		return out, fault.Invalid("state", "must be live or all")
	}
	j, err := r.find(ctx, v, name)
	if err != nil {
		return out, err
	}
	filter := filterHash("steps", decimal(j.ID), q.State)
	from, err := parseCursor(q.Cursor, filter)
	if err != nil {
		return out, err
	}
	rows, err := r.History.Steps(ctx, j.ID, store.StepFilter{After: int32(from.ID), Live: q.State == "live"}, size+1)
	if err != nil {
		return out, err
	}
	if len(rows) > size {
		rows = rows[:size]
		out.Next = cursor{Filter: filter, ID: int64(rows[size-1].N)}.encode()
	}
	for i := range rows {
		out.Items = append(out.Items, r.stepWire(v, j, &rows[i]))
	}
	return out, nil
}

// Step returns a step of a job that the caller may read.
func (r *Reader) Step(ctx context.Context, p access.Principal, name string, n int32) (v1.Step, error) {
	v := r.view(p)
	j, err := r.find(ctx, v, name)
	if err != nil {
		return v1.Step{}, err
	}
	if n == workload.PrimaryStep {
		return r.primaryWire(v, j)
	}
	s, err := r.step(ctx, v, j, n)
	if err != nil {
		return v1.Step{}, err
	}
	return r.stepWire(v, j, s), nil
}

// primaryWire is a job's primary as a step of it. It shares all that the job has.
func (r *Reader) primaryWire(v view, j *workload.Job) (v1.Step, error) {
	if j.Array != nil {
		return v1.Step{}, fault.NotFound("step", j.Name()+"."+decimal(int32(workload.PrimaryStep)))
	}
	job, err := r.jobWire(v, j, false)
	if err != nil {
		return v1.Step{}, err
	}
	out := v1.Step{
		ID: job.ID + "." + decimal(int32(workload.PrimaryStep)), Job: job.ID, N: workload.PrimaryStep, State: job.State, Outcome: job.Outcome,
		ExitCode: job.ExitCode, Message: job.Message, Attempt: job.Attempt, Image: job.Image, Devices: job.Devices, Progress: job.Progress,
		Submitted: job.Submitted, Started: job.Started, Ended: job.Ended, Seq: job.Seq,
		Spec: v1.StepSpec{
			Name: job.Spec.Name, Host: j.Spec.Host(), Image: job.Spec.Image, Command: job.Spec.Command, Args: job.Spec.Args, Env: job.Spec.Env,
			Workdir: job.Spec.Workdir, Mounts: job.Spec.Mounts, Pull: job.Spec.Pull, Grace: job.Spec.Grace,
			Stdin: job.Spec.Stdin, TTY: job.Spec.TTY, AwaitAttach: job.Spec.AwaitAttach,
		},
	}
	if waiting(j) {
		out.State = string(workload.Queued)
	}
	return out, nil
}

// FindStep returns the rows of a job and of a step of it, if the caller may do to the job
// what action says.
func (r *Reader) FindStep(ctx context.Context, p access.Principal, name string, n int32, action access.Action) (*workload.Job, *workload.Step, error) {
	j, err := r.Find(ctx, p, name, action)
	if err != nil {
		return nil, nil, err
	}
	s, err := r.step(ctx, r.view(p), j, n)
	return j, s, err
}

// StepReached reports whether a step runs, or has ended.
func (r *Reader) StepReached(ctx context.Context, p access.Principal, name string, n int32, until string) (bool, error) {
	if n == workload.PrimaryStep {
		return r.Reached(ctx, p, name, until)
	}
	_, s, err := r.FindStep(ctx, p, name, n, access.JobRead)
	if err != nil {
		return false, err
	}
	begun := s.State == workload.Running || s.State == workload.Stopping
	return s.State == workload.Ended || begun && until == "running", nil
}

// AddedStep is the step that a job was given by a row of the log.
func (r *Reader) AddedStep(ctx context.Context, p access.Principal, job id.Job, seq int64) (v1.Step, error) {
	v := r.view(p)
	j, err := r.find(ctx, v, job.Name())
	if err != nil {
		return v1.Step{}, err
	}
	rows, err := r.History.Steps(ctx, job, store.StepFilter{Added: seq}, 1)
	if err != nil || len(rows) == 0 {
		return v1.Step{}, readErr(err, "step", job.Name())
	}
	return r.stepWire(v, j, &rows[0]), nil
}

// step is one that lives, or that has ended.
func (r *Reader) step(ctx context.Context, v view, j *workload.Job, n int32) (*workload.Step, error) {
	if s, ok := v.w.Workload.Step(j.ID, n); ok {
		return s, nil
	}
	var rows []workload.Step
	if n >= workload.FirstStep {
		var err error
		if rows, err = r.History.Steps(ctx, j.ID, store.StepFilter{N: n}, 1); err != nil {
			return nil, err
		}
	}
	if len(rows) == 0 {
		return nil, fault.NotFound("step", j.Name()+"."+decimal(n))
	}
	return &rows[0], nil
}

func (r *Reader) stepWire(v view, j *workload.Job, s *workload.Step) v1.Step {
	out := v1.Step{
		ID: j.Name() + "." + decimal(s.N), Job: j.Name(), N: int(s.N), State: string(s.State), Outcome: string(s.Outcome), Message: s.Message,
		Spec: s.Spec.Wire(), Attempt: int(s.Attempt), Image: s.Image, Submitted: at(s.Submitted), Started: moment(s.Started), Ended: moment(s.Ended), Seq: s.Seq,
	}
	if s.State == workload.Ended {
		code := int(s.ExitCode)
		out.ExitCode = &code
	}
	if len(s.Devices) > 0 {
		out.Devices = v.devices(s.Devices)
	}
	if s.State != workload.Queued {
		return out
	}
	if out.Progress = r.Server.StepProgress(s); out.Message == "" {
		out.Message = stepWaits(v, j, s)
	}
	return out
}

// stepWaits is what keeps a waiting step.
func stepWaits(v view, j *workload.Job, s *workload.Step) string {
	if j.State != workload.Running {
		return "waits for its job to run"
	}
	if _, ok := v.w.Workload.Room(j, s); ok {
		return "" // it is about to start, or its image's progress says what is missing
	}
	var by []string
	for other := range v.w.Workload.StepsOf(j.ID) {
		part := other.Spec.CPU > 0 && s.Spec.CPU > 0 || other.Spec.Mem > 0 && s.Spec.Mem > 0 || other.Spec.GPU > 0 && s.Spec.GPU > 0
		if part && other.State != workload.Queued && len(by) < 10 {
			by = append(by, j.Name()+"."+decimal(other.N))
		}
	}
	slices.Sort(by)
	return "waits for what other steps have: " + strings.Join(by, ", ")
}
