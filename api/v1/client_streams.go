package v1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"croft.dev/croft/api/v1/codes"
)

// maxEvent bounds an event's message, in bytes.
const maxEvent = 4 << 20

// dial opens a WebSocket on the same connections as every other call.
func (c *Client) dial(ctx context.Context, path string, query url.Values, limit int64) (*websocket.Conn, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	header := http.Header{}
	c.header(header)
	conn, resp, err := websocket.Dial(ctx, target, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: header})
	switch {
	case err == nil:
		conn.SetReadLimit(limit)
		return conn, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, problemOf(resp)
	}
	return nil, c.noAnswer(err, !isDial(err))
}

// closed turns what a WebSocket ended with into an error of this package: nil
// for a normal end.
func (c *Client) closed(ctx context.Context, err error) error {
	var ce websocket.CloseError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &ce):
		return c.noAnswer(err, true)
	case ce.Code == websocket.StatusNormalClosure:
		return nil
	case ce.Code == websocket.StatusGoingAway:
		return c.noAnswer(err, true)
	}
	return &Problem{Title: "Stream ended", Code: string(codes.Internal), Detail: fmt.Sprintf("the server ended the stream: %s", ce.Reason)}
}

// FollowEvents yields events as they happen, from after on. When the connection
// is lost it goes on where it stopped, for as long as window.
func (c *Client) FollowEvents(ctx context.Context, q EventQuery, window time.Duration) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := retrier{window: window}
		for {
			more, err := c.followEventsOnce(ctx, &q, &r, yield)
			if !more {
				return
			}
			if err = r.next(ctx, err); err != errAgain {
				if err != nil {
					yield(Event{}, err)
				}
				return
			}
		}
	}
}

func (c *Client) followEventsOnce(ctx context.Context, q *EventQuery, r *retrier, yield func(Event, error) bool) (bool, error) {
	conn, err := c.dial(ctx, "/v1/events/stream", EventQuery{After: q.After, Job: q.Job}.values(), maxEvent)
	if err != nil {
		return true, err
	}
	defer conn.CloseNow()
	for {
		_, b, err := conn.Read(ctx)
		if err != nil {
			return true, c.closed(ctx, err)
		}
		var e Event
		if err := json.Unmarshal(b, &e); err != nil {
			return true, &Problem{Title: "Unreadable event", Code: string(codes.Internal), Detail: "no event: " + err.Error()}
		}
		r.ok()
		q.After = max(q.After, e.Seq)
		if !yield(e, nil) {
			return false, nil
		}
	}
}
