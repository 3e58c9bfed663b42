package httpapi

import (
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
)

// A workspace is named by its name, by its user alone; it is stopped, started with changes
// and deleted, and its number stays all the while.
func TestWorkspaceByName(t *testing.T) {
	h := newHarness(t)
	spec := example()
	spec.Kind, spec.Name, spec.Apps = v1.KindWorkspace, "nb", []v1.App{{Port: 8888}}
	job := get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "ada", body: spec})
	again := get[v1.Problem](h, 422, request{method: "POST", path: "/v1/jobs", user: "ada", body: spec})
	if len(again.Reasons) != 1 || again.Reasons[0].Code != "WORKSPACE_EXISTS" {
		t.Errorf("a second one: %+v", again)
	}
	h.system(command.JobStart{Job: 1, Image: "sha256:1"})
	h.system(command.JobObserved{Job: 1, N: 1, Running: true, Started: 1})
	wait := request{method: "GET", path: "/v1/jobs/nb?wait=ready&timeout=1ms", user: "ada"}
	if got := get[v1.Job](h, 200, wait); got.ID != job.ID || got.State != "running" || got.Ready != nil {
		t.Errorf("running: %+v", got)
	}
	h.system(command.AppsReady{Job: 1, N: 1})
	if got := get[v1.Job](h, 200, wait); got.Ready == nil {
		t.Errorf("ready: %+v", got)
	}
	get[v1.Problem](h, 404, request{method: "GET", path: "/v1/jobs/nb", user: "mia"})
	get[v1.Job](h, 200, request{method: "POST", path: "/v1/jobs/nb/stop", user: "ada", body: v1.StopRequest{}})
	h.system(command.JobObserved{Job: 1, N: 1, Exited: true, ExitCode: 143})
	got := get[v1.Job](h, 200, request{method: "GET", path: "/v1/jobs/nb?wait=ended", user: "ada"})
	if got.State != "stopped" || got.Outcome != "stopped" || got.Stopped == nil || got.Node != "" || got.Ready != nil || got.ExitCode == nil {
		t.Errorf("stopped: %+v", got)
	}
	for user, status := range map[string]int{"ada": 409, "mia": 404} {
		p := get[v1.Problem](h, status, request{method: "POST", path: "/v1/jobs/nb/open", user: user, body: v1.OpenRequest{}})
		if status == 409 != (p.Detail == "workspace nb is stopped: croft workspace start nb") {
			t.Errorf("opened by %s: %+v", user, p)
		}
	}
	if list := get[v1.Page[v1.Job]](h, 200, request{method: "GET", path: "/v1/jobs?state=stopped", user: "ada"}); len(list.Items) != 1 {
		t.Errorf("listed: %+v", list)
	}
	start := func(status int, set map[string]string) request {
		return request{method: "POST", path: "/v1/jobs/nb/start", user: "ada", body: v1.StartRequest{Set: set}}
	}
	refused := get[v1.Problem](h, 422, start(422, map[string]string{"gpu": "8"}))
	if refused.Code != "refused" || refused.ID != job.ID || refused.Remedy == nil || refused.Remedy.Flags == "" {
		t.Errorf("refused: %+v", refused)
	}
	if bad := get[v1.Problem](h, 422, start(422, map[string]string{"name": "other"})); len(bad.Fields) != 1 || bad.Fields[0].Path != "name" {
		t.Errorf("another name: %+v", bad)
	}
	started := get[v1.Job](h, 200, start(200, map[string]string{"gpu": "2"}))
	if started.ID != job.ID || started.State != "queued" || started.Spec.GPU != "2" || started.Window == nil || started.Receipt == nil || started.Receipt.Left == "" || started.Receipt.Left == started.Receipt.Deposit || len(started.Receipt.Lines) == 0 {
		t.Errorf("started: %+v", started)
	}
	get[v1.Job](h, 200, start(200, nil)) // it is
	if gone := get[v1.Job](h, 200, request{method: "POST", path: "/v1/jobs/nb/stop", user: "ada", body: v1.StopRequest{Delete: true}}); gone.ID != job.ID || gone.State != "ended" {
		t.Errorf("deleted: %+v", gone)
	}
	get[v1.Problem](h, 404, request{method: "GET", path: "/v1/jobs/nb", user: "ada"})
}
