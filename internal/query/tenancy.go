package query

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/tenancy"
)

// Me says who the caller is.
func (r *Reader) Me(p access.Principal) v1.Me {
	v := r.view(p)
	return v1.Me{User: p.Name, Role: string(p.Platform), Accounts: v.memberships(v.self())}
}

func (v view) memberships(u id.User) []v1.Membership {
	out := []v1.Membership{}
	for _, m := range v.w.Tenancy.MembershipsOf(u) {
		out = append(out, v1.Membership{Account: v.account(m.Account), Role: m.Role.String()})
	}
	return out
}

// Accounts lists the accounts that the caller may see, each with its balance.
func (r *Reader) Accounts(p access.Principal) []v1.Account {
	v := r.view(p)
	out := []v1.Account{}
	for _, a := range v.w.Tenancy.Accounts.All() {
		if v.may(access.AccountSee, 0, a.ID) {
			out = append(out, v.accountWire(a))
		}
	}
	return out
}

// Account returns an account with its members, use and grants.
func (r *Reader) Account(p access.Principal, name string) (v1.Account, error) {
	v := r.view(p)
	a, err := v.accountNamed(name)
	if err != nil {
		return v1.Account{}, err
	}
	out := v.accountWire(a)
	if !v.may(access.AccountRead, 0, a.ID) {
		return out, nil
	}
	for _, m := range v.w.Tenancy.Members(a.ID) {
		out.Members = append(out.Members, v.memberWire(m))
	}
	for _, b := range v.w.Limits.Effective(limits.Who{Path: v.w.Tenancy.Path(a.ID)}) {
		out.Usage = append(out.Usage, v.limitWire(b.Limit, b.Used))
	}
	for _, g := range v.w.Ledger.Grants.All() {
		if g.Account == a.ID {
			out.Grants = append(out.Grants, v.grantWire(g))
		}
	}
	return out, nil
}

// Member returns a user's own membership in an account.
func (r *Reader) Member(p access.Principal, account, user string) (v1.Member, error) {
	v := r.view(p)
	a, err := v.accountNamed(account)
	if err != nil {
		return v1.Member{}, err
	}
	u, ok := v.w.Tenancy.User(user)
	m, is := v.w.Tenancy.Member(a.ID, u.ID)
	if !ok || !is || !v.may(access.AccountRead, 0, a.ID) {
		return v1.Member{}, fault.NotFound("member", clip(user))
	}
	return v.memberWire(m), nil
}

func (v view) memberWire(m tenancy.Member) v1.Member {
	return v1.Member{User: v.user(m.User), Role: m.Role.String(), Group: m.FromGroup}
}

func (v view) accountNamed(name string) (tenancy.Account, error) {
	a, ok := v.w.Tenancy.Account(name)
	if !ok || !v.may(access.AccountSee, 0, a.ID) {
		return a, fault.NotFound("account", clip(name))
	}
	return a, nil
}

func (v view) accountWire(a tenancy.Account) v1.Account {
	out := v1.Account{Name: a.Name, Billing: string(a.Billing), Group: a.Group, Closed: a.Closed}
	// An ancestor is named also to those who may not look into it: it may bound
	// what the account can do.
	out.Parent = v.account(a.Parent)
	if v.may(access.AccountRead, 0, a.ID) {
		out.Balance = v.money(a.ID)
	}
	return out
}

// money is what an account may spend now, what its open jobs have set
// aside, and what it has spent.
func (v view) money(a id.Account) *v1.AccountMoney {
	path := v.w.Tenancy.Path(a)
	return &v1.AccountMoney{
		Available: ledger.Available(v.w.Ledger.Sources(path, v.now)).String(),
		Deposits:  v.aside().account[a].String(), Spent: v.w.Ledger.Balance(ledger.Spent(a)).String(),
	}
}

// Users lists the users that the caller may see: himself, or everybody.
func (r *Reader) Users(p access.Principal) []v1.User {
	v := r.view(p)
	out := []v1.User{}
	for _, u := range v.w.Tenancy.Users.All() {
		if v.may(access.UserSee, u.ID, 0) {
			out = append(out, v.userWire(u))
		}
	}
	return out
}

// User returns one.
func (r *Reader) User(p access.Principal, name string) (v1.User, error) {
	v := r.view(p)
	u, ok := v.w.Tenancy.User(name)
	if !ok || !v.may(access.UserSee, u.ID, 0) {
		return v1.User{}, fault.NotFound("user", clip(name))
	}
	return v.userWire(u), nil
}

func (v view) userWire(u tenancy.User) v1.User {
	out := v1.User{Name: u.Name, Role: string(u.Platform), Blocked: u.Blocked, Warning: u.Warning, Accounts: v.memberships(u.ID)}
	if u.UID >= 0 {
		out.UID = &u.UID
	}
	return out
}

// Tokens lists a user's tokens, without their secrets.
func (r *Reader) Tokens(p access.Principal, name string) ([]v1.Token, error) {
	v := r.view(p)
	u, ok := v.w.Tenancy.User(name)
	if !ok || !v.may(access.TokenRun, u.ID, 0) {
		return nil, fault.NotFound("user", clip(name))
	}
	out := []v1.Token{}
	for _, t := range v.w.Tenancy.Tokens.All() {
		if t.User == u.ID && !t.Revoked {
			out = append(out, v.tokenWire(t))
		}
	}
	return out, nil
}

func (v view) tokenWire(t tenancy.Token) v1.Token {
	return v1.Token{ID: decimal(t.ID), User: v.user(t.User), Name: t.Name, Created: at(t.Created), Expires: moment(t.Expires)}
}

// Token is a token that was made just now, as the API shows it; without its secret.
func (r *Reader) Token(p access.Principal, t tenancy.Token) v1.Token { return r.view(p).tokenWire(t) }
