package share

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ share() }

// Set puts a share. A removed one is forgotten.
type Set struct{ Row Share }

func (Set) share() {}

// State is the shares, and what accounts have in use in each partition: derived from the
// jobs that hold something.
type State struct {
	Shares table.Table[id.Share, Share]
	rows   table.Table[string, Share]         // by partition, resource and account
	use    table.Table[string, limits.Demand] // by partition and account; account 0 is everybody
	last   id.Share

	version version
}

// NewState returns a state without shares.
func NewState() State { return State{version: version{new(edition), new(edition)}} }

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{Shares: s.Shares.Copy(), rows: s.rows.Copy(), use: s.use.Copy(), last: s.last, version: s.version}
}

// Fold puts a change's row.
func (s *State) Fold(c Change) {
	set, ok := c.(Set)
	if !ok {
		return
	}
	s.version.rows = new(edition)
	row := set.Row
	s.last = max(s.last, row.ID)
	if old, had := s.Shares.Delete(row.ID); had {
		s.rows.Delete(old.key())
	}
	if !row.Removed {
		s.Shares.Set(row.ID, row)
		s.rows.Set(row.key(), row)
	}
}

// Next is the id of the next share.
func (s *State) Next() id.Share { return s.last + 1 }

// Find returns an account's share of a resource in a partition.
func (s *State) Find(a id.Account, partition string, r limits.Resource) (Share, bool) {
	return s.rows.Get(Share{Account: a, Partition: partition, Resource: r}.key())
}

// key puts the shares of a partition side by side, by resource.
func (s Share) key() string { return of(s.Partition+"\x00"+string(s.Resource), s.Account) }

func of(name string, a id.Account) string {
	return string(binary.BigEndian.AppendUint64(append([]byte(name), 0), uint64(a)))
}

// Resources lists what is divided by shares in a partition.
func (s *State) Resources(partition string) []limits.Resource {
	if s.rows.Len() == 0 {
		return nil
	}
	var out []limits.Resource
	for from, more := partition+"\x00", true; more; {
		more = false
		for _, row := range s.rows.From(from) {
			if more = row.Partition == partition; more {
				out = append(out, row.Resource)
				from = partition + "\x00" + string(row.Resource) + "\x01" // behind all of it
			}
			break
		}
	}
	return out
}

// Of lists the shares of a partition, those of an account side by side.
func (s *State) Of(partition string) []Share {
	var out []Share
	for _, row := range s.Shares.All() {
		if row.Partition == partition {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b Share) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), strings.Compare(string(a.Resource), string(b.Resource)))
	})
	return out
}

// Nearest is the first account of a path that has a share of anything in a partition: 0 if
// none has.
func (s *State) Nearest(path []id.Account, partition string) id.Account {
	resources := s.Resources(partition)
	for _, a := range path {
		for _, r := range resources {
			if _, ok := s.Find(a, partition, r); ok {
				return a
			}
		}
	}
	return 0
}

// Count adds d, or with sign -1 takes it away, for every account on a path and for the
// partition.
func (s *State) Count(path []id.Account, partition string, d limits.Demand, sign int64) {
	d.Running, d.Submitted = 0, 0
	if d.Zero() {
		return
	}
	s.version.use = new(edition)
	for _, a := range append(slices.Clone(path), 0) {
		k := of(partition, a)
		sum, _ := s.use.Get(k)
		if sum = sum.Plus(d, sign); sum.Zero() {
			s.use.Delete(k)
		} else {
			s.use.Set(k, sum)
		}
	}
}

// Used is what an account has in use in a partition.
func (s *State) Used(a id.Account, partition string) limits.Demand {
	d, _ := s.use.Get(of(partition, a))
	return d
}
