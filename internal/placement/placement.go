// Package placement knows nodes and devices, what is free on them now and when
// more will be: fit, the resource timeline, backfill and earliest start.
package placement

import (
	"maps"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

// Node is a machine.
type Node struct {
	Name    string
	CPU     int64 // milli-cores offered
	Memory  int64 // bytes offered
	Ready   bool  // as the engine reports
	Gone    bool  // no longer in the inventory
	Reason  string
	Drained bool // by an operator
	Why     string
	Labels  map[string]string // as the engine reports
	Added   map[string]string // by an operator; they win over Labels
}

// Features is the labels that constraints are about.
func (n Node) Features() map[string]string {
	if len(n.Added) == 0 {
		return n.Labels
	}
	all := maps.Clone(n.Labels)
	if all == nil {
		return n.Added
	}
	maps.Copy(all, n.Added)
	return all
}

// Usable reports whether anything may start on the node.
func (n Node) Usable() bool { return n.Ready && !n.Gone && !n.Drained }

// Device is one accelerator.
type Device struct {
	UUID    string
	Node    string
	Index   int
	Name    string
	Model   string
	Memory  int64 // bytes, its own; 0: not known
	CDI     string
	Healthy bool
	Gone    bool // no longer offered
	Reason  string
	Foreign []Process
}

// Process is a process on a device that Croft didn't start.
type Process struct {
	PID     int
	User    string
	Command string
}

// Usable reports whether a job may be given the device.
func (d Device) Usable() bool { return d.Healthy && !d.Gone && len(d.Foreign) == 0 }

// Maintenance is a window in which nothing may run on a node ("*": on any).
type Maintenance struct {
	ID     id.Maintenance
	Node   string
	From   int64 // ns
	To     int64
	Reason string
	By     id.User
	Over   bool // cancelled or past
}

// On reports whether the window concerns node.
func (m Maintenance) On(node string) bool { return !m.Over && (m.Node == "*" || m.Node == node) }

// Hold is what an attempt has on a node until, at the latest, Until.
type Hold struct {
	Job     id.Job
	Node    string
	CPU     int64
	Mem     int64
	Devices []string        // UUIDs
	Others  []workload.Rank // what it has on further nodes, besides as many cores and as much memory
	Part    int64           // milli-devices that it has of its one device; 0: its devices are whole
	Ports   Ports
	From    int64
	Until   int64          // ns; wall + grace
	In      id.Reservation // 0: none
}

// each is what the hold has of each of its devices, in milli-devices.
func (h Hold) each() int64 {
	if h.Part > 0 {
		return h.Part
	}
	return quantity.Device
}

// Overdue is how much longer, in ns, a hold is taken to last that should have
// ended: its processes are being stopped, and each look expects them gone by then.
const Overdue = int64(60 * 1e9)

// ends is when the hold ends at the latest, as far as is known at now.
func (h Hold) ends(now int64) int64 {
	if h.Until <= now {
		return now + Overdue
	}
	return h.Until
}
