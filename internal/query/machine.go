package query

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
)

// Status is the server's state in brief.
func (r *Reader) Status(p access.Principal) v1.Status {
	v := r.view(p)
	out := v1.Status{
		Version: r.Server.Version, Instance: v.w.Site.Instance, Engine: r.Server.Engine, Runtime: "ok", Clock: r.Server.Clock(),
		Queued: v.w.Workload.Waiting(), Running: int64(v.w.Workload.Active.Len()), Seq: v.w.Seq,
	}
	if ok, what := r.Server.Runtime(); !ok {
		out.Runtime = what
	}
	if !r.Server.Started.IsZero() {
		started := r.Server.Started.UTC()
		out.Started = &started
	}
	var cpu, mem, gpu, usedCPU, usedMem, usedGPU int64
	for _, n := range v.w.Placement.Nodes.All() {
		if n.Gone {
			continue
		}
		out.Nodes++
		c, m := v.w.Placement.Used(n.Name)
		cpu, mem, usedCPU, usedMem = cpu+n.CPU, mem+n.Memory, usedCPU+c, usedMem+m
		for _, d := range v.w.Placement.DevicesOn(n.Name) {
			gpu += quantity.Device
			usedGPU += v.w.Placement.InUse(d.UUID)
		}
	}
	out.GPU, out.CPU, out.Mem = use(limits.GPU, usedGPU, gpu), use(limits.CPU, usedCPU, cpu), use(limits.Mem, usedMem, mem)
	return out
}

// Nodes lists the nodes with their devices. Who has a device is shown to those who
// may read that job.
func (r *Reader) Nodes(p access.Principal) []v1.Node {
	v := r.view(p)
	out := []v1.Node{}
	for _, n := range v.w.Placement.Nodes.All() {
		if !n.Gone {
			out = append(out, v.nodeWire(n))
		}
	}
	return out
}

// Node returns one.
func (r *Reader) Node(p access.Principal, name string) (v1.Node, error) {
	v := r.view(p)
	n, ok := v.w.Placement.Nodes.Get(name)
	if !ok || n.Gone {
		return v1.Node{}, fault.NotFound("node", clip(name))
	}
	return v.nodeWire(n), nil
}

func (v view) nodeWire(n placement.Node) v1.Node {
	out := v1.Node{Name: n.Name, State: "ok", Partitions: []string{}, Devices: []v1.Device{}, Labels: n.Features()}
	switch {
	case !n.Ready:
		out.State, out.Reason = "down", n.Reason
	case n.Drained:
		out.State, out.Reason = "drained", n.Why
	}
	cpu, mem := v.w.Placement.Used(n.Name)
	out.CPU, out.Mem = use(limits.CPU, cpu, n.CPU), use(limits.Mem, mem, n.Memory)
	for name, p := range v.w.Catalog.Partitions.All() {
		if p.Has(n.Name) {
			out.Partitions = append(out.Partitions, name)
		}
	}
	for _, d := range v.w.Placement.DevicesOn(n.Name) {
		out.Devices = append(out.Devices, v.deviceWire(n, d))
	}
	for _, m := range v.w.Placement.Maintenance.All() {
		if m.On(n.Name) {
			out.Maintenance = append(out.Maintenance, maintenanceWire(m))
		}
	}
	return out
}

func (v view) deviceWire(n placement.Node, d placement.Device) v1.Device {
	out := v1.Device{UUID: d.UUID, Name: d.Name, Model: d.Model, State: "free"}
	if d.Memory > 0 {
		out.Memory = v1.Quantity(quantity.FormatBytes(d.Memory))
	}
	shares := v.w.Placement.Shares(d.UUID)
	switch {
	case len(d.Foreign) > 0:
		p := d.Foreign[0]
		out.State, out.Reason = "foreign", "pid "+decimal(int64(p.PID))+" "+p.Command
		out.User = p.User
	case !d.Healthy:
		out.State, out.Reason = "down", d.Reason
	case len(shares) > 0:
		out.State = "used"
	case !n.Ready:
		out.State, out.Reason = "down", n.Reason
	case n.Drained:
		out.State, out.Reason = "drained", n.Why
	default:
		if open := v.w.Ledger.OpenTiles(d.UUID); len(open) > 0 && open[0].Cause == ledger.CauseReserved {
			out.State = "reserved"
		}
	}
	if used := v.w.Placement.InUse(d.UUID); used > 0 {
		out.Used = v1.Quantity(quantity.FormatDevices(used))
	}
	for _, s := range shares {
		out.Shares = append(out.Shares, v.deviceShare(s))
	}
	if len(shares) == 1 && shares[0].Milli == quantity.Device {
		one := out.Shares[0]
		out.Job, out.User, out.Account, out.Shares = one.Job, one.User, one.Account, nil
	}
	return out
}

func (v view) deviceShare(s placement.Share) v1.DeviceShare {
	out := v1.DeviceShare{Job: decimal(s.Job), GPU: v1.Quantity(quantity.FormatDevices(s.Milli))}
	if j, ok := v.w.Workload.Jobs.Get(s.Job); ok && v.may(access.JobRead, j.User, j.Account) {
		out.User, out.Account = v.user(j.User), v.account(j.Account)
	}
	return out
}

// Maintenances lists the windows that aren't over, by id.
func (r *Reader) Maintenances(p access.Principal) []v1.Maintenance {
	out := []v1.Maintenance{}
	for _, m := range r.view(p).w.Placement.Maintenance.All() {
		out = append(out, maintenanceWire(m))
	}
	return out
}

// Maintenance is a window as the API shows it.
func (r *Reader) Maintenance(m placement.Maintenance) v1.Maintenance { return maintenanceWire(m) }

// MaintenanceOn finds a window like the wanted one, for a repeated request.
func (r *Reader) MaintenanceOn(p access.Principal, want v1.Maintenance) (v1.Maintenance, bool) {
	for _, m := range r.Maintenances(p) {
		if m.Node == want.Node && m.From.Equal(want.From) && m.To.Equal(want.To) {
			return m, true
		}
	}
	return v1.Maintenance{}, false
}
