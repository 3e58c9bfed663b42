package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
)

// begin starts an element of an array.
func (h *harness) begin(array id.Job, index int64) id.Job {
	h.t.Helper()
	h.system(command.JobStart{Job: array, Element: index, Image: "sha256:1"})
	e, ok := h.seq.World().Workload.Element(array, index)
	if !ok {
		h.t.Fatalf("element %d didn't start", index)
	}
	h.system(command.JobObserved{Job: e.ID, N: 1, Running: true, Started: h.now.Load()})
	return e.ID
}

// credits reads an amount.
func credits(t *testing.T, s string) money.Micros {
	t.Helper()
	m, err := money.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// An array as its user sees it: one line, elements by their names, and the receipt.
func TestArrayByAPI(t *testing.T) {
	h := newHarness(t)
	spec := example()
	spec.GPU, spec.Array = "", "0-9%3"
	array := get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "ada", body: spec})
	if array.Array.Pending != 10 || array.State != "queued" {
		t.Fatalf("%+v", array)
	}
	first := h.begin(1, 0)
	h.begin(1, 1)
	h.pass(time.Hour)
	h.system(command.JobObserved{Job: first, N: 1, Exited: true, Finished: h.now.Load(), ExitCode: 2})
	h.golden("array", 200, request{method: "GET", path: "/v1/jobs/1", user: "ada"})
	h.golden("element", 200, request{method: "GET", path: "/v1/jobs/1_0", user: "ada"})
	h.golden("arrays", 200, request{method: "GET", path: "/v1/jobs", user: "ada"})
	for path, want := range map[string]string{
		"/v1/jobs?elements=true":                "1_1 1",
		"/v1/jobs?state=all":                    "1",
		"/v1/jobs?state=all&elements=true":      "1_1 1_0 1",
		"/v1/jobs?state=all&elements=true&id=1": "1_1 1_0 1",
		"/v1/jobs?id=1_1":                       "1_1",
	} {
		var got []string
		for _, j := range get[v1.Page[v1.Job]](h, 200, request{method: "GET", path: path, user: "ada"}).Items {
			got = append(got, j.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
	why := get[v1.Why](h, 200, request{method: "GET", path: "/v1/jobs/1_7/why", user: "ada"})
	if why.Job.ID != "1_7" || why.Job.State != "queued" || why.Job.Number != "" {
		t.Errorf("%+v", why.Job)
	}
	if w := get[v1.Why](h, 200, request{method: "GET", path: "/v1/jobs/1/why", user: "ada"}); w.Window.Queue != 8 || w.Window.Position != 1 {
		t.Errorf("%+v", w.Window)
	}
	// each element has a place and a window of its own
	for i, position := range map[int]int64{2: 1, 7: 6, 9: 8} {
		e := get[v1.Job](h, 200, request{method: "GET", path: fmt.Sprintf("/v1/jobs/1_%d", i), user: "ada"})
		if e.Window == nil || e.Window.Position != position || e.Window.Queue != 8 {
			t.Errorf("element %d: %+v, want place %d", i, e.Window, position)
		}
	}
	for path, status := range map[string]int{"1_77": 404, "1_x": 404, "x_1": 404, "1_-1": 404, "9_1": 404, "1_99999999999": 404} {
		if a := h.send(request{method: "GET", path: "/v1/jobs/" + path, user: "ada"}); a.status != status {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := h.send(request{method: "GET", path: "/v1/jobs/1_7", user: "zoe"}); a.status != 404 {
		t.Errorf("a stranger sees it: %d %s", a.status, a.body)
	}

	stop := func(path string, status int) v1.Job {
		a := h.send(request{method: "POST", path: "/v1/jobs/" + path + "/stop", user: "ada", body: v1.StopRequest{}})
		if a.status != status {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		return get[v1.Job](h, 200, request{method: "GET", path: "/v1/jobs/1", user: "ada"})
	}
	if j := stop("1_9", 200); j.Array.Waiting != "2-8" {
		t.Errorf("%s wait", j.Array.Waiting)
	}
	if j := stop("1_[1-3]", 200); j.Array.Waiting != "4-8" || j.Array.Ended["cancelled"] != 3 {
		t.Errorf("%+v", j.Array)
	}
	stop("1_[5-1]", 422)
	stop("1_77", 404)
	h.submit("ada")
	stop("3_[1-3]", 422)
	if a := h.send(request{method: "POST", path: "/v1/jobs/1_5/hold", user: "ada"}); a.status != 409 {
		t.Errorf("hold of an element: %d %s", a.status, a.body)
	}
	// an element that has run and waits again ends with its array
	e := h.begin(1, 4)
	h.as("ada", command.JobRequeue{Job: e})
	h.system(command.JobObserved{Job: e, N: 1, Exited: true, Finished: h.now.Load()})
	stop("1", 200)
	second, _ := h.seq.World().Workload.Element(1, 1)
	h.system(command.JobObserved{Job: second.ID, N: 1, Exited: true, Finished: h.now.Load(), ExitCode: 143})
	if j := get[v1.Job](h, 200, request{method: "GET", path: "/v1/jobs/1", user: "ada"}); j.State != "ended" || j.Outcome != "failed" || j.Array.Ended["cancelled"] != 9 || !j.Receipt.Final {
		t.Errorf("%s %s %+v", j.State, j.Outcome, j.Array)
	} else if r := j.Receipt; credits(t, r.Deposit) != credits(t, r.Charged)+credits(t, r.Returned) {
		t.Errorf("deposit %s isn't what was charged, %s, and what was returned, %s", r.Deposit, r.Charged, r.Returned)
	}
	verified := get[v1.Verification](h, 200, request{method: "GET", path: "/v1/ledger/verify", user: "root"})
	if !verified.OK {
		t.Errorf("%+v", verified.Checks)
	}
	huge := example()
	huge.Array = "0-9999999"
	if a := h.send(request{method: "POST", path: "/v1/jobs", user: "ada", body: huge}); a.status != 422 || !strings.Contains(string(a.body), "more than 1000000 elements") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// What waits for elements, through the API: those that have left the world, that were
// dropped, and that never were; and what an element itself waits for.
func TestWaitForElementsByAPI(t *testing.T) {
	h := newHarness(t)
	spec := example()
	spec.GPU, spec.Array = "", "0-3"
	submit := func(after, array string, status int) v1.Job {
		t.Helper()
		spec.After, spec.Array = after, array
		a := h.send(request{method: "POST", path: "/v1/jobs", user: "ada", body: spec})
		if a.status != status {
			t.Fatalf("%s: %d %s", after, a.status, a.body)
		}
		if status != 201 {
			if !strings.Contains(string(a.body), "no such job") {
				t.Fatalf("%s: %s", after, a.body)
			}
			return v1.Job{}
		}
		var j v1.Job
		if err := json.Unmarshal(a.body, &j); err != nil {
			t.Fatal(err)
		}
		return j
	}
	submit("", "0-3", 201)
	for i := range int64(2) {
		e := h.begin(1, i)
		h.system(command.JobObserved{Job: e, N: 1, Exited: true, Finished: h.now.Load(), ExitCode: int32(i)})
	}
	each := submit("aftercorr:1", "0-3", 201)
	if each.State != "queued" {
		t.Errorf("with one to follow: %s", each.State)
	}
	h.system(command.JobDue{Job: 4})
	why := func(name string) string {
		t.Helper()
		w := get[v1.Why](h, 200, request{method: "GET", path: "/v1/jobs/" + name + "/why", user: "ada"})
		return w.Summary
	}
	if s := why("4_2"); !strings.Contains(s, "the same element of job 1 has completed") {
		t.Error(s)
	}
	if s := why("4_0"); strings.Contains(s, "the same element") {
		t.Error(s)
	}
	get[v1.Job](h, 200, request{method: "POST", path: "/v1/jobs/1/stop", user: "ada", body: v1.StopRequest{Elements: "2"}})
	for after, state := range map[string]string{
		"afterok:1_0": "queued", "afternotok:1_1": "queued", "afternotok:1_2": "queued", "afterany:1_3": "held", "afterok:1_1?afterok:1_0": "queued",
	} {
		if j := submit(after, "", 201); j.State != state {
			t.Errorf("%s: %s", after, j.State)
		}
	}
	submit("afterok:1_4", "", 422)
	submit("afterok:99_1", "", 422)
	get[v1.Job](h, 200, request{method: "POST", path: "/v1/jobs/1/stop", user: "ada", body: v1.StopRequest{}})
	for after, state := range map[string]string{"afternotok:1_3": "queued", "aftercorr:1": "queued"} {
		array := ""
		if after == "aftercorr:1" {
			array = "0,3"
		}
		if j := submit(after, array, 201); j.State != state {
			t.Errorf("%s: %s, once all have ended", after, j.State)
		}
	}
	submit("afterok:1_4", "", 422)
}
