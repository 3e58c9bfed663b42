package httpapi

import (
	"strconv"
	"strings"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/tenancy"
)

func (c *call) me() (v1.Me, error) { return c.Reader.Me(c.p), nil }

func (c *call) accounts() (v1.Page[v1.Account], error) { return page(c.Reader.Accounts(c.p), nil) }

func (c *call) account() (v1.Account, error) { return c.Reader.Account(c.p, c.path("name")) }

func (c *call) createAccount(in v1.Account) (v1.Account, error) {
	if in.Retired != nil || in.Members != nil || in.Balance != nil || in.Usage != nil || in.Grants != nil {
		return v1.Account{}, fault.Invalid("members", "members, balance, usage, grants and retired aren't set here")
	}
	cmd := command.AccountPut{Create: true, Name: in.Name, Parent: in.Parent, Closed: &in.Closed}
	if in.Billing != "" {
		cmd.Billing = &in.Billing
	}
	if in.OutOfCredit != "" {
		cmd.OutOfCredit = &in.OutOfCredit
	}
	if in.Group != "" {
		cmd.Group = &in.Group
	}
	if in.Weight != 0 {
		cmd.Weight = &in.Weight
	}
	var err error
	if cmd.Ends, err = given("ends", in.Ends); err != nil {
		return v1.Account{}, err
	}
	if in.Overdraft != "" {
		if cmd.Overdraft, err = overdraft(&in.Overdraft); err != nil {
			return v1.Account{}, err
		}
	}
	if _, err := c.do(cmd); err != nil {
		return v1.Account{}, err
	}
	return c.Reader.Account(c.p, in.Name)
}

// overdraft reads how far an account may go beyond its grants; nil: isn't said.
func overdraft(text *string) (*money.Micros, error) {
	if text == nil {
		return nil, nil
	}
	n, err := money.Parse(*text)
	if err != nil {
		return nil, fault.Invalid("overdraft", "%v", err)
	}
	return &n, nil
}

func (c *call) setAccount(in v1.AccountPatch) (v1.Account, error) {
	ends, err := changedEnd(in.Ends)
	if err != nil {
		return v1.Account{}, err
	}
	over, err := overdraft(in.Overdraft)
	if err != nil {
		return v1.Account{}, err
	}
	if _, err := c.do(command.AccountPut{Name: c.path("name"), Billing: in.Billing, OutOfCredit: in.OutOfCredit, Overdraft: over, Group: in.Group, Closed: in.Closed, Ends: ends, Weight: in.Weight}); err != nil {
		return v1.Account{}, err
	}
	return c.Reader.Account(c.p, c.path("name"))
}

// changedEnd reads the end in a patch: a point in time, or never.
func changedEnd(s *string) (*int64, error) {
	if s == nil {
		return nil, nil
	}
	if *s == "never" {
		return new(int64), nil
	}
	t, err := time.Parse(time.RFC3339Nano, *s)
	if err != nil {
		return nil, fault.Invalid("ends", "must be a time such as 2027-03-31T22:00:00Z, or never")
	}
	return given("ends", &t)
}

// given is a point in time that may be left out.
func given(field string, t *time.Time) (*int64, error) {
	if t == nil {
		return nil, nil
	}
	n, err := moment(field, t)
	return &n, err
}

func (c *call) moveAccount(in v1.MoveRequest) (v1.Moved, error) {
	got, err := c.do(command.AccountMove{Name: c.path("name"), Under: in.Under, Dry: in.DryRun})
	if err != nil {
		return v1.Moved{}, err
	}
	moved, _ := got.Result.(command.Moved) // nothing is left to say when it was repeated
	acc, err := c.Reader.Account(c.p, c.path("name"))
	return v1.Moved{Account: acc, Jobs: moved.Jobs}, err
}

func (c *call) removeAccount() error {
	expire, err := truth(c.r.URL.Query().Get("expire"), "expire")
	if err != nil {
		return err
	}
	_, err = c.do(command.AccountRemove{Name: c.path("name"), Expire: expire})
	return err
}

func (c *call) setMember(in v1.MemberRequest) (v1.Member, error) {
	account, user := c.path("name"), c.path("user")
	ends, err := moment("ends", in.Ends)
	if err != nil {
		return v1.Member{}, err
	}
	if in.Role == "" && in.Weight == nil {
		return v1.Member{}, fault.Invalid("role", "must be viewer, member, manager or owner")
	}
	if _, err := c.do(command.MemberPut{Account: account, User: user, Role: in.Role, Ends: ends, Weight: in.Weight}); err != nil {
		return v1.Member{}, err
	}
	return c.Reader.Member(c.p, account, user)
}

func (c *call) removeMember() error {
	_, err := c.do(command.MemberPut{Account: c.path("name"), User: c.path("user")})
	return err
}

func (c *call) statement() (v1.Statement, error) {
	q := c.r.URL.Query()
	return c.Reader.Statement(c.r.Context(), c.p, query.StatementQuery{Account: c.path("name"), Period: q.Get("period"), By: q.Get("by")})
}

func (c *call) machineStatement() (v1.MachineStatement, error) {
	q := c.r.URL.Query()
	return c.Reader.MachineStatement(c.r.Context(), c.p, q.Get("of"), q.Get("period"))
}

func (c *call) users() (v1.Page[v1.User], error) { return page(c.Reader.Users(c.p), nil) }

func (c *call) user() (v1.User, error) { return c.Reader.User(c.p, c.path("name")) }

func (c *call) createUser(in v1.User) (v1.User, error) {
	if in.Accounts != nil || in.Warning != "" || in.Retired != nil {
		return v1.User{}, fault.Invalid("accounts", "accounts, warning and retired aren't set here")
	}
	cmd := command.UserPut{Create: true, Name: in.Name, UID: in.UID}
	if in.Role != "" {
		cmd.Role = &in.Role
	}
	if in.Blocked {
		cmd.Blocked = &in.Blocked
	}
	var err error
	if cmd.Ends, err = given("ends", in.Ends); err != nil {
		return v1.User{}, err
	}
	if cmd.UID == nil && tenancy.CheckName(in.Name) == nil {
		who, known, err := c.person(in.Name)
		if err != nil {
			return v1.User{}, err
		}
		if known {
			cmd.UID = &who.UID
		}
	}
	if cmd.UID != nil && (*cmd.UID < 0 || *cmd.UID >= 1<<32-1) {
		return v1.User{}, fault.Invalid("uid", "isn't a Unix uid")
	}
	if _, err := c.do(cmd); err != nil {
		return v1.User{}, err
	}
	return c.Reader.User(c.p, in.Name)
}

func (c *call) person(name string) (Person, bool, error) {
	who, known, err := c.People.Lookup(c.r.Context(), name)
	if err != nil {
		c.Logger.Warn("users of the machine can't be looked up", "user", name, "error", err)
		return who, false, fault.New(codes.Unavailable, "the machine's users can't be looked up right now; try again")
	}
	return who, known, nil
}

func (c *call) setUser(in v1.UserPatch) (v1.User, error) {
	name := c.path("name")
	cmd := command.UserPut{Name: name, Role: in.Role, Blocked: in.Blocked}
	var err error
	if cmd.Ends, err = changedEnd(in.Ends); err != nil {
		return v1.User{}, err
	}
	if in.Rebind && tenancy.CheckName(name) == nil {
		who, known, err := c.person(name)
		if err != nil {
			return v1.User{}, err
		}
		if !known {
			return v1.User{}, fault.New(codes.Conflict, "this machine has no user %s to bind to", name)
		}
		cmd.UID = &who.UID
	}
	if _, err := c.do(cmd); err != nil {
		return v1.User{}, err
	}
	return c.Reader.User(c.p, name)
}

func (c *call) retireUser(in v1.RetireRequest) (v1.Retired, error) {
	name := c.path("name")
	got, err := c.do(command.UserRetire{Name: name, Stop: in.Stop})
	if err != nil {
		return v1.Retired{}, err
	}
	r, _ := got.Result.(command.Retired) // nothing is left to say when it was repeated
	return v1.Retired{User: name, Jobs: r.Jobs, Tokens: r.Tokens, Members: r.Members}, nil
}

func (c *call) tokens() (v1.Page[v1.Token], error) { return page(c.Reader.Tokens(c.p, c.path("name"))) }

func (c *call) createToken(in v1.TokenRequest) (v1.Token, error) {
	if in.Name == "" || oneLine("name", in.Name) != nil {
		return v1.Token{}, fault.Invalid("name", "say what the token is for, at most 64 bytes on one line")
	}
	scopes, err := scopesOf(in.Scopes)
	if err != nil {
		return v1.Token{}, err
	}
	expires, err := moment("expires", in.Expires)
	if err != nil {
		return v1.Token{}, err
	}
	caps, err := capsOf(in)
	if err != nil {
		return v1.Token{}, err
	}
	secret, err := newToken(c.Random)
	if err != nil {
		return v1.Token{}, err
	}
	got, err := c.do(command.TokenPut{User: c.path("name"), Name: in.Name, Hash: hashToken(secret), Expires: expires, Scopes: scopes, Account: in.Account, Caps: caps})
	if err != nil {
		return v1.Token{}, err
	}
	if got.Replayed != nil {
		return v1.Token{}, fault.New(codes.Exists, "this token was made before; its secret was in that answer only")
	}
	row, ok := got.Result.(tenancy.Token)
	if !ok {
		return v1.Token{}, unexpected(got)
	}
	out := c.Reader.Token(c.p, row)
	out.Secret = secret
	return out, nil
}

func (c *call) revokeToken() error {
	n, err := rowID("token", c.path("id"))
	if err != nil {
		return err
	}
	_, err = c.do(command.TokenRevoke{User: c.path("name"), Token: tokenID(n)})
	return err
}

func tokenID(n int64) id.Token { return id.Token(n) }

// scopesOf reads what a token is narrowed to; none is everything.
func scopesOf(words []string) (access.Scope, error) {
	var out access.Scope
	for _, w := range words {
		s, ok := access.ParseScope(w)
		if !ok {
			return 0, fault.Invalid("scopes", "must be of %s", strings.Join(access.ScopeNames(), ", "))
		}
		out |= s
	}
	return out, nil
}

// rowID reads the id of a row in a path.
func rowID(kind, s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return 0, fault.New(codes.NotFound, "no such %s", kind)
	}
	return n, nil
}

// moment is a point in time as the domain has it; none is 0.
func moment(field string, t *time.Time) (int64, error) {
	if t == nil {
		return 0, nil
	}
	if t.Year() < 1970 || t.Year() >= 2200 {
		return 0, fault.Invalid(field, "must lie between the years 1970 and 2200")
	}
	return max(t.UnixNano(), 1), nil
}
