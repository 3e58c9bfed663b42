package admission

import (
	"fmt"
	"strconv"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// Network is what jobs may have of the machine's network.
type Network struct {
	Host                bool   // its own, if they ask for it
	FirstPort, LastPort uint16 // its ports that may lead into jobs; 0: none
}

// ports words which ports may lead into jobs.
func (n Network) ports() string {
	if n.FirstPort == 0 {
		return "none"
	}
	return fmt.Sprintf("%d-%d", n.FirstPort, n.LastPort)
}

// network refuses what jobs may not have of the machine's network here.
func (d *decision) network() {
	if d.Spec.Pod.HostNetwork && !d.Network.Host {
		d.refuse(fault.Reason{
			Code: codes.NetworkNotAllowed, Field: "pod.network", Observed: "host", Bound: "default", Never: true,
			Message: "jobs have a network of their own here, not the machine's: leave network out",
		})
	}
	for _, p := range d.Spec.Pod.Ports {
		if p.Host >= max(d.Network.FirstPort, 1) && p.Host <= d.Network.LastPort {
			continue
		}
		d.refuse(fault.Reason{
			Code: codes.PortNotAllowed, Field: "pod.ports", Observed: strconv.Itoa(int(p.Host)), Bound: d.Network.ports(), Never: true,
			Message: fmt.Sprintf("port %d of the machine can't lead into a job here (allowed: %s)", p.Host, d.Network.ports()),
		})
	}
}
