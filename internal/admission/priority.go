package admission

import (
	"math/bits"

	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/workload"
)

// Weights say what counts for a job's priority, in points, as the site sets them.
// What a QoS and a job's own priority add is added as it is.
type Weights struct {
	Age      int64 // for having waited for AgeCap or longer
	AgeCap   int64 // ns
	Share    int64 // for whoever has had least of his share
	Queue    int64 // for whose account has less of a partition than its share guarantees
	HalfLife int64 // ns; after it, what was used counts half; 0: it always counts
	Devices  int64 // for each doubling of a job's devices
	Cores    int64 // for each doubling of the cores of a job without devices
}

// Factor is a part of a priority.
type Factor struct {
	Kind   FactorKind
	Of     string // the QoS or partition that it comes from
	Points int64
}

// FactorKind says what a factor is for.
type FactorKind string

// The factors.
const (
	FactorPinned    FactorKind = "pinned" // an operator has fixed the priority: the only one then
	FactorQoS       FactorKind = "qos"
	FactorPartition FactorKind = "partition"
	FactorOwn       FactorKind = "own"
	FactorShare     FactorKind = "fair share"
	FactorQueue     FactorKind = "share in" // a partition that has shares
	FactorSize      FactorKind = "size"
	FactorAge       FactorKind = "age"
)

// Order is what puts the queues in order now.
func (v View) Order() workload.Order {
	turns := v.turns()
	return workload.Order{
		Now: v.Now, Age: workload.Aging{Points: v.Weights.Age, Cap: v.Weights.AgeCap},
		Base: func(l workload.Lane) int64 {
			var sum int64
			for _, f := range v.standingOf(l) {
				sum += f.Points
			}
			if turn, ok := turns(l); ok {
				sum += v.Weights.turn(turn)
			}
			return sum
		},
	}
}

// Factors says what a waiting job's priority is made of: the points come to what
// Order gives it.
func (v View) Factors(j *workload.Job) []Factor { return v.factors(j.LaneOf(), v.Now-j.Since()) }

// FactorsOf says what a request's priority would be made of if it came now.
func (v View) FactorsOf(r Request) []Factor { return v.factors(laneOf(r), 0) }

func (v View) factors(l workload.Lane, wait int64) []Factor {
	if l.Pinned {
		return []Factor{{FactorPinned, "", l.Pin}}
	}
	standing := v.standingOf(l)
	out := standing[:]
	if turn, ok := v.turns()(l); ok {
		out = append(out, Factor{FactorQueue, l.Partition, v.Weights.turn(turn)})
	}
	return append(out, Factor{FactorAge, "", v.Order().Age.Of(wait)})
}

// standingOf is what jobs of a lane have from the first moment on.
func (v View) standingOf(l workload.Lane) [5]Factor {
	qos, _ := v.Catalog.QoSNamed(l.QoS)
	partition, _ := v.Catalog.Partition(l.Partition)
	return [5]Factor{
		{FactorQoS, l.QoS, qos.Priority}, {FactorPartition, l.Partition, partition.Priority}, {FactorOwn, "", l.Own},
		{FactorShare, "", v.share(l)}, {FactorSize, "", v.Weights.size(l.Size)},
	}
}

// share is what the fair share of a lane's user in its account is worth: all points
// for the first of all, and less in proportion to how many come before.
func (v View) share(l workload.Lane) int64 {
	if v.Weights.Share == 0 {
		return 0 // nobody need be ranked
	}
	s := v.Standings()
	return v.Weights.Worth(s.Before(v.Tenancy, l.Account, l.User), s.Places())
}

// Worth is what it is worth that so many of all places come before.
func (w Weights) Worth(before, places int64) int64 { return partOf(w.Share, before, places) }

// partOf is all points for the first of some places, and less in proportion.
func partOf(points, before, places int64) int64 {
	if points <= 0 {
		return 0
	}
	places = max(places, 1)
	hi, lo := bits.Mul64(uint64(points), uint64(places-min(before, places)))
	part, _ := bits.Div64(hi, lo, uint64(places)) // at most points
	return int64(part)
}

// turns says whose turn it is by the shares of a lane's partition, if it has shares of
// what the lane's jobs are measured by. It is about accounts and not about jobs, so that
// a job cut into pieces comes no sooner.
func (v View) turns() func(workload.Lane) (share.Turn, bool) {
	trees := map[string][]share.Tree{}
	return func(l workload.Lane) (share.Turn, bool) {
		of, known := trees[l.Partition]
		if !known {
			for _, r := range v.Queues.Resources(l.Partition) {
				of = append(of, v.QueueTree(l.Partition, r))
			}
			trees[l.Partition] = of
		}
		var first share.Turn
		found := false
		for _, t := range of {
			if measures(l.Size, t.Resource()) {
				turn := t.Turn(v.Tenancy.Path(l.Account))
				if turn.Below {
					return turn, true
				}
				if !found {
					first, found = turn, true
				}
			}
		}
		return first, found
	}
}

// measures reports whether jobs of a size are measured by a resource.
func measures(s workload.Size, r limits.Resource) bool {
	_, ofModel := r.Model()
	if s.Devices > 0 {
		return ofModel || r == limits.GPU
	}
	return r == limits.CPU
}

// turn is what a turn is worth: all points for who has less than he is guaranteed; of
// those that borrow, half for the first.
func (w Weights) turn(t share.Turn) int64 {
	if t.Below {
		return w.Queue
	}
	return partOf(w.Queue/2, t.Before, t.Places)
}

// TurnOf is whose turn it is where a lane waits.
func (v View) TurnOf(l workload.Lane) (share.Turn, bool) { return v.turns()(l) }

// size is what a size is worth. It can only rise with it: else a job cut into pieces
// would come sooner.
func (w Weights) size(s workload.Size) int64 {
	if s.Devices > 0 {
		return w.Devices * int64(s.Devices-1)
	}
	return w.Cores * int64(max(s.Cores, 1)-1)
}

// Standing is where a user in an account stands in the tree of shares, the lowest
// node first.
func (v View) Standing(l workload.Lane) []fairshare.Node {
	return v.Standings().Path(l.Account, l.User)
}
