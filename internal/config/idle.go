package config

import (
	"slices"

	"croft.dev/croft/internal/fault"
)

// Values of IdlePolicy.Mode.
const (
	IdleStop   = "stop"
	IdleDryRun = "dry-run"
	IdleOff    = "off"
)

func defaultIdle() IdlePolicy {
	p := IdlePolicy{Kinds: []string{"workspace"}}
	p.presets()
	return p
}

// presets are the defaults of an element of the list.
func (p *IdlePolicy) presets() {
	p.Mode, p.After, p.Notice, p.KeepMax = IdleStop, 2*hour, 15*minute, day
	p.Device, p.CPU = 5, 100
	p.Signals = []string{"device", "cpu", "app", "ssh", "terminal"}
}

func checkIdle(all []IdlePolicy, f *fault.Fields) {
	for i, p := range all {
		at := element("idle", i)
		for j, k := range p.Kinds {
			oneOf(f, element(at+".kinds", j), k, "workspace", "container", "batch")
		}
		oneOf(f, at+".mode", p.Mode, IdleStop, IdleDryRun, IdleOff)
		if p.After < 10*second {
			f.Add(at+".after", "must be at least 10s")
		}
		atMost(f, at+".after", p.After, 366*day)
		atMost(f, at+".notice", p.Notice, p.After)
		between(f, at+".device", p.Device, 1, 100)
		if p.CPU < 1 {
			f.Add(at+".cpu", "must be more than nothing")
		}
		for j, s := range p.Signals {
			oneOf(f, element(at+".signals", j), s, "device", "cpu", "app", "ssh", "terminal", "browser")
		}
		if !slices.ContainsFunc(p.Signals, func(s string) bool { return slices.Contains([]string{"device", "cpu", "app"}, s) }) {
			f.Add(at+".signals", "must have device, cpu or app among them: who is connected doesn't say whether the job works")
		}
		if p.KeepMax < minute {
			f.Add(at+".keep_max", "must be at least 1m")
		}
		atMost(f, at+".keep_max", p.KeepMax, 366*day)
	}
}
