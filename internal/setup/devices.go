package setup

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/engine"
)

// devices reports the accelerators, and who is on them.
func devices(ctx context.Context, d *Deps) []Finding {
	var out []Finding
	if s := d.Config.Devices.Simulated; s.Count > 0 {
		out = append(out, one(Note, "%d× %s, simulated", s.Count, s.Model)...)
	}
	switch {
	case d.Config.Devices.NVIDIA == config.NVIDIAOff:
		return append(out, one(Note, "NVIDIA's are left alone (devices.nvidia is off)")...)
	case d.NVIDIA == nil && len(out) > 0:
		return out
	case d.NVIDIA == nil:
		return fix(one(Note, "none: no nvidia-smi on PATH"),
			"install NVIDIA's driver, or set devices.simulated.count to try Croft out")
	}
	all, err := d.NVIDIA.Devices(ctx)
	if err != nil {
		return append(out, fix(one(Warn, "NVIDIA's driver doesn't answer: %v", err), "see what nvidia-smi says")...)
	}
	if len(all) == 0 {
		return append(out, one(Note, "none: NVIDIA's driver is there, but no device")...)
	}
	return append(out, physical(all, d.Config.Devices.Offer)...)
}

func physical(all []engine.Device, offer []string) []Finding {
	var stale []string
	for _, dev := range all {
		if dev.CDI == "" {
			stale = append(stale, dev.Name)
		}
	}
	var out []Finding
	if len(stale) == 0 {
		out = one(OK, "%s; CDI fresh", byModel(all))
	} else {
		out = fix(one(Warn, "%s; CDI stale: it lacks %s", byModel(all), list(stale, 8)),
			"nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")
	}
	for _, dev := range all {
		out = append(out, device(dev, offer))
	}
	return out
}

// byModel counts: "4× a100-80g, 2× t4".
func byModel(all []engine.Device) string {
	counts := make(map[string]int)
	var models []string
	for _, d := range all {
		if counts[d.Model]++; counts[d.Model] == 1 {
			models = append(models, d.Model)
		}
	}
	for i, m := range models {
		models[i] = fmt.Sprintf("%d× %s", counts[m], m)
	}
	return strings.Join(models, ", ")
}

func device(d engine.Device, offer []string) Finding {
	f := Finding{Level: OK, Text: fmt.Sprintf("%s %s %s", d.Name, d.Model, d.UUID)}
	switch {
	case len(d.Foreign) > 0:
		var who []string
		for _, p := range d.Foreign {
			who = append(who, fmt.Sprintf("pid %d (%s, %s)", p.PID, p.User, p.Command))
		}
		f.Level = Note
		f.Text += " busy: " + list(who, 4) + ", no jobs while that runs"
	case !d.Healthy && d.CDI != "":
		f.Level = Warn
		f.Text += ": " + d.Reason
	}
	named := func(name string) bool {
		return strings.EqualFold(name, d.UUID) || name == strconv.Itoa(d.Index) || name == d.Name
	}
	if len(offer) > 0 && !slices.ContainsFunc(offer, named) {
		f.Level = Note
		f.Text += ", not offered (devices.offer)"
	}
	return f
}

// list joins at most n words and says how many more there are.
func list(words []string, n int) string {
	if len(words) <= n {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:n], ", "), len(words)-n)
}
