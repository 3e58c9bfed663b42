package workload

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/quantity"
)

// ParseStep checks a request for a step as Parse does one for a job. The image and
// the name stay empty where nothing says them: the job fills them in.
func ParseStep(in v1.StepSpec, def Defaults) (StepSpec, error) {
	p := parser{}
	c := Spec{Name: in.Name, Image: in.Image, Command: in.Command, Args: in.Args, Env: in.Env, Workdir: in.Workdir, Pull: in.Pull, Streams: Streams{in.Stdin, in.TTY, in.AwaitAttach}}
	p.container(&c, false)
	if in.Host {
		p.host(&c, in.Mounts)
	}
	if in.Host && in.Image != "" {
		p.bad.Add("image", "is for containers: a program on the machine runs in none")
	}
	p.mounts(&c, in.Mounts)
	if c.Name == "" && len(c.Command)+len(c.Image) > 0 {
		c.Name = nameOf(c)
	}
	s := StepSpec{Name: c.Name, Host: in.Host, Image: c.Image, Command: c.Command, Args: c.Args, Env: c.Env, Workdir: c.Workdir, Mounts: c.Mounts, Pull: c.Pull, Streams: c.Streams}
	s.CPU = p.amount("cpu", in.CPU, quantity.ParseCPU, 0, MinCPU, maxCPU, "cores, e.g. 8 or 0.5")
	s.Mem = p.amount("mem", in.Mem, quantity.ParseBytes, 0, MinMemory, 1<<60, "an amount such as 64G, at least 4M")
	s.GPU = p.amount("gpu", in.GPU, quantity.ParseDevices, 0, 0, maxGPU, "a whole number of devices, e.g. 2")
	if s.GPU%quantity.Device != 0 {
		p.bad.Add("gpu", "%q isn't whole: a step has whole ones of its job's devices for itself, or shares them all", clip(string(in.GPU)))
	}
	s.NoGPU = in.GPU != "" && s.GPU == 0
	s.Time = wholeSeconds(p.amount("time", in.Time, quantity.ParseDuration, 0, 1e9, MaxTime, "a span such as 2h or 90m, at least 1s"))
	s.Grace = wholeSeconds(p.grace(in.Grace, def))
	return s, p.bad.Err()
}

// Wire is the spec as the API shows it.
func (s StepSpec) Wire() v1.StepSpec {
	w := v1.StepSpec{Name: s.Name, Host: s.Host, Image: s.Image, Command: s.Command, Args: s.Args, Env: s.Env, Workdir: s.Workdir, Pull: s.Pull, Stdin: s.Stdin, TTY: s.TTY, AwaitAttach: s.AwaitAttach}
	for _, f := range []struct {
		to   *v1.Quantity
		n    int64
		text func(int64) string
	}{
		{&w.CPU, s.CPU, quantity.FormatCPU}, {&w.Mem, s.Mem, quantity.FormatBytes}, {&w.GPU, s.GPU, quantity.FormatDevices},
		{&w.Time, s.Time, quantity.FormatDuration}, {&w.Grace, s.Grace, quantity.FormatDuration},
	} {
		if f.n > 0 {
			*f.to = v1.Quantity(f.text(f.n))
		}
	}
	if s.NoGPU {
		w.GPU = "0"
	}
	w.Mounts = wireMounts(s.Mounts)
	return w
}
