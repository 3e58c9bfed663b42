package share

import (
	"cmp"
	"math/bits"
	"slices"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/tenancy"
)

// Tree is the shares of one resource in a partition with what is in use of them.
type Tree struct {
	partition string
	resource  limits.Resource
	nodes     []node // the partition, then each after the one above it
	at        map[id.Account]int
}

// Resource is what is shared.
func (t Tree) Resource() limits.Resource { return t.resource }

// node is a share as it stands. That of the partition has no account, and guarantees what
// the partition offers.
type node struct {
	Share
	above int
	use   int64 // of all jobs below it
	taken int64 // use, and what those below keep and don't use themselves
}

// Tree returns the shares of a resource. offered is what the partition has of it.
func (s *State) Tree(t *tenancy.State, partition string, r limits.Resource, offered int64) Tree {
	return s.idle(t, partition, r, offered).inUse(s)
}

// idle is the tree when nothing is in use.
func (s *State) idle(t *tenancy.State, partition string, r limits.Resource, offered int64) Tree {
	tree := Tree{partition: partition, resource: r, at: map[id.Account]int{}}
	tree.nodes = append(tree.nodes, node{Share: Share{Partition: partition, Resource: r, Guaranteed: offered, Limit: Any, Borrow: Any, Lend: Any}})
	paths := map[id.Account][]id.Account{}
	for _, row := range s.rows.From(Share{Partition: partition, Resource: r}.key()) {
		if row.Partition != partition || row.Resource != r {
			break
		}
		tree.nodes = append(tree.nodes, node{Share: row})
		paths[row.Account] = t.Path(row.Account)
	}
	slices.SortFunc(tree.nodes[1:], func(a, b node) int {
		return cmp.Or(cmp.Compare(len(paths[a.Account]), len(paths[b.Account])), cmp.Compare(a.Account, b.Account))
	})
	for i := 1; i < len(tree.nodes); i++ {
		n := &tree.nodes[i]
		n.above = tree.on(paths[n.Account])
		tree.at[n.Account] = i
		if n.Weight == 0 {
			a, _ := t.Accounts.Get(n.Account)
			n.Weight = max(a.Weight, 1)
		}
	}
	tree.sum()
	return tree
}

// on is the share that accounts with this path (itself first) have part in.
func (t Tree) on(path []id.Account) int {
	for _, a := range path {
		if i, ok := t.at[a]; ok {
			return i
		}
	}
	return 0
}

// sum works out what is taken, from below. What an account keeps counts as taken from the
// one above, whether it uses it or not.
func (t Tree) sum() {
	for i := range t.nodes {
		t.nodes[i].taken = t.nodes[i].use
	}
	for i := len(t.nodes) - 1; i > 0; i-- {
		n := t.nodes[i]
		t.nodes[n.above].taken += max(n.taken, n.keeps()) - n.use
	}
}

// Kind says which bound of a share it is.
type Kind int

// The kinds: an account's limit, what it may borrow, and what the others in a partition
// leave.
const (
	OfLimit Kind = iota
	OfBorrow
	OfOthers
)

// Violation is a bound that an amount would pass.
type Violation struct {
	Share Share // whose; of the partition: without an account
	Kind  Kind
	Asked int64
	Max   int64 // that may be taken there
	Taken int64 // of that, in use or kept by others
	Room  int64 // the most that wouldn't pass it now
	Never bool  // asked alone would pass it
	Most  int64 // that wouldn't pass it if nothing were in use
}

// Borrows reports whether the account of a path would have more than it is guaranteed
// with so much more.
func (t Tree) Borrows(path []id.Account, more int64) bool {
	i := t.on(path)
	return i == 0 || t.nodes[i].taken+more > t.nodes[i].Guaranteed
}

// check returns the bounds that so much more would pass for an account of a path, from
// the lowest up.
//
// What an account below keeps and doesn't use is taken already, so that only what
// goes beyond it adds to what the one above has taken. The partition has no say on
// what is within the guarantees at the top: room for that is made by those who borrowed.
func (t Tree) check(path []id.Account, more int64) []Violation {
	var out []Violation
	var kept int64 // of more, what accounts below have kept for it
	var own int64  // the most that is within the last guarantee
	within := false
	add := more
	pass := func(n node, k Kind, most int64) {
		if n.taken > most || add > most-n.taken {
			out = append(out, Violation{Share: n.Share, Kind: k, Asked: more, Max: most, Taken: n.taken, Room: max(0, most-n.taken) + kept})
		}
	}
	for i := t.on(path); i != 0 && add > 0; i = t.nodes[i].above {
		n := t.nodes[i]
		if n.Limit != Any {
			pass(n, OfLimit, n.Limit)
		}
		if within = n.taken+add <= n.Guaranteed; !within && n.Borrow != Any {
			pass(n, OfBorrow, n.loaned())
		}
		own = n.Guaranteed - n.taken + kept
		kept += max(0, n.keeps()-n.taken)
		add = max(0, more-kept)
	}
	if top := t.nodes[0]; add > 0 && !within && top.taken > top.use {
		pass(top, OfOthers, top.Guaranteed)
		for i := range out {
			if out[i].Kind == OfOthers {
				out[i].Room = max(out[i].Room, own)
			}
		}
	}
	return out
}

// Check returns every bound of shares that a would pass for an account of a path, the
// tightest first: those that no waiting cures, then by the smallest part of what is
// asked that would still fit.
func (s *State) Check(trees *Trees, t *tenancy.State, path []id.Account, partition string, a limits.Ask, offered func(limits.Resource) int64) []Violation {
	var out []Violation
	for _, r := range s.Resources(partition) {
		n := a.Of(r)
		if n <= 0 {
			continue
		}
		g := trees.of(s, t, partition, r, offered)
		now := g.now.check(path, n)
		for _, never := range g.idle.check(path, n) {
			i := slices.IndexFunc(now, func(v Violation) bool { return v.Share.ID == never.Share.ID && v.Kind == never.Kind })
			if i < 0 { // those who keep it use it themselves
				i, now = len(now), append(now, never)
			}
			now[i].Never, now[i].Most = true, never.Room
		}
		out = append(out, now...)
	}
	slices.SortStableFunc(out, tighter)
	return out
}

func tighter(a, b Violation) int {
	if a.Never != b.Never {
		if a.Never {
			return -1
		}
		return 1
	}
	// room a / asked a  against  room b / asked b, without division
	h1, l1 := bits.Mul64(uint64(a.Room), uint64(b.Asked))
	h2, l2 := bits.Mul64(uint64(b.Room), uint64(a.Asked))
	return cmp.Or(cmp.Compare(h1, h2), cmp.Compare(l1, l2), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Share.ID, b.Share.ID))
}
