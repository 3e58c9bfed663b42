package command

import (
	"cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
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
	Ends    *int64 `json:",omitempty"` // ns; 0: never
	Weight  *int64 `json:",omitempty"` // of its share

	OutOfCredit *string       `json:",omitempty"` // stop, drain or overdraft
	Overdraft   *money.Micros `json:",omitempty"` // how far jobs may go beyond the grants
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
			if row.OutOfCredit = parent.OutOfCredit; row.OutOfCredit == tenancy.Overdraft {
				row.OutOfCredit = tenancy.Stop // nor gets another overdraft with each
			}
		}
	case !exists || !w.Can(at.Principal, access.AccountSee, 0, row.ID):
		return world.Outcome{}, fault.NotFound("account", c.Name)
	case !w.Can(at.Principal, access.AccountRun, 0, row.ID):
		return world.Outcome{}, fault.New(codes.Denied, "you aren't a manager of %s", c.Name)
	}
	if err := c.apply(w, at, &row); err != nil {
		return world.Outcome{}, err
	}
	return world.Outcome{Changes: placed(w, row), Result: row, Event: world.Event{Account: row.ID, Message: "account " + row.Name}}, nil
}

// placed puts an account whose end or place may be another, with what follows for
// its grants and those of the accounts below: money ends with whom it was given to.
func placed(w *world.World, row tenancy.Account) []world.Change {
	changes := []world.Change{tenancy.AccountSet{Row: row}}
	after := w.Tenancy.Copy()
	after.Fold(tenancy.AccountSet{Row: row})
	for _, g := range w.Ledger.Grants.All() {
		if g.Expired || !after.Within(g.Account, row.ID) {
			continue
		}
		if end := tenancy.Sooner(g.OwnEnd, after.AccountEnd(g.Account)); end != g.End {
			g.End = end
			changes = append(changes, ledger.GrantSet{Row: g})
		}
	}
	return changes
}

func parentOf(w *world.World, c AccountPut, at world.Context) (tenancy.Account, error) {
	if c.Parent == "" {
		return tenancy.Account{}, nil
	}
	p, ok := w.Tenancy.Account(c.Parent)
	if !ok || !w.Can(at.Principal, access.AccountSee, 0, p.ID) {
		return p, fault.Invalid("parent", "no such account: %s", c.Parent)
	}
	if at.Now >= w.Tenancy.AccountEnd(p.ID) && w.Tenancy.AccountEnd(p.ID) != 0 {
		return p, fault.Invalid("parent", "account %s is over", c.Parent)
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
	if err := c.outOfCredit(w, at, row); err != nil {
		return err
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
	if c.Weight != nil {
		if err := tenancy.CheckWeight(*c.Weight); err != nil {
			return fault.Invalid("weight", "%v", err)
		}
		// What one account gets its siblings lose: that is for those to say who are above them.
		if *c.Weight != max(row.Weight, 1) && !mayCreateUnder(w, at.Principal, row.Parent) {
			return fault.New(codes.Denied, "only an admin, or a manager of the account above it, may change an account's weight")
		}
		row.Weight = *c.Weight
	}
	if c.Closed != nil {
		if row.Closed && !*c.Closed && !w.Can(at.Principal, access.AccountMake, 0, 0) {
			return fault.New(codes.Denied, "only an admin may open a closed account again")
		}
		row.Closed = *c.Closed
	}
	return c.end(w, at, row)
}

// outOfCredit sets what becomes of jobs once the grants are used up. It is for those to say
// who give money: an overdraft is money that is given before there is any.
func (c AccountPut) outOfCredit(w *world.World, at world.Context, row *tenancy.Account) error {
	was := *row
	if c.OutOfCredit != nil {
		way, ok := tenancy.ParseOutOfCredit(*c.OutOfCredit)
		if !ok {
			return fault.Invalid("out_of_credit", "must be stop, drain or overdraft")
		}
		row.OutOfCredit = way
	}
	if c.Overdraft != nil {
		row.Overdraft = *c.Overdraft
	}
	same := cmp.Or(row.OutOfCredit, tenancy.Stop) == cmp.Or(was.OutOfCredit, tenancy.Stop)
	if same && row.Overdraft == was.Overdraft {
		return nil
	}
	if !w.Can(at.Principal, access.MoneyGive, 0, 0) {
		return fault.New(codes.Denied, "only an admin may change what becomes of what runs in an account without credits")
	}
	used := w.Ledger.Overdrawn(row.ID)
	switch {
	case row.OutOfCredit != tenancy.Overdraft && c.Overdraft != nil:
		return fault.Invalid("overdraft", "is for an account that has one: set out_of_credit to overdraft too")
	case row.OutOfCredit != tenancy.Overdraft:
	case row.Overdraft <= 0 || row.Overdraft > maxGrant:
		return fault.Invalid("overdraft", "says how far jobs may go beyond the grants: more than 0 and at most %s credits; out_of_credit stop ends it", maxGrant)
	case row.Overdraft < used:
		return fault.Invalid("overdraft", "%s of it are used already: give credits, which repay it (croft grant add %s AMOUNT --source NAME), or let nothing more be used (out_of_credit stop)", used, row.Name)
	}
	return nil
}

// end sets the account's end. Who isn't an admin may only bring it nearer.
func (c AccountPut) end(w *world.World, at world.Context, row *tenancy.Account) error {
	if c.Ends == nil || *c.Ends == row.Ends {
		return nil
	}
	if err := future("ends", *c.Ends, at.Now); err != nil {
		return err
	}
	if row.Ends != 0 && tenancy.Sooner(row.Ends, *c.Ends) == row.Ends && !w.Can(at.Principal, access.AccountMake, 0, 0) {
		return fault.New(codes.Denied, "only an admin may put an account's end off")
	}
	row.Ends = *c.Ends
	return nil
}

// future refuses an end (0: never) that has passed.
func future(field string, end, now int64) error {
	if end != 0 && end <= now {
		return fault.Invalid(field, "is in the past")
	}
	return nil
}

// MemberPut gives a user a role in an account; an empty role removes it, or with a
// weight leaves it as it is.
type MemberPut struct {
	Account string
	User    string
	Role    string
	Group   bool   // by the followed Unix group
	Ends    int64  `json:",omitempty"` // ns; 0: with the account
	Weight  *int64 `json:",omitempty"` // of the user's share; nil: as it is
}

// Kind is member.set.
func (MemberPut) Kind() string { return "member.set" }

// Decide sets the role and the weight. Nobody gives a role above his own.
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
	if c.Role == "" && c.Weight != nil {
		role, c.Group, c.Ends = cmp.Or(old.Role, access.Member), old.FromGroup, cmp.Or(c.Ends, old.Ends)
	}
	if own := w.OwnRole(at.Principal, acc.ID); role > own || old.Role > own {
		return world.Outcome{}, fault.New(codes.Denied, "you can't give or take a role above your own (%s)", own)
	}
	if role == access.NoRole && !had {
		return world.Outcome{}, fault.NotFound("member", c.User)
	}
	if err := future("ends", c.Ends, at.Now); err != nil && c.Ends != old.Ends {
		return world.Outcome{}, err
	}
	row := tenancy.Member{Account: acc.ID, User: user.ID, Role: role, FromGroup: c.Group, Ends: c.Ends, Weight: old.Weight}
	if c.Weight != nil {
		if err := tenancy.CheckWeight(*c.Weight); err != nil {
			return world.Outcome{}, fault.Invalid("weight", "%v", err)
		}
		row.Weight = *c.Weight
	}
	if had && row == old {
		return world.Outcome{Result: row, Event: world.Event{Skip: true}}, nil
	}
	return world.Outcome{Changes: []world.Change{tenancy.MemberSet{Row: row}}, Result: row, Event: world.Event{Account: acc.ID, Message: c.User + " " + c.Role}}, nil
}

// UserPut creates a user (Create) or changes one; nil fields stay.
type UserPut struct {
	Create  bool
	Name    string
	Role    *string
	Blocked *bool
	UID     *int64  // binds the name to a Unix uid
	Ends    *int64  `json:",omitempty"` // ns; 0: never
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
	if c.Ends != nil {
		if *c.Ends != 0 && int64(row.ID) == at.Principal.User {
			return fault.New(codes.Conflict, "you can't set an end to yourself: let another admin do it")
		}
		if err := future("ends", *c.Ends, at.Now); err != nil {
			return err
		}
		row.Ends = *c.Ends
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
	Scopes  access.Scope // 0: all
	Account string       // only it and those below; empty: every one
	Caps    tenancy.Caps `json:",omitzero"`
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
	acc, ok := w.Tenancy.Account(c.Account)
	if c.Account != "" && (!ok || !w.Can(at.Principal, access.AccountSee, 0, acc.ID)) {
		return world.Outcome{}, fault.Invalid("account", "no such account: %s", c.Account)
	}
	if err := c.capped(); err != nil {
		return world.Outcome{}, err
	}
	live := 0
	for _, t := range w.Tenancy.TokensOf(user.ID) {
		if !t.Session() && (t.Expires == 0 || t.Expires > at.Now) {
			live++
		}
	}
	if live >= maxTokens {
		return world.Outcome{}, fault.New(codes.Conflict, "user %s has %d tokens, the most there may be: revoke those that nobody needs (croft user token ls, croft user token revoke)", user.Name, live)
	}
	row := tenancy.Token{
		ID: w.Tenancy.NextToken(), User: user.ID, Name: c.Name, Hash: c.Hash, Created: at.Now, Expires: c.Expires,
		Scopes: c.Scopes, Account: acc.ID, Caps: c.Caps,
	}
	return world.Outcome{Changes: []world.Change{tenancy.TokenSet{Row: row}}, Result: row, Event: world.Event{Message: "token " + c.Name + " of " + c.User}}, nil
}

// capped gives a token with caps the scopes that it may have at most, if it names none.
func (c *TokenPut) capped() error {
	if c.Caps == (tenancy.Caps{}) {
		return nil
	}
	if c.Caps.Spend < 0 || c.Caps.Spend > maxGrant {
		return fault.Invalid("spend", "must be more than 0 and at most %s", money.Micros(maxGrant))
	}
	if c.Caps.Ask < tenancy.AskAll || c.Caps.Ask > maxGrant {
		return fault.Invalid("ask_above", "must be at least 0 and at most %s", money.Micros(maxGrant))
	}
	if c.Scopes == 0 {
		c.Scopes = access.OfCapped
	}
	if more := c.Scopes &^ access.OfCapped; more != 0 {
		return fault.Invalid("scopes", "a token with caps may %s, not %s: its bounds could be changed by that", access.OfCapped, more)
	}
	if c.Scopes&access.ScopeSubmit == 0 {
		return fault.Invalid("scopes", "a token that submits nothing needs no caps: name submit too, or leave the caps out")
	}
	return nil
}

// maxTokens bounds a user's tokens that are good for something.
const maxTokens = 100

// TokenRevoke ends a token, or a session.
type TokenRevoke struct {
	User    string
	Token   id.Token
	Session bool `json:",omitempty"`
}

// Kind is token.revoke.
func (TokenRevoke) Kind() string { return "token.revoke" }

// Decide revokes the token.
func (c TokenRevoke) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, ok := w.Tenancy.User(c.User)
	row, found := w.Tenancy.Tokens.Get(c.Token)
	kind := "token"
	if c.Session {
		kind = "session"
	}
	if !ok || !found || row.User != user.ID || row.Session() != c.Session || !w.Can(at.Principal, access.TokenRun, user.ID, 0) {
		return world.Outcome{}, fault.New(codes.NotFound, "no such %s", kind)
	}
	row.Revoked = true
	return world.Outcome{Changes: []world.Change{tenancy.TokenSet{Row: row}}, Result: row, Event: world.Event{Message: kind + " " + row.Name + " of " + c.User}}, nil
}
