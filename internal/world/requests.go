package world

import (
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
)

// MayDecide reports whether p may decide a request: whether he may do himself what it asks
// for. His own he may not, but what a token of his asks for, by which he doesn't decide: nor does he
// by any other that is bounded.
func (w *World) MayDecide(p access.Principal, r approval.Request) bool {
	if r.Kind == approval.KindJob {
		return id.User(p.User) == r.User && !p.Narrow.Capped && w.Can(p, access.RequestDecide, r.User, r.Account)
	}
	if !p.System && (id.User(p.User) == r.User || !w.Can(p, access.RequestDecide, id.User(p.User), r.Account)) {
		return false
	}
	switch x := r.Wish; r.Kind {
	case approval.KindJoin:
		m, _ := w.Tenancy.Member(r.Account, r.User)
		own := w.OwnRole(p, r.Account)
		return own >= x.Join.AsRole() && own >= m.Role && w.Can(p, access.AccountRun, 0, r.Account)
	case approval.KindCredits:
		return w.Can(p, access.MoneyGive, 0, 0)
	case approval.KindTransfer:
		return w.MayTransfer(p, r.Account)
	case approval.KindLimit:
		return w.MayLimit(p, x.Limit.Resource, r.Account)
	case approval.KindWall:
		return w.Can(p, access.JobRaise, 0, r.Account)
	case approval.KindReservation:
		return w.Can(p, access.NodeRun, 0, 0)
	case approval.KindAsset:
		if x.Asset.Image == "" {
			return w.Can(p, access.CatalogSet, 0, r.Account)
		}
		return w.Can(p, access.TokenRun, w.Assets.OwnerOf(x.Asset.Image, x.Asset.Made), 0)
	}
	return false
}

// SeesRequest reports whether p may see a request: who asks, who may decide it, who manages the
// account concerned, and those who see everything.
func (w *World) SeesRequest(p access.Principal, r approval.Request) bool {
	return w.Can(p, access.RequestSee, r.User, r.Account) || w.MayDecide(p, r)
}

// Deciders are the users who may decide a request at a time, by id.
func (w *World) Deciders(r approval.Request, now int64) []id.User {
	var out []id.User
	for u := range w.Tenancy.Users.All() {
		if w.MayDecide(w.Principal(u, 0, now), r) {
			out = append(out, u)
		}
	}
	return out
}

// Asks says in words what a request asks for.
func (w *World) Asks(r approval.Request) string {
	u, _ := w.Tenancy.Users.Get(r.User)
	return u.Name + " asks " + r.Words()
}

// OwnRole is the role up to which p may give roles in an account.
func (w *World) OwnRole(p access.Principal, a id.Account) access.Role {
	if w.Can(p, access.AccountMake, 0, 0) {
		return access.Owner
	}
	return w.Tenancy.Role(id.User(p.User), a, p.Now)
}

// MayTransfer reports whether p may give an account's credits to another.
func (w *World) MayTransfer(p access.Principal, from id.Account) bool {
	return w.Can(p, access.MoneyGive, 0, 0) || w.Can(p, access.AccountRun, 0, from)
}

// MayLimit reports whether p may set limits on a resource in an account (0: anywhere): caps on
// what members may spend are their account's managers' business too.
func (w *World) MayLimit(p access.Principal, r limits.Resource, a id.Account) bool {
	return w.Can(p, access.LimitSet, 0, 0) || r == limits.Credits && a != 0 && w.Can(p, access.AccountRun, 0, a)
}
