package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
)

// runWithStep makes a small job of ada's that runs, with a step.
func (h *harness) runWithStep() string {
	h.t.Helper()
	spec := example()
	spec.GPU, spec.CPU, spec.Mem = "0", "0.1", "64M"
	job := get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "ada", body: spec}).ID
	h.start(job)
	get[v1.Step](h, 201, request{method: "POST", path: "/v1/jobs/" + job + "/steps", user: "ada", body: v1.StepSpec{}})
	return job
}

// startStep lets a waiting step run.
func (h *harness) startStep(job string, n int32) {
	h.t.Helper()
	k, _ := id.ParseJob(job)
	h.system(command.StepStart{Job: k, N: n, Image: "sha256:2"})
	h.system(command.StepObserved{Job: k, N: n, Attempt: 1, Running: true, Started: h.now.Load()})
}

// TestLifeOfAStep goes with a client from the addition of a step to its end.
func TestLifeOfAStep(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	c := h.client("ada")
	if _, err := c.AddStep(t.Context(), job, v1.StepSpec{}); v1.CodeOf(err) != codes.Conflict {
		t.Errorf("a step of a waiting job: %v", err)
	}
	h.start(job)
	spec := v1.StepSpec{Image: "tool:1", Command: []string{"serve", "--all"}, Env: map[string]string{"A": "b"}, CPU: "2", GPU: "1"}
	step, err := c.AddStep(t.Context(), job, spec, v1.Key("once"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Name, spec.Pull = "serve", "missing"
	want := v1.Step{ID: job + ".2", Job: job, N: 2, State: "queued", Spec: spec, Attempt: 1, Submitted: step.Submitted, Seq: step.Seq}
	if diff := cmp.Diff(want, *step); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
	again, err := c.AddStep(t.Context(), job, v1.StepSpec{Image: "tool:1", Command: []string{"serve", "--all"}, Env: map[string]string{"A": "b"}, CPU: "2", GPU: "1"}, v1.Key("once"))
	if err != nil || again.ID != step.ID {
		t.Errorf("the same request once more: %+v, %v", again, err)
	}
	_, err = c.AddStep(t.Context(), job, v1.StepSpec{CPU: "9"})
	if p := (&v1.Problem{}); v1.CodeOf(err) != codes.Refused || !errors.As(err, &p) || len(p.Reasons) != 1 || p.Reasons[0].Code != string(codes.StepBeyond) || p.Reasons[0].Bound != "8" {
		t.Errorf("more than the job has: %v", err)
	}
	second, err := c.AddStep(t.Context(), job, v1.StepSpec{CPU: "7"})
	if err != nil {
		t.Fatal(err)
	}
	h.startStep(job, 2)
	h.startStep(job, 3)
	if got, err := c.Step(t.Context(), job, second.N); err != nil || got.State != "queued" || got.Message != "waits for what other steps have: "+job+".2" {
		t.Errorf("the second: %+v, %v", got, err)
	}

	waited := make(chan *v1.Step)
	go func() {
		s, err := c.WaitStep(context.Background(), job, 2, v1.Ended, v1.WaitOptions{})
		if err != nil {
			t.Error(err)
		}
		waited <- s
	}()
	k, _ := id.ParseJob(job)
	h.pass(time.Minute)
	h.system(command.StepObserved{Job: k, N: 2, Attempt: 1, Exited: true, Finished: h.now.Load(), ExitCode: 3})
	if s := <-waited; s.State != "ended" || s.Outcome != "failed" || *s.ExitCode != 3 || len(s.Devices) != 1 {
		t.Errorf("it ended as %+v", s)
	}
	h.startStep(job, 3)
	if _, err := c.StopStep(t.Context(), job, 3, v1.StepStop{Grace: "soon"}); v1.CodeOf(err) != codes.Invalid {
		t.Errorf("a grace that is none: %v", err)
	}
	if s, err := c.StopStep(t.Context(), job, 3, v1.StepStop{Grace: "1s"}); err != nil || s.State != "stopping" {
		t.Errorf("stopped: %+v, %v", s, err)
	}
	if s, err := c.StopStep(t.Context(), job, 2, v1.StepStop{}); err != nil || s.State != "ended" {
		t.Errorf("one that has ended, stopped: %+v, %v", s, err)
	}
	h.end(job, 0)
	var states []string
	for s, err := range c.Steps(t.Context(), job, v1.StepQuery{Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, strconv.Itoa(s.N)+" "+s.State+" "+s.Outcome)
	}
	if diff := cmp.Diff([]string{"2 ended failed", "3 ended cancelled"}, states); diff != "" {
		t.Errorf("after the job's end (-want +got):\n%s", diff)
	}
	for s, err := range c.Steps(t.Context(), job, v1.StepQuery{State: "live"}) {
		t.Errorf("one lives: %+v, %v", s, err)
	}
	for _, path := range []string{"/steps/4", "/steps/0", "/steps/x", "/steps/02"} {
		get[v1.Problem](h, 404, request{method: "GET", path: "/v1/jobs/" + job + path, user: "ada"})
	}
	get[v1.Problem](h, 422, request{method: "GET", path: "/v1/jobs/" + job + "/steps/2?wait=long", user: "ada"})
	get[v1.Problem](h, 422, request{method: "GET", path: "/v1/jobs/" + job + "/steps?state=odd", user: "ada"})
}

// A job's primary is its step 1: it is shown, waited for and stopped as one, and with it
// the job.
func TestPrimaryIsAStep(t *testing.T) {
	h := newHarness(t)
	c := h.client("ada")
	spec := example()
	spec.Args = []string{"--fast"}
	made, err := c.Submit(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	job := made.ID
	if s, err := c.Step(t.Context(), job, 1); err != nil || s.State != "queued" || s.ID != job+".1" || s.Spec.Image != spec.Image || s.Spec.Args[0] != "--fast" {
		t.Errorf("it waits: %+v, %v", s, err)
	}
	waited := make(chan *v1.Step)
	go func() {
		s, err := c.WaitStep(context.Background(), job, 1, v1.Running, v1.WaitOptions{})
		if err != nil {
			t.Error(err)
		}
		waited <- s
	}()
	h.start(job)
	if s := <-waited; s.State != "running" || s.Image == "" || s.Started == nil {
		t.Errorf("it runs: %+v", s)
	}
	if j, err := c.Job(t.Context(), job); err != nil || j.Image == "" || j.Steps != 0 {
		t.Errorf("the job: %+v, %v", j, err)
	}
	if _, err := h.client("ben").StopStep(t.Context(), job, 1, v1.StepStop{}); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("stopped by a stranger: %v", err)
	}
	if _, err := c.StopStep(t.Context(), job, 1, v1.StepStop{Grace: "-1s"}); v1.CodeOf(err) != codes.Invalid {
		t.Errorf("a grace that is none: %v", err)
	}
	if s, err := c.StopStep(t.Context(), job, 1, v1.StepStop{Grace: "5s"}); err != nil || s.State != "stopping" {
		t.Errorf("stopped: %+v, %v", s, err)
	}
	h.end(job, 0)
	if s, err := c.StopStep(t.Context(), job, 1, v1.StepStop{}); err != nil || s.State != "ended" || s.Outcome != "cancelled" {
		t.Errorf("stopped once more: %+v, %v", s, err)
	}
}

// A step's log and what is run in it are its own.
func TestStepStreams(t *testing.T) {
	h := newHarness(t)
	job := h.runWithStep()
	c := h.client("ada")
	h.engine.exec = func(_ context.Context, s engine.StepID, req engine.ExecRequest) (int, error) {
		_, _ = io.WriteString(req.Stdout, s.String()+" "+strings.Join(req.Command, " "))
		return 7, nil
	}
	if _, err := c.Exec(t.Context(), job, v1.ExecOptions{Step: 2, Args: []string{"id"}}); v1.CodeOf(err) != codes.Conflict {
		t.Errorf("exec in a waiting step: %v", err)
	}
	h.engine.logs = func(_ context.Context, s engine.StepID, o engine.LogOptions, w engine.LogWriter) error {
		return w.WriteLog(time.Unix(1, 0), engine.Stdout, []byte(s.String()+"\n"))
	}
	log, err := c.Logs(t.Context(), job, v1.LogQuery{Step: 2, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	h.startStep(job, 2)
	if f, err := log.Next(); err != nil || string(f.Data) != "0a1b2c3d-1-1.2\n" {
		t.Errorf("the log: %q, %v", f.Data, err)
	}
	var out bytes.Buffer
	if code, err := c.Exec(t.Context(), job, v1.ExecOptions{Step: 2, Args: []string{"id"}, Stdout: &out}); err != nil || code != 7 || out.String() != "0a1b2c3d-1-1.2 id" {
		t.Errorf("exec: %d, %v, %q", code, err, out.String())
	}
	for _, bad := range []string{"logs?step=x", "logs?step=0", "logs?step=2&attempt=1", "exec?arg=id&step=-1"} {
		get[v1.Problem](h, 422, request{method: "GET", path: "/v1/jobs/" + job + "/" + bad, user: "ada"})
	}
	get[v1.Problem](h, 404, request{method: "GET", path: "/v1/jobs/" + job + "/logs?step=9", user: "ada"})
}
