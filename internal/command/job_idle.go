package command

import (
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// JobKeep declares a running job to be at work for so long, whatever is seen of it. With
// 0 it is watched again.
type JobKeep struct {
	Job id.Job
	For int64 // ns
}

// Kind is job.keep.
func (JobKeep) Kind() string { return "job.keep" }

// Decide takes the declaration down. As any work does, it begins the idle time anew.
func (c JobKeep) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := controlled(w, at, c.Job, "keep")
	if err != nil {
		return world.Outcome{}, err
	}
	policy := w.IdlePolicy(old)
	switch {
	case old.State != workload.Running:
		return world.Outcome{}, fault.New(codes.Conflict, "job %s is %s: only one that runs can be kept", old.Name(), old.State)
	case c.For < 0:
		return world.Outcome{}, fault.Invalid("for", "must not be below 0")
	case policy.Mode == idle.Off && c.For > 0:
		return world.Outcome{}, fault.New(codes.Conflict, "job %s needn't be kept: no policy stops it for being idle", old.Name())
	case policy.KeepMax > 0 && c.For > policy.KeepMax:
		return world.Outcome{}, fault.Invalid("for", "%s is more than a job of its kind can be kept at a time: %s; keep it again then", quantity.FormatDuration(c.For), quantity.FormatDuration(policy.KeepMax))
	}
	j := edit(old, at)
	j.Attempt.Idle = idle.Count{Since: at.Now, Keep: at.Now + c.For}
	text := fmt.Sprintf("kept for %s by %s", quantity.FormatDuration(c.For), at.Principal.Signature())
	if c.For == 0 {
		j.Attempt.Idle.Keep = 0
		text = "not kept any more, by " + at.Principal.Signature()
	}
	return put(w, j, text), nil
}

// JobIdle notes how long a job has been idle, now and then, so that a server that
// restarts goes on from there; with Idle 0, that it works again.
type JobIdle struct {
	Job   id.Job
	N     int32
	Since int64 // ns; when it was at work last
	Idle  int64 // ns since then in which it was seen to be idle
}

// Kind is job.idle.
func (JobIdle) Kind() string { return "job.idle" }

// Decide notes it.
func (c JobIdle) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := watched(w, at, c.Job, c.N)
	if old == nil {
		return skip, err
	}
	j := edit(old, at)
	count := &j.Attempt.Idle
	before := *count
	count.Since, count.Idle = c.Since, c.Idle
	if c.Idle < before.Idle || c.Idle == 0 {
		count.Told = 0
	}
	if *count == before {
		return skip, nil
	}
	text := "idle for " + quantity.FormatDuration(c.Idle)
	if c.Idle == 0 {
		text = "at work again"
	}
	return put(w, j, text), nil
}

// watched is a running job that nobody keeps; nil if there is none such.
func watched(w *world.World, at world.Context, k id.Job, n int32) (*workload.Job, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return nil, onlyServer
	}
	j, ok := w.Workload.Jobs.Get(k)
	if !ok || j.Attempt.N != n || j.State != workload.Running || j.Attempt.Idle.Keep > at.Now {
		return nil, nil
	}
	return j, nil
}

// JobNotice tells the user of an idle job that it is to be stopped.
type JobNotice struct {
	Job     id.Job
	N       int32
	Since   int64 // as in JobIdle
	Idle    int64
	StopAt  int64          // ns
	Text    string         // "idle for 1h45m: device 0 % (< 5 %), …"
	Reasons []fault.Reason `json:"-"` // are in the log beside the command
}

// Kind is job.notice.
func (JobNotice) Kind() string { return "job.notice" }

// Decide notes that its user was told, or with a policy that only tries it out, that the
// job would be stopped now.
func (c JobNotice) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := watched(w, at, c.Job, c.N)
	if old == nil || old.Attempt.Idle.Told != 0 {
		return skip, err
	}
	policy := w.IdlePolicy(old)
	text := fmt.Sprintf("stops in %s: %s; croft keep 6h %s keeps it", quantity.FormatDuration(max(c.StopAt-at.Now, 0)/second*second), c.Text, old.Name())
	switch policy.Mode {
	case idle.Off:
		return skip, nil
	case idle.DryRun:
		text = "would be stopped (dry-run): " + c.Text
	}
	j := edit(old, at)
	j.Attempt.Idle.Since, j.Attempt.Idle.Idle, j.Attempt.Idle.Told = c.Since, c.Idle, at.Now
	out := put(w, j, text)
	out.Event.Reasons = c.Reasons
	return out, nil
}

const second = 1_000_000_000

// JobIdleStop stops a job for being idle.
type JobIdleStop struct {
	Job     id.Job
	N       int32
	Idle    int64 // ns
	Text    string
	Reasons []fault.Reason `json:"-"`
}

// Kind is job.idle_stop.
func (JobIdleStop) Kind() string { return "job.idle_stop" }

// Decide stops it, if its policy says so still, nobody has declared it to be at work in
// the meantime and its user was told in time.
func (c JobIdleStop) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := watched(w, at, c.Job, c.N)
	if old == nil {
		return skip, err
	}
	policy, told := w.IdlePolicy(old), old.Attempt.Idle.Told
	if policy.Mode != idle.Stop || c.Idle < policy.After || told == 0 || at.Now-told < policy.Notice || old.Attempt.Lost != 0 {
		return skip, nil
	}
	j := edit(old, at)
	a := &j.Attempt
	a.Idle.Idle, a.Idle.Why = c.Idle, c.Text+"; croft keep 6h would have kept it"
	j.State, j.Message, a.StopAt, a.Cause = workload.Stopping, a.Idle.Why, at.Now, codes.Cancelled
	if j.Spec.Workspace() {
		a.Cause = codes.Stopped // it stays, and may be started again
	}
	out := put(w, j, "stopped: "+a.Idle.Why)
	out.Event.Reasons = c.Reasons
	return out, nil
}
