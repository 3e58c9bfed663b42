// Package share has the accounts' parts of the queues of partitions: what each is
// guaranteed, how much it may use at most, how much of that may be borrowed from
// others, and how much it lends while it doesn't use it itself.
//
// Shares of a resource in a partition are a tree: the one above an account's is that of
// the nearest account above it that has one, and at the top is the partition. What an
// account above is guaranteed is divided among those below; what isn't given to
// any of them is there for all. The arithmetic is that of hierarchical cohorts in Kueue
// (kueue.sigs.k8s.io/docs/concepts/cohort), whose nominal quotas add up, where here the
// guarantees are parts of the one above.
package share

import (
	"math"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/tenancy"
)

// Any is a bound that isn't set.
const Any int64 = -1

// Share is an account's part of a resource in a partition, with all accounts below it.
// Amounts are in the resource's unit.
type Share struct {
	ID         id.Share
	Account    id.Account
	Partition  string
	Resource   limits.Resource // cpu, mem, gpu or the devices of a model
	Guaranteed int64
	Limit      int64 // most in use at once, what is borrowed included; or Any
	Borrow     int64 // most that is borrowed; or Any
	Lend       int64 // most of the guarantee that others may use while it is unused; Any is all
	Weight     int64 // among those that borrow; 0: the account's own
	By         id.User
	Removed    bool
}

// Shared reports whether a resource can be divided by shares.
func Shared(r limits.Resource) bool {
	switch r {
	case limits.CPU, limits.Mem, limits.GPU:
		return true
	}
	_, ofModel := r.Model()
	return ofModel && r.Valid() && !r.PerJob() && !r.Hours()
}

// Known says in words which resources these are.
const Known = "cpu, mem, gpu or gpu:MODEL"

// Check says what is wrong with a share by itself.
func (s Share) Check() error {
	var bad fault.Fields
	if !Shared(s.Resource) {
		bad.Add("resource", "must be %s", Known)
	}
	if s.Guaranteed < 0 {
		bad.Add("guaranteed", "must not be negative")
	}
	for _, f := range []struct {
		name string
		n    int64
	}{{"limit", s.Limit}, {"borrow", s.Borrow}, {"lend", s.Lend}} {
		if f.n < 0 && f.n != Any {
			bad.Add(f.name, "must not be negative")
		}
	}
	if s.Limit >= 0 && s.Limit < s.Guaranteed {
		bad.Add("limit", "%s is less than the %s that are guaranteed", s.text(s.Limit), s.text(s.Guaranteed))
	}
	if s.Lend > s.Guaranteed {
		bad.Add("lend", "%s is more than the %s that are guaranteed", s.text(s.Lend), s.text(s.Guaranteed))
	}
	if s.Weight < 0 || s.Weight > tenancy.MaxWeight {
		bad.Add("weight", "must be from 1 to %d, or 0 for the account's own", tenancy.MaxWeight)
	}
	return bad.Err()
}

func (s Share) text(n int64) string { return limits.Format(s.Resource, n) }

// keeps is how much of the guarantee nobody else ever gets.
func (s Share) keeps() int64 {
	if s.Lend == Any {
		return 0
	}
	return s.Guaranteed - min(s.Lend, s.Guaranteed)
}

// Most is the most that the account may have at once.
func (s Share) Most() int64 {
	if s.Limit != Any {
		return min(s.Limit, s.loaned())
	}
	return s.loaned()
}

// loaned is the most that the account may have at once by what it may borrow.
func (s Share) loaned() int64 {
	if s.Borrow == Any || s.Guaranteed > math.MaxInt64-s.Borrow {
		return math.MaxInt64
	}
	return s.Guaranteed + s.Borrow
}

// Fits says, as a *fault.Error, who is guaranteed more together than the account above
// them, or than the partition offers: of those below an account, and with beside of
// those beside it too.
func (t Tree) Fits(names *tenancy.State, of id.Account, beside bool) error {
	at, ok := t.at[of]
	if !ok {
		return nil
	}
	if err := t.divided(names, at); err != nil || !beside {
		return err
	}
	return t.divided(names, t.nodes[at].above)
}

// divided checks what the shares right below one come to.
func (t Tree) divided(names *tenancy.State, above int) error {
	var sum int64
	var who []string
	over := false
	for _, n := range t.nodes[1:] {
		if n.above == above {
			a, _ := names.Accounts.Get(n.Account)
			who = append(who, a.Name+" "+n.text(n.Guaranteed))
			if over = over || n.Guaranteed > math.MaxInt64-sum; !over {
				sum += n.Guaranteed
			}
		}
	}
	p := t.nodes[above]
	if !over && sum <= p.Guaranteed {
		return nil
	}
	whole := "partition " + t.partition + " has"
	if above != 0 {
		a, _ := names.Accounts.Get(p.Account)
		whole = "account " + a.Name + " above them is guaranteed"
	}
	return fault.New(codes.Conflict, "%s %s would be guaranteed together (%s), and %s %s", p.text(sum), t.resource, strings.Join(who, ", "), whole, p.text(p.Guaranteed))
}
