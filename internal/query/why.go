package query

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

// Why explains a job as it stands now. For a waiting one it is the verdict of the
// same decision that would start it.
func (r *Reader) Why(ctx context.Context, p access.Principal, name string) (v1.Why, error) {
	v := r.view(p)
	if k, ok := id.ParseRefusal(name); ok {
		row, err := r.refusal(ctx, v, k)
		if err != nil {
			return v1.Why{}, err
		}
		return r.whyRefused(v, row)
	}
	j, err := r.find(ctx, v, name)
	if err != nil {
		return v1.Why{}, err
	}
	out := v1.Why{Window: v1.Window{Kind: string(placement.StartUnknown)}}
	if out.Job, err = r.jobWire(v, j, true); err != nil {
		return out, err
	}
	if !waiting(j) {
		out.Summary = v.standing(j)
		if why := r.keptBack(j); why != nil {
			out.Summary += ", where it can't begin yet: " + why.Message
			out.Reasons = Reasons([]fault.Reason{*why})
		}
		if i := out.Job.Idle; i != nil && i.Mode != string(idle.Off) && i.Standing != string(idle.Active) {
			out.Summary += "; " + i.Text
		}
		return out, nil
	}
	return out, r.whyWaiting(v, j, &out)
}

func (r *Reader) whyRefused(v view, row *workload.Refusal) (v1.Why, error) {
	job, err := r.refusedWire(v, row)
	return v1.Why{
		Job: job, Summary: "refused: " + job.Message, Window: v1.Window{Kind: string(placement.StartUnknown)}, Reasons: job.Reasons, Remedy: job.Remedy,
	}, err
}

// standing says in words where a job stands that doesn't wait.
func (v view) standing(j *workload.Job) string {
	a := j.Attempt
	on := strings.Join(v.devices(a.Devices), ", ")
	if on == "" || len(a.Others) > 0 {
		on = strings.Join(a.Nodes(), ", ")
	}
	switch j.State {
	case workload.Ended:
		s := strings.ReplaceAll(string(j.Outcome), "_", " ")
		if j.Message != "" {
			s += ": " + j.Message
		}
		return s
	case workload.Stopped:
		return rested(j) + "; croft workspace start " + j.Spec.Name + " starts it"
	case workload.Starting:
		return "starting on " + on
	case workload.Stopping:
		return "stopping on " + on + ": " + j.Message
	}
	s := "running on " + on
	if a.Lost != 0 {
		s += "; contact with the runtime is lost, nothing is concluded from that"
	}
	return s
}

// rested says since when and why a workspace is stopped.
func rested(j *workload.Job) string {
	s := "stopped since " + at(j.Rested).Format(time.RFC3339)
	if j.Outcome != codes.Stopped {
		s += ": " + strings.ReplaceAll(string(j.Outcome), "_", " ")
	}
	if j.Message != "" {
		s += ", " + j.Message
	}
	return s
}

func (r *Reader) whyWaiting(v view, j *workload.Job, out *v1.Why) error {
	view := v.decides()
	verdict, req, err := admission.Why(view, j)
	if err != nil {
		return err
	}
	out.Window, out.Reasons = window(verdict.Window), Reasons(verdict.Reasons)
	if !verdict.Admit {
		out.Remedy = Remedy(admission.Remedy(view, req, verdict))
	}
	out.Priority = v.jobPriority(view, j)
	out.Holders = v.holders(verdict.Misfits)
	out.Summary = summary(verdict.Window.Position, verdict.Window.Queue, verdict.Reasons, r.Server.Progress(j.ID))
	if j.State == workload.Held && len(verdict.Reasons) > 0 {
		out.Summary = "held back: " + verdict.Reasons[0].Message
	}
	return nil
}

func summary(place, of int64, reasons []fault.Reason, progress string) string {
	s := fmt.Sprintf("waits as number %d of %d", place, of)
	switch {
	case len(reasons) > 0:
		s += ": " + reasons[0].Message
		if n := len(reasons) - 1; n > 0 {
			s += fmt.Sprintf(" (and %d more)", n)
		}
	case progress != "":
		s += ": " + progress
	default:
		s += ": what it needs is free, it starts when those before it have had their turn"
	}
	return s
}

// holders says who has what a job needs. A name is given only to those who may
// read that job.
func (v view) holders(misfits []placement.Misfit) []v1.Holder {
	var out []v1.Holder
	seen := map[id.Job]bool{}
	for _, m := range misfits {
		for _, k := range m.Holders {
			j, ok := v.w.Workload.Jobs.Get(k)
			if !ok || seen[k] {
				continue
			}
			seen[k] = true
			out = append(out, v.holder(j, m.Node))
		}
		for _, d := range m.Devices {
			for _, p := range d.Foreign {
				out = append(out, v1.Holder{What: fmt.Sprintf("%s: pid %d (%s), which Croft didn't start", d.Name, p.PID, p.Command), User: p.User})
			}
		}
	}
	return out
}

func (v view) holder(j *workload.Job, node string) v1.Holder {
	until := j.Attempt.Until + j.Spec.Grace
	if j.State == workload.Stopping {
		until = min(until, j.KillAt())
	}
	h := v1.Holder{What: v.held(j, node), Until: moment(until)}
	if v.may(access.JobSee, j.User, j.Account) {
		h.Job = decimal(j.ID)
	}
	if v.may(access.JobRead, j.User, j.Account) {
		h.User, h.Account = v.user(j.User), v.account(j.Account)
	}
	return h
}

// devicesOn lists what an attempt has of a node.
func devicesOn(a workload.Attempt, node string) []string {
	for _, r := range a.Ranks() {
		if r.Node == node {
			return r.Devices
		}
	}
	return nil
}

func (v view) held(j *workload.Job, node string) string {
	if d := v.devices(devicesOn(j.Attempt, node)); len(d) > 0 {
		if part := j.Attempt.Part(); part > 0 {
			d[0] = quantity.FormatDevices(part) + " of " + d[0]
		}
		return strings.Join(d, ", ") + " of " + node
	}
	return fmt.Sprintf("cpu %s, mem %s of %s", limits.Format("cpu", j.Spec.CPU), limits.Format("mem", j.Spec.Mem), node)
}
