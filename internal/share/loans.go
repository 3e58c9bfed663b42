package share

import (
	"cmp"
	"slices"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/tenancy"
)

// Run is a job that holds part of a partition.
type Run struct {
	Job   id.Job
	Path  []id.Account
	Use   limits.Demand
	Since int64 // ns
}

// Loans says which of a partition's running jobs are on borrowed capacity, and so give way
// to whom.
//
// An account's guarantee covers its jobs in the order in which they began: each that still
// fits in whole. What the accounts below it are guaranteed comes first, as it is part of the
// same. A job that no guarantee covers at some level is on loan there, and all of it: those
// that are can be stopped in any number, and no account loses what it is guaranteed.
type Loans struct {
	books []book
}

// book is the loans of one resource.
type book struct {
	Tree
	*coverage
}

// Loans works out the loans in a partition. Claims are the waiting jobs for which others
// are being stopped already: what they are about to take is as good as taken. With trees,
// runs are asked for once, since they are those of the moment that the trees are of.
func (s *State) Loans(trees *Trees, t *tenancy.State, partition string, runs func() []Run, claims []Run, offered func(limits.Resource) int64) Loans {
	claimed := s.with(claims, partition)
	var out Loans
	for _, r := range s.Resources(partition) {
		g := trees.of(s, t, partition, r, offered)
		if g.coverage == nil {
			g.coverage = g.idle.cover(runs())
		}
		b := book{g.now, g.coverage}
		if claimed != s {
			b.Tree = g.idle.inUse(claimed)
		}
		out.books = append(out.books, b)
	}
	return out
}

// inOrder puts runs in the order in which guarantees cover them.
func inOrder(a, b Run) int { return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Job, b.Job)) }

// cover finds the jobs that guarantees cover, from the lowest accounts up.
func (t Tree) cover(runs []Run) *coverage {
	b := coverage{map[id.Job]int64{}, map[id.Job]int{}, map[id.Job]int{}}
	open := make([][]Run, len(t.nodes)) // that nothing below covers, in order
	for _, r := range runs {
		if n := (limits.Ask{Demand: r.Use}).Of(t.resource); n > 0 {
			i := t.on(r.Path)
			b.has[r.Job], b.in[r.Job] = n, i
			open[i] = append(open[i], r)
		}
	}
	sums := make([]int64, len(t.nodes))
	for i := len(t.nodes) - 1; i > 0; i-- {
		slices.SortFunc(open[i], inOrder)
		above := t.nodes[i].above
		for _, r := range open[i] {
			if n := b.has[r.Job]; sums[i] <= t.nodes[i].Guaranteed-n {
				sums[i] += n
				b.covered[r.Job] = i
			} else {
				open[above] = append(open[above], r)
			}
		}
		sums[above] += sums[i]
	}
	return &b
}

// fork finds where the ways from two shares to the top meet, and returns the last share on
// each before that: 0 where it is the meeting point itself.
func (t Tree) fork(a, b int) (int, int) {
	lastA := 0
	for i := a; ; i = t.nodes[i].above {
		lastB := 0
		for k := b; ; k = t.nodes[k].above {
			if i == k {
				return lastA, lastB
			}
			if lastB = k; k == 0 {
				break
			}
		}
		lastA = i // the top is on every way, so that this ends there
	}
}

// coveredAt reports whether a guarantee at or below a share covers a job.
func (b book) coveredAt(k id.Job, at int) bool {
	by, ok := b.covered[k]
	for i := b.in[k]; ok && at != 0; i = b.nodes[i].above {
		if i == by {
			return true
		}
		if i == at {
			return false
		}
	}
	return false
}

// Claim is what a waiting job may ask of those that run.
type Claim struct {
	Loans
	Path []id.Account
	Ask  limits.Demand
}

// entitled reports whether the job, if it started, would leave a share within its guarantee.
func (c Claim) entitled(b book, at int) bool {
	add, kept := b.asks(c.Ask), int64(0)
	for i := b.on(c.Path); i != 0; i = b.nodes[i].above {
		n := b.nodes[i]
		if i == at {
			return n.taken+add <= n.Guaranteed
		}
		kept += max(0, n.keeps()-n.taken)
		add = max(0, b.asks(c.Ask)-kept)
	}
	return false
}

// within reports whether the job is within a guarantee at some level.
func (c Claim) within(b book) bool {
	for i := b.on(c.Path); i != 0; i = b.nodes[i].above {
		if c.entitled(b, i) {
			return true
		}
	}
	return false
}

func (b book) asks(d limits.Demand) int64 { return limits.Ask{Demand: d}.Of(b.resource) }

// Any reports whether the job can have a claim on anybody: it asks for something that is
// shared, and is within a guarantee with all of that.
func (c Claim) Any() bool {
	some := false
	for _, b := range c.books {
		if b.asks(c.Ask) > 0 {
			if some = c.within(b); !some {
				return false
			}
		}
	}
	return some
}

// On says what the job may ask of a running one. Due: that one is on loan of what the
// other's account is guaranteed, and the other is within it in all that it asks for.
// Covered: that one has nothing but what its own account is guaranteed, and the other
// belongs elsewhere.
func (c Claim) On(k id.Job) (due, covered bool) {
	within, apart, safe := true, false, true
	for _, b := range c.books {
		asks, own, in := b.asks(c.Ask), b.on(c.Path), b.in[k]
		switch {
		case b.has[k] == 0:
			within = within && (asks == 0 || c.within(b))
		case own != in:
			mine, its := b.fork(own, in)
			covers := b.coveredAt(k, its)
			apart, safe = true, safe && covers
			if asks > 0 {
				fair := c.entitled(b, mine)
				within, due = within && fair, due || fair && !covers
			}
		}
	}
	return due && within, apart && safe
}
