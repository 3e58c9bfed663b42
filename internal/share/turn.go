package share

import (
	"cmp"
	"math/bits"

	"croft.dev/croft/internal/id"
)

// Turn is whose turn it is: those come first who have less than they are guaranteed. The
// others follow by what they have borrowed, against their weights, compared where their
// ways to the top meet.
type Turn struct {
	Standing       // of the share that decides: the account's, or of one above it
	Below    bool  // less than guaranteed
	Before   int64 // so many shares come first
	Places   int64 // of all, and one for those without
}

// Turn is the turn of accounts with a path.
func (t Tree) Turn(path []id.Account) Turn {
	at := t.on(path)
	out := Turn{Places: int64(len(t.nodes))}
	own := t.below(at)
	if out.Below = own != 0; !out.Below {
		own = at
	}
	n := t.nodes[own]
	out.Standing = Standing{Share: n.Share, Used: n.use, Taken: n.taken}
	for i := range t.nodes {
		if !out.Below && i != at && (t.below(i) != 0 || t.compare(i, at) < 0) {
			out.Before++
		}
	}
	return out
}

// below is the lowest share on the way from one to the top that has less than its
// guarantee; 0 if none has.
func (t Tree) below(at int) int {
	for i := at; i != 0; i = t.nodes[i].above {
		if t.nodes[i].taken < t.nodes[i].Guaranteed {
			return i
		}
	}
	return 0
}

// compare is negative if the one share has borrowed less for its weight than the other.
func (t Tree) compare(a, b int) int {
	mine, its := t.fork(a, b)
	meet := 0
	if mine != 0 {
		meet = t.nodes[mine].above
	} else if its != 0 {
		meet = t.nodes[its].above
	}
	h1, l1 := bits.Mul64(uint64(t.loan(mine, meet)), uint64(t.weight(its)))
	h2, l2 := bits.Mul64(uint64(t.loan(its, meet)), uint64(t.weight(mine)))
	return cmp.Or(cmp.Compare(h1, h2), cmp.Compare(l1, l2))
}

// loan is what a share has borrowed; with 0, what those have right below another that
// have none.
func (t Tree) loan(at, above int) int64 {
	if at != 0 {
		return max(0, t.nodes[at].taken-t.nodes[at].Guaranteed)
	}
	n := t.nodes[above].use
	for _, o := range t.nodes[1:] {
		if o.above == above {
			n -= o.use
		}
	}
	return max(0, n)
}

func (t Tree) weight(at int) int64 { return max(1, t.nodes[at].Weight) }
