package plan

import (
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// window counts the jobs that were handed to the engine and don't run yet, by the line that
// they stand in there: an account's queue in a partition, for devices of some models. A line
// that is full holds up no other.
type window struct {
	w     *world.World
	most  int // of each line; 0: any number
	lines map[line]int
}

type line struct {
	partition string
	account   id.Account // that has the share
	models    string
}

func newWindow(w *world.World, most int) window {
	out := window{w, most, map[line]int{}}
	if most == 0 {
		return out
	}
	for _, j := range w.Workload.Active.All() {
		if j.State == workload.Starting {
			out.lines[out.of(j, world.AskOf(j).Models)]++
		}
	}
	return out
}

func (v window) of(j *workload.Job, models []catalog.ModelCount) line {
	out := line{partition: j.Spec.Partition, account: v.w.Queues.Nearest(j.Path, j.Spec.Partition)}
	for _, m := range models {
		out.models += m.Model + " "
	}
	return out
}

// full reports whether a job has to wait for others to begin; else it is counted.
func (v window) full(j *workload.Job, models []catalog.ModelCount) bool {
	if v.most == 0 {
		return false
	}
	at := v.of(j, models)
	if v.lines[at] >= v.most {
		return true
	}
	v.lines[at]++
	return false
}
