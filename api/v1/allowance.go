package v1

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Allowance has an account given credits in each period of the calendar, of UTC as in
// statements: one grant, which ends with the period.
type Allowance struct {
	Account   string     `json:"account"`
	Name      string     `json:"name,omitempty" doc:"of the account's; by default the period, month for example"`
	Amount    string     `json:"amount" doc:"credits for each period, also where it begins within one"`
	Per       string     `json:"per" doc:"week, month, quarter or year"`
	From      string     `json:"from,omitempty" doc:"its first day, 2027-01-01; by default it begins now"`
	Until     string     `json:"until,omitempty" doc:"its last day: no period that begins later is granted; by default it goes on"`
	CarryOver string     `json:"carry_over,omitempty" doc:"of what a period leaves for the next: a share such as 50%, or credits; by default nothing"`
	Source    string     `json:"source,omitempty" doc:"where the money comes from: its grants have it with their period; by default allowance and the name"`
	Subtree   bool       `json:"subtree,omitempty" doc:"accounts below may spend it"`
	Grant     string     `json:"grant,omitempty" doc:"the last that it gave"`
	Next      *time.Time `json:"next,omitempty" doc:"when it gives again; left out when it won't"`
}

// Allowances lists those of an account; "" is every account that the caller may look into.
func (c *Client) Allowances(ctx context.Context, account string) iter.Seq2[Allowance, error] {
	return pages[Allowance](ctx, c, "/v1/allowances", values("account", account))
}

// SetAllowance makes an allowance, in place of one of the same account and name. The grant of
// the period that has begun stays as it is.
func (c *Client) SetAllowance(ctx context.Context, a Allowance, opts ...Option) (*Allowance, error) {
	return post[Allowance](ctx, c, "/v1/allowances", a, opts...)
}

// RemoveAllowance ends an allowance; what it gave stays.
func (c *Client) RemoveAllowance(ctx context.Context, account, name string) error {
	of, err := segment("account", account)
	if err != nil {
		return err
	}
	n, err := segment("allowance", name)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, "/v1/allowances/"+of+"/"+n, nil, nil, nil)
}
