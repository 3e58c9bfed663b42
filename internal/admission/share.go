package admission

import (
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/share"
)

// shares returns the bounds of shares that an ask would pass.
func (d *decision) shares(a limits.Ask) []share.Violation {
	return d.Queues.Check(d.Trees, d.Tenancy, d.path, d.Subject.Partition.Name, a, d.offeredOf(d.Subject.Partition.Name))
}

// offeredOf says how much of a resource a partition offers.
func (v View) offeredOf(partition string) func(limits.Resource) int64 {
	var all *limits.Demand
	return func(r limits.Resource) int64 {
		if all == nil { // adding up the nodes takes a while
			p, _ := v.Catalog.Partitions.Get(partition)
			d := v.Placement.Offered(p)
			all = &d
		}
		return limits.Ask{Demand: *all}.Of(r)
	}
}

// QueueTree is the shares of a resource in a partition as they stand.
func (v View) QueueTree(partition string, r limits.Resource) share.Tree {
	return v.Queues.TreeOf(v.Trees, v.Tenancy, partition, r, v.offeredOf(partition))
}

// beyond words a bound of a share that would be passed.
func (d *decision) beyond(v share.Violation) fault.Reason {
	r := v.Share.Resource
	amount := func(n int64) string { return limits.Format(r, n) }
	out := fault.Reason{
		Code: codes.ShareLimit, Field: fieldOf(r), Observed: amount(v.Asked), Bound: amount(v.Room), Never: v.Never,
		Scope: d.scope(limits.Scope{Account: v.Share.Account, Partition: v.Share.Partition}),
	}
	if v.Never {
		out.Bound = amount(v.Most)
	}
	has := fmt.Sprintf("asked for %s %s, %s has %s", out.Observed, unit(r), out.Scope, amount(v.Taken))
	if v.Never {
		has = fmt.Sprintf("asked for %s %s, %s", out.Observed, unit(r), out.Scope)
	}
	switch v.Kind {
	case share.OfLimit:
		out.Message = fmt.Sprintf("%s of at most %s", has, amount(v.Max))
		if v.Never {
			out.Message = fmt.Sprintf("%s may have %s at most", has, amount(v.Max))
		}
	case share.OfBorrow:
		out.Code = codes.ShareBorrow
		most := fmt.Sprintf("%s that are guaranteed and %s that may be borrowed", amount(v.Share.Guaranteed), amount(v.Share.Borrow))
		out.Message = fmt.Sprintf("%s of the %s", has, most)
		if v.Never {
			out.Message = fmt.Sprintf("%s may have the %s", has, most)
		}
	case share.OfOthers:
		out.Code, out.Scope = codes.ShareKept, "partition "+v.Share.Partition
		out.Message = fmt.Sprintf("asked for %s %s, %s of the %s in %s aren't in use or kept for others", out.Observed, unit(r), amount(v.Room), amount(v.Max), out.Scope)
		if v.Never {
			out.Message = fmt.Sprintf("asked for %s %s, %s of the %s in %s aren't kept for others", out.Observed, unit(r), amount(v.Most), amount(v.Max), out.Scope)
		}
	}
	return out
}
