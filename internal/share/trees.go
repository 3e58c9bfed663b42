package share

import (
	"slices"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/tenancy"
)

// Trees keeps the trees that decisions about one moment look at, until something is
// counted or put: a pass over a long queue makes thousands of decisions between two
// starts. nil keeps nothing.
type Trees struct {
	known map[division]*grown
}

// NewTrees returns Trees in which nothing is kept yet.
func NewTrees() *Trees { return &Trees{map[division]*grown{}} }

// division is a resource that is divided by shares in a partition.
type division struct {
	partition string
	resource  limits.Resource
}

// grown is the trees of a division, of a state as it was.
type grown struct {
	at       version
	idle     Tree // when nothing is in use
	now      Tree
	coverage *coverage // of what runs at that moment, whatever else is counted; nil: not known
}

// version is what a state was, by what was last put and last counted: copies have the same
// until one of them changes.
type version struct{ rows, use *edition }

// edition is told from others by where it is.
type edition struct{ _ byte }

// of returns the trees of a division in a state.
func (k *Trees) of(s *State, t *tenancy.State, partition string, r limits.Resource, offered func(limits.Resource) int64) *grown {
	if k == nil {
		idle := s.idle(t, partition, r, offered(r))
		return &grown{idle: idle, now: idle.inUse(s)}
	}
	name := division{partition, r}
	g, ok := k.known[name]
	switch {
	case !ok || g.at.rows != s.version.rows:
		idle := s.idle(t, partition, r, offered(r))
		g = &grown{idle: idle, now: idle.inUse(s)}
		k.known[name] = g
	case g.at.use != s.version.use:
		g.now = g.idle.inUse(s)
	}
	g.at = s.version
	return g
}

// TreeOf is Tree, with what trees have kept of it.
func (s *State) TreeOf(trees *Trees, t *tenancy.State, partition string, r limits.Resource, offered func(limits.Resource) int64) Tree {
	return trees.of(s, t, partition, r, offered).now
}

// inUse is the same tree with what is in use in a state.
func (t Tree) inUse(s *State) Tree {
	t.nodes = slices.Clone(t.nodes)
	for i := range t.nodes {
		n := &t.nodes[i]
		n.use = limits.Ask{Demand: s.Used(n.Account, t.partition)}.Of(t.resource)
	}
	below := make([]int64, len(t.nodes))
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n := &t.nodes[i]
		n.use = max(n.use, below[i]) // jobs of an account that was moved count where it was
		below[n.above] += n.use
	}
	t.sum()
	return t
}

// with is a state in which some jobs have started, too.
func (s *State) with(claims []Run, partition string) *State {
	if len(claims) == 0 {
		return s
	}
	out := s.Copy()
	for _, c := range claims {
		out.Count(c.Path, partition, c.Use, +1)
	}
	return &out
}

// coverage says which running jobs guarantees cover.
type coverage struct {
	has     map[id.Job]int64
	in      map[id.Job]int // the share that a job has part in
	covered map[id.Job]int // the lowest share whose guarantee covers it; none: by none
}
