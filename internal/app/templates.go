package app

import (
	"fmt"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

// templatesOf are the site's templates as the API shows them. An error names the template
// and the field.
func templatesOf(c config.Config) ([]v1.Template, error) {
	var out []v1.Template
	for _, t := range c.Workspaces() {
		spec := v1.JobSpec{
			Kind: v1.KindWorkspace, Name: t.Name, Image: t.Image, Command: t.Command, Env: t.Env, Pause: t.Pause, GPU: v1.Quantity(t.GPU),
			CPU: amount(int64(t.CPU), quantity.FormatCPU), Mem: amount(int64(t.Mem), quantity.FormatBytes), Time: amount(int64(t.Time), quantity.FormatDuration),
		}
		for _, a := range t.Apps {
			strip := !a.KeepPrefix
			spec.Apps = append(spec.Apps, v1.App{Name: a.Name, Port: a.Port, Path: a.Path, Health: a.Health, Activity: a.Activity, Strip: &strip, ViewSafe: a.ViewSafe})
		}
		checked := spec
		if checked.Time == "" {
			checked.Time = "1h"
		}
		if _, err := workload.Parse(checked, workload.Defaults{CPU: workload.MinCPU, Mem: workload.MinMemory}); err != nil {
			return nil, fmt.Errorf("templates: %s: %w", t.Name, err)
		}
		if !t.NoHome {
			spec.Mounts = []v1.Mount{{Source: workload.Home}}
		}
		out = append(out, v1.Template{Name: t.Name, About: t.About, Spec: spec})
	}
	return out, nil
}

// amount is empty for none.
func amount(n int64, text func(int64) string) v1.Quantity {
	if n == 0 {
		return ""
	}
	return v1.Quantity(text(n))
}
