package placement

import (
	"cmp"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/quantity"
)

// choose picks devices for sh out of the free ones of a node, which are in index
// order; the result is too.
func choose(free []Device, sh Shape) ([]Device, bool) {
	if sh.GPU == 0 {
		return nil, true
	}
	var models []catalog.ModelCount
	for _, d := range free {
		if catalog.Allows(sh.Model, d.Model) {
			models = count(models, d.Model, quantity.Device)
		}
	}
	var out []Device
	for _, m := range split(models, sh) {
		of := slices.DeleteFunc(slices.Clone(free), func(d Device) bool { return d.Model != m.Model })
		out = append(out, adjacent(of, int(m.Count/quantity.Device))...)
	}
	slices.SortFunc(out, byIndex)
	return out, int64(len(out))*quantity.Device == sh.GPU
}

// choosePart picks the device for sh, a part: of those that are shared already the one
// with the least left over, else a whole one. left is what is then free of it.
func (s *State) choosePart(node string, sh Shape) (d Device, left int64, opens, ok bool) {
	left = quantity.Device
	for on := range s.devicesOn(node) {
		free := quantity.Device - s.InUse(on.UUID)
		if free == quantity.Device || free < sh.GPU || !on.Usable() || !catalog.Allows(sh.Model, on.Model) {
			continue
		}
		if over := free - sh.Of(on.Model); over >= 0 && over < left {
			d, left, ok = on, over, true
		}
	}
	if ok {
		return d, left, false, true
	}
	whole, ok := choose(s.freeDevices(node, ""), Shape{GPU: quantity.Device, Model: sh.Model})
	if !ok {
		return Device{}, 0, false, false
	}
	return whole[0], quantity.Device - sh.Of(whole[0].Model), true, true
}

// split says how many devices of which model to take for sh: all of one model if
// that has enough, the one with the fewest such; else, if they may be mixed, from
// the models with the most on. The result falls short if there aren't enough.
func split(free []catalog.ModelCount, sh Shape) []catalog.ModelCount {
	n := sh.GPU
	enough := slices.DeleteFunc(slices.Clone(free), func(m catalog.ModelCount) bool { return m.Count < n })
	if len(enough) > 0 {
		m := slices.MinFunc(enough, func(a, b catalog.ModelCount) int { return cmp.Compare(a.Count, b.Count) })
		return []catalog.ModelCount{{Model: m.Model, Count: n}}
	}
	if !sh.Mixed {
		return nil
	}
	most := slices.Clone(free)
	slices.SortStableFunc(most, func(a, b catalog.ModelCount) int { return cmp.Compare(b.Count, a.Count) })
	var out []catalog.ModelCount
	for _, m := range most {
		if take := min(m.Count, n); take > 0 {
			out = append(out, catalog.ModelCount{Model: m.Model, Count: take})
			n -= take
		}
	}
	return out
}

// adjacent picks n of the devices: out of the shortest run of neighbouring indices
// that is long enough, so that longer runs stay whole for jobs that need them
// (neighbours tend to share a faster link); else the lowest indices.
func adjacent(ds []Device, n int) []Device {
	best := ds
	found := false
	for i := 0; i < len(ds); {
		j := i + 1
		for j < len(ds) && ds[j].Index == ds[j-1].Index+1 {
			j++
		}
		if run := ds[i:j]; len(run) >= n && (!found || len(run) < len(best)) {
			best, found = run, true
		}
		i = j
	}
	return best[:min(n, len(best))]
}

func byIndex(a, b Device) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
}
