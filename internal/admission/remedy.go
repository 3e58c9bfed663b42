package admission

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

// maxSteps bounds the search: each step mends one field, and there are few.
const maxSteps = 8

// Remedy looks for the smallest change of the spec that passes the gate which v
// didn't. It mends the first reason, asks again, and goes on until Decide admits
// the result; so a remedy that is shown has itself been decided. It is nil when no
// change of the spec helps.
func Remedy(v View, r Request, verdict Verdict) *fault.Remedy {
	before := r.Spec
	for range maxSteps {
		if verdict.Admit {
			return remedyOf(v, r, before, verdict)
		}
		spec, ok := mend(v, r, verdict)
		if !ok {
			return nil
		}
		if spec.Array.Elements.Len() != r.Spec.Array.Elements.Len() {
			r.Array = &workload.Array{Pending: spec.Array.Elements}
		}
		r.Spec = spec
		if len(spec.After.Of) == 0 {
			r.Met, r.Array = nil, nil
		}
		r.Subject.QoS, _ = v.Catalog.QoSNamed(spec.QoS)
		var err error
		if verdict, err = Decide(v, r); err != nil {
			return nil
		}
	}
	return nil
}

// mend changes the one field that the first curable reason is about.
func mend(v View, r Request, verdict Verdict) (workload.Spec, bool) {
	s := r.Spec
	for _, reason := range verdict.Reasons {
		next, ok := mendOne(v, r, verdict, reason)
		if ok && !same(next, s) {
			return next, true
		}
	}
	return s, false
}

func mendOne(v View, r Request, verdict Verdict, reason fault.Reason) (workload.Spec, bool) {
	s := r.Spec
	switch reason.Code {
	case codes.DevicesNeverFit, codes.CPUNeverFit, codes.MemoryNeverFit:
		sh := v.decisionOn(r).shape
		fit, ok := v.Placement.LargestFit(sh, r.Subject.Partition)
		s.CPU, s.Mem = fit.CPU, fit.Mem
		if fit.GPU != sh.GPU {
			s.GPU = fit.GPU
		}
		return s, ok
	case codes.NodesNeverFit, codes.NodesBusy:
		n, err := strconv.ParseInt(reason.Bound, 10, 64)
		if err != nil {
			return s, false
		}
		return fewerNodes(s, n)
	case codes.DevicesNotShared:
		s.GPU = quantity.Device
		return s, true
	case codes.DeviceMemory, codes.DeviceMemoryNone:
		return lessMemory(s, reason)
	case codes.ModelUnknown:
		s.Model = ""
		return s, true
	case codes.ConstraintNever:
		s.Where = ""
		return s, true
	case codes.WallOverPartition:
		s.Time = r.Subject.Partition.MaxWall
		return s, true
	case codes.WallOverQoS:
		s.Time = r.Subject.QoS.MaxWall
		return s, true
	case codes.Funds, codes.LimitCredits:
		return afford(v, r, verdict)
	case codes.QoSBusy, codes.QoSDenied:
		return patient(v, r)
	case codes.DependencyNever:
		s.After = workload.Dependencies{}
		return s, true
	case codes.Maintenance, codes.Reserved, codes.ReservationWait, codes.ReservationShort, codes.LimitWall, codes.DeadlineTooSoon:
		return setField(s, "time", reason.Bound, false)
	case codes.DevicesBusy, codes.DevicesForeign, codes.CPUBusy, codes.MemoryBusy, codes.ShareLimit, codes.ShareBorrow, codes.ShareKept:
		return setField(s, reason.Field, reason.Bound, r.splits())
	case codes.LimitSubmitted:
		return fewer(v, r, verdict)
	case codes.LimitDevices, codes.LimitCPU, codes.LimitMemory, codes.LimitHours:
		return headroom(v, r, verdict, reason)
	}
	return s, false
}

// setField gives a field the amount that is available, if that leaves enough to
// run at all. Less than a device is only if parts are given.
func setField(s workload.Spec, field, to string, parts bool) (workload.Spec, bool) {
	var n int64
	var err error
	least := int64(1)
	switch field {
	case "gpu":
		n, err = quantity.ParseDevices(to)
		if n > quantity.Device || !parts {
			n -= n % quantity.Device
		}
		s.GPU = n
	case "cpu":
		n, err = quantity.ParseCPU(to)
		s.CPU, least = n, workload.MinCPU
	case "mem":
		n, err = quantity.ParseBytes(to)
		s.Mem, least = n, workload.MinMemory
	case "time":
		n, err = quantity.ParseDuration(to)
		n -= n % 1e9
		s.Time = n
	}
	return s, err == nil && n >= least
}

// lessMemory asks for as much of a device's memory as the largest has, or for whatever
// there is where that isn't known.
func lessMemory(s workload.Spec, reason fault.Reason) (workload.Spec, bool) {
	if reason.Code == codes.DeviceMemory {
		n, err := quantity.ParseBytes(reason.Bound)
		s.GPUMem = n
		return s, err == nil && n > 0
	}
	if s.GPUMem = 0; s.GPU == workload.LeastPart {
		s.GPU = quantity.Device
	}
	return s, true
}

// fewer leaves as many elements of an array as may be submitted, unless they wait for
// those of another one by one.
func fewer(v View, r Request, verdict Verdict) (workload.Spec, bool) {
	s, d := r.Spec, decision{View: v, Request: r, path: verdict.Demand.Path}
	left := s.Array.Elements.Len()
	for _, viol := range v.Limits.Check(d.who(), limits.Ask{Demand: limits.Demand{Submitted: left}, Now: v.Now}) {
		if viol.Limit.Resource == limits.Submitted {
			left = min(left, viol.Max-viol.Used)
		}
	}
	if _, corresponds := s.After.Corresponds(); corresponds || left < 1 {
		return s, false
	}
	s.Array.Elements = s.Array.Elements.First(left)
	return s, true
}

// headroom reduces an amount to what its tightest limit leaves.
func headroom(v View, r Request, verdict Verdict, reason fault.Reason) (workload.Spec, bool) {
	d := decision{View: v, Request: r, path: verdict.Demand.Path}
	ask := limits.Ask{
		Demand: limits.Demand{CPU: r.Spec.Ranks() * r.Spec.CPU, Mem: r.Spec.Ranks() * r.Spec.Mem, GPU: catalog.Counted(verdict.Use.Devices), Models: verdict.Use.Devices},
		Wall:   r.Spec.Time, Grace: r.Spec.Grace, Now: v.Now,
	}
	least := int64(-1)
	var resource limits.Resource
	for _, viol := range v.Limits.Check(d.who(), ask) {
		if limitCode(viol.Limit.Resource) != reason.Code {
			continue
		}
		left := viol.Most()
		if r.Gate == Start {
			left = viol.Max - viol.Used
		}
		if viol.Limit.Resource.Hours() {
			left = ask.Longest(viol.Limit.Resource, left) - r.Spec.Grace
		}
		if least < 0 || left < least {
			least, resource = left, viol.Limit.Resource
		}
	}
	if least <= 0 {
		return r.Spec, false
	}
	switch {
	case resource.Hours():
		resource = limits.Time
	case r.Spec.Gang():
		return fewerNodes(r.Spec, least/max(1, ask.Of(resource)/r.Spec.Nodes))
	}
	return setField(r.Spec, fieldOf(resource), limits.Format(resource, least), r.splits())
}

// fewerNodes asks for as many machines as there is room for.
func fewerNodes(s workload.Spec, n int64) (workload.Spec, bool) {
	s.Nodes = min(s.Nodes, n)
	if s.Nodes == 1 {
		s.Nodes, s.Success = 0, ""
	}
	return s, n >= 1
}

// afford shortens the wall time to what the account can pay and its user may spend, in whole minutes; if
// not even a minute is, it asks for one device fewer.
func afford(v View, r Request, verdict Verdict) (workload.Spec, bool) {
	s := r.Spec
	book := v.Catalog.Book(r.Subject.Partition.Name, v.Now)
	const minute = int64(60e9)
	d := decision{View: v, Request: r}
	funds := verdict.usable(d.billing(), r.Job)
	funds /= money.Micros(d.jobs())
	span := book.Affordable(verdict.Use, d.factor(), v.Now, funds) - s.Grace
	if span >= minute {
		s.Time = min(s.Time, span-span%minute)
		return s, true
	}
	if s.GPU > quantity.Device {
		s.GPU -= quantity.Device
		return s, true
	}
	return s, false
}

// remedyOf words what changed, as fields and as flags, with its start.
func remedyOf(v View, r Request, before workload.Spec, verdict Verdict) *fault.Remedy {
	out := &fault.Remedy{Set: map[string]string{}}
	if r.Spec.GPU != before.GPU {
		out.Set["gpu"] = quantity.FormatDevices(r.Spec.GPU)
	}
	if r.Spec.GPUMem != before.GPUMem {
		out.Set["gpu_mem"] = quantity.FormatBytes(r.Spec.GPUMem)
	}
	if r.Spec.Nodes != before.Nodes {
		out.Set["nodes"] = strconv.FormatInt(r.Spec.Ranks(), 10)
	}
	if r.Spec.CPU != before.CPU {
		out.Set["cpu"] = quantity.FormatCPU(r.Spec.CPU)
	}
	if r.Spec.Mem != before.Mem {
		out.Set["mem"] = quantity.FormatBytes(r.Spec.Mem)
	}
	if r.Spec.Time != before.Time {
		out.Set["time"] = span(r.Spec.Time)
	}
	if r.Spec.QoS != before.QoS {
		out.Set["qos"] = r.Spec.QoS
	}
	if r.Spec.Model != before.Model {
		out.Set["model"] = r.Spec.Model
	}
	if r.Spec.Where != before.Where {
		out.Set["constraint"] = r.Spec.Where
	}
	if r.Spec.Array.Elements.Len() != before.Array.Elements.Len() {
		out.Set["array"] = r.Spec.Array.String()
	}
	if len(r.Spec.After.Of) != len(before.After.Of) {
		out.Set["after"] = r.Spec.After.String()
	}
	var flags []string
	for _, k := range slices.Sorted(maps.Keys(out.Set)) {
		value := out.Set[k]
		if value == "" {
			value = `""`
		}
		flags = append(flags, "--"+strings.ReplaceAll(k, "_", "-")+" "+value)
	}
	out.Flags = strings.Join(flags, " ")
	if r.Job != nil { // what it was promised was for what it asked
		j := *r.Job
		j.Promise, r.Job = 0, &j
	}
	w := StartWindow(v, r, verdict)
	out.Start, out.Exact = w.Start, w.Kind == "promised" || w.Kind == "now"
	return out
}

func same(a, b workload.Spec) bool {
	return a.GPU == b.GPU && a.GPUMem == b.GPUMem && a.Nodes == b.Nodes && a.CPU == b.CPU && a.Mem == b.Mem && a.Time == b.Time && a.Model == b.Model && a.QoS == b.QoS && a.Where == b.Where &&
		a.Array.Elements.Len() == b.Array.Elements.Len() && len(a.After.Of) == len(b.After.Of)
}
