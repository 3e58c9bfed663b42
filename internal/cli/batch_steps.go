package cli

import (
	"context"
	"slices"
	"strings"

	v1 "croft.dev/croft/api/v1"
)

// withSteps puts after each job the further programs that ran in it, or with live only
// those that haven't ended.
func (a *app) withSteps(ctx context.Context, jobs []batchJob, live bool) ([]batchJob, error) {
	q := v1.StepQuery{}
	if live {
		q.State = "live"
	}
	var out []batchJob
	for _, j := range jobs {
		out = append(out, j)
		if j.Steps == 0 {
			continue
		}
		for s, err := range a.api.Steps(ctx, j.ID, q) {
			if err != nil {
				return nil, err
			}
			out = append(out, j.step(s))
		}
	}
	return out, nil
}

// step is a step of j as batch systems list one: as a job with the number of the step,
// and the amounts that it has for itself or shares.
func (j batchJob) step(s v1.Step) batchJob {
	out := j
	out.Job = *stepAsJob(&s)
	out.Name, out.User, out.Account, out.Node, out.Submitted = s.Spec.Name, j.User, j.Account, j.Node, s.Submitted
	out.Attempt, out.Devices, out.Message = s.Attempt, s.Devices, s.Message
	out.Spec = j.Spec
	out.Spec.Command = s.Spec.Command
	for _, f := range []struct {
		own v1.Quantity
		to  *v1.Quantity
	}{{s.Spec.CPU, &out.Spec.CPU}, {s.Spec.Mem, &out.Spec.Mem}, {s.Spec.GPU, &out.Spec.GPU}, {s.Spec.Time, &out.Spec.Time}} {
		if f.own != "" {
			*f.to = f.own
		}
	}
	return out
}

// stepsAmong are those of jobs' names that name steps, as 118.2; the primary's and those
// that other batch systems have words for, as 118.batch, are the jobs themselves.
func stepsAmong(names []string) (steps, jobs []string) {
	for _, name := range names {
		_, n, numbered := strings.Cut(name, ".")
		if numbered && strings.Trim(n, "0123456789") == "" && n != "" && n != "1" {
			steps = append(steps, name)
		} else {
			jobs = append(jobs, name)
		}
	}
	return steps, jobs
}

// stopSteps stops the steps that are named.
func (a *app) stopSteps(ctx context.Context, names []string, now bool) (stopped []v1.Step, err error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	err = a.eachJob(names, func(name string) error {
		job, n, err := stepName(name)
		if err != nil {
			return err
		}
		s, err := c.StopStep(ctx, job, n, v1.StepStop{Now: now})
		if err == nil {
			stopped = append(stopped, *s)
		}
		return err
	})
	return stopped, err
}

// chosenSteps are the rows of the jobs and steps that are named: with 118.2 that step alone,
// with 118 the job and all that ran in it.
func chosenSteps(rows []batchJob, names []string) []batchJob {
	steps, jobs := stepsAmong(strings.Split(words(names), ","))
	if len(steps) == 0 {
		return rows
	}
	whole := strings.Split(jobNumbers(jobs), ",")
	return slices.DeleteFunc(rows, func(j batchJob) bool {
		job, _, _ := strings.Cut(j.ID, ".")
		array, _, _ := strings.Cut(job, "_")
		return !slices.Contains(steps, j.ID) && !slices.Contains(whole, job) && !slices.Contains(whole, array)
	})
}
