package httpapi

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/world"
)

func (c *call) status() (v1.Status, error) { return c.Reader.Status(c.p), nil }

func (c *call) nodes() (v1.Page[v1.Node], error) { return page(c.Reader.Nodes(c.p), nil) }

func (c *call) drain(in v1.DrainRequest) (v1.Node, error) {
	return c.putNode(command.NodeDrain{Node: c.path("name"), Reason: in.Reason})
}

func (c *call) resume() (v1.Node, error) {
	return c.putNode(command.NodeDrain{Node: c.path("name"), Resume: true})
}

func (c *call) labelNode(in v1.NodeLabels) (v1.Node, error) {
	return c.putNode(command.NodeLabel{Node: c.path("name"), Set: in.Set, Remove: in.Remove})
}

// putNode changes the node that the path names.
func (c *call) putNode(cmd world.Command) (v1.Node, error) {
	if _, err := c.do(cmd); err != nil {
		return v1.Node{}, err
	}
	return c.Reader.Node(c.p, c.path("name"))
}

func (c *call) maintenances() (v1.Page[v1.Maintenance], error) {
	return page(c.Reader.Maintenances(c.p), nil)
}

func (c *call) planMaintenance(in v1.Maintenance) (v1.Maintenance, error) {
	if in.ID != "" {
		return v1.Maintenance{}, fault.Invalid("id", "isn't set here")
	}
	from, err := moment("from", &in.From)
	if err != nil {
		return v1.Maintenance{}, err
	}
	to, err := moment("to", &in.To)
	if err != nil {
		return v1.Maintenance{}, err
	}
	got, err := c.do(command.MaintenancePut{Node: in.Node, From: from, To: to, Reason: in.Reason})
	if err != nil {
		return v1.Maintenance{}, err
	}
	if got.Replayed != nil {
		return before(c.Reader.MaintenanceOn(c.p, in))
	}
	row, ok := got.Result.(placement.Maintenance)
	if !ok {
		return v1.Maintenance{}, unexpected(got)
	}
	return c.Reader.Maintenance(row), nil
}

func (c *call) cancelMaintenance() error {
	n, err := rowID("maintenance window", c.path("id"))
	if err != nil {
		return err
	}
	_, err = c.do(command.MaintenancePut{Cancel: id.Maintenance(n)})
	return err
}
