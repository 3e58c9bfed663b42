package v1

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Contact is where a user is told things, and which.
type Contact struct {
	Address string `json:"address,omitempty" doc:"of mail"`
	Mail    string `json:"mail" doc:"what mail is sent of where a job doesn't say: begin, end, fail, requeue, time_limit, stop (before a job is stopped by others), array_tasks (of arrays' elements), budget (credits of accounts that one manages), request (requests that are one's to decide, or were decided); or none"`
	On      bool   `json:"on" doc:"whether this site sends mail at all"`
}

// ContactPatch changes a contact; what is left out stays.
type ContactPatch struct {
	Address *string `json:"address,omitempty" maxLength:"320" doc:"of mail; empty: none"`
	Mail    *string `json:"mail,omitempty" maxLength:"200" doc:"words with commas between them, all, or none; empty: what one is told of who hasn't said"`
}

// Notice is something that somebody is or was told.
type Notice struct {
	ID      string     `json:"id" doc:"also in the mail's Message-ID"`
	At      time.Time  `json:"at" doc:"of what it is about"`
	Kind    string     `json:"kind" doc:"by which word it is wanted"`
	User    string     `json:"user"`
	Account string     `json:"account,omitempty"`
	Job     string     `json:"job,omitempty"`
	Address string     `json:"address,omitempty" doc:"that the job names, in place of its user's"`
	Webhook string     `json:"webhook,omitempty" doc:"of the user's that it is posted to; left out: it is mailed"`
	Subject string     `json:"subject"`
	State   string     `json:"state" doc:"waiting, delivered (a mail server or the webhook has taken it) or given up"`
	Tries   int64      `json:"tries,omitempty"`
	Next    *time.Time `json:"next,omitempty" doc:"of one that waits: when it is tried next"`
	Done    *time.Time `json:"done,omitempty" doc:"when it was delivered or given up"`
	Message string     `json:"message,omitempty" doc:"why it wasn't taken"`
}

// NoticeQuery selects notices.
type NoticeQuery struct {
	User  string // a name, or * for everybody; empty: the caller's
	State string // states with commas between them
	Job   string
	Limit int // notices per page
}

// Notices goes through notices, the newest first.
func (c *Client) Notices(ctx context.Context, q NoticeQuery) iter.Seq2[Notice, error] {
	return pages[Notice](ctx, c, "/v1/notices", values("user", q.User, "state", q.State, "job", q.Job, "limit", count(q.Limit)))
}

// Contact returns where a user is told things.
func (c *Client) Contact(ctx context.Context, user string) (*Contact, error) {
	return get[Contact](ctx, c, "user", user, "/v1/users/%s/contact", url.Values{})
}

// SetContact changes where a user is told things, and which.
func (c *Client) SetContact(ctx context.Context, user string, in ContactPatch) (*Contact, error) {
	out := new(Contact)
	if err := named(ctx, c, http.MethodPatch, "user", user, "/v1/users/%s/contact", nil, in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// TestNotice has the caller told something, to see whether it arrives.
func (c *Client) TestNotice(ctx context.Context) (*Contact, error) {
	out := new(Contact)
	if err := c.call(ctx, http.MethodPost, "/v1/notices/test", nil, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}
