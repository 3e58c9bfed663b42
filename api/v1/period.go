package v1

import (
	"context"
	"iter"
	"net/url"
	"time"
)

// Period is a span of whole days (UTC) whose books are, or can be, closed for good.
type Period struct {
	Period   string          `json:"period" doc:"2026-11, 2026-11-05, or 2026-11-01..2026-11-15"`
	From     time.Time       `json:"from"`
	To       time.Time       `json:"to"`
	State    string          `json:"state" doc:"current: it isn't over; open: it can be closed; closed"`
	Closed   *time.Time      `json:"closed,omitempty"`
	By       string          `json:"by,omitempty" doc:"who closed it"`
	Hash     string          `json:"hash,omitempty" doc:"of all that is kept of it, SHA-256"`
	Accounts []PeriodAccount `json:"accounts,omitempty" doc:"its sums, kept when it was closed; not in lists"`
	Open     []string        `json:"open,omitempty" doc:"what keeps it from being closed, and what to do about it; not in lists"`

	Verified   bool   `json:"verified,omitempty" doc:"what is kept is what was kept when it was closed, and its postings come to it; not in lists"`
	Difference string `json:"difference,omitempty"`
}

// PeriodAccount is the sums of an account in a closed period.
type PeriodAccount struct {
	Account string `json:"account"`
	Given   string `json:"given"`
	Spent   string `json:"spent"`
	Expired string `json:"expired"`
	Hash    string `json:"hash" doc:"of all that is kept of the account"`
}

// StatementClosed says that a statement is of a closed period: what it says never changes.
type StatementClosed struct {
	Period string    `json:"period"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Hash   string    `json:"hash" doc:"of all that is kept of the period, SHA-256"`
}

// StatementCorrection is what was posted in a statement's period and takes back what was
// charged in a closed one.
type StatementCorrection struct {
	Period  string `json:"period" doc:"the closed one"`
	Job     string `json:"job,omitempty" doc:"left out: jobs that you may not look at"`
	Attempt int32  `json:"attempt,omitempty"`
	Credits string `json:"credits"`
}

// Periods goes through closed periods and the months that aren't, the newest first.
func (c *Client) Periods(ctx context.Context) iter.Seq2[Period, error] {
	return pages[Period](ctx, c, "/v1/periods", url.Values{})
}

// Period shows a period with its sums, or what keeps it from being closed.
func (c *Client) Period(ctx context.Context, period string) (*Period, error) {
	return get[Period](ctx, c, "period", period, "/v1/periods/%s", nil)
}

// ClosePeriod closes the books of a period for good.
func (c *Client) ClosePeriod(ctx context.Context, period string) (*Period, error) {
	return postTo[Period](ctx, c, "period", period, "/v1/periods/%s/close", nil)
}
