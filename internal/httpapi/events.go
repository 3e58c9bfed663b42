package httpapi

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/query"
)

func (c *call) eventQuery() (query.EventQuery, error) {
	q := c.r.URL.Query()
	limit, err := number(q.Get("limit"), "limit")
	if err != nil {
		return query.EventQuery{}, err
	}
	after, err := number(q.Get("after"), "after")
	return query.EventQuery{After: after, Job: q.Get("job"), Limit: int(limit)}, err
}

func (c *call) events() (v1.Page[v1.Event], error) {
	q, err := c.eventQuery()
	if err != nil {
		return v1.Page[v1.Event]{}, err
	}
	got, err := c.Reader.Events(c.r.Context(), c.p, q)
	out := v1.Page[v1.Event]{Items: got.Items}
	if got.More {
		out.Next = strconv.FormatInt(got.Seq, 10)
	}
	return out, err
}

// eventStream sends events over a WebSocket until the client goes or the server
// stops. The log is read again whenever it has grown; nothing is lost in between,
// because each look begins after the last.
func (c *call) eventStream() error {
	q, err := c.eventQuery()
	if err != nil {
		return err
	}
	if c.r.URL.Query().Get("after") == "" {
		q.After = c.Sequencer.World().Seq
	}
	q.Limit = 0
	if _, err := c.Reader.Events(c.r.Context(), c.p, q); err != nil {
		return err // while there still is a status to say it with
	}
	long, stop, err := c.long(basis{})
	if err != nil {
		return err
	}
	defer stop()
	conn, err := websocket.Accept(c.w, c.r, nil)
	if err != nil {
		return fault.Invalid("upgrade", "events are streamed over a WebSocket")
	}
	defer conn.CloseNow() //nolint:errcheck // closed properly before, where that was possible
	ctx := conn.CloseRead(long)
	if err := c.sendEvents(ctx, conn, q); err != nil && ctx.Err() == nil {
		_ = conn.Close(websocket.StatusInternalError, c.problem(c.r, c.w.Header().Get(requestID), err).Title)
		return nil
	}
	_ = conn.Close(websocket.StatusGoingAway, "the server is stopping") // or the client has gone
	return nil
}

func (c *call) sendEvents(ctx context.Context, conn *websocket.Conn, q query.EventQuery) error {
	return c.until(ctx, func() (bool, error) {
		for {
			got, err := c.Reader.Events(ctx, c.p, q)
			if err != nil {
				return false, err
			}
			for _, e := range got.Items {
				b, err := json.Marshal(e)
				if err != nil {
					return false, err
				}
				if err := conn.Write(ctx, websocket.MessageText, b); err != nil {
					return false, err
				}
			}
			if q.After = got.Seq; !got.More {
				return false, nil
			}
		}
	})
}
