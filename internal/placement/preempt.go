package placement

import (
	"cmp"
	"slices"

	"croft.dev/croft/internal/id"
)

// Amounts is an amount of each resource.
type Amounts struct{ CPU, Mem, GPU int64 }

// Victim is a running job that may be stopped to make room for another.
type Victim struct {
	Job     id.Job
	Frees   Amounts // what the other job could use of it
	Devices int64   // all that it has, in milli-devices
	CPU     int64   // milli-cores that it has
	Ran     int64   // ns since it got them
	// With is other jobs that are stopped with it or not at all; Frees is of all.
	With []Victim
}

// loss is what stopping jobs throws away: device-time first; where that is equal,
// as it is for jobs without devices, core-time; then their number.
type loss struct {
	devices, cores area
	jobs           int64
}

func (v Victim) loss() loss {
	sum := loss{areaOf(v.Devices, v.Ran), areaOf(v.CPU, v.Ran), 1}
	for _, w := range v.With {
		sum = sum.plus(w.loss())
	}
	return sum
}

func (l loss) plus(o loss) loss {
	return loss{l.devices.plus(o.devices), l.cores.plus(o.cores), l.jobs + o.jobs}
}

func (l loss) compare(o loss) int {
	return cmp.Or(l.devices.compare(o.devices), l.cores.compare(o.cores), cmp.Compare(l.jobs, o.jobs))
}

// covers reports that a is at least o in everything.
func (a Amounts) covers(o Amounts) bool { return a.CPU >= o.CPU && a.Mem >= o.Mem && a.GPU >= o.GPU }

func (a Amounts) plus(o Amounts) Amounts { return Amounts{a.CPU + o.CPU, a.Mem + o.Mem, a.GPU + o.GPU} }

// upTo is a with nothing above most: more than is lacking helps nobody.
func (a Amounts) upTo(most Amounts) Amounts {
	return Amounts{min(a.CPU, most.CPU), min(a.Mem, most.Mem), min(a.GPU, most.GPU)}
}

func (a Amounts) zero() bool { return a == Amounts{} }

// maxChoices bounds how many choices are kept after each victim.
const maxChoices = 1024

// Victims chooses, out of running jobs of one node, those that free what is lacking
// and lose the least device-time. None of them is superfluous. It reports false if
// all together don't free enough.
//
// That is a covering knapsack in three dimensions, solved by dynamic programming
// over the jobs with dominance (Nemhauser and Ullmann, "Discrete Dynamic Programming
// and Capital Allocation", 1969): of the choices among the jobs looked at so far,
// one that frees no more than another and loses no less is dropped. The result is
// the best of all as long as no more than maxChoices undominated ones remain at a
// time. Beyond that those that lose least are kept, which bounds the time to
// O(n × maxChoices²); the result is then sufficient and without a superfluous job
// still, but another set may lose less.
func Victims(lacking Amounts, of []Victim) ([]Victim, bool) {
	of = slices.DeleteFunc(slices.Clone(of), func(v Victim) bool { return v.Frees.upTo(lacking).zero() })
	slices.SortFunc(of, func(a, b Victim) int { return cmp.Or(a.loss().compare(b.loss()), cmp.Compare(a.Job, b.Job)) })
	rest := make([]Amounts, len(of)+1) // what the jobs from i on free together
	for i := len(of) - 1; i >= 0; i-- {
		rest[i] = rest[i+1].plus(of[i].Frees).upTo(lacking)
	}
	if lacking.zero() || !rest[0].covers(lacking) {
		return nil, false
	}
	open := []*choice{{}}
	var best *choice
	for i := range of {
		for _, c := range slices.Clone(open) {
			next := &choice{before: c, victim: i, frees: c.frees.plus(of[i].Frees).upTo(lacking), loss: c.loss.plus(of[i].loss())}
			switch {
			case best != nil && next.loss.compare(best.loss) >= 0:
			case next.frees == lacking:
				best = next
			default:
				open = append(open, next)
			}
		}
		open = undominated(open, best, lacking, rest[i+1])
	}
	return best.list(lacking, of), true
}

// choice is a set of victims, as a list from its last one back.
type choice struct {
	before *choice // nil: this is the empty set
	victim int
	frees  Amounts
	loss   loss
}

// undominated drops the choices that can't lead to the best set: those that lose as
// much as a whole one already, that don't suffice even with all the rest, or that
// are dominated. If too many are left it keeps those that lose least.
func undominated(all []*choice, best *choice, lacking, rest Amounts) []*choice {
	slices.SortStableFunc(all, func(a, b *choice) int { return a.loss.compare(b.loss) })
	kept := make([]*choice, 0, min(len(all), maxChoices))
	for _, c := range all {
		if len(kept) == maxChoices || best != nil && c.loss.compare(best.loss) >= 0 {
			break
		}
		if !c.frees.plus(rest).covers(lacking) || slices.ContainsFunc(kept, func(k *choice) bool { return k.frees.covers(c.frees) }) {
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// list is the choice's victims, by job, without any that the others make
// superfluous, those that lose most looked at first.
func (c *choice) list(lacking Amounts, of []Victim) []Victim {
	var out []Victim
	for ; c.before != nil; c = c.before {
		out = append(out, of[c.victim])
	}
	for i := 0; i < len(out); {
		var others Amounts
		for k, v := range out {
			if k != i {
				others = others.plus(v.Frees)
			}
		}
		if others.covers(lacking) {
			out = slices.Delete(out, i, i+1)
		} else {
			i++
		}
	}
	slices.SortFunc(out, func(a, b Victim) int { return cmp.Compare(a.Job, b.Job) })
	return out
}
