package v1

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
)

// Me says who the caller is.
func (c *Client) Me(ctx context.Context) (*Me, error) { return fetch[Me](ctx, c, "/v1/me") }

// Status returns the server's state in brief.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return fetch[Status](ctx, c, "/v1/status")
}

// Accounts goes through the accounts that the caller may see.
func (c *Client) Accounts(ctx context.Context) iter.Seq2[Account, error] {
	return pages[Account](ctx, c, "/v1/accounts", url.Values{})
}

// Account returns an account with its members, balance, use and grants.
func (c *Client) Account(ctx context.Context, name string) (*Account, error) {
	return get[Account](ctx, c, "account", name, "/v1/accounts/%s", nil)
}

// AddAccount makes an account.
func (c *Client) AddAccount(ctx context.Context, a Account, opts ...Option) (*Account, error) {
	return post[Account](ctx, c, "/v1/accounts", a, opts...)
}

// SetAccount changes an account.
func (c *Client) SetAccount(ctx context.Context, name string, p AccountPatch) (*Account, error) {
	return patch[Account](ctx, c, "account", name, "/v1/accounts/%s", p)
}

// memberPath is the path of a user's membership in an account.
func memberPath(account, user string) (string, error) {
	a, err := segment("account", account)
	if err != nil {
		return "", err
	}
	u, err := segment("user", user)
	if err != nil {
		return "", err
	}
	return "/v1/accounts/" + a + "/members/" + u, nil
}

// MoveAccount puts an account, with all below it, under another one.
func (c *Client) MoveAccount(ctx context.Context, name string, req MoveRequest) (*Moved, error) {
	return postTo[Moved](ctx, c, "account", name, "/v1/accounts/%s/move", req)
}

// RemoveAccount removes an account that nothing needs any more; expire says that what
// is left of its grants goes with it.
func (c *Client) RemoveAccount(ctx context.Context, name string, expire bool) error {
	q := url.Values{}
	if expire {
		q.Set("expire", "true")
	}
	return named(ctx, c, http.MethodDelete, "account", name, "/v1/accounts/%s", q, nil, nil)
}

// SetMember makes a user a member of an account, or changes the membership.
func (c *Client) SetMember(ctx context.Context, account, user string, req MemberRequest) (*Member, error) {
	path, err := memberPath(account, user)
	if err != nil {
		return nil, err
	}
	out := new(Member)
	if err := c.call(ctx, http.MethodPut, path, nil, req, out); err != nil {
		return nil, err
	}
	return out, nil
}

// ImportMembers makes the members of an account those of a table.
func (c *Client) ImportMembers(ctx context.Context, account string, req ImportRequest, opts ...Option) (*Import, error) {
	return postTo[Import](ctx, c, "account", account, "/v1/accounts/%s/import", req, opts...)
}

// RemoveMember ends a user's membership in an account.
func (c *Client) RemoveMember(ctx context.Context, account, user string) error {
	path, err := memberPath(account, user)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil, nil)
}

// Statement says where the money of an account and of those below it went. The period is
// a month ("2026-11"), a day or from one to another ("2026-11-01..2026-11-15"); "" is the
// current month. With by (member, token, job, step, device or day) it has lines that go so deep.
func (c *Client) Statement(ctx context.Context, account, period, by string) (*Statement, error) {
	return get[Statement](ctx, c, "account", account, "/v1/statements/accounts/%s", values("period", period, "by", by))
}

// MachineStatement says where the device time of a node or a partition went, or of
// everything (""), in a period as Statement has it.
func (c *Client) MachineStatement(ctx context.Context, of, period string) (*MachineStatement, error) {
	out := new(MachineStatement)
	if err := c.call(ctx, http.MethodGet, "/v1/statements/machine", values("of", of, "period", period), nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// FairShare is the tree of shares as far as the caller may see it; of is an account or
// a user, with what is above and below, or "" for everything.
func (c *Client) FairShare(ctx context.Context, of string) (*FairShare, error) {
	out := new(FairShare)
	if err := c.call(ctx, http.MethodGet, "/v1/fairshare", values("of", of), nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Users goes through the users that the caller may see.
func (c *Client) Users(ctx context.Context) iter.Seq2[User, error] {
	return pages[User](ctx, c, "/v1/users", url.Values{})
}

// User returns a user.
func (c *Client) User(ctx context.Context, name string) (*User, error) {
	return get[User](ctx, c, "user", name, "/v1/users/%s", nil)
}

// AddUser makes a user.
func (c *Client) AddUser(ctx context.Context, u User, opts ...Option) (*User, error) {
	return post[User](ctx, c, "/v1/users", u, opts...)
}

// SetUser changes a user.
func (c *Client) SetUser(ctx context.Context, name string, p UserPatch) (*User, error) {
	return patch[User](ctx, c, "user", name, "/v1/users/%s", p)
}

// RetireUser lets a user go for good; the name becomes free.
func (c *Client) RetireUser(ctx context.Context, name string, req RetireRequest) (*Retired, error) {
	return postTo[Retired](ctx, c, "user", name, "/v1/users/%s/retire", req)
}

// AddToken makes a personal token. Its secret is in this answer only.
func (c *Client) AddToken(ctx context.Context, user string, req TokenRequest, opts ...Option) (*Token, error) {
	return postTo[Token](ctx, c, "user", user, "/v1/users/%s/tokens", req, opts...)
}

// Tokens goes through a user's tokens, without their secrets.
func (c *Client) Tokens(ctx context.Context, user string) iter.Seq2[Token, error] {
	seg, err := segment("user", user)
	if err != nil {
		return func(yield func(Token, error) bool) { yield(Token{}, err) }
	}
	return pages[Token](ctx, c, "/v1/users/"+seg+"/tokens", url.Values{})
}

// RevokeToken ends a token at once.
func (c *Client) RevokeToken(ctx context.Context, user, id string) error {
	u, err := segment("user", user)
	if err != nil {
		return err
	}
	t, err := segment("token", id)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, fmt.Sprintf("/v1/users/%s/tokens/%s", u, t), nil, nil, nil)
}

// Login opens a session by a password. Its secret is in this answer only; a Client
// with it as its Token acts as the user.
func (c *Client) Login(ctx context.Context, req LoginRequest) (*Session, error) {
	return post[Session](ctx, c, "/v1/login", req)
}

// Logout ends the session that the client's token is the secret of.
func (c *Client) Logout(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/logout", nil, nil, nil)
}

// Sessions goes through a user's open sessions.
func (c *Client) Sessions(ctx context.Context, user string) iter.Seq2[Session, error] {
	seg, err := segment("user", user)
	if err != nil {
		return func(yield func(Session, error) bool) { yield(Session{}, err) }
	}
	return pages[Session](ctx, c, "/v1/users/"+seg+"/sessions", url.Values{})
}

// RevokeSession ends a session at once.
func (c *Client) RevokeSession(ctx context.Context, user, id string) error {
	u, err := segment("user", user)
	if err != nil {
		return err
	}
	s, err := segment("session", id)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, fmt.Sprintf("/v1/users/%s/sessions/%s", u, s), nil, nil, nil)
}

// RevokeSessions ends all of a user's sessions but the client's own.
func (c *Client) RevokeSessions(ctx context.Context, user string) error {
	return named(ctx, c, http.MethodDelete, "user", user, "/v1/users/%s/sessions", nil, nil, nil)
}

// SetPassword sets or removes a user's password and ends the user's other sessions.
func (c *Client) SetPassword(ctx context.Context, user string, p PasswordChange) (*PasswordChanged, error) {
	out := new(PasswordChanged)
	if err := named(ctx, c, http.MethodPut, "user", user, "/v1/users/%s/password", nil, p, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Grants goes through the grants of an account; "" is every account that the
// caller may see.
func (c *Client) Grants(ctx context.Context, account string) iter.Seq2[Grant, error] {
	return pages[Grant](ctx, c, "/v1/grants", values("account", account))
}

// AddGrant gives credits to an account.
func (c *Client) AddGrant(ctx context.Context, g Grant, opts ...Option) (*Grant, error) {
	return post[Grant](ctx, c, "/v1/grants", g, opts...)
}

// Prices goes through the versions of the price book.
func (c *Client) Prices(ctx context.Context) iter.Seq2[PriceVersion, error] {
	return pages[PriceVersion](ctx, c, "/v1/prices", url.Values{})
}

// SetPrice publishes a version of the price book.
func (c *Client) SetPrice(ctx context.Context, p PriceVersion, opts ...Option) (*PriceVersion, error) {
	return post[PriceVersion](ctx, c, "/v1/prices", p, opts...)
}

// LimitQuery says whose limits are asked for: those that bind jobs of the account, of
// the user, in the partition, with the QoS. Nothing named is every limit.
type LimitQuery struct{ Account, User, Partition, QoS string }

// Limits goes through all limits, or through those that bind somebody, including the
// ancestors' and what comes from defaults, partitions and QoS.
func (c *Client) Limits(ctx context.Context, q LimitQuery) iter.Seq2[LimitUse, error] {
	return pages[LimitUse](ctx, c, "/v1/limits", values("account", q.Account, "user", q.User, "partition", q.Partition, "qos", q.QoS))
}

// SetLimit sets a limit; it replaces one of the same scope and resource.
func (c *Client) SetLimit(ctx context.Context, l Limit, opts ...Option) (*LimitUse, error) {
	return post[LimitUse](ctx, c, "/v1/limits", l, opts...)
}

// RemoveLimit removes a limit.
func (c *Client) RemoveLimit(ctx context.Context, id string) error {
	return named(ctx, c, http.MethodDelete, "limit", id, "/v1/limits/%s", nil, nil, nil)
}

// Shares goes through the shares that you may see, or those above, of and below an account, in one
// partition or in all.
func (c *Client) Shares(ctx context.Context, account, partition string) iter.Seq2[ShareUse, error] {
	return pages[ShareUse](ctx, c, "/v1/shares", values("account", account, "partition", partition))
}

// SetShare sets an account's share; it replaces the one of the same resource and partition.
func (c *Client) SetShare(ctx context.Context, s Share, opts ...Option) (*ShareUse, error) {
	return post[ShareUse](ctx, c, "/v1/shares", s, opts...)
}

// RemoveShare removes a share.
func (c *Client) RemoveShare(ctx context.Context, id string) error {
	return named(ctx, c, http.MethodDelete, "share", id, "/v1/shares/%s", nil, nil, nil)
}

// VerifyLedger checks the ledger against everything else.
func (c *Client) VerifyLedger(ctx context.Context) (*Verification, error) {
	return fetch[Verification](ctx, c, "/v1/ledger/verify")
}

// TransferQuery selects postings.
type TransferQuery struct {
	Ledger string // a ledger account, for example "deposit:118:3"
	Job    string
	Limit  int // postings per page
}

// Transfers goes through postings.
func (c *Client) Transfers(ctx context.Context, q TransferQuery) iter.Seq2[Transfer, error] {
	return pages[Transfer](ctx, c, "/v1/ledger/transfers", values("ledger", q.Ledger, "job", q.Job, "limit", count(q.Limit)))
}

// Nodes goes through the nodes with their devices.
func (c *Client) Nodes(ctx context.Context) iter.Seq2[Node, error] {
	return pages[Node](ctx, c, "/v1/nodes", url.Values{})
}

// Drain takes a node out of use: what runs there goes on, nothing new starts.
func (c *Client) Drain(ctx context.Context, node string, req DrainRequest) (*Node, error) {
	return postTo[Node](ctx, c, "node", node, "/v1/nodes/%s/drain", req)
}

// LabelNode changes the labels that operators gave a node.
func (c *Client) LabelNode(ctx context.Context, node string, req NodeLabels) (*Node, error) {
	return postTo[Node](ctx, c, "node", node, "/v1/nodes/%s/labels", req)
}

// Resume puts a drained node to use again.
func (c *Client) Resume(ctx context.Context, node string) (*Node, error) {
	return postTo[Node](ctx, c, "node", node, "/v1/nodes/%s/resume", nil)
}

// Maintenances goes through the maintenance windows.
func (c *Client) Maintenances(ctx context.Context) iter.Seq2[Maintenance, error] {
	return pages[Maintenance](ctx, c, "/v1/maintenance", url.Values{})
}

// AddMaintenance plans a maintenance window.
func (c *Client) AddMaintenance(ctx context.Context, m Maintenance, opts ...Option) (*Maintenance, error) {
	return post[Maintenance](ctx, c, "/v1/maintenance", m, opts...)
}

// RemoveMaintenance removes a maintenance window.
func (c *Client) RemoveMaintenance(ctx context.Context, id string) error {
	return named(ctx, c, http.MethodDelete, "maintenance", id, "/v1/maintenance/%s", nil, nil, nil)
}
