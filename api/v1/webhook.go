package v1

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Webhook is a URL that a user has notices posted to.
type Webhook struct {
	Name        string     `json:"name"`
	User        string     `json:"user"`
	URL         string     `json:"url"`
	Words       string     `json:"words" doc:"what is posted to it"`
	Account     string     `json:"account,omitempty" doc:"that it is told of, in place of what is its user's"`
	On          bool       `json:"on" doc:"whether anything is posted to it"`
	Off         string     `json:"off,omitempty" doc:"why not"`
	FormerUntil *time.Time `json:"former_until,omitempty" doc:"until when the secret before signs what is posted too"`
	Changed     time.Time  `json:"changed"`
	Secret      string     `json:"secret,omitempty" doc:"that what is posted is signed with; in the answer to its making only"`
}

// NewWebhook is a webhook to be made.
type NewWebhook struct {
	Name    string `json:"name" maxLength:"32" doc:"a-z, 0-9 and -"`
	URL     string `json:"url" maxLength:"2000" doc:"https, on a host that the site allows"`
	Words   string `json:"words,omitempty" maxLength:"200" doc:"what is posted, with commas between: begin, end, fail, requeue, time_limit, stop, array_tasks, budget, request; by default all but array_tasks"`
	Account string `json:"account,omitempty" doc:"to be told of everybody's jobs in it and below it, and of its credits: for its managers"`
}

// WebhookPatch changes a webhook; what is left out stays.
type WebhookPatch struct {
	URL   *string `json:"url,omitempty" maxLength:"2000"`
	Words *string `json:"words,omitempty" maxLength:"200" doc:"empty: all but array_tasks"`
	On    *bool   `json:"on,omitempty" doc:"whether anything is posted to it"`
}

// WebhookEvent is what is posted to a webhook, signed as Standard Webhooks says: the headers
// webhook-id, webhook-timestamp and webhook-signature. The same event may come twice, with the
// same webhook-id.
type WebhookEvent struct {
	Type      string           `json:"type"` // job. and a word of the webhook's, account.budget, request. and its state, or test
	Timestamp time.Time        `json:"timestamp"`
	Data      WebhookEventData `json:"data"`
}

// WebhookEventData is what an event is about.
type WebhookEventData struct {
	Message string          `json:"message"`          // a line for people
	Reason  string          `json:"reason,omitempty"` // why, for people
	User    string          `json:"user"`             // whose webhook it is
	Account string          `json:"account,omitempty"`
	Job     *WebhookJob     `json:"job,omitempty"`
	Request *WebhookRequest `json:"request,omitempty"`
	Credits *WebhookCredits `json:"credits,omitempty"`
	Server  string          `json:"server,omitempty"` // its public URL
}

// WebhookJob is a job as it was then, and one of its attempts.
type WebhookJob struct {
	ID        string     `json:"id"`
	Name      string     `json:"name,omitempty"`
	Kind      string     `json:"kind"`
	User      string     `json:"user"`
	Account   string     `json:"account"`
	State     string     `json:"state"`
	Outcome   string     `json:"outcome,omitempty"`
	ExitCode  *int32     `json:"exit_code,omitempty"`
	Attempt   int32      `json:"attempt,omitempty"`
	Nodes     []string   `json:"nodes,omitempty"`
	Submitted time.Time  `json:"submitted"`
	Started   *time.Time `json:"started,omitempty"`
	Ended     *time.Time `json:"ended,omitempty"`
	Charged   string     `json:"charged,omitempty"` // credits so far
	Refunded  string     `json:"refunded,omitempty"`
}

// WebhookRequest is a request that is one's to decide, or one's own that was decided.
type WebhookRequest struct {
	ID      string    `json:"id"`
	Asks    string    `json:"asks"`
	Said    string    `json:"said,omitempty"` // by who decided
	Expires time.Time `json:"expires"`
}

// WebhookCredits says how much of an account's credits is used up or set aside.
type WebhookCredits struct {
	Percent int64  `json:"percent"`
	Account string `json:"account"`
}

// Webhooks lists a user's webhooks.
func (c *Client) Webhooks(ctx context.Context, user string) iter.Seq2[Webhook, error] {
	return pages[Webhook](ctx, c, "/v1/users/"+url.PathEscape(user)+"/webhooks", url.Values{})
}

// MakeWebhook makes one. Its secret is in this answer only.
func (c *Client) MakeWebhook(ctx context.Context, user string, in NewWebhook) (*Webhook, error) {
	return postTo[Webhook](ctx, c, "user", user, "/v1/users/%s/webhooks", in)
}

// SetWebhook changes one.
func (c *Client) SetWebhook(ctx context.Context, user, name string, in WebhookPatch) (*Webhook, error) {
	out := new(Webhook)
	return out, ofWebhook(ctx, c, http.MethodPatch, user, name, "", in, out)
}

// RenewWebhook makes a new secret for one, which is in this answer only. For a day what is
// posted is signed with the secret before too.
func (c *Client) RenewWebhook(ctx context.Context, user, name string) (*Webhook, error) {
	out := new(Webhook)
	return out, ofWebhook(ctx, c, http.MethodPost, user, name, "/secret", nil, out)
}

// RemoveWebhook takes one away.
func (c *Client) RemoveWebhook(ctx context.Context, user, name string) error {
	return ofWebhook(ctx, c, http.MethodDelete, user, name, "", nil, nil)
}

func ofWebhook(ctx context.Context, c *Client, method, user, name, what string, in, out any) error {
	u, err := segment("user", user)
	if err != nil {
		return err
	}
	h, err := segment("webhook", name)
	if err != nil {
		return err
	}
	return c.call(ctx, method, "/v1/users/"+u+"/webhooks/"+h+what, nil, in, out)
}
