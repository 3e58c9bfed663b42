package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/world"
)

// told puts notices of users into the outbox, as the loop does.
func (h *harness) told(names ...string) {
	h.t.Helper()
	var rows []notice.Notice
	for i, name := range names {
		u, _ := h.seq.World().Tenancy.User(name)
		rows = append(rows, notice.Notice{
			Name: fmt.Sprintf("test.%d.%s", i, name), Seq: int64(i / 2), At: h.now.Load(), Kind: notice.Test, User: u.ID, Subject: "for " + name, Body: "secret", State: notice.Waiting,
		})
	}
	db := h.reader.History.(*store.Store)
	if err := db.KeepNotices(h.t.Context(), 0, rows); err != nil {
		h.t.Fatal(err)
	}
	gone := rows[0].Failed(h.now.Load(), int64(1), true, "the mail server refuses it (550)")
	if err := db.SettleNotices(h.t.Context(), []notice.Notice{gone}); err != nil {
		h.t.Fatal(err)
	}
}

// Everybody sees what he is told, and only who sees all what others are; a page goes on where
// the one before ended.
func TestNotices(t *testing.T) {
	h := newHarness(t)
	h.told("ada", "ben", "ada", "ada", "ada", "mia")
	list := func(user string, q v1.NoticeQuery) (out []string, err error) {
		for n, err := range h.client(user).Notices(t.Context(), q) {
			if err != nil {
				return nil, err
			}
			out = append(out, n.ID+" "+n.State)
		}
		return out, nil
	}
	mine := []string{"test.4.ada waiting", "test.2.ada waiting", "test.3.ada waiting", "test.0.ada given up"}
	for _, limit := range []int{0, 1, 2, 3} {
		if got, err := list("ada", v1.NoticeQuery{Limit: limit}); err != nil || !slices.Equal(got, mine) {
			t.Errorf("%d a page: %v, %v", limit, got, err)
		}
		if got, err := list("olga", v1.NoticeQuery{User: "ada", Limit: limit}); err != nil || !slices.Equal(got, mine) {
			t.Errorf("an operator: %v, %v", got, err)
		}
	}
	if got, err := list("olga", v1.NoticeQuery{User: "*"}); err != nil || len(got) != 6 {
		t.Errorf("everybody's: %v, %v", got, err)
	}
	if got, err := list("ada", v1.NoticeQuery{State: "given_up, delivered"}); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	for user, q := range map[string]v1.NoticeQuery{"ada": {User: "*"}, "mia": {User: "ada"}, "ben": {State: "lost"}} {
		if _, err := list(user, q); err == nil {
			t.Errorf("%s: %+v", user, q)
		}
	}
	a := h.send(request{method: "GET", path: "/v1/notices", user: "ada"})
	if strings.Contains(string(a.body), "secret") {
		t.Errorf("a list has what was said: %s", a.body)
	}
}

// Who is told things says where, and what; a test is sent to who asks for it.
func TestContact(t *testing.T) {
	h := newHarness(t)
	c := h.client("ada")
	if _, err := c.TestNotice(t.Context()); v1.CodeOf(err) != codes.Conflict || !strings.Contains(err.Error(), "sends no mail") {
		t.Errorf("%v", err)
	}
	h.site(func(s *world.Site) { s.Mail = notice.Rules{On: true, Domains: []string{"example.org"}} })
	if _, err := c.TestNotice(t.Context()); v1.CodeOf(err) != codes.Conflict || !strings.Contains(err.Error(), "croft notice address") {
		t.Errorf("%v", err)
	}
	for address, bad := range map[string]bool{"ada@elsewhere.net": true, "ada@example.org\nBcc: x@example.org": true, "ada@example.org": false} {
		if _, err := c.SetContact(t.Context(), "ada", v1.ContactPatch{Address: &address}); (v1.CodeOf(err) == codes.Invalid) != bad {
			t.Errorf("%q: %v", address, err)
		}
	}
	words := "END,fail"
	got, err := c.SetContact(t.Context(), "ada", v1.ContactPatch{Mail: &words})
	if err != nil || *got != (v1.Contact{Address: "ada@example.org", Mail: "end,fail", On: true}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = c.TestNotice(t.Context()); err != nil || got.Address != "ada@example.org" {
		t.Errorf("%+v, %v", got, err)
	}
	spec := example()
	spec.MailType, spec.MailUser = "END,often", "ada"
	if _, err := c.Submit(t.Context(), spec); v1.CodeOf(err) != codes.Invalid || !strings.Contains(err.Error(), "mail_type") {
		t.Errorf("%v", err)
	}
	spec.MailType = "END, Fail"
	job, err := c.Submit(t.Context(), spec)
	if err != nil || job.Spec.MailType != "end,fail" || job.Spec.MailUser != "" {
		t.Errorf("%+v, %v", job, err)
	}
	spec.MailUser = "ben@elsewhere.net"
	if _, err := c.Quote(t.Context(), spec); v1.CodeOf(err) != codes.Invalid || !strings.Contains(err.Error(), "mail_user") {
		t.Errorf("a quote says nothing of it: %v", err)
	}
}
