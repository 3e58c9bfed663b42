package placement

import (
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/limits"
)

// Offered is what the nodes of a partition have, whether or not they are usable now.
func (s *State) Offered(p catalog.Partition) limits.Demand {
	var d limits.Demand
	for _, n := range s.nodesOf(p, "") {
		d.CPU += n.full.cpu
		d.Mem += n.full.mem
		for _, m := range n.full.models {
			d.GPU += m.Count
			d.Models = count(d.Models, m.Model, m.Count)
		}
	}
	return d
}
