package httpapi

import (
	"strings"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// A class comes from a table, twice the same, and somebody leaves it.
func TestImportAClass(t *testing.T) {
	h := newHarness(t)
	h.people.known["bea"] = Person{UID: 2001, Home: "/home/bea"}
	post := func(user string, in v1.ImportRequest) v1.Import {
		t.Helper()
		return get[v1.Import](h, 200, request{method: "POST", path: "/v1/accounts/vision/import", user: user, body: in})
	}
	table := "name;e-mail;ends\r\nbea;bea@example.org;2027-03-31\r\nzoe;;\r\ncarl;;\r\n"
	both := make(chan struct{})
	h.people.asked = func() { // bea and carl are looked up beside each other
		select {
		case both <- struct{}{}:
		case <-both:
		case <-time.After(time.Minute):
			t.Error("users are looked up one by one")
		}
	}
	dry := post("root", v1.ImportRequest{CSV: table, DryRun: true})
	if dry.Added != 3 || dry.Created != 2 || len(dry.Warnings) != 1 {
		t.Errorf("a dry run: %+v", dry)
	}
	h.people.asked = nil
	if got := h.status("GET", "/v1/users/bea", "root", nil); got != 404 {
		t.Errorf("after a dry run: %d", got)
	}
	wet := post("root", v1.ImportRequest{CSV: table})
	if wet.Added != 3 || wet.Created != 2 {
		t.Errorf("%+v", wet)
	}
	bea := get[v1.User](h, 200, request{method: "GET", path: "/v1/users/bea", user: "root"})
	if bea.UID == nil || *bea.UID != 2001 || len(bea.Accounts) != 1 || bea.Accounts[0].Ends == nil {
		t.Errorf("%+v", bea)
	}
	if again := post("mia", v1.ImportRequest{CSV: table}); again.Kept != 3 || len(again.Changes) != 0 {
		t.Errorf("again, by a manager: %+v", again)
	}
	pruned := post("mia", v1.ImportRequest{CSV: "name\nzoe\n", Prune: true})
	if pruned.Removed != 3 || pruned.Kept != 1 { // ben, too
		t.Errorf("pruned: %+v", pruned)
	}
	p := get[v1.Problem](h, 422, request{method: "POST", path: "/v1/accounts/vision/import", user: "mia", body: v1.ImportRequest{CSV: "name\nnobody\nada\nzoé\n"}})
	if len(p.Fields) != 1 || p.Fields[0].Path != "line 4" {
		t.Errorf("%+v", p)
	}
	p = get[v1.Problem](h, 422, request{method: "POST", path: "/v1/accounts/vision/import", user: "mia", body: v1.ImportRequest{CSV: "name\nnobody\nada\n"}})
	if len(p.Fields) != 1 || p.Fields[0].Path != "line 2" || !strings.Contains(p.Detail, "admin") {
		t.Errorf("%+v", p)
	}
	if got := h.status("POST", "/v1/accounts/vision/import", "zoe", v1.ImportRequest{CSV: "name\nzoe\n"}); got != 403 {
		t.Errorf("by a member: %d", got)
	}
	if got := h.status("POST", "/v1/accounts/nlp/import", "zoe", v1.ImportRequest{CSV: "\""}); got != 404 {
		t.Errorf("by a stranger: %d", got)
	}
}
