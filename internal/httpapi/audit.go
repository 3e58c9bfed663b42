package httpapi

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/query"
)

func (c *call) audit() (v1.Page[v1.AuditRow], error) {
	var none v1.Page[v1.AuditRow]
	q := c.r.URL.Query()
	limit, err := number(q.Get("limit"), "limit")
	if err != nil {
		return none, err
	}
	from, err := instant(q.Get("from"), "from")
	if err != nil {
		return none, err
	}
	to, err := instant(q.Get("to"), "to")
	if err != nil {
		return none, err
	}
	changes, err := truth(q.Get("changes"), "changes")
	if err != nil {
		return none, err
	}
	return c.Reader.Audit(c.r.Context(), c.p, query.AuditQuery{
		Cursor: q.Get("cursor"), From: from, To: to, User: q.Get("user"), Account: q.Get("account"), Job: q.Get("job"),
		Kind: q.Get("kind"), Row: q.Get("row"), Changes: changes, Limit: int(limit),
	})
}
