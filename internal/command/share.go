package command

import (
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/world"
)

// SharePut sets an account's share of a resource in a partition; it replaces the one
// before. Nil bounds aren't set.
type SharePut struct {
	Account, Partition  string
	Resource            limits.Resource
	Guaranteed          int64
	Limit, Borrow, Lend *int64   `json:",omitempty"`
	Weight              int64    `json:",omitempty"` // 0: the account's own
	Remove              id.Share `json:",omitempty"` // when set: remove that share instead
}

// Kind is share.set or share.remove.
func (c SharePut) Kind() string {
	if c.Remove != 0 {
		return "share.remove"
	}
	return "share.set"
}

// Decide sets or removes the share. Nothing is stopped by it: what an account then
// has beyond its guarantee is borrowed.
func (c SharePut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.LimitSet, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only an operator may set shares")
	}
	if c.Remove != 0 {
		row, ok := w.Queues.Shares.Get(c.Remove)
		if !ok {
			return world.Outcome{}, fault.New(codes.NotFound, "no such share: %d", c.Remove)
		}
		row.Removed = true
		return sharePut(row), nil
	}
	account, ok := w.Tenancy.Account(c.Account)
	if !ok {
		return world.Outcome{}, fault.NotFound("account", c.Account)
	}
	if _, ok := w.Catalog.Partitions.Get(c.Partition); !ok {
		return world.Outcome{}, fault.Invalid("partition", "no such partition: %s", c.Partition)
	}
	row := share.Share{
		ID: w.Queues.Next(), Account: account.ID, Partition: c.Partition, Resource: c.Resource, Guaranteed: c.Guaranteed,
		Limit: share.Any, Borrow: share.Any, Lend: share.Any, Weight: c.Weight, By: id.User(at.Principal.User),
	}
	set(&row.Limit, c.Limit)
	set(&row.Borrow, c.Borrow)
	set(&row.Lend, c.Lend)
	if err := row.Check(); err != nil {
		return world.Outcome{}, err
	}
	old, exists := w.Queues.Find(account.ID, c.Partition, c.Resource)
	if exists {
		row.ID = old.ID
	}
	if err := c.fits(w, at, row, exists && row.Guaranteed <= old.Guaranteed); err != nil {
		return world.Outcome{}, err
	}
	return sharePut(row), nil
}

// fits checks the row against those beside and below it. One that guarantees no more than
// before isn't held against what is beside it: a node may have gone since.
func (c SharePut) fits(w *world.World, at world.Context, row share.Share, lower bool) error {
	after := w.Copy()
	after.Queues.Fold(share.Set{Row: row})
	return after.View(at.Now).QueueTree(row.Partition, row.Resource).Fits(&w.Tenancy, row.Account, !lower)
}

func sharePut(row share.Share) world.Outcome {
	return world.Outcome{
		Changes: []world.Change{share.Set{Row: row}}, Result: row, Event: world.Event{Account: row.Account, Message: string(row.Resource) + " of " + row.Partition},
	}
}

// sharesOf names the shares that match.
func sharesOf(w *world.World, match func(share.Share) bool) []string {
	var out []string
	for _, s := range w.Queues.Shares.All() {
		if match(s) {
			a, _ := w.Tenancy.Accounts.Get(s.Account)
			out = append(out, a.Name+" has a share of "+string(s.Resource)+" in partition "+s.Partition)
		}
	}
	return out
}

// sharesFit checks the shares at and below an account as they stand in w.
func sharesFit(w *world.World, at world.Context, a id.Account) error {
	for _, s := range w.Queues.Shares.All() {
		if !slices.Contains(w.Tenancy.Path(s.Account), a) {
			continue
		}
		if err := w.View(at.Now).QueueTree(s.Partition, s.Resource).Fits(&w.Tenancy, s.Account, true); err != nil {
			return err
		}
	}
	return nil
}
