package placement

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
)

// MisfitKind says what keeps a shape off a node.
type MisfitKind string

// The kinds. NeverFit and NoModel aren't cured by waiting.
const (
	NeverFit  MisfitKind = "never"       // no node offers as much together with the rest
	NoFeature MisfitKind = "constraint"  // no node has the labels, or this one doesn't
	NoModel   MisfitKind = "unknown"     // no node has such a model
	FewNodes  MisfitKind = "nodes"       // Free nodes have room at once of those Asked for, Total would if nothing ran
	Busy      MisfitKind = "busy"        // other jobs have it
	PortBusy  MisfitKind = "port"        // another job has a port of the node, Asked
	Foreign   MisfitKind = "foreign"     // processes that Croft didn't start are on the devices
	Unhealthy MisfitKind = "unhealthy"   // the devices have failed
	InWindow  MisfitKind = "maintenance" // the job would run into a maintenance window
	Reserved  MisfitKind = "reserved"    // it is set aside for the jobs of a reservation
	NoWindow  MisfitKind = "window"      // the job's own reservation has no window that lasts long enough now
	Drained   MisfitKind = "drained"     // an operator keeps new jobs off the node
	Down      MisfitKind = "down"        // the engine doesn't report the node as ready
)

// Misfit is one thing that keeps a shape off a node. Amounts are in the unit of
// Resource; what doesn't apply to the kind is zero.
type Misfit struct {
	Kind     MisfitKind
	Resource limits.Resource // limits.CPU, Mem, GPU or Devices(model); "" if it isn't one resource
	Node     string
	Asked    int64
	Free     int64 // Busy, Foreign, Unhealthy: what the node could give now
	Total    int64 // what the node offers; NeverFit: the most that any node offers (together with the rest)

	Holders []id.Job       // Busy: who has it, the first to end first
	Until   int64          // ns: when, at the latest, this misfit is gone; 0: unknown
	Devices []Device       // Foreign, Unhealthy
	Window  Maintenance    // InWindow
	Booking Booking        // Reserved: whose it is; NoWindow: which comes next, zero if none is known
	Wall    int64          // InWindow, Reserved, NoWindow: the longest wall time, in ns, that ends before it; 0: none does
	In      id.Reservation // that it would run in; 0: none
	Ever    bool           // NoWindow: none of its windows is long enough
	Where   string         // NoFeature, NoModel: the constraint that was asked for
	Why     string         // Drained, Down: as the operator or the engine gave it
}

// Incurable reports that waiting doesn't cure the misfit.
func (m Misfit) Incurable() bool {
	return m.Kind == NeverFit || m.Kind == NoModel || m.Kind == NoFeature || m.Ever ||
		m.Kind == FewNodes && m.Total < m.Asked
}

// Code returns the reason code that users see.
func (m Misfit) Code() codes.Reason {
	switch m.Kind {
	case NoFeature:
		return codes.ConstraintNever
	case NoModel:
		return codes.ModelUnknown
	case Foreign:
		return codes.DevicesForeign
	case FewNodes:
		if m.Incurable() {
			return codes.NodesNeverFit
		}
		return codes.NodesBusy
	case PortBusy:
		return codes.PortBusy
	case Unhealthy:
		return codes.DevicesUnhealthy
	case InWindow:
		return codes.Maintenance
	case Reserved:
		return codes.Reserved
	case NoWindow:
		if m.Ever {
			return codes.ReservationShort
		}
		return codes.ReservationWait
	case Drained:
		return codes.NodeDrained
	case Down:
		return codes.NodeDown
	case NeverFit:
		return perResource(m.Resource, codes.CPUNeverFit, codes.MemoryNeverFit, codes.DevicesNeverFit)
	}
	return perResource(m.Resource, codes.CPUBusy, codes.MemoryBusy, codes.DevicesBusy)
}

func perResource[T any](r limits.Resource, cpu, mem, devices T) T {
	switch r {
	case limits.CPU:
		return cpu
	case limits.Mem:
		return mem
	}
	return devices
}
