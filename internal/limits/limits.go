// Package limits has what may be used at once, by each job and per period, by scope: an account with all below it, a
// user, a partition, a QoS, or any of these together. Use is counted in every scope
// that a job belongs to; the tightest violated bound is named first.
package limits

import (
	"slices"
	"strings"
	"unicode"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
)

// Resource names what is bounded.
type Resource string

// The resources. Devices of one model are Devices(model). Those of one job are
// compared with the job alone; hours of use are counted per period.
const (
	CPU       Resource = "cpu"       // milli-cores at once
	Mem       Resource = "mem"       // bytes at once
	GPU       Resource = "gpu"       // milli-devices at once
	Running   Resource = "running"   // jobs that hold an allocation
	Submitted Resource = "submitted" // jobs that haven't ended
	Time      Resource = "time"      // ns of wall time, per job
	JobCPU    Resource = perJob + CPU
	JobMem    Resource = perJob + Mem
	JobGPU    Resource = perJob + GPU
	Credits   Resource = "credits" // micro-credits spent and set aside, in a period or in all
	CPUHours  Resource = CPU + hours
	MemHours  Resource = Mem + hours // of a GiB
	GPUHours  Resource = GPU + hours
)

const (
	perJob  = "job."
	hours   = "-hours"
	ofModel = "gpu:"
)

// Devices is the resource "devices of a model".
func Devices(model string) Resource { return Resource(ofModel + model) }

// PerJob reports whether r bounds each job for itself.
func (r Resource) PerJob() bool { return r == Time || strings.HasPrefix(string(r), perJob) }

// Hours reports whether r bounds use times time in a period.
func (r Resource) Hours() bool {
	switch r {
	case CPUHours, MemHours, GPUHours:
		return true
	}
	return strings.HasPrefix(string(r), string(GPUHours)+":")
}

// Of is what is measured: "gpu" for "job.gpu" and "gpu-hours".
func (r Resource) Of() Resource {
	if r.Hours() {
		return Resource(strings.Replace(string(r), hours, "", 1))
	}
	return Resource(strings.TrimPrefix(string(r), perJob))
}

// Model returns the model of a resource that is devices of one model.
func (r Resource) Model() (string, bool) { return strings.CutPrefix(string(r.Of()), ofModel) }

// devices reports whether r is of devices, of any model or of one.
func (r Resource) devices() bool { return r == GPU || strings.HasPrefix(string(r), ofModel) }

// maxModel bounds the name of a model, in bytes.
const maxModel = 64

// Valid reports whether r is a known resource.
func (r Resource) Valid() bool {
	switch r {
	case CPU, Mem, GPU, Running, Submitted, Time, JobCPU, JobMem, JobGPU, Credits, CPUHours, MemHours, GPUHours:
		return true
	}
	m, ok := r.Model()
	return ok && m != "" && len(m) <= maxModel && !strings.ContainsFunc(m, func(c rune) bool {
		return c == '|' || c == unicode.ReplacementChar || !unicode.IsGraphic(c)
	})
}

// Known says in words which resources there are.
const Known = "cpu, mem, gpu, gpu:MODEL, running, submitted, time, job.cpu, job.mem, job.gpu, job.gpu:MODEL, credits, cpu-hours, mem-hours, gpu-hours or gpu-hours:MODEL"

// Each stands for each user by himself: what one user has counts for a limit of such a
// scope. A limit of the user's own on the same takes its place.
const Each id.User = -1

// EachName is how Each is written.
const EachName = "*"

// Scope is whose use is counted together, in an account's whole subtree. What is
// left out is everything: the zero Scope is everybody.
type Scope struct {
	Account   id.Account
	User      id.User // or Each
	Partition string
	QoS       string
}

// Limit is an upper bound for a scope.
type Limit struct {
	ID       id.Limit // 0: it comes from the site's defaults
	Scope    Scope
	Resource Resource
	Per      Per // of hours; of credits too, where zero is in all
	Max      int64
	Carry    Carry
	By       id.User
	Removed  bool
}

// key is what tells limits of one scope apart.
func (l Limit) key() key { return key{l.Resource, l.Per} }

type key struct {
	resource Resource
	per      Per
}

// Demand is an amount of each resource that a job adds to its scopes.
type Demand struct {
	CPU, Mem, GPU      int64
	Models             []catalog.ModelCount // devices by model, as far as it is known
	Running, Submitted int64
	Credits            int64 // set aside, micro-credits
}

// Zero reports whether d is nothing.
func (d Demand) Zero() bool {
	return d.CPU == 0 && d.Mem == 0 && d.GPU == 0 && d.Running == 0 && d.Submitted == 0 && d.Credits == 0
}

// of is how much of a resource that is counted d has.
func (d Demand) of(r Resource) int64 {
	switch r {
	case CPU:
		return d.CPU
	case Mem:
		return d.Mem
	case GPU:
		return d.GPU
	case Running:
		return d.Running
	case Submitted:
		return d.Submitted
	case Credits:
		return d.Credits
	}
	model, _ := r.Model()
	for _, m := range d.Models {
		if m.Model == model {
			return m.Count
		}
	}
	return 0
}

// Plus is d with sign times o added. Neither is changed.
func (d Demand) Plus(o Demand, sign int64) Demand {
	d.CPU += sign * o.CPU
	d.Mem += sign * o.Mem
	d.GPU += sign * o.GPU
	d.Running += sign * o.Running
	d.Submitted += sign * o.Submitted
	d.Credits += sign * o.Credits
	if len(o.Models) == 0 {
		return d
	}
	models := slices.Clone(d.Models)
	for _, m := range o.Models {
		i, ok := slices.BinarySearchFunc(models, m.Model, func(a catalog.ModelCount, name string) int { return strings.Compare(a.Model, name) })
		if !ok {
			models = slices.Insert(models, i, catalog.ModelCount{Model: m.Model})
		}
		models[i].Count += sign * m.Count
	}
	if d.Models = slices.DeleteFunc(models, func(m catalog.ModelCount) bool { return m.Count == 0 }); len(d.Models) == 0 {
		d.Models = nil
	}
	return d
}

// Ask is what a job asks for.
type Ask struct {
	Demand
	Wall  int64 // ns
	Grace int64 // ns
	Now   int64 // ns; when it asks
}

// Seconds is the longest that the job can be charged for.
func (a Ask) Seconds() int64 { return Seconds(plus(a.Wall, a.Grace)) }

// Seconds is a time in ns in the whole seconds that are counted.
func Seconds(ns int64) int64 { return up(ns, second) }

// Longest is the wall and grace, in ns, with which the job would come to so much of a
// resource in hours.
func (a Ask) Longest(r Resource, most int64) int64 {
	if each := a.hours(r, 1); each > 0 {
		return times(max(most, 0)/each, second)
	}
	return 0
}

// Of is how much of what r bounds the job asks for.
func (a Ask) Of(r Resource) int64 {
	switch {
	case r == Time:
		return a.Wall
	case r.Hours():
		return a.hours(r, a.Seconds())
	}
	return a.of(r.Of())
}

// Violation is a bound that a demand would pass.
type Violation struct {
	Bound
	Asked int64
	Never bool // asked alone is more than the bound ever is
}

// Bound is a limit with what is used of it now.
type Bound struct {
	Limit    Limit
	Max      int64 // the limit's, and what was carried over
	Used     int64
	Spent    int64 // of what is used of credits: what was charged; the rest is set aside
	From, To int64 // ns; the period, of hours and credits; To 0: it has no end

	Token tenancy.ByToken // whose cap it is; zero: it is a limit of the scope
}

// Counts reports whether what w uses counts for the bound.
func (b Bound) Counts(w Who) bool {
	return w.Within(b.Limit.Scope) && (b.Token.ID == 0 || b.Token.ID == w.Token.ID)
}

// Left is what is left of it, at least 0.
func (b Bound) Left() int64 { return max(b.Max-b.Used, 0) }
