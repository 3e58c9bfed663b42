package command

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// AccountPut creates an account (Create) or changes one; nil fields stay.
type AccountPut struct {
	Create  bool
	Name    string
	Parent  string
	Billing *string
	Group   *string
	Closed  *bool
}

// Kind is account.create or account.set.
func (c AccountPut) Kind() string {
	if c.Create {
		return "account.create"
	}
	return "account.set"
}

// Decide creates or changes the account.
func (c AccountPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	row, exists := w.Tenancy.Account(c.Name)
	parent, err := parentOf(w, c, at)
	switch {
	case err != nil:
		return world.Outcome{}, err
	case c.Create && !mayCreateUnder(w, at.Principal, parent.ID):
		return world.Outcome{}, fault.New(codes.Denied, "only an admin, or a manager of the account above it, may create an account")
	case c.Create && exists:
		return world.Outcome{}, fault.New(codes.Exists, "account %s exists already", c.Name)
	case c.Create:
		if err := tenancy.CheckName(c.Name); err != nil {
			return world.Outcome{}, fault.Invalid("name", "%v", err)
		}
		row = tenancy.Account{ID: w.Tenancy.NextAccount(), Name: c.Name, Parent: parent.ID, Billing: tenancy.BillingShowback, Created: at.Now}
		if !w.Can(at.Principal, access.MoneyGive, 0, 0) {
			row.Billing = parent.Billing // else a manager could make himself an account that never runs out
		}
	case !exists || !w.Can(at.Principal, access.AccountSee, 0, row.ID):
		return world.Outcome{}, fault.NotFound("account", c.Name)
	case !w.Can(at.Principal, access.AccountRun, 0, row.ID):
		return world.Outcome{}, fault.New(codes.Denied, "you aren't a manager of %s", c.Name)
	}
	if err := c.apply(w, at, &row); err != nil {
		return world.Outcome{}, err
	}
	return world.Outcome{Changes: []world.Change{tenancy.AccountSet{Row: row}}, Result: row, Event: world.Event{Account: row.ID, Message: "account " + row.Name}}, nil
}

func parentOf(w *world.World, c AccountPut, at world.Context) (tenancy.Account, error) {
	if c.Parent == "" {
		return tenancy.Account{}, nil
	}
	p, ok := w.Tenancy.Account(c.Parent)
	if !ok || !w.Can(at.Principal, access.AccountSee, 0, p.ID) {
		return p, fault.Invalid("parent", "no such account: %s", c.Parent)
	}
	if len(w.Tenancy.Path(p.ID)) >= tenancy.MaxDepth {
		return p, fault.Invalid("parent", "the account tree is at most %d deep", tenancy.MaxDepth)
	}
	return p, nil
}

func mayCreateUnder(w *world.World, p access.Principal, parent id.Account) bool {
	return w.Can(p, access.AccountMake, 0, 0) || parent != 0 && w.Can(p, access.AccountRun, 0, parent)
}

// apply sets the fields. What decides about money needs an admin: a manager can't
// free his own account from paying.
func (c AccountPut) apply(w *world.World, at world.Context, row *tenancy.Account) error {
	if c.Billing != nil {
		mode, ok := tenancy.ParseBilling(*c.Billing)
		if !ok {
			return fault.Invalid("billing", "must be off, showback or enforce")
		}
		if mode != row.Billing && !w.Can(at.Principal, access.MoneyGive, 0, 0) {
			return fault.New(codes.Denied, "only an admin may change an account's billing")
		}
		row.Billing = mode
	}
	if c.Group != nil {
		if *c.Group != "" && tenancy.CheckName(*c.Group) != nil {
			return fault.Invalid("group", "isn't the name of a Unix group")
		}
		if *c.Group != row.Group && !w.Can(at.Principal, access.AccountMake, 0, 0) {
			return fault.New(codes.Denied, "only an admin may make an account follow a Unix group")
		}
		row.Group = *c.Group
	}
	if c.Closed != nil {
		if row.Closed && !*c.Closed && !w.Can(at.Principal, access.AccountMake, 0, 0) {
			return fault.New(codes.Denied, "only an admin may open a closed account again")
		}
		row.Closed = *c.Closed
	}
	return nil
}

// MemberPut gives a user a role in an account; an empty role removes it.
type MemberPut struct {
	Account string
	User    string
	Role    string
	Group   bool // by the followed Unix group
}

// Kind is member.set.
func (MemberPut) Kind() string { return "member.set" }

// Decide sets the role. Nobody gives a role above his own.
func (c MemberPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	acc, ok := w.Tenancy.Account(c.Account)
	if !ok || !w.Can(at.Principal, access.AccountSee, 0, acc.ID) {
		return world.Outcome{}, fault.NotFound("account", c.Account)
	}
	if !w.Can(at.Principal, access.AccountRun, 0, acc.ID) {
		return world.Outcome{}, fault.New(codes.Denied, "you aren't a manager of %s", c.Account)
	}
	user, ok := w.Tenancy.User(c.User)
	if !ok {
		return world.Outcome{}, fault.NotFound("user", c.User)
	}
	role := access.NoRole
	if c.Role != "" {
		if role, ok = access.ParseRole(c.Role); !ok {
			return world.Outcome{}, fault.Invalid("role", "must be viewer, member, manager or owner")
		}
	}
	old, had := w.Tenancy.Member(acc.ID, user.ID)
	if own := ownRole(w, at.Principal, acc.ID); role > own || old.Role > own {
		return world.Outcome{}, fault.New(codes.Denied, "you can't give or take a role above your own (%s)", own)
	}
	if role == access.NoRole && !had {
		return world.Outcome{}, fault.NotFound("member", c.User)
	}
	row := tenancy.Member{Account: acc.ID, User: user.ID, Role: role, FromGroup: c.Group}
	if had && row == old {
		return world.Outcome{Result: row, Event: world.Event{Skip: true}}, nil
	}
	return world.Outcome{Changes: []world.Change{tenancy.MemberSet{Row: row}}, Result: row, Event: world.Event{Account: acc.ID, Message: c.User + " " + c.Role}}, nil
}

func ownRole(w *world.World, p access.Principal, a id.Account) access.Role {
	if w.Can(p, access.AccountMake, 0, 0) {
		return access.Owner
	}
	return w.Tenancy.Role(id.User(p.User), a, p.Now)
}

// UserPut creates a user (Create) or changes one; nil fields stay.
type UserPut struct {
	Create  bool
	Name    string
	Role    *string
	Blocked *bool
	UID     *int64  // binds the name to a Unix uid
	Warning *string // set by the server when a uid was reused
}

// Kind is user.create or user.set.
func (c UserPut) Kind() string {
	if c.Create {
		return "user.create"
	}
	return "user.set"
}

// Decide creates or changes the user.
func (c UserPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.UserRun, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only an admin may create or change users")
	}
	row, exists := w.Tenancy.User(c.Name)
	switch {
	case c.Create && exists:
		return world.Outcome{}, fault.New(codes.Exists, "user %s exists already", c.Name)
	case !c.Create && !exists:
		return world.Outcome{}, fault.NotFound("user", c.Name)
	case c.Create:
		if err := tenancy.CheckName(c.Name); err != nil {
			return world.Outcome{}, fault.Invalid("name", "%v", err)
		}
		row = tenancy.User{ID: w.Tenancy.NextUser(), Name: c.Name, Platform: access.PlatformUser, UID: -1, Created: at.Now}
	}
	if err := c.apply(w, at, &row); err != nil {
		return world.Outcome{}, err
	}
	return world.Outcome{Changes: []world.Change{tenancy.UserSet{Row: row}}, Result: row, Event: world.Event{Message: "user " + row.Name}}, nil
}

func (c UserPut) apply(w *world.World, at world.Context, row *tenancy.User) error {
	if c.Role != nil {
		role, ok := access.ParsePlatform(*c.Role)
		if !ok {
			return fault.Invalid("role", "must be user, operator, admin or auditor")
		}
		if row.Platform == access.Admin && role != access.Admin && int64(row.ID) == at.Principal.User {
			return fault.New(codes.Conflict, "you can't take the admin role from yourself: let another admin do it")
		}
		row.Platform = role
	}
	if c.Blocked != nil {
		if *c.Blocked && int64(row.ID) == at.Principal.User {
			return fault.New(codes.Conflict, "you can't block yourself")
		}
		row.Blocked = *c.Blocked
	}
	if c.Warning != nil {
		row.Warning = *c.Warning
	}
	if c.UID != nil {
		if other, ok := w.Tenancy.UserOfUID(*c.UID); ok && other.ID != row.ID {
			return fault.New(codes.Conflict, "uid %d is bound to user %s", *c.UID, other.Name)
		}
		row.UID, row.UIDSince, row.Warning = *c.UID, at.Now, ""
	}
	return nil
}

// TokenPut makes a personal token; the secret itself never comes here.
type TokenPut struct {
	User    string
	Name    string
	Hash    string
	Expires int64
}

// Kind is token.create.
func (TokenPut) Kind() string { return "token.create" }

// Decide makes the token.
func (c TokenPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, ok := w.Tenancy.User(c.User)
	if !ok || !w.Can(at.Principal, access.TokenRun, user.ID, 0) {
		return world.Outcome{}, fault.NotFound("user", c.User)
	}
	if c.Expires != 0 && c.Expires <= at.Now {
		return world.Outcome{}, fault.Invalid("expires", "is in the past")
	}
	row := tenancy.Token{ID: w.Tenancy.NextToken(), User: user.ID, Name: c.Name, Hash: c.Hash, Created: at.Now, Expires: c.Expires}
	return world.Outcome{Changes: []world.Change{tenancy.TokenSet{Row: row}}, Result: row, Event: world.Event{Message: "token " + c.Name + " of " + c.User}}, nil
}

// TokenRevoke ends a token.
type TokenRevoke struct {
	User  string
	Token id.Token
}

// Kind is token.revoke.
func (TokenRevoke) Kind() string { return "token.revoke" }

// Decide revokes the token.
func (c TokenRevoke) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, ok := w.Tenancy.User(c.User)
	row, found := w.Tenancy.Tokens.Get(c.Token)
	if !ok || !found || row.User != user.ID || !w.Can(at.Principal, access.TokenRun, user.ID, 0) {
		return world.Outcome{}, fault.New(codes.NotFound, "no such token")
	}
	row.Revoked = true
	return world.Outcome{Changes: []world.Change{tenancy.TokenSet{Row: row}}, Result: row, Event: world.Event{Message: "token " + row.Name + " of " + c.User}}, nil
}
