package share

import (
	"math"

	"croft.dev/croft/internal/id"
)

// Standing is how a share stands now.
type Standing struct {
	Share
	Used  int64 // by all jobs below
	Taken int64 // and what accounts below keep and don't use
	Free  int64 // the most that shares let its account have on top of that
}

// Borrowed is what it has beyond its guarantee.
func (s Standing) Borrowed() int64 { return max(0, s.Taken-s.Guaranteed) }

// Of is how the share of an account stands that has one.
func (t Tree) Of(a id.Account) Standing {
	n := t.nodes[t.at[a]]
	out := Standing{Share: n.Share, Used: n.use, Taken: n.taken, Free: max(0, t.nodes[0].Guaranteed-t.nodes[0].use)}
	for _, v := range t.check([]id.Account{a}, math.MaxInt64/2) {
		out.Free = min(out.Free, v.Room)
	}
	return out
}

// Borrower has more than it is guaranteed: an account with a share; or all together that
// have none of their own below an account or, if that is 0 too, in the partition.
type Borrower struct {
	Account  id.Account
	Without  bool // a share
	Borrowed int64
}

// Borrowers lists those who have borrowed what an account is guaranteed: at each level at
// which it doesn't use all of its guarantee, whoever beside it uses more than his.
func (t Tree) Borrowers(a id.Account) []Borrower {
	var out []Borrower
	for i := t.at[a]; i != 0; i = t.nodes[i].above {
		n := t.nodes[i]
		if n.taken >= n.Guaranteed {
			continue
		}
		direct := t.nodes[n.above].use
		for k, o := range t.nodes[1:] {
			if o.above != n.above {
				continue
			}
			direct -= o.use
			if k+1 != i && o.taken > o.Guaranteed {
				out = append(out, Borrower{o.Account, false, o.taken - o.Guaranteed})
			}
		}
		if direct > 0 {
			out = append(out, Borrower{t.nodes[n.above].Account, true, direct})
		}
	}
	return out
}
