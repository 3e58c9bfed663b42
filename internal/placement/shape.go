package placement

import (
	"math"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

// Shape is what a job occupies: amounts on one node, or on each of several, for at most Wall + Grace. Its
// devices are all of one of the models, unless they may be mixed.
type Shape struct {
	CPU   int64  // milli-cores
	Mem   int64  // bytes
	GPU   int64  // milli-devices; with Sizes the least that it may be
	Model string // a set as catalog.Allows reads it; "" is any
	// Memory, in bytes, is what it needs of each device's own; 0: whatever there is. It
	// counts by what Sized makes of it.
	Memory int64
	Sizes  string // "a=250|b=500": a part that isn't of the same size on all models
	Mixed  bool   // devices of several models will do
	Where  string // constraint on the node's labels; "" is none
	Ports  Ports  // of the node
	Wall   int64  // ns
	Grace  int64  // ns
	Nodes  int64  // on so many at once, with these amounts on each; 0: one

	In id.Reservation // it runs in that one's windows; 0: outside of all
}

// ShapeOf returns the shape of a demand, not Sized.
func ShapeOf(d workload.Demand) Shape {
	return Shape{CPU: d.CPU, Mem: d.Mem, GPU: d.GPU, Model: d.Model, Memory: d.GPUMem, Mixed: d.Mixed, Where: d.Where, Ports: PortsOf(d.Ports), Wall: d.Wall, Grace: d.Grace, Nodes: d.Nodes, In: d.In}
}

// part reports whether the shape has a part of one device.
func (sh Shape) part() bool { return 0 < sh.GPU && sh.GPU < quantity.Device }

// Length is how long the shape occupies its node at most, in ns.
func (sh Shape) Length() int64 { return max(1, after(sh.Wall, sh.Grace)) }

// devices names the resource that sh's devices are.
func (sh Shape) devices() limits.Resource {
	if sh.Model == "" {
		return limits.GPU
	}
	return limits.Devices(sh.Model)
}

// covers reports that wherever and whenever o doesn't fit, sh doesn't either.
func (sh Shape) covers(o Shape) bool {
	return sh.In == o.In && sh.ranks() >= o.ranks() && sh.CPU >= o.CPU && sh.Mem >= o.Mem && sh.GPU >= o.GPU && sh.Length() >= o.Length() &&
		(o.Where == "" || o.Where == sh.Where) && sh.Ports.covers(o.Ports) &&
		(o.Sizes == "" || o.Sizes == sh.Sizes || sh.GPU >= quantity.Device) &&
		(o.GPU == 0 || within(sh.Model, o.Model) && (o.Mixed || !sh.Mixed || sh.GPU <= quantity.Device))
}

// within reports whether every model of a set is in another.
func within(models, of string) bool {
	if of == "" || models == of {
		return true
	}
	if models == "" {
		return false
	}
	for _, m := range catalog.ModelNames(models) {
		if !catalog.Allows(of, m) {
			return false
		}
	}
	return true
}

// after is t + d, or the end of time.
func after(t, d int64) int64 {
	if d > 0 && t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}
