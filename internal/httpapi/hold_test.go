package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
)

// post does what needs no body, and must succeed.
func (h *harness) post(user, path string) v1.Job {
	h.t.Helper()
	return get[v1.Job](h, 200, request{method: "POST", path: path, user: user})
}

// after submits the example after other jobs.
func (h *harness) after(user, deps string) v1.Job {
	h.t.Helper()
	spec := example()
	spec.After = deps
	return get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: user, body: spec})
}

// A list can be had in brief.
func TestBriefList(t *testing.T) {
	h := newHarness(t)
	k := h.submit("ada")
	h.submit("ada")
	h.start(k)
	first := h.send(request{method: "GET", path: "/v1/jobs?view=brief&limit=1", user: "ada"})
	page := get[v1.Page[v1.Job]](h, 200, request{method: "GET", path: "/v1/jobs?view=brief&limit=1", user: "ada"})
	if link := first.header.Get("Link"); link != "<?cursor="+page.Next+`&limit=1&view=brief>; rel="next"` {
		t.Errorf("the next page of %q is at %s", page.Next, link)
	}
	next := get[v1.Page[v1.Job]](h, 200, request{method: "GET", path: "/v1/jobs?view=brief&limit=1&cursor=" + page.Next, user: "ada"})
	whole := get[v1.Page[v1.Job]](h, 200, request{method: "GET", path: "/v1/jobs", user: "ada"})
	if a := h.send(request{method: "GET", path: "/v1/jobs", user: "ada"}); a.header.Get("Link") != "" {
		t.Errorf("a page after the last: %s", a.header.Get("Link"))
	}
	for i, j := range append(page.Items, next.Items...) {
		want := whole.Items[i]
		want.Spec = v1.JobSpec{CPU: want.Spec.CPU, Mem: want.Spec.Mem, GPU: want.Spec.GPU}
		want.Receipt, want.Devices, want.Limit, want.Eligible, want.Image = nil, nil, nil, nil, ""
		if diff := cmp.Diff(want, j); diff != "" || j.Spec.GPU == "" || i == 0 && j.Waits == "" {
			t.Errorf("%d: (-want +got)\n%s", i, diff)
		}
	}
	if a := h.send(request{method: "GET", path: "/v1/jobs?view=short", user: "ada"}); a.status != 422 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A chain of jobs as its user sees it, over one that has left the world too.
func TestHoldAndDependencies(t *testing.T) {
	h := newHarness(t)
	first := h.submit("ada")
	second := h.after("ada", "afterok:"+first)
	h.golden("why-held", 200, request{method: "GET", path: "/v1/jobs/" + second.ID + "/why", user: "ada"})
	h.golden("held", 200, request{method: "GET", path: "/v1/jobs?state=held", user: "ada"})
	if second.State != "held" || second.Waits != "DEPENDENCY" || second.Eligible != nil || second.Window.Kind != "unknown" {
		t.Errorf("%+v", second)
	}
	h.post("ada", "/v1/jobs/"+second.ID+"/hold")
	h.start(first)
	h.pass(time.Hour)
	h.end(first, 0)
	if j := h.post("ada", "/v1/jobs/"+second.ID+"/release"); j.State != "queued" || j.Message != "released by ada (test #4)" {
		t.Errorf("%s: %s", j.State, j.Message)
	}

	// of one that has ended, what became of it counts
	if j := h.after("ada", "afterok:"+first+",after:"+first+"+2h"); j.State != "held" || j.Eligible == nil || j.Window.Start == nil || j.Window.Start.Before(*j.Eligible) {
		t.Errorf("%s, eligible at %v, window %+v", j.State, j.Eligible, j.Window)
	}
	spec := example()
	spec.After = "afternotok:" + first
	refused := h.send(request{method: "POST", path: "/v1/jobs", user: "ada", body: spec})
	if refused.status != 422 || !strings.Contains(string(refused.body), "DEPENDENCY_NEVER_MET") || !strings.Contains(string(refused.body), `"after":""`) {
		t.Errorf("%d %s", refused.status, refused.body)
	}
	quote := get[v1.Quote](h, 200, request{method: "POST", path: "/v1/quotes", user: "ada", body: spec})
	if quote.Admitted || quote.Reasons[0].Code != "DEPENDENCY_NEVER_MET" {
		t.Errorf("quoted %+v", quote)
	}
	// nobody learns by it which jobs there are
	spec = example()
	spec.Account, spec.After = "vision", "afterany:"+first
	hidden := h.send(request{method: "POST", path: "/v1/jobs", user: "ben", body: spec})
	spec.After = "afterany:999999"
	unknown := h.send(request{method: "POST", path: "/v1/jobs", user: "ben", body: spec})
	if hidden.status != 422 || strings.ReplaceAll(string(hidden.body), " "+first, " 999999") != string(unknown.body) {
		t.Errorf("hidden: %d %s, unknown: %s", hidden.status, hidden.body, unknown.body)
	}
}

// Holding and queueing again where it can't be done says what can.
func TestRequeueByAPI(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	path := "/v1/jobs/" + job
	if a := h.send(request{method: "POST", path: path + "/requeue", user: "ada", body: v1.RequeueRequest{}}); a.status != 409 {
		t.Errorf("one that waits: %d %s", a.status, a.body)
	}
	h.start(job)
	if a := h.send(request{method: "POST", path: path + "/hold", user: "ada"}); a.status != 409 || !strings.Contains(string(a.body), "croft requeue --hold") {
		t.Errorf("one that runs: %d %s", a.status, a.body)
	}
	get[v1.Job](h, 200, request{method: "POST", path: path + "/requeue", user: "olga", body: v1.RequeueRequest{Hold: true}})
	h.end(job, 143)
	if j := get[v1.Job](h, 200, request{method: "GET", path: path, user: "ada"}); j.State != "held" || j.Waits != "JOB_HELD_BY_OPERATOR" || j.Message != "attempt 1 requeued: held again" {
		t.Errorf("%s %s: %s", j.State, j.Waits, j.Message)
	}
	if a := h.send(request{method: "POST", path: path + "/release", user: "ada"}); a.status != 403 || !strings.Contains(string(a.body), "operator") {
		t.Errorf("released by its user: %d %s", a.status, a.body)
	}
	h.post("olga", path+"/release")
	h.as("ada", command.JobStop{Job: 1})
	if a := h.send(request{method: "POST", path: path + "/requeue", user: "ada", body: v1.RequeueRequest{}}); a.status != 409 || !strings.Contains(string(a.body), "croft clone") {
		t.Errorf("one that has ended: %d %s", a.status, a.body)
	}
	// A clone isn't held because the job was.
	spec := example()
	spec.Hold = true
	held := get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "ada", body: spec})
	if c := get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs/" + held.ID + "/clone", user: "ada", body: v1.CloneRequest{}}); c.State != "queued" {
		t.Errorf("the clone is %s", c.State)
	}
	set := map[string]string{"hold": "true", "max_requeues": "2", "begin": "+1h"}
	if c := get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs/" + held.ID + "/clone", user: "ada", body: v1.CloneRequest{Set: set}}); c.State != "held" || c.Spec.MaxRequeues != 2 {
		t.Errorf("the clone is %s: %+v", c.State, c.Spec)
	}
}
