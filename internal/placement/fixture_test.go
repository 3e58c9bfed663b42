package placement

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

const (
	second = int64(1e9)
	hour   = 3600 * second
	gib    = int64(1) << 30
	core   = int64(1000)
)

var everywhere = catalog.Partition{Name: "all"}

// machine folds a node with 32 cores, 128 GiB and devices of these models, and
// returns the state for chaining.
func machine(s *State, name string, models ...string) *State {
	s.Fold(NodeSet{Node{Name: name, CPU: 32 * core, Memory: 128 * gib, Ready: true}})
	for i, m := range models {
		s.Fold(DeviceSet{device(name, i, m)})
	}
	return s
}

func device(node string, i int, model string) Device {
	return Device{UUID: fmt.Sprintf("%s-%d", node, i), Node: node, Index: i, Name: fmt.Sprintf("gpu%d", i), Model: model, Healthy: true}
}

// change edits a device's row.
func change(s *State, uuid string, edit func(*Device)) {
	d, _ := s.Devices.Get(uuid)
	edit(&d)
	s.Fold(DeviceSet{d})
}

func changeNode(s *State, name string, edit func(*Node)) {
	n, _ := s.Nodes.Get(name)
	edit(&n)
	s.Fold(NodeSet{n})
}

func uuids(node string, indices ...int) []string {
	var out []string
	for _, i := range indices {
		out = append(out, fmt.Sprintf("%s-%d", node, i))
	}
	return out
}

// small is a shape of one core and one GiB for an hour, with n devices of a model.
func small(n int64, model string) Shape {
	return Shape{CPU: core, Mem: gib, GPU: n * 1000, Model: model, Wall: hour}
}

func job(jid id.Job, sh Shape) *workload.Job {
	spec := workload.Spec{CPU: sh.CPU, Mem: sh.Mem, GPU: sh.GPU, Model: sh.Model, GPUMem: sh.Memory, Mixed: sh.Mixed, Where: sh.Where, Time: sh.Wall, Grace: sh.Grace}
	for p := range sh.Ports.All() {
		spec.Pod.Ports = append(spec.Pod.Ports, workload.Port{Host: p, Container: 1})
	}
	return &workload.Job{ID: jid, Submitted: int64(jid), State: workload.Queued, Spec: spec}
}

// placeOf is a job's place in these tests: its priority is what it is pinned to.
func placeOf(j *workload.Job) workload.Place {
	return workload.Place{Priority: j.Pin, Since: j.Submitted, Job: j.ID}
}

func byPlace(a, b *workload.Job) int { return placeOf(a).Compare(placeOf(b)) }

func queue(jobs ...*workload.Job) iter.Seq2[*workload.Job, workload.Place] {
	return func(yield func(*workload.Job, workload.Place) bool) {
		for _, j := range jobs {
			if !yield(j, placeOf(j)) {
				return
			}
		}
	}
}

// fronts is what comes before a job: a lane named after its partition, "fast/1",
// belongs to that, and others to everywhere.
func fronts(all ...workload.Front) func(partition string) iter.Seq[workload.Front] {
	return func(partition string) iter.Seq[workload.Front] {
		return slices.Values(slices.DeleteFunc(slices.Clone(all), func(f workload.Front) bool {
			of, _, named := strings.Cut(f.Lane, "/")
			return named && of != partition || !named && partition != everywhere.Name
		}))
	}
}
