package query

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/quantity"
)

// FairShare is the tree of shares as far as the caller may see it: accounts that he
// may see, with their users where he may look into them, and whatever is above those.
// With of it is only that account and what is below it, or that user.
func (r *Reader) FairShare(p access.Principal, of string) (v1.FairShare, error) {
	v := r.view(p)
	s, weights := v.shares(), v.w.Site.Weights
	out := v1.FairShare{At: at(v.now), HalfLife: spanWire(weights.HalfLife), Points: weights.Share, Places: s.Places(), Nodes: []v1.ShareNode{}}
	account, known := v.w.Tenancy.Account(of)
	known = known && v.may(access.AccountSee, 0, account.ID)
	user, _ := v.w.Tenancy.User(of)
	shown := map[shareKey]bool{}
	for n := range s.Below {
		asked := of == "" || known && v.w.Tenancy.Within(n.Account, account.ID) || n.User != 0 && n.User == user.ID
		if asked && v.maySeeShare(n) {
			for _, up := range s.Path(n.Account, n.User) {
				shown[keyOf(up)] = true
			}
		}
	}
	if of != "" && !known && len(shown) == 0 {
		return out, fault.NotFound("account or user", clip(of))
	}
	for n, depth := range s.Below {
		if shown[keyOf(n)] {
			out.Nodes = append(out.Nodes, v.shareWire(n, depth, s.Places()))
		}
	}
	return out, nil
}

type shareKey struct {
	account id.Account
	user    id.User
}

func keyOf(n fairshare.Node) shareKey { return shareKey{n.Account, n.User} }

func (v view) maySeeShare(n fairshare.Node) bool {
	if n.User == 0 {
		return v.may(access.AccountSee, 0, n.Account)
	}
	return v.may(access.AccountRead, 0, n.Account)
}

func (v view) shareWire(n fairshare.Node, depth int, places int64) v1.ShareNode {
	out := v1.ShareNode{
		Account: v.account(n.Account), Depth: depth, Weight: n.Weight, Share: percent(n.Share()), Use: money.Micros(n.Use).String(),
		Used: percent(n.Used()), Times: quantity.FormatDecimal(n.Times(), 2, 2), Rank: n.Before + 1,
	}
	if n.User != 0 {
		out.User, out.Points = v.user(n.User), v.w.Site.Weights.Worth(n.Before, places)
	}
	return out
}

// percent is hundredths of a percent as a decimal.
func percent(n int64) string { return quantity.FormatDecimal(n, 2, 2) }
