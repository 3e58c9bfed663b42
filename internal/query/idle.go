package query

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

// idleWire is whether a running job shows signs of work; nil for others. Until the first
// look of this server's life nothing is known but what was noted.
func (r *Reader) idleWire(v view, j *workload.Job) *v1.Idle {
	if r.Server.Idle == nil || j.State != workload.Running {
		return nil
	}
	verdict, ok := r.Server.Idle(attemptOf(j))
	if !ok {
		verdict = idle.Verdict{Policy: v.w.IdlePolicy(j), Standing: idle.Unknown, Count: idle.Watch{Count: j.Attempt.Idle}, Now: v.now}
	}
	c, noted := verdict.Count, j.Attempt.Idle
	out := &v1.Idle{
		Standing: string(verdict.Standing), Mode: string(verdict.Policy.Mode), Text: verdict.Text(),
		Since: moment(c.Since), Told: moment(noted.Told), StopsAt: moment(verdict.StopAt),
	}
	if verdict.Policy.Mode != idle.Off {
		out.After = v1.Quantity(quantity.FormatDuration(verdict.Policy.After))
	}
	if verdict.Policy.Mode != idle.Off && verdict.Standing == idle.Idle {
		out.For = v1.Quantity(quantity.FormatDuration(c.Idle / second * second))
	}
	if noted.Keep > v.now {
		out.Kept = moment(noted.Keep)
	}
	for _, s := range verdict.Readings {
		state := "idle"
		switch {
		case !s.Known:
			state = "unknown"
		case s.Active:
			state = "active"
		}
		out.Signals = append(out.Signals, v1.IdleSignal{Signal: string(s.Signal), Counts: verdict.Policy.Counts(s.Signal), State: state, Seen: s.What, Bound: s.Bound})
	}
	return out
}

const second = 1_000_000_000

// Warned is when a running job is stopped if it stays idle, once its user was told so; nil
// before, and when it is at work again.
func (r *Reader) Warned(p access.Principal, k id.Job) *v1.Idle {
	v := r.view(p)
	if j, ok := v.w.Workload.Jobs.Get(k); ok {
		return r.idleBrief(v, j)
	}
	return nil
}

// idleBrief is that for lists: only of a job whose user was told that it is to be stopped.
func (r *Reader) idleBrief(v view, j *workload.Job) *v1.Idle {
	if j.State != workload.Running || j.Attempt.Idle.Told == 0 {
		return nil
	}
	out := r.idleWire(v, j)
	if out != nil {
		out.Text, out.Signals = "", nil
	}
	return out
}
