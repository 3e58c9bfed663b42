package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/engine"
)

type fakeQueues struct {
	plan engine.QueuePlan
	err  error
}

func (f *fakeQueues) Plan(context.Context) (engine.QueuePlan, error) { return f.plan, f.err }
func (f *fakeQueues) Applies() bool                                  { return true }

func TestQueuePlan(t *testing.T) {
	h := newHarness(t)
	f := &fakeQueues{}
	get := func() (int, string) {
		a := h.send(request{method: http.MethodGet, path: "/v1/queues/plan", user: "olga"})
		return a.status, string(a.body)
	}
	if _, body := get(); !strings.Contains(body, string(codes.Conflict)) || !strings.Contains(body, "engine.kube.scheduler") {
		t.Errorf("without a batch scheduler: %s", body)
	}
	h.server.Queues = f
	f.plan = engine.QueuePlan{Scheduler: "kueue", Notes: []string{"a note"}, Changes: []engine.QueueChange{{
		Action: engine.ActionUpdate, Kind: "Cohort", Name: "croft.gpu", Fields: []engine.FieldChange{{Path: "spec.parentName", To: `"x"`}},
	}}}
	want := `{"scheduler":"kueue","applies":true,"changes":[{"action":"update","kind":"Cohort","name":"croft.gpu","fields":[{"path":"spec.parentName","to":"\"x\""}]}],"notes":["a note"]}`
	if status, body := get(); status != http.StatusOK || strings.TrimSpace(body) != want {
		t.Errorf("%d %s, want %s", status, body, want)
	}
	for code, err := range map[codes.Code]error{
		codes.Unavailable: &engine.UnavailableError{Cause: errors.New("secret")}, codes.Conflict: engine.ErrNoQueues, codes.Internal: errors.New("secret"),
	} {
		f.err = err
		if _, body := get(); !strings.Contains(body, `"`+string(code)+`"`) || strings.Contains(body, "secret") {
			t.Errorf("%v: %s, want %s", err, body, code)
		}
	}
}
