package query

import (
	"slices"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/share"
)

// Shares lists shares with what is in use of them: all that the caller may see, or those
// of an account with what is above and below it, in one partition or in all.
func (r *Reader) Shares(p access.Principal, account, partition string) ([]v1.ShareUse, error) {
	v := r.view(p)
	if _, ok := v.w.Catalog.Partitions.Get(partition); partition != "" && !ok {
		return nil, fault.NotFound("partition", clip(partition))
	}
	var path []id.Account
	if account != "" {
		a, err := v.accountNamed(account)
		if err != nil {
			return nil, err
		}
		path = v.w.Tenancy.Path(a.ID)
	}
	out := []v1.ShareUse{}
	for _, s := range v.w.Queues.Shares.All() {
		switch {
		case partition != "" && s.Partition != partition:
		case path != nil && !slices.Contains(path, s.Account) && (!v.w.Tenancy.Within(s.Account, path[0]) || !v.may(access.AccountRead, 0, s.Account)):
		case path == nil && !v.may(access.AccountRead, 0, s.Account):
		default:
			out = append(out, v.shareUse(s))
		}
	}
	return out, nil
}

// ShareMade is a share that was set just now as the API shows it.
func (r *Reader) ShareMade(p access.Principal, s share.Share) v1.ShareUse {
	return r.view(p).shareUse(s)
}

// ShareOn finds an account's share of a resource in a partition, for a repeated request.
func (r *Reader) ShareOn(p access.Principal, want v1.Share) (v1.ShareUse, bool) {
	v := r.view(p)
	a, _ := v.w.Tenancy.Account(want.Account)
	s, ok := v.w.Queues.Find(a.ID, want.Partition, limits.Resource(want.Resource))
	if !ok {
		return v1.ShareUse{}, false
	}
	return v.shareUse(s), true
}

func (v view) shareUse(s share.Share) v1.ShareUse {
	tree := v.decides().QueueTree(s.Partition, s.Resource)
	is := tree.Of(s.Account)
	amount := func(n int64) v1.Quantity { return v1.Quantity(limits.Format(s.Resource, n)) }
	bound := func(n int64) v1.Quantity {
		if n == share.Any {
			return ""
		}
		return amount(n)
	}
	out := v1.ShareUse{
		Share: v1.Share{
			ID: decimal(s.ID), Account: v.account(s.Account), Partition: s.Partition, Resource: string(s.Resource), Guaranteed: amount(s.Guaranteed),
			Limit: bound(s.Limit), Borrow: bound(s.Borrow), Lend: bound(s.Lend), Weight: s.Weight,
		},
		Used: amount(is.Used), Free: amount(is.Free), By: v.user(s.By),
	}
	if n := is.Borrowed(); n > 0 {
		out.Borrowed = amount(n)
	}
	if n := is.Taken - is.Most(); n > 0 {
		out.Over = amount(n)
	}
	var others int64
	for _, b := range tree.Borrowers(s.Account) {
		if b.Without || !v.may(access.AccountRead, 0, b.Account) {
			others += b.Borrowed
			continue
		}
		out.Borrowers = append(out.Borrowers, v1.ShareBorrower{Account: v.account(b.Account), Borrowed: amount(b.Borrowed)})
	}
	if others > 0 {
		out.Borrowers = append(out.Borrowers, v1.ShareBorrower{Borrowed: amount(others)})
	}
	return out
}

// sharesFor is what shares let the accounts of w have at most.
func (v view) sharesFor(w whose) []listed {
	var out []listed
	for _, s := range v.w.Queues.Shares.All() {
		sc := limits.Scope{Account: s.Account, Partition: s.Partition}
		if most := s.Most(); w.may(sc) && (s.Limit != share.Any || s.Borrow != share.Any) {
			is := v.decides().QueueTree(s.Partition, s.Resource).Of(s.Account)
			l := limits.Limit{Scope: sc, Resource: s.Resource, Max: most, By: s.By}
			out = append(out, listed{Bound: limits.Bound{Limit: l, Max: most, Used: is.Taken}, from: "share of " + v.decides().BoundName(limits.Bound{Limit: limits.Limit{Scope: sc}})})
		}
	}
	return out
}
