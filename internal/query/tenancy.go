package query

import (
	"cmp"
	"slices"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
)

// Me says who the caller is.
func (r *Reader) Me(p access.Principal) v1.Me {
	v := r.view(p)
	_, has := v.w.Tenancy.Passwords.Get(v.self())
	out := v1.Me{User: p.Name, Role: string(p.Platform), Accounts: v.memberships(v.self()), Password: has}
	if t, ok := v.w.Tenancy.Tokens.Get(id.Token(p.Narrow.Token)); ok && !t.Session() {
		tok := v.tokenWire(t)
		out.Token = &tok
	}
	return out
}

func (v view) memberships(u id.User) []v1.Membership {
	out := []v1.Membership{}
	for _, m := range v.w.Tenancy.MembershipsOf(u) {
		out = append(out, v1.Membership{Account: v.account(m.Account), Role: m.Role.String(), Ends: moment(v.w.Tenancy.MemberEnd(m))})
	}
	return out
}

// Accounts lists the accounts that the caller may see, each with its balance.
func (r *Reader) Accounts(p access.Principal) []v1.Account {
	v := r.view(p)
	out := []v1.Account{}
	for _, a := range v.w.Tenancy.Accounts.All() {
		if a.Retired == 0 && v.may(access.AccountSee, 0, a.ID) {
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
	for _, b := range v.w.Limits.Effective(limits.Who{Path: v.w.Tenancy.Path(a.ID)}, v.now) {
		out.Usage = append(out.Usage, v.limitWire(b))
	}
	out.Usage = append(out.Usage, v.capsIn(a.ID)...)
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
	return v1.Member{User: v.user(m.User), Role: m.Role.String(), Group: m.FromGroup, Ends: moment(v.w.Tenancy.MemberEnd(m)), Weight: max(m.Weight, 1)}
}

// accountNamed finds the account that has a name or, when none has, the last that
// had it.
func (v view) accountNamed(name string) (tenancy.Account, error) {
	if found := v.accountsNamed(name); len(found) > 0 {
		return found[0], nil
	}
	return tenancy.Account{}, fault.NotFound("account", clip(name))
}

// accountsNamed are those of the accounts of a name that the caller may see.
func (v view) accountsNamed(name string) []tenancy.Account {
	return slices.DeleteFunc(v.w.Tenancy.AccountsNamed(name), func(a tenancy.Account) bool { return !v.may(access.AccountSee, 0, a.ID) })
}

func (v view) accountWire(a tenancy.Account) v1.Account {
	out := v1.Account{
		Name: v.account(a.ID), Billing: string(a.Billing), Group: a.Group, Closed: a.Closed,
		Ends: moment(v.w.Tenancy.AccountEnd(a.ID)), Retired: moment(a.Retired), Weight: max(a.Weight, 1),
	}
	if a.Billing == tenancy.BillingEnforce {
		out.OutOfCredit = string(cmp.Or(a.OutOfCredit, tenancy.Stop))
		if most := a.MayOverdraw(); most > 0 {
			out.Overdraft = most.String()
		}
	}
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
	out := &v1.AccountMoney{
		Available: ledger.Available(v.w.Ledger.Sources(path, v.now)).String(),
		Deposits:  v.aside().account[a].String(), Spent: v.w.Ledger.Balance(ledger.Spent(a)).String(),
	}
	if used := v.w.Ledger.Overdrawn(a); used > 0 {
		out.Overdrawn, out.Owed = used.String(), max(v.w.Ledger.Owed(a), 0).String()
	}
	return out
}

// Users lists the users that the caller may see: himself, or everybody.
func (r *Reader) Users(p access.Principal) []v1.User {
	v := r.view(p)
	out := []v1.User{}
	for _, u := range v.w.Tenancy.Users.All() {
		if u.Retired == 0 && v.may(access.UserSee, u.ID, 0) {
			out = append(out, v.userWire(u))
		}
	}
	return out
}

// User returns one.
func (r *Reader) User(p access.Principal, name string) (v1.User, error) {
	v := r.view(p)
	for _, u := range v.w.Tenancy.UsersNamed(name) {
		if v.may(access.UserSee, u.ID, 0) {
			return v.userWire(u), nil
		}
	}
	return v1.User{}, fault.NotFound("user", clip(name))
}

func (v view) userWire(u tenancy.User) v1.User {
	out := v1.User{
		Name: v.user(u.ID), Role: string(u.Platform), Blocked: u.Blocked, Warning: u.Warning, Accounts: v.memberships(u.ID),
		Ends: moment(u.Ends), Retired: moment(u.Retired),
	}
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
	for _, t := range v.w.Tenancy.TokensOf(u.ID) {
		if !t.Session() {
			out = append(out, v.tokenWire(t))
		}
	}
	return out, nil
}

// Sessions lists a user's sessions that haven't ended.
func (r *Reader) Sessions(p access.Principal, name string) ([]v1.Session, error) {
	v := r.view(p)
	u, ok := v.w.Tenancy.User(name)
	if !ok || !v.may(access.TokenRun, u.ID, 0) {
		return nil, fault.NotFound("user", clip(name))
	}
	out := []v1.Session{}
	for _, t := range v.w.Tenancy.TokensOf(u.ID) {
		if t.Session() && t.Usable(v.now) {
			out = append(out, v.sessionWire(t))
		}
	}
	return out, nil
}

// Registries lists where a user is logged in, without passwords.
func (r *Reader) Registries(p access.Principal, name string) ([]v1.Registry, error) {
	v := r.view(p)
	u, ok := v.w.Tenancy.User(name)
	if !ok || !v.may(access.TokenRun, u.ID, 0) {
		return nil, fault.NotFound("user", clip(name))
	}
	out := []v1.Registry{}
	for _, c := range v.w.Tenancy.CredentialsOf(u.ID) {
		out = append(out, r.RegistryOf(c))
	}
	return out, nil
}

// RegistryOf is a login to a registry as the API shows it.
func (r *Reader) RegistryOf(c tenancy.Credential) v1.Registry {
	return v1.Registry{Registry: c.Registry, Username: c.Username, Changed: at(c.Changed)}
}

// Session is a session that was opened just now, as the API shows it; without its
// secret.
func (r *Reader) Session(p access.Principal, t tenancy.Token) v1.Session {
	return r.view(p).sessionWire(t)
}

func (v view) sessionWire(t tenancy.Token) v1.Session {
	return v1.Session{
		ID: decimal(t.ID), User: v.user(t.User), Name: t.Name, Created: at(t.Created), Used: at(t.Used),
		Ends: at(t.End()), Expires: at(t.Expires), Current: int64(t.ID) == v.p.Narrow.Token,
	}
}

func (v view) tokenWire(t tenancy.Token) v1.Token {
	out := v1.Token{
		ID: decimal(t.ID), User: v.user(t.User), Name: t.Name, Created: at(t.Created), Expires: moment(t.Expires),
		Scopes: t.Scopes.Names(), Account: v.account(t.Account),
	}
	if t.Caps.Ask != 0 {
		out.AskAbove = max(t.Caps.Ask, 0).String()
	}
	for _, b := range v.w.Limits.TokenCaps(t.User, t.By()) {
		b = v.decides().Charged(b)
		if b.Limit.Resource != limits.Credits {
			out.Devices = &v1.TokenDevices{Max: v1.Quantity(limits.Format(limits.GPU, b.Max)), InUse: v1.Quantity(limits.Format(limits.GPU, b.Used))}
			continue
		}
		out.Spend = &v1.TokenSpend{
			Max: money.Micros(b.Max).String(), Per: cmp.Or(t.Caps.Per, "total"), Spent: money.Micros(b.Spent).String(),
			Aside: money.Micros(b.Used - b.Spent).String(), Left: money.Micros(b.Left()).String(), Until: moment(b.To),
		}
	}
	return out
}

// byToken is a token as what was done by it shows it; nil: by none.
func byToken(t tenancy.ByToken) *v1.ByToken {
	if t.ID == 0 {
		return nil
	}
	return &v1.ByToken{ID: decimal(t.ID), Name: t.Name}
}

// Token is a token that was made just now, as the API shows it; without its secret.
func (r *Reader) Token(p access.Principal, t tenancy.Token) v1.Token { return r.view(p).tokenWire(t) }
