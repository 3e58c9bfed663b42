package cri

import (
	"context"
	"path"
	"time"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/cgroup"
)

// Usage implements engine.Engine. It is read from the attempts' control groups. Where
// the devices can't be asked, the attempts are reported all the same.
func (e *Engine) Usage(ctx context.Context) (engine.Usage, error) {
	attempts, err := e.attempts(ctx)
	if err != nil {
		return engine.Usage{}, err
	}
	var out engine.Usage
	for id := range attempts {
		if use, ok := e.use(id); ok {
			out.Attempts = append(out.Attempts, engine.AttemptUsage{Attempt: id, At: time.Now(), CPU: use.CPU, Memory: use.Memory})
		}
	}
	if e.cfg.Devices == nil || len(out.Attempts) == 0 {
		return out, nil // asking a driver isn't free, and nobody wants to know
	}
	if out.Devices, err = e.cfg.Devices.Usage(ctx); err != nil {
		e.log.Warn("how busy the devices are can't be seen", "error", err)
	}
	return out, ctx.Err()
}

// attempts are those of this instance that the runtime or a shim has something of.
func (e *Engine) attempts(ctx context.Context) (map[engine.AttemptID]bool, error) {
	found, err := e.find(ctx, "")
	if err != nil {
		return nil, err
	}
	out := make(map[engine.AttemptID]bool)
	for _, s := range found.sandboxes {
		out[engine.AttemptID(s.GetLabels()[labelAttempt])] = true
	}
	for id := range found.hosts {
		out[id.Attempt] = true
	}
	return out, nil
}

// use adds up what there is of an attempt in control groups.
func (e *Engine) use(id engine.AttemptID) (sum cgroup.Use, ok bool) {
	groups := []string{e.cgroupOf(id)}
	if !e.facts.JobCgroups {
		// What the runtime has of it is in a slice of systemd's, beside our own for
		// programs on the machine.
		slice := e.cgroupParent(id)
		groups = append(groups, path.Join("/", sliceOf(e.cfg.CgroupParent)+".slice", slice))
	}
	for _, g := range groups {
		if use, there := e.cg.Use(g); there {
			sum.CPU, sum.Memory, ok = sum.CPU+use.CPU, sum.Memory+use.Memory, true
		}
	}
	return sum, ok
}
