package placement

import (
	"iter"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/table"
	"croft.dev/croft/internal/workload"
)

// Backlog sums up the work that waits, by lane and model, so that the wait of a job
// far down the queue is estimated without looking at those ahead of it. It follows
// from the pending jobs: whoever folds their rows adds a job when it comes to wait
// and removes it, with the same arguments, when it no longer does. The zero value is
// ready.
type Backlog struct {
	levels table.Table[string, work] // by levelKey
}

// work is jobs and the area that they would fill if each ran to its limit.
type work struct {
	jobs          int64
	part          Shape // of jobs whose part depends on the device's memory, which are alike in that
	model         string
	cpu, mem, gpu area // of all the jobs
	time          area // theirs, one after the other
}

// Copy returns an independent backlog in constant time.
func (b *Backlog) Copy() Backlog { return Backlog{b.levels.Copy()} }

// Add counts n alike waiting jobs in the lane with this key.
func (b *Backlog) Add(lane string, sh Shape, n int64) {
	k := levelKey(lane, sh)
	w, _ := b.levels.Get(k)
	w.model, w.part = sh.queueModel(), sh.byMemory()
	one := workOf(sh, n)
	b.levels.Set(k, work{
		w.jobs + n, w.part, w.model, w.cpu.plus(one.cpu), w.mem.plus(one.mem), w.gpu.plus(one.gpu), w.time.plus(one.time),
	})
}

// Remove no longer counts n jobs that were added.
func (b *Backlog) Remove(lane string, sh Shape, n int64) {
	k := levelKey(lane, sh)
	w, ok := b.levels.Get(k)
	switch {
	case !ok:
		return
	case w.jobs == n:
		b.levels.Delete(k)
		return
	}
	one := workOf(sh, n)
	b.levels.Set(k, work{
		w.jobs - n, w.part, w.model, w.cpu.minus(one.cpu), w.mem.minus(one.mem), w.gpu.minus(one.gpu), w.time.minus(one.time),
	})
}

// demand is what waits ahead of a job, by what it competes for.
type demand struct {
	cpu, mem area
	time     area // one job after the other
	gpu      area // devices of any model
	own      area // devices that can only be of the job's models
	open     area // devices that may be, as the waiting job leaves that open
}

// ahead sums up the work of the fronts. Of a lane's jobs it counts the share that
// is before, as if they were all alike.
func (s *State) ahead(fronts iter.Seq[workload.Front], model string) demand {
	var d demand
	for f := range fronts {
		for k, w := range s.Backlog.levels.From(f.Lane + "\x00") {
			if k >= f.Lane+"\x01" {
				break
			}
			if w.part.Memory > 0 {
				sh, _ := s.Sized(w.part)
				w.gpu = w.time.times(sh.GPU)
			}
			d = d.and(w, f.Before, f.Jobs, model)
		}
	}
	return d
}

// and adds part of every whole of w.
func (d demand) and(w work, part, whole int64, model string) demand {
	if part < whole {
		w.cpu, w.mem, w.gpu, w.time = w.cpu.share(part, whole), w.mem.share(part, whole), w.gpu.share(part, whole), w.time.share(part, whole)
	}
	d.cpu, d.mem, d.gpu, d.time = d.cpu.plus(w.cpu), d.mem.plus(w.mem), d.gpu.plus(w.gpu), d.time.plus(w.time)
	switch {
	case model != "" && within(w.model, model):
		d.own = d.own.plus(w.gpu)
	case !catalog.OneModel(w.model) && overlap(w.model, model):
		d.open = d.open.plus(w.gpu)
	}
	return d
}

func (d demand) plus(o demand) demand {
	return demand{d.cpu.plus(o.cpu), d.mem.plus(o.mem), d.time.plus(o.time), d.gpu.plus(o.gpu), d.own.plus(o.own), d.open.plus(o.open)}
}

// workOf is the work of n jobs.
func workOf(sh Shape, n int64) work {
	t := sh.Length()
	sh.CPU, sh.Mem, sh.GPU = sh.ranks()*sh.CPU, sh.ranks()*sh.Mem, sh.ranks()*sh.GPU
	return work{cpu: areaOf(sh.CPU, t).times(n), mem: areaOf(sh.Mem, t).times(n), gpu: areaOf(sh.GPU, t).times(n), time: areaOf(1, t).times(n)}
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

// byMemory is what of the shape, not Sized, says how large its part is of which model;
// nothing if that doesn't depend on the model.
func (sh Shape) byMemory() Shape {
	if sh.Memory == 0 || !sh.part() {
		return Shape{}
	}
	return Shape{GPU: sh.GPU, Memory: sh.Memory, Model: sh.Model}
}

// levelKey keeps the levels of a lane together.
func levelKey(lane string, sh Shape) string {
	k := lane + "\x00" + sh.queueModel()
	if part := sh.byMemory(); part.Memory > 0 {
		k += "\x00" + ordered(part.GPU) + ordered(part.Memory)
	}
	return k
}
