package v1

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
)

// Me says who the caller is.
func (c *Client) Me(ctx context.Context) (*Me, error) { return fetch[Me](ctx, c, "/v1/me") }

// Status returns the server's state in brief.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return fetch[Status](ctx, c, "/v1/status")
}

// all goes through every page of a list.
func all[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return pages("", func(cursor string) (*Page[T], error) {
		q := maps.Clone(query)
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		return list[T](ctx, c, path, q)
	})
}

// Accounts goes through the accounts that the caller may see.
func (c *Client) Accounts(ctx context.Context) iter.Seq2[Account, error] {
	return all[Account](ctx, c, "/v1/accounts", url.Values{})
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

// SetMember makes a user a member of an account, or changes the member's role.
func (c *Client) SetMember(ctx context.Context, account, user, role string) (*Member, error) {
	path, err := memberPath(account, user)
	if err != nil {
		return nil, err
	}
	out := new(Member)
	body := struct {
		Role string `json:"role"`
	}{role}
	if err := c.call(ctx, http.MethodPut, path, nil, body, out); err != nil {
		return nil, err
	}
	return out, nil
}

// RemoveMember ends a user's membership in an account.
func (c *Client) RemoveMember(ctx context.Context, account, user string) error {
	path, err := memberPath(account, user)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil, nil)
}

// Statement says where an account's money went. The period is a month
// ("2026-11"); "" is the current one.
func (c *Client) Statement(ctx context.Context, account, period string) (*Statement, error) {
	return get[Statement](ctx, c, "account", account, "/v1/accounts/%s/statement", values("period", period))
}

// Users goes through the users that the caller may see.
func (c *Client) Users(ctx context.Context) iter.Seq2[User, error] {
	return all[User](ctx, c, "/v1/users", url.Values{})
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
	return all[Token](ctx, c, "/v1/users/"+seg+"/tokens", url.Values{})
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

// Grants goes through the grants of an account; "" is every account that the
// caller may see.
func (c *Client) Grants(ctx context.Context, account string) iter.Seq2[Grant, error] {
	return all[Grant](ctx, c, "/v1/grants", values("account", account))
}

// AddGrant gives credits to an account.
func (c *Client) AddGrant(ctx context.Context, g Grant, opts ...Option) (*Grant, error) {
	return post[Grant](ctx, c, "/v1/grants", g, opts...)
}

// Prices goes through the versions of the price book.
func (c *Client) Prices(ctx context.Context) iter.Seq2[PriceVersion, error] {
	return all[PriceVersion](ctx, c, "/v1/prices", url.Values{})
}

// SetPrice publishes a version of the price book.
func (c *Client) SetPrice(ctx context.Context, p PriceVersion, opts ...Option) (*PriceVersion, error) {
	return post[PriceVersion](ctx, c, "/v1/prices", p, opts...)
}

// Limits goes through all limits, or with an account or a user through those
// that bind them, including the ancestors'.
func (c *Client) Limits(ctx context.Context, account, user string) iter.Seq2[LimitUse, error] {
	return all[LimitUse](ctx, c, "/v1/limits", values("account", account, "user", user))
}

// SetLimit sets a limit; it replaces one of the same scope and resource.
func (c *Client) SetLimit(ctx context.Context, l Limit, opts ...Option) (*Limit, error) {
	return post[Limit](ctx, c, "/v1/limits", l, opts...)
}

// RemoveLimit removes a limit.
func (c *Client) RemoveLimit(ctx context.Context, id string) error {
	return named(ctx, c, http.MethodDelete, "limit", id, "/v1/limits/%s", nil, nil, nil)
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
	return all[Transfer](ctx, c, "/v1/ledger/transfers", values("ledger", q.Ledger, "job", q.Job, "limit", count(q.Limit)))
}

// Nodes goes through the nodes with their devices.
func (c *Client) Nodes(ctx context.Context) iter.Seq2[Node, error] {
	return all[Node](ctx, c, "/v1/nodes", url.Values{})
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
	return all[Maintenance](ctx, c, "/v1/maintenance", url.Values{})
}

// AddMaintenance plans a maintenance window.
func (c *Client) AddMaintenance(ctx context.Context, m Maintenance, opts ...Option) (*Maintenance, error) {
	return post[Maintenance](ctx, c, "/v1/maintenance", m, opts...)
}

// RemoveMaintenance removes a maintenance window.
func (c *Client) RemoveMaintenance(ctx context.Context, id string) error {
	return named(ctx, c, http.MethodDelete, "maintenance", id, "/v1/maintenance/%s", nil, nil, nil)
}
