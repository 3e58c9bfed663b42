package command

import (
	"cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// terms are what whoever approves says besides.
type terms struct{ Source string }

// effect is the command that does what a request asks for. Whoever approves does it himself, by
// the same decision as without a request: what he may not do, or what can't be, he can't approve.
func effect(w *world.World, now int64, r approval.Request, t terms) (world.Command, error) {
	acc, err := stillThere(w, r.Account, r.Wish)
	if err != nil {
		return nil, err
	}
	switch x := r.Wish; r.Kind {
	case approval.KindJoin:
		u, _ := w.Tenancy.Users.Get(r.User)
		m, _ := w.Tenancy.Member(acc.ID, r.User)
		if has := w.Tenancy.Role(r.User, acc.ID, now); m.Role > x.Join.AsRole() || m.Role < x.Join.AsRole() && has >= x.Join.AsRole() {
			return nil, fault.New(codes.Conflict, "%s is %s of %s already", u.Name, max(m.Role, has), acc.Name)
		}
		return MemberPut{Account: acc.Name, User: u.Name, Role: x.Join.Role, Ends: x.Join.Ends}, nil
	case approval.KindCredits:
		source := cmp.Or(t.Source, x.Credits.Source)
		if source == "" {
			return nil, fault.Invalid("source", "says where the credits come from, e.g. DFG-123: the request doesn't")
		}
		return GrantGive{Account: acc.Name, Amount: x.Credits.Amount, Source: source, End: x.Credits.End, Subtree: x.Credits.Subtree}, nil
	case approval.KindTransfer:
		to, err := stillThere(w, r.Other, approval.Wish{Join: &approval.Join{Account: x.Transfer.To}})
		if err != nil {
			return nil, err
		}
		return GrantTransfer{From: acc.Name, To: to.Name, Amount: x.Transfer.Amount, Grant: x.Transfer.Grant, asked: true}, nil
	case approval.KindLimit:
		return limitAsked(w, *x.Limit, acc.Name)
	case approval.KindWall:
		return wallAsked(w, *x.Wall)
	case approval.KindReservation:
		return reservationAsked(w, now, *x.Reservation, acc.Name)
	case approval.KindAsset:
		return assetAsked(w, *x.Asset, acc)
	case approval.KindJob:
		return JobRelease{Job: x.Job.Job, approved: x.Job}, nil
	}
	return nil, fault.New(codes.Conflict, "nothing is known of requests of kind %s", r.Kind)
}

// stillThere is the account that a request is about, which may have been removed since, or
// never have been. One that concerns no account has none.
func stillThere(w *world.World, a id.Account, x approval.Wish) (tenancy.Account, error) {
	row, ok := w.Tenancy.Accounts.Get(a)
	switch {
	case ok && row.Retired == 0:
		return row, nil
	case ok:
		return row, fault.New(codes.Conflict, "account %s isn't there any more", row.Name)
	case x.Limit != nil && x.Limit.Account == "":
		return row, nil
	case x.Join != nil:
		return row, fault.NotFound("account", x.Join.Account)
	case x.Transfer != nil:
		return row, fault.NotFound("account", x.Transfer.From)
	}
	return row, fault.New(codes.Conflict, "it names no account")
}

// limitAsked keeps what the limit before has carried over.
func limitAsked(w *world.World, x approval.Limit, account string) (world.Command, error) {
	c := LimitPut{Account: account, User: x.User, Partition: x.Partition, QoS: x.QoS, Resource: x.Resource, Per: x.Per, Max: x.Max}
	if u, _ := w.Tenancy.User(x.User); u.ID != x.Of {
		return nil, fault.New(codes.Conflict, "user %s has left", x.User)
	}
	sc, err := scopeOf(w, c)
	if err != nil {
		return nil, err
	}
	if old, ok := w.Limits.Find(sc, c.Resource, c.Per); ok {
		if c.Carry = old.Carry; old.Max == c.Max {
			return nil, fault.New(codes.Conflict, "that is the limit already")
		}
	}
	return c, nil
}
