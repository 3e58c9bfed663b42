package catalog

import (
	"slices"

	"croft.dev/croft/internal/id"
)

// Partition is a named set of nodes. An empty Nodes means every node.
type Partition struct {
	Name     string
	Nodes    []string // sorted
	Default  bool
	MaxWall  int64 // ns; 0: unbounded
	DefWall  int64 // ns; what a job gets that names no time
	Priority int64 // added to the priority of its jobs
	// ShareDevices lets several jobs have parts of one device.
	ShareDevices bool

	Allow []id.Account // sorted; these and those below them may use it; empty: all
	Deny  []id.Account // sorted; these and those below them may not, whatever Allow says
	QoS   []string     // sorted; what its jobs may have; empty: any

	// Configured says that the server's configuration defines the partition: what
	// can be said there isn't changed elsewhere.
	Configured bool
	Retired    bool // removed; kept for what was recorded under its name
}

// Has reports whether node belongs to the partition.
func (p Partition) Has(node string) bool {
	return len(p.Nodes) == 0 || slices.Contains(p.Nodes, node)
}

// Admits reports whether an account with this path (itself first, then its
// ancestors) may use the partition.
func (p Partition) Admits(path []id.Account) bool {
	return below(p.Allow, path) && !(len(p.Deny) > 0 && below(p.Deny, path))
}

// Takes reports whether a job of the QoS may be in the partition.
func (p Partition) Takes(q QoS) bool { return listed(p.QoS, q.Name) && listed(q.Partitions, p.Name) }

// Configure is p as the configuration's row c says it is, with what can only be
// said at run time left as it was.
func (p Partition) Configure(c Partition) Partition {
	c.Priority, c.ShareDevices, c.Allow, c.Deny, c.QoS = p.Priority, p.ShareDevices, p.Allow, p.Deny, p.QoS
	c.Configured = true
	return c
}

// below reports whether one of the path's accounts is listed; an empty list has all.
func below(list, path []id.Account) bool {
	return len(list) == 0 || slices.ContainsFunc(path, func(a id.Account) bool { return slices.Contains(list, a) })
}

// listed reports whether name is in list; an empty list has all.
func listed(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }
