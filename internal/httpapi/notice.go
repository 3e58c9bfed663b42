package httpapi

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/query"
)

func noticeOperations() []operation {
	return []operation{
		ask("getContact", "GET /v1/users/{name}/contact", "Where a user is told things, and which", access.TokenRun, (*call).contact),
		tell("setContact", "PATCH /v1/users/{name}/contact", "Change where a user is told things, and which", access.TokenRun, ok, (*call).setContact),
		pages("listNotices", "GET /v1/notices", "What users are told, and whether it was delivered, the newest first", access.UserSee, (*call).notices,
			param{"user", "a name, or * for everybody's; by default your own"}, param{"state", "waiting, delivered or given_up, separated by commas"}, param{"job", "only about this job"}),
		ask("testNotice", "POST /v1/notices/test", "Have yourself told something, to see whether it arrives", access.TokenRun, (*call).testNotice),
	}
}

func (c *call) contact() (v1.Contact, error) { return c.Reader.Contact(c.p, c.path("name")) }

func (c *call) setContact(in v1.ContactPatch) (v1.Contact, error) {
	if _, err := c.do(command.ContactPut{User: c.path("name"), Address: in.Address, Wants: in.Mail}); err != nil {
		return v1.Contact{}, err
	}
	return c.Reader.Contact(c.p, c.path("name"))
}

func (c *call) notices() (v1.Page[v1.Notice], error) {
	q := c.r.URL.Query()
	limit, err := number(q.Get("limit"), "limit")
	if err != nil {
		return v1.Page[v1.Notice]{}, err
	}
	return c.Reader.Notices(c.r.Context(), c.p, query.NoticeQuery{
		User: q.Get("user"), State: q.Get("state"), Job: q.Get("job"), Limit: int(limit), Cursor: q.Get("cursor"),
	})
}

func (c *call) testNotice() (v1.Contact, error) {
	if _, err := c.do(command.NoticeTest{}); err != nil {
		return v1.Contact{}, err
	}
	return c.Reader.Contact(c.p, c.p.Name)
}
