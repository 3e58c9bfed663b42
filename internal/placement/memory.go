package placement

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/quantity"
)

// What a job needs of a device's memory is the part of the device with as much memory, so
// that nothing but parts has to be planned and counted. All devices of a model are taken
// to have the memory of the one that has least: what parts come to on a device is never
// more than it has.

// MemoryOf is how much memory each device of a model has at least, in bytes; 0 if that
// isn't known of all that jobs can be given.
func (s *State) MemoryOf(model string) int64 {
	for k, m := range s.fleet.memory.From(model + "\x00") {
		if strings.HasPrefix(k, model+"\x00") {
			return m.bytes
		}
		break
	}
	return 0
}

// Sized is sh with what it needs of a device's memory turned into parts of devices: its
// models are those that have as much, and a part is as large as the memory makes it, if
// that is more. It reports false, with sh as it is, if no model is known to have as much.
func (s *State) Sized(sh Shape) (Shape, bool) {
	if sh.Memory == 0 || sh.GPU == 0 {
		return sh, true
	}
	var sizes []catalog.ModelCount
	all := true
	for model := range s.fleet.models.All() {
		if !catalog.Allows(sh.Model, model) {
			continue
		}
		n, ok := sh.size(s.MemoryOf(model))
		if all = all && ok; ok {
			sizes = append(sizes, catalog.ModelCount{Model: model, Count: n})
		}
	}
	if len(sizes) == 0 {
		return sh, false
	}
	if !all {
		var names []string
		for _, m := range sizes {
			names = append(names, m.Model)
		}
		sh.Model = catalog.ModelSet(names)
	}
	if !sh.part() {
		return sh, true
	}
	sh.GPU, sh.Sizes = sizes[0].Count, ""
	if slices.ContainsFunc(sizes, func(m catalog.ModelCount) bool { return m.Count != sh.GPU }) {
		sh.Sizes = sizesText(sizes)
		for _, m := range sizes {
			sh.GPU = min(sh.GPU, m.Count)
		}
	}
	return sh, true
}

// size is how much of a device with so much memory, in bytes, the shape takes, in
// milli-devices, if that has enough.
func (sh Shape) size(memory int64) (int64, bool) {
	if memory < sh.Memory {
		return 0, false
	}
	if !sh.part() {
		return sh.GPU, true
	}
	// bounded by workload.Parse and the configuration: no product overflows
	return max(sh.GPU, (sh.Memory*quantity.Device+memory-1)/memory), true
}

// Of is what the shape takes if its devices are of a model, in milli-devices.
func (sh Shape) Of(model string) int64 {
	if sh.Sizes == "" {
		return sh.GPU
	}
	for entry := range strings.SplitSeq(sh.Sizes, "|") {
		if n, ok := strings.CutPrefix(entry, model+"="); ok {
			if milli, err := strconv.ParseInt(n, 10, 64); err == nil {
				return milli
			}
		}
	}
	return math.MaxInt64 // the model isn't among them: there is nothing that it could have
}

// sizesText is what Shape.Sizes holds.
func sizesText(sizes []catalog.ModelCount) string {
	var out []string
	for _, m := range sizes {
		out = append(out, m.Model+"="+strconv.FormatInt(m.Count, 10))
	}
	return strings.Join(out, "|")
}

// PartOn is the part that the shape takes of a device of a model, in milli-devices; 0: it
// takes whole ones.
func (sh Shape) PartOn(model string) int64 { return partOf(sh.Of(model)) }

// on is the shape as it is on a model.
func (sh Shape) on(model string) Shape {
	if sh.Sizes != "" {
		sh.GPU, sh.Sizes = sh.Of(model), ""
	}
	return sh
}

// isGiven reports whether devices, counted by model, are what the shape takes.
func (sh Shape) isGiven(models []catalog.ModelCount) bool {
	if sh.Sizes != "" {
		return len(models) == 1 && catalog.Allows(sh.Model, models[0].Model) && models[0].Count == sh.Of(models[0].Model)
	}
	return together(models, sh) == sh.GPU
}

// partOf is n milli-devices of one device as a part; 0: it is whole.
func partOf(n int64) int64 {
	if n < quantity.Device {
		return n
	}
	return 0
}

// memorySum is so many devices with so much memory.
type memorySum struct{ bytes, devices int64 }

// memoryKey is the key of devices of a model with so much memory, the least first.
func memoryKey(model string, bytes int64) string { return model + "\x00" + ordered(bytes) }

// remember counts devices by their memory. Of one that has failed before it said how much
// it has nothing is known, nor needed.
func (f *fleet) remember(memory []memoryOn, sign int64) {
	for _, m := range memory {
		k := memoryKey(m.model, m.bytes)
		sum, _ := f.memory.Get(k)
		if sum.devices += sign * m.devices; sum.devices == 0 {
			f.memory.Delete(k)
			continue
		}
		f.memory.Set(k, memorySum{m.bytes, sum.devices})
	}
}

// memoryOn is a node's devices of a model with so much memory.
type memoryOn struct {
	model          string
	bytes, devices int64
}

// withMemory counts a device.
func withMemory(counts []memoryOn, d Device) []memoryOn {
	if d.Gone || d.Memory == 0 && !d.Healthy {
		return counts
	}
	i := slices.IndexFunc(counts, func(m memoryOn) bool { return m.model == d.Model && m.bytes == d.Memory })
	if i < 0 {
		return append(counts, memoryOn{d.Model, d.Memory, 1})
	}
	counts[i].devices++
	return counts
}
