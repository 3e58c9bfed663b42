package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/workload"
)

func stepOperations() []operation {
	stepParam := param{"wait", "running or ended: answer when the step has come so far"}
	return []operation{
		tell("addStep", "POST /v1/jobs/{id}/steps", "Run a further program in a running job", access.JobEnter, created, (*call).addStep),
		ask("listSteps", "GET /v1/jobs/{id}/steps", "The programs that a job was given besides its primary, by number", access.JobSee, (*call).steps,
			param{"state", "live: only those that haven't ended; or all (default)"}, limitParam(), cursorParam()),
		ask("getStep", "GET /v1/jobs/{id}/steps/{step}", "A step, by its number", access.JobSee, (*call).step,
			stepParam, param{"timeout", "answer then in any case, e.g. 60s (default)"}),
		tell("stopStep", "POST /v1/jobs/{id}/steps/{step}/stop", "Stop a step", access.JobControl, ok, (*call).stopStep),
	}
}

// addStep runs a program in a running job, for its owner alone: it acts as him there.
func (c *call) addStep(in v1.StepSpec) (v1.Step, error) {
	spec, err := workload.ParseStep(in, c.Reader.Defaults())
	if err != nil {
		return v1.Step{}, err
	}
	name := c.path("id")
	j, err := c.Reader.Find(c.r.Context(), c.p, name, access.JobEnter)
	if err != nil {
		return v1.Step{}, err
	}
	if j.State == workload.Ended || j.Array != nil || j.ID < 0 {
		return v1.Step{}, fault.New(codes.Conflict, "job %s isn't running: it is %s", name, j.State)
	}
	home, err := c.home(c.p.Name, workload.Spec{Mounts: spec.Mounts})
	if err != nil {
		return v1.Step{}, err
	}
	sum := sha256.Sum256(c.body)
	got, err := c.do(command.StepAdd{Job: j.ID, Spec: spec, Digest: hex.EncodeToString(sum[:]), Home: home})
	if _, there := c.Sequencer.World().Workload.Jobs.Get(j.ID); err != nil && !there {
		return v1.Step{}, fault.New(codes.Conflict, "job %s isn't running: it is %s", name, workload.Ended) // since it was found
	}
	if err != nil {
		return v1.Step{}, err
	}
	return c.Reader.AddedStep(c.r.Context(), c.p, j.ID, got.Seq)
}

func (c *call) steps() (v1.Page[v1.Step], error) {
	q := c.r.URL.Query()
	limit, err := number(q.Get("limit"), "limit")
	if err != nil {
		return v1.Page[v1.Step]{}, err
	}
	return c.Reader.Steps(c.r.Context(), c.p, c.path("id"), query.StepQuery{State: q.Get("state"), Limit: int(limit), Cursor: q.Get("cursor")})
}

func (c *call) step() (v1.Step, error) {
	name, n := c.path("id"), stepNumber(c.path("step"))
	if until, timeout, err := c.waits(); err != nil {
		return v1.Step{}, err
	} else if until != "" {
		reached := func() (bool, error) { return c.Reader.StepReached(c.r.Context(), c.p, name, n, until) }
		if err := c.wait(timeout, reached); err != nil {
			return v1.Step{}, err
		}
	}
	return c.Reader.Step(c.r.Context(), c.p, name, n)
}

func (c *call) stopStep(in v1.StepStop) (v1.Step, error) {
	name, n := c.path("id"), stepNumber(c.path("step"))
	if n == workload.PrimaryStep {
		return c.stopPrimary(name, in)
	}
	j, s, err := c.Reader.FindStep(c.r.Context(), c.p, name, n, access.JobControl)
	if err != nil {
		return v1.Step{}, err
	}
	cmd := command.StepStop{Job: j.ID, N: n, Now: in.Now}
	if cmd.Grace, err = stopGrace(in.Grace); err != nil {
		return v1.Step{}, err
	}
	if s.State != workload.Ended {
		if _, err := c.do(cmd); err != nil {
			return v1.Step{}, err
		}
	}
	return c.Reader.Step(c.r.Context(), c.p, name, n)
}

// stopPrimary stops a job by its primary, whose end is the job's.
func (c *call) stopPrimary(name string, in v1.StepStop) (v1.Step, error) {
	s, err := c.Reader.Step(c.r.Context(), c.p, name, workload.PrimaryStep)
	if err != nil {
		return v1.Step{}, err
	}
	if s.State != string(workload.Ended) {
		if _, err := c.stopNamed(name, v1.StopRequest{Now: in.Now, Grace: in.Grace}); err != nil {
			return v1.Step{}, err
		}
	}
	return c.Reader.Step(c.r.Context(), c.p, name, workload.PrimaryStep)
}

const maxGrace = int64(24 * 3600 * 1e9)

// stopGrace reads the time between SIGTERM and SIGKILL, in ns; below 0: none is given.
func stopGrace(in v1.Quantity) (int64, error) {
	if in == "" {
		return -1, nil
	}
	n, err := quantity.ParseDuration(string(in))
	if err != nil || n < 0 || n > maxGrace {
		return 0, fault.Invalid("grace", "must be a span such as 30s, at most a day")
	}
	return n, nil
}

// stepNumber reads a step's number; what is none is no step's.
func stepNumber(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || strconv.FormatInt(n, 10) != s {
		return 0
	}
	return int32(n)
}

// stepParam is the step that a request names besides its job; the primary if it names
// none.
func (c *call) stepParam() (int32, error) {
	text := c.r.URL.Query().Get("step")
	if text == "" {
		return workload.PrimaryStep, nil
	}
	n := stepNumber(text)
	if n < workload.PrimaryStep {
		return 0, fault.Invalid("step", "must be the number of a step, from 1")
	}
	return n, nil
}

// primary names, as the engine does, the primary of an attempt on the machine whose rank the
// request names; on the first, if it names none.
func (c *call) primary(j *workload.Job, attempt int32) (engine.StepID, error) {
	a, ok := j.AttemptOf(attempt)
	n, err := number(c.r.URL.Query().Get("rank"), "rank")
	if err != nil || ok && n > int64(len(a.Others)) {
		return engine.StepID{}, fault.Invalid("rank", "must be that of one of the job's machines, from 0 to %d", len(a.Others))
	}
	ranks := id.Attempt{Job: j.ID, N: attempt}.Ranks(c.Sequencer.World().Site.Instance, len(a.Others))
	return engine.AttemptID(ranks[min(n, int64(len(ranks)-1))]).Primary(), nil
}

// engineStep names a step as the engine does.
func (c *call) engineStep(job id.Job, attempt, n int32) engine.StepID {
	name := id.Attempt{Job: job, N: attempt}.Engine(c.Sequencer.World().Site.Instance)
	return engine.StepID{Attempt: engine.AttemptID(name), N: int(n)}
}

// stepLogs streams the log of a further step; following, from its start to its end.
func (c *call) stepLogs(req logRequest, n int32) error {
	name := c.path("id")
	if req.attempt != 0 {
		return fault.Invalid("attempt", "a step is of one attempt: leave it out")
	}
	j, s, err := c.Reader.FindStep(c.r.Context(), c.p, name, n, access.JobRead)
	if err != nil {
		return err
	}
	ctx, stop, err := c.long(basis{action: access.JobRead, user: j.User, in: j.Account})
	if err != nil {
		return err
	}
	defer stop()
	out := &frames{w: c.w, follow: req.Follow}
	if err := c.followStep(ctx, req, j, s, out); err != nil {
		if !out.has() {
			return err
		}
		return out.fail(c.problem(c.r, c.w.Header().Get(requestID), err))
	}
	return out.finish()
}

func (c *call) followStep(ctx context.Context, req logRequest, j *workload.Job, s *workload.Step, out *frames) error {
	err := c.until(ctx, func() (bool, error) {
		var err error
		if _, s, err = c.Reader.FindStep(ctx, c.p, c.path("id"), s.N, access.JobRead); err != nil {
			return false, err
		}
		waits := s.State == workload.Queued || s.State == workload.Starting
		if waits && req.Follow {
			if err := out.begin(); err != nil {
				return false, err
			}
		}
		return !waits || !req.Follow, nil
	})
	if err != nil || s.State == workload.Queued || s.Started == 0 && s.State == workload.Ended {
		return err
	}
	err = c.Engine.Logs(ctx, c.engineStep(j.ID, s.Attempt, s.N), req.LogOptions, out)
	var gone *engine.NotFoundError
	switch {
	case errors.As(err, &gone):
		return fault.New(codes.Gone, "the log of step %s.%d is no longer kept", j.Name(), s.N)
	case engine.IsUnavailable(err):
		return fault.New(codes.Unavailable, "the container runtime can't be asked for the log right now; try again")
	}
	return err
}

// stepToEnter is the step that is entered.
func (c *call) stepToEnter(j *workload.Job) (engine.StepID, error) {
	n, err := c.stepParam()
	if err != nil {
		return engine.StepID{}, err
	}
	if n == workload.PrimaryStep {
		return c.primary(j, j.Attempt.N)
	}
	_, s, err := c.Reader.FindStep(c.r.Context(), c.p, c.path("id"), n, access.JobEnter)
	if err != nil {
		return engine.StepID{}, err
	}
	if s.State != workload.Running {
		return engine.StepID{}, fault.New(codes.Conflict, "step %s.%d isn't running: it is %s", j.Name(), n, s.State)
	}
	return c.engineStep(j.ID, s.Attempt, n), nil
}
