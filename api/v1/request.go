package v1

import (
	"context"
	"iter"
	"strconv"
	"time"
)

// RequestWish is what a request asks for: one of these.
type RequestWish struct {
	Join     *JoinWish     `json:"join,omitempty"`
	Credits  *CreditsWish  `json:"credits,omitempty"`
	Transfer *TransferWish `json:"transfer,omitempty"`
	Limit    *Limit        `json:"limit,omitempty"`
	Wall     *WallWish     `json:"wall,omitempty"`

	Reservation *NewReservation `json:"reservation,omitempty"`
	Asset       *AssetWish      `json:"asset,omitempty"`
	Job         *JobWish        `json:"job,omitempty" doc:"of a job that a token has submitted which asks; only in answers"`
}

// JobWish is a job that waits for its user's approval.
type JobWish struct {
	Job   string `json:"job"`
	Cost  string `json:"cost" doc:"credits that it may cost: all of its time, its elements, and the runs that it is to have again"`
	Above string `json:"above" doc:"what its token submits without asking"`
}

// WallWish is a longer time limit for a job that runs.
type WallWish struct {
	Job  string   `json:"job"`
	Time Quantity `json:"time" doc:"the limit from its start on, e.g. 36h; more than it has"`
}

// AssetWish is the use of a saved image, or of a folder, for the members of an account.
type AssetWish struct {
	Account string `json:"account" doc:"whose members are to use it; you are one"`
	Image   string `json:"image,omitempty" doc:"a saved image: croft.local/USER/NAME:TAG; who has it decides"`
	Folder  string `json:"folder,omitempty" doc:"or a folder of another account, to be read; an operator decides"`
	Owner   string `json:"owner,omitempty" doc:"the account that has the folder"`
}

// JoinWish is a role in an account.
type JoinWish struct {
	Account string     `json:"account"`
	Role    string     `json:"role,omitempty" doc:"viewer, member (default), manager or owner"`
	Ends    *time.Time `json:"ends,omitempty" doc:"when it ends; by default with the account"`
}

// CreditsWish is a grant for an account.
type CreditsWish struct {
	Account string     `json:"account"`
	Amount  string     `json:"amount" doc:"credits"`
	Source  string     `json:"source,omitempty" doc:"where they come from; by default whoever approves says"`
	End     *time.Time `json:"end,omitempty" doc:"up to when they can be spent"`
	Subtree bool       `json:"subtree,omitempty" doc:"accounts below may spend them"`
}

// TransferWish is credits of one account for another.
type TransferWish struct {
	From   string `json:"from" doc:"the account that gives them; who manages it decides"`
	To     string `json:"to"`
	Amount string `json:"amount" doc:"credits"`
	Grant  string `json:"grant,omitempty" doc:"out of this grant alone; by default the one that ends first pays first"`
}

// NewRequest asks for something that others have to approve.
type NewRequest struct {
	RequestWish
	Message string     `json:"message,omitempty" doc:"why, on one line"`
	Expires *time.Time `json:"expires,omitempty" doc:"up to when it can be decided; by default in two weeks"`
}

// Request is something that needs an approval.
type Request struct {
	ID    string   `json:"id"`
	Kind  string   `json:"kind" doc:"join, credits, transfer, limit, wall, reservation, asset or job"`
	State string   `json:"state" doc:"open, approved, rejected, withdrawn or expired"`
	User  string   `json:"user" doc:"who asks"`
	Token *ByToken `json:"token,omitempty" doc:"the token that it was asked by"`
	Asks  string   `json:"asks" doc:"what for, in words"`
	RequestWish
	Message  string     `json:"message,omitempty"`
	Created  time.Time  `json:"created"`
	Expires  time.Time  `json:"expires"`
	Reminded *time.Time `json:"reminded,omitempty" doc:"when those who decide were last reminded"`
	Decided  *time.Time `json:"decided,omitempty"`
	By       string     `json:"by,omitempty" doc:"who decided"`
	Words    string     `json:"words,omitempty" doc:"what was said with the decision"`
	Failed   string     `json:"failed,omitempty" doc:"why approving it failed last; it stayed open"`
	Mine     bool       `json:"mine,omitempty" doc:"you may decide it"`

	Changes  []RequestChange `json:"changes,omitempty" doc:"of one request: what approving it would change now, as far as you may know"`
	Deciders []string        `json:"deciders,omitempty" doc:"of one request: who may decide it now, if you may know"`
	Decides  string          `json:"decides,omitempty" doc:"of one request: who may decide it, in words"`
}

// RequestChange is what approving a request would change.
type RequestChange struct {
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// RequestDecision is what is said with an approval or a rejection.
type RequestDecision struct {
	Words string `json:"words,omitempty" doc:"to whoever asked, on one line"`
}

// RequestApproval is what is said with an approval.
type RequestApproval struct {
	RequestDecision
	Source string `json:"source,omitempty" doc:"of credits: where they come from, in place of what the request says"`
}

// RequestQuery selects requests.
type RequestQuery struct {
	Whose   string // me (default): one's own and those that one may decide; mine, inbox: either; all that one may see
	State   string // open by default; all is every state
	Kind    string
	Account string // the account concerned
	Limit   int    // items per page; 0: the default
}

// Requests lists requests, the newest first.
func (c *Client) Requests(ctx context.Context, q RequestQuery) iter.Seq2[Request, error] {
	v := values("whose", q.Whose, "state", q.State, "kind", q.Kind, "account", q.Account)
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return pages[Request](ctx, c, "/v1/requests", v)
}

// Request is one request, with what it would change and who may decide it.
func (c *Client) Request(ctx context.Context, id string) (*Request, error) {
	return get[Request](ctx, c, "request", id, "/v1/requests/%s", nil)
}

// MakeRequest asks for something.
func (c *Client) MakeRequest(ctx context.Context, r NewRequest, opts ...Option) (*Request, error) {
	return post[Request](ctx, c, "/v1/requests", r, opts...)
}

// ApproveRequest does what a request asks for.
func (c *Client) ApproveRequest(ctx context.Context, id string, a RequestApproval, opts ...Option) (*Request, error) {
	return postTo[Request](ctx, c, "request", id, "/v1/requests/%s/approve", a, opts...)
}

// RejectRequest refuses what a request asks for.
func (c *Client) RejectRequest(ctx context.Context, id string, d RequestDecision, opts ...Option) (*Request, error) {
	return postTo[Request](ctx, c, "request", id, "/v1/requests/%s/reject", d, opts...)
}

// WithdrawRequest takes one's own request back.
func (c *Client) WithdrawRequest(ctx context.Context, id string, opts ...Option) (*Request, error) {
	return postTo[Request](ctx, c, "request", id, "/v1/requests/%s/withdraw", nil, opts...)
}

// RemindRequest reminds those who may decide one's own request; once a day.
func (c *Client) RemindRequest(ctx context.Context, id string, opts ...Option) (*Request, error) {
	return postTo[Request](ctx, c, "request", id, "/v1/requests/%s/remind", nil, opts...)
}

// GrantTransfer gives credits of one account's grants to another account.
type GrantTransfer struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Amount  string `json:"amount" doc:"credits"`
	Grant   string `json:"grant,omitempty" doc:"out of this grant alone; by default the one that ends first pays first"`
	Subtree bool   `json:"subtree,omitempty" doc:"accounts below may spend it"`
}

// TransferGrant gives credits of one account's grants to another account: as many grants, each
// of the source and with the end of the one that it comes out of.
func (c *Client) TransferGrant(ctx context.Context, t GrantTransfer, opts ...Option) (*Page[Grant], error) {
	return post[Page[Grant]](ctx, c, "/v1/grants/transfer", t, opts...)
}
