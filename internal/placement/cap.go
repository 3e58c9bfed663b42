package placement

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/workload"
)

// Cap is a bound on what many jobs have at once that has no room for one more now.
type Cap struct {
	Resource   limits.Resource // that is counted at once
	Max, Asked int64
	Holds      []Hold                   // what those have that run under it
	Fronts     iter.Seq[workload.Front] // those that wait under it and come before
}

// capped moves a start to when all caps have room.
func (in *EstimateInput) capped(w Window) Window {
	for _, c := range in.Caps {
		switch at := c.opens(in.State, in.Now); {
		case w.Start == 0:
		case at == math.MaxInt64:
			w.Kind, w.Start, w.Stops = StartUnknown, 0, 0
		case at > w.Start:
			w.Kind, w.Start, w.Stops = StartEstimated, at, 0
		}
	}
	return w
}

// opens is when a cap has room for the job: not before enough of what runs under it
// has come to its limit, nor before the work that comes first has drained, as a fluid,
// through what is free under the cap from one such end to the next.
func (c Cap) opens(s *State, now int64) int64 {
	holds := slices.SortedFunc(slices.Values(c.Holds), func(a, b Hold) int { return cmp.Compare(a.ends(now), b.ends(now)) })
	free, asked := c.Max, max(1, c.Asked)
	for _, h := range holds {
		free -= c.of(s, h)
	}
	model, _ := c.Resource.Model()
	wait, at := c.in(s.ahead(c.Fronts, model)), now
	for _, h := range holds {
		end := h.ends(now)
		if free >= asked && after(at, wait.over(free)) <= end {
			break
		}
		wait = wait.minus(areaOf(free, end-at)).orZero()
		free += c.of(s, h)
		at = end
	}
	if free < asked {
		return math.MaxInt64
	}
	return after(at, wait.over(free))
}

// of is how much of the cap's resource a hold has.
func (c Cap) of(s *State, h Hold) int64 {
	switch c.Resource {
	case limits.CPU:
		return int64(1+len(h.Others)) * h.CPU
	case limits.Mem:
		return int64(1+len(h.Others)) * h.Mem
	case limits.Running:
		return 1
	}
	model, one := c.Resource.Model()
	var n int64
	for r := range h.Ranks() {
		for _, uuid := range r.Devices {
			if d, ok := s.Devices.Get(uuid); !one || ok && d.Model == model {
				n += h.each()
			}
		}
	}
	return n
}

// in is the work of a demand that the cap's resource is needed for.
func (c Cap) in(d demand) area {
	switch c.Resource {
	case limits.CPU:
		return d.cpu
	case limits.Mem:
		return d.mem
	case limits.GPU:
		return d.gpu
	case limits.Running:
		return d.time
	}
	return d.own
}
