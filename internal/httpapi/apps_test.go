package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/world"
)

// pad submits a job of ada's that has a web application and things that are hers alone.
func (h *harness) pad() (string, id.Job) {
	h.t.Helper()
	j := get[v1.Job](h, 201, request{method: http.MethodPost, path: "/v1/jobs", user: "ada", body: v1.JobSpec{
		Image: "docker.io/nlp/private:1", Command: []string{"serve", "--weights", "sesame"}, Env: map[string]string{"CODE": "sesame"}, Account: "nlp",
		Name: "pad", Apps: []v1.App{{Name: "web", Port: 8888}, {Name: "board", Port: 6006}},
	}})
	k, _ := id.ParseJob(j.ID)
	return j.ID, k
}

// apps is what a user finds in the list, a line each.
func (h *harness) apps(user string) []string {
	h.t.Helper()
	out := []string{}
	for _, j := range get[v1.Page[v1.AppJob]](h, 200, request{method: http.MethodGet, path: "/v1/apps", user: user}).Items {
		line := []string{j.ID, j.User, j.Access}
		for _, a := range j.Apps {
			line = append(line, a.Name)
		}
		for _, s := range j.Shared {
			line = append(line, "with", s.User+s.Account, s.Level)
		}
		out = append(out, strings.Join(line, " "))
	}
	return out
}

// TestApps: who is let into a job's applications finds it in his list and by its number, as
// long as that holds, and nobody else does.
func TestApps(t *testing.T) {
	h := newHarness(t)
	job, k := h.pad()
	plain := h.submit("ada")
	p, _ := id.ParseJob(plain)
	check := func(when string, want map[string][]string) {
		t.Helper()
		for _, user := range []string{"ada", "ben", "mia", "zoe", "root"} {
			if diff := cmp.Diff(append([]string{}, want[user]...), h.apps(user)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", when, user, diff)
			}
		}
	}
	check("unshared", map[string][]string{"ada": {job + " ada owner web board"}})

	h.as("ada", command.JobShare{Job: k, User: "ben", Level: access.ShareFull})
	h.as("ada", command.JobShare{Job: k, Account: "nlp", Level: access.ShareView, Until: h.now.Load() + hour})
	check("shared", map[string][]string{
		"ada": {job + " ada owner web board with ben full with nlp view"},
		"ben": {job + " ada full web board with ben full"},
		"mia": {job + " ada view web board with ben full with nlp view"}, // as a manager she reads the job
	})
	h.as("ada", command.JobShare{Job: p, User: "zoe", Level: access.ShareView})
	if diff := cmp.Diff([]string{plain + " ada view with zoe view"}, h.apps("zoe")); diff != "" {
		t.Errorf("of terminals alone (-want +got):\n%s", diff)
	}
	h.as("ada", command.JobUnshare{Job: p, User: "zoe"})

	h.pass(time.Hour)
	check("after its time", map[string][]string{"ada": {job + " ada owner web board with ben full"}, "ben": {job + " ada full web board with ben full"}})

	h.site(func(s *world.Site) { s.Apps.Shared = false })
	check("where nothing is shared", map[string][]string{"ada": {job + " ada owner web board with ben full"}})
}

// TestAppsByPage: a page goes on where the last one ended, whatever lies between.
func TestAppsByPage(t *testing.T) {
	h := newHarness(t)
	var want []string
	for range 3 {
		job, _ := h.pad()
		want = append([]string{job}, want...)
		h.submit("ada")
	}
	var got []string
	path := "/v1/apps?limit=1"
	for next := path; next != ""; {
		page := get[v1.Page[v1.AppJob]](h, 200, request{method: http.MethodGet, path: next, user: "ada"})
		if len(page.Items) > 1 {
			t.Fatalf("a page of %d", len(page.Items))
		}
		for _, j := range page.Items {
			got = append(got, j.ID)
		}
		if next = ""; page.Next != "" {
			next = path + "&cursor=" + page.Next
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by pages (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"?limit=x", "?limit=-1", "?cursor=x"} {
		if a := h.send(request{method: http.MethodGet, path: "/v1/apps" + bad, user: "ada"}); a.status != http.StatusUnprocessableEntity && a.status != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s", bad, a.status, a.body)
		}
	}
}

// TestSharedJob: who is let in is told how the job is, and nothing of what it runs, for
// whose money, and who else is.
func TestSharedJob(t *testing.T) {
	h := newHarness(t)
	job, k := h.pad()
	ben := h.client("ben")
	if _, err := ben.Job(t.Context(), job); v1.CodeOf(err) != codes.NotFound {
		t.Fatalf("unshared: %v", err)
	}
	h.as("ada", command.JobShare{Job: k, User: "ben", Level: access.ShareView})
	h.as("ada", command.JobShare{Job: k, User: "zoe", Level: access.ShareView})
	h.start(job)
	a := h.send(request{method: http.MethodGet, path: "/v1/jobs/" + job, user: "ben"})
	for _, word := range []string{"private", "sesame", "serve", "zoe", "nlp", "SIM-", "deposit", "credits"} {
		if strings.Contains(string(a.body), word) {
			t.Errorf("says %q: %s", word, a.body)
		}
	}
	got, err := ben.Job(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "pad" || got.User != "ada" || got.State != "running" || got.Started == nil || got.Limit == nil || len(got.Spec.Apps) != 2 {
		t.Errorf("%+v", got)
	}
	for _, ask := range []string{"GET why", "GET logs", "GET usage", "GET steps", "POST stop", "POST hold", "POST keep", "POST unshare", "POST image", "POST clone"} {
		method, path, _ := strings.Cut(ask, " ")
		var body any
		if method == http.MethodPost {
			body = map[string]string{}
		}
		switch path {
		case "unshare":
			body = v1.UnshareRequest{User: "zoe"}
		case "keep":
			body = v1.KeepRequest{For: "1h"}
		}
		if a := h.send(request{method: method, path: "/v1/jobs/" + job + "/" + path, user: "ben", body: body}); a.status != http.StatusForbidden {
			t.Errorf("%s: status %d: %s", ask, a.status, a.body)
		}
	}
	h.as("ada", command.JobUnshare{Job: k, User: "ben"})
	if _, err := ben.Job(t.Context(), job); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("unshared again: %v", err)
	}
	h.as("ada", command.JobShare{Job: k, User: "ben", Level: access.ShareFull})
	h.end(job, 0)
	if _, err := ben.Job(t.Context(), job); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("one that has ended: %v", err)
	}
}
