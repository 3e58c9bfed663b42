package query

import (
	"context"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/usage"
	"croft.dev/croft/internal/workload"
)

// Usage returns what a job uses of the machine, now and in the last hour. Of one that
// doesn't run nothing is known, nor of what was before the server started.
func (r *Reader) Usage(ctx context.Context, p access.Principal, name string) (v1.Usage, error) {
	v := r.view(p)
	j, err := r.find(ctx, v, name)
	if err != nil {
		return v1.Usage{}, err
	}
	out := v1.Usage{Now: r.usageNow(v, j), Minutes: []v1.UseSample{}}
	if r.Server.Usage != nil && workload.RulesOf(j.State).Running {
		for _, s := range r.Server.Usage.Hour(attemptOf(j)) {
			out.Minutes = append(out.Minutes, v.use(s))
		}
	}
	return out, nil
}

// usageNow is what a job uses, if it runs and that is known.
func (r *Reader) usageNow(v view, j *workload.Job) *v1.UseSample {
	if r.Server.Usage == nil || !workload.RulesOf(j.State).Running {
		return nil
	}
	s, ok := r.Server.Usage.Last(attemptOf(j))
	if !ok {
		return nil
	}
	use := v.use(s)
	return &use
}

func attemptOf(j *workload.Job) id.Attempt { return id.Attempt{Job: j.ID, N: j.Attempt.N} }

func (v view) use(s usage.Sample) v1.UseSample {
	out := v1.UseSample{At: at(s.At), Mem: v1.Quantity(quantity.FormatBytes(s.Memory >> 20 << 20))}
	if s.Known {
		out.CPU = v1.Quantity(quantity.FormatCPU(s.CPU))
	}
	for _, d := range s.Devices {
		use := v1.DeviceUse{Name: v.devices([]string{d.UUID})[0]}
		if d.Known {
			percent := d.Busy / 10
			use.Percent, use.Mem = &percent, v1.Quantity(quantity.FormatBytes(d.Memory>>20<<20))
		}
		out.Devices = append(out.Devices, use)
	}
	return out
}
