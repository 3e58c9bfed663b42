package placement

import (
	"math"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/table"
)

// Backlog sums up the work that waits, by partition, priority and model, so that
// the wait of a job far down the queue is estimated without looking at those
// ahead of it. It follows from the pending jobs: whoever folds their rows adds a
// job when it comes to wait and removes it, with the same arguments, when it no
// longer does. The zero value is ready.
type Backlog struct {
	levels table.Table[string, work] // by levelKey
}

// work is jobs and the area that they would fill if each ran to its limit.
type work struct {
	jobs          int64
	priority      int64
	model         string
	cpu, mem, gpu area // of all the jobs
}

// Copy returns an independent backlog in constant time.
func (b *Backlog) Copy() Backlog { return Backlog{b.levels.Copy()} }

// Add counts a waiting job.
func (b *Backlog) Add(partition string, priority int64, sh Shape) {
	k := levelKey(partition, priority, sh)
	w, _ := b.levels.Get(k)
	w.priority, w.model = priority, sh.queueModel()
	one := workOf(sh)
	b.levels.Set(k, work{
		w.jobs + 1, w.priority, w.model, w.cpu.plus(one.cpu), w.mem.plus(one.mem), w.gpu.plus(one.gpu),
	})
}

// Remove no longer counts a job that was added.
func (b *Backlog) Remove(partition string, priority int64, sh Shape) {
	k := levelKey(partition, priority, sh)
	w, ok := b.levels.Get(k)
	switch {
	case !ok:
		return
	case w.jobs == 1:
		b.levels.Delete(k)
		return
	}
	one := workOf(sh)
	b.levels.Set(k, work{
		w.jobs - 1, w.priority, w.model, w.cpu.minus(one.cpu), w.mem.minus(one.mem), w.gpu.minus(one.gpu),
	})
}

// Jobs is how many jobs of a partition wait with at least a priority.
func (b *Backlog) Jobs(partition string, priority int64) int64 {
	var n int64
	b.from(partition, func(w work) bool {
		if w.priority < priority {
			return false
		}
		n += w.jobs
		return true
	})
	return n
}

// from yields the levels of a partition, the highest priority first.
func (b *Backlog) from(partition string, yield func(work) bool) {
	for k, w := range b.levels.From(partition + "\x00") {
		if k >= partition+"\x01" || !yield(w) {
			return
		}
	}
}

// demand is what waits ahead of a job, by what it competes for.
type demand struct {
	cpu, mem area
	gpu      area // devices of any model
	own      area // devices that can only be of the job's models
	open     area // devices that may be, as the waiting job leaves that open
}

// ahead sums up the work of a partition before a job of a priority that has
// position jobs before it. Of the jobs of its own priority it counts the share
// that is before it, as if they were all alike.
func (b *Backlog) ahead(partition string, priority, position int64, model string) demand {
	level := b.Jobs(partition, priority)
	var above int64
	if priority < math.MaxInt64 {
		above = b.Jobs(partition, priority+1)
	}
	before, peers := min(max(position-above, 0), level-above), level-above
	var d demand
	b.from(partition, func(w work) bool {
		if w.priority < priority {
			return false
		}
		if w.priority == priority {
			w.cpu, w.mem, w.gpu = w.cpu.share(before, peers), w.mem.share(before, peers), w.gpu.share(before, peers)
		}
		d.cpu, d.mem, d.gpu = d.cpu.plus(w.cpu), d.mem.plus(w.mem), d.gpu.plus(w.gpu)
		switch {
		case model != "" && within(w.model, model):
			d.own = d.own.plus(w.gpu)
		case !catalog.OneModel(w.model) && overlap(w.model, model):
			d.open = d.open.plus(w.gpu)
		}
		return true
	})
	return d
}

func (d demand) plus(o demand) demand {
	return demand{d.cpu.plus(o.cpu), d.mem.plus(o.mem), d.gpu.plus(o.gpu), d.own.plus(o.own), d.open.plus(o.open)}
}

func workOf(sh Shape) work {
	n := sh.Length()
	return work{cpu: areaOf(sh.CPU, n), mem: areaOf(sh.Mem, n), gpu: areaOf(sh.GPU, n)}
}

// overlap reports whether a model can be in both sets.
func overlap(a, b string) bool {
	return a == "" || b == "" || slices.ContainsFunc(catalog.ModelNames(a), func(m string) bool { return catalog.Allows(b, m) })
}

// queueModel is the models that a job waits for: none if it wants no device.
func (sh Shape) queueModel() string {
	if sh.GPU == 0 {
		return ""
	}
	return sh.Model
}

// levelKey orders levels by partition, descending priority, model.
func levelKey(partition string, priority int64, sh Shape) string {
	return partition + "\x00" + ordered(^priority) + sh.queueModel()
}
