package httpapi

import (
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
)

// The next who has a name has nothing of the last one's, and the last one's jobs are
// still to be found.
func TestNamesAreUsedAgain(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	if got := h.status("POST", "/v1/users/ada/retire", "root", v1.RetireRequest{}); got != 409 {
		t.Errorf("with a job: %d", got)
	}
	if got := get[v1.Retired](h, 200, request{method: "POST", path: "/v1/users/ada/retire", user: "root", body: v1.RetireRequest{Stop: true}}); got.Jobs != 1 || got.Tokens != 1 {
		t.Errorf("%+v", got)
	}
	if a, b := h.status("GET", "/v1/me", "ada", nil), h.status("GET", "/v1/users/ada", "ben", nil); a != 401 || b != 404 {
		t.Errorf("the token: %d; for others: %d", a, b)
	}
	if u := get[v1.User](h, 200, request{method: "GET", path: "/v1/users/ada", user: "otto"}); u.Retired == nil {
		t.Errorf("%+v", u)
	}
	h.as("root", command.UserPut{Create: true, Name: "ada"})
	h.as("root", command.MemberPut{Account: "nlp", User: "ada", Role: "member"})
	h.tokens["ada"] = h.token("ada", 0)
	if got := h.status("GET", "/v1/jobs/"+job, "ada", nil); got != 404 {
		t.Errorf("the last one's job: %d", got)
	}
	h.submit("ada")
	list := func(user string) (out []string) {
		for _, j := range get[v1.Page[v1.Job]](h, 200, request{method: "GET", path: "/v1/jobs?user=ada&state=all", user: user}).Items {
			out = append(out, j.ID+" "+j.User)
		}
		return out
	}
	if got := list("ada"); len(got) != 1 || got[0] != "2 ada" {
		t.Errorf("ada sees %q", got)
	}
	if got := list("otto"); len(got) != 2 || got[1] != "1 ada (until 2026-11-01)" {
		t.Errorf("an auditor sees %q", got)
	}
}

func TestCourseAccount(t *testing.T) {
	h := newHarness(t)
	end := time.Unix(0, h.now.Load()).Add(30 * 24 * time.Hour).UTC()
	get[v1.Account](h, 201, request{method: "POST", path: "/v1/accounts", user: "root", body: v1.Account{Name: "ml24", Parent: "nlp", Ends: &end}})
	grant := get[v1.Grant](h, 201, request{method: "POST", path: "/v1/grants", user: "root", body: v1.Grant{Account: "ml24", Amount: "10", Source: "course"}})
	m := get[v1.Member](h, 200, request{method: "PUT", path: "/v1/accounts/ml24/members/zoe", user: "root", body: v1.MemberRequest{Role: "member"}})
	if grant.End == nil || !grant.End.Equal(end) || m.Ends == nil || !m.Ends.Equal(end) {
		t.Errorf("the grant ends %v, the membership %v", grant.End, m.Ends)
	}
	spec := example()
	spec.Account = "ml24"
	get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "zoe", body: spec})
	h.pass(31 * 24 * time.Hour)
	if a, b := h.status("POST", "/v1/jobs", "zoe", spec), h.status("GET", "/v1/accounts/ml24", "zoe", nil); a != 422 || b != 404 {
		t.Errorf("after the end: submit %d, account %d", a, b)
	}
	if a := get[v1.Account](h, 200, request{method: "GET", path: "/v1/accounts/ml24", user: "mia"}); a.Ends == nil {
		t.Errorf("%+v", a)
	}
	never := "never"
	get[v1.Account](h, 200, request{method: "PATCH", path: "/v1/accounts/ml24", user: "root", body: v1.AccountPatch{Ends: &never}})
	get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "zoe", body: spec})
	for _, bad := range []string{"", "tomorrow", "1969-01-01T00:00:00Z", "2026-11-01T00:00:00Z"} {
		if got := h.status("PATCH", "/v1/accounts/ml24", "root", v1.AccountPatch{Ends: &bad}); got != 422 {
			t.Errorf("ends %q: %d", bad, got)
		}
	}
}
