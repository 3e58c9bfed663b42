package cli

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
)

// Whoever wants a notebook gets the one that he has, started if it is stopped, or else one
// of the template.
func TestWorkspaceUp(t *testing.T) {
	spec := v1.JobSpec{Kind: "workspace", Name: "jupyter", Image: "jupyter:1", CPU: "2", Mem: "4G", Time: "8h", Mounts: []v1.Mount{{Source: "~"}}, Apps: []v1.App{{Name: "web", Port: 8888}}}
	templates := v1.Page[v1.Template]{Items: []v1.Template{{Name: "jupyter", Spec: spec}}}
	of := func(user, name, image string) v1.Template {
		return v1.Template{Name: name, User: user, Account: "nlp", Spec: v1.JobSpec{Kind: "workspace", Name: name, Image: image}}
	}
	users := v1.Page[v1.Template]{Items: append(templates.Items[:1:1], of("ada", "board", "mine:1"), of("ada", "jupyter", "old:1"), of("ben", "board", "bens:1"), of("ben", "plot", "b:1"), of("eve", "plot", "e:1"))}
	job := func(state string) v1.Job {
		j := v1.Job{ID: "119", Name: "jupyter", State: state, Spec: spec, Receipt: deposit}
		if state == "running" {
			j.Started, j.Ready, j.Limit = at(15, 0), at(15, 0), at(23, 0)
		}
		return j
	}
	ready := map[string]any{"GET /v1/jobs/jupyter": job("running"), "GET /v1/jobs/119": job("running"), "POST /v1/jobs/119/open": v1.Opened{URL: "http://119.apps.localhost:7370/.croft/open?ticket=x", Expires: *at(15, 15)}}
	shell := job("running")
	shell.Name, shell.Spec.Name, shell.Spec.Apps = "shell", "shell", nil
	failed := job("stopped")
	failed.Outcome, failed.Message = "failed", "no such image"
	refused := &v1.Problem{Status: 422, Code: "refused", ID: "119", Detail: "asked for 8 gpu, gpu1 has 4", Reasons: reasons, Remedy: remedy}
	bens := job("running")
	bens.User = "ben"
	for name, tt := range map[string]struct {
		line    string
		answers map[string]any
		code    int
		says    []string // on either stream
		asks    []string // requests that are made
		never   string   // one that isn't
	}{
		"a new one": {
			line: "notebook --gpu 1 -e SEED=1", asks: []string{`POST /v1/jobs {"name":"jupyter","kind":"workspace","image":"jupyter:1","env":{"SEED":"1"},"mounts":[{"source":"~"}]`, `"gpu":"1"`},
			answers: map[string]any{"GET /v1/templates": templates, "POST /v1/jobs": job("queued"), "GET /v1/jobs/119": job("running"), "POST /v1/jobs/119/open": ready["POST /v1/jobs/119/open"]},
			says:    []string{"119 jupyter: quote 2.288", "119 ready in", "home mounted; stops at 23:00", "logs in once, until 15:15; another:  croft notebook\n", "http://119.apps.localhost:7370/.croft/open?ticket=x\n"},
		},
		"without a home, of another image": {
			line: "ws new jupyter --name nb --image lab:2 --no-home -d", asks: []string{`POST /v1/jobs {"name":"nb","kind":"workspace","image":"lab:2"`}, never: `"mounts"`,
			answers: map[string]any{"GET /v1/templates": templates, "POST /v1/jobs": job("queued")}, says: []string{"119\n"},
		},
		"of one's own template, not of others'": {
			line: "workspace new board -d", asks: []string{`{"name":"board","kind":"workspace","image":"mine:1"}`},
			answers: map[string]any{"GET /v1/templates": users, "GET /v1/me": me, "POST /v1/jobs": job("queued")},
		},
		"of somebody's": {
			line: "workspace new ben/board -d", asks: []string{`{"name":"board","kind":"workspace","image":"bens:1"}`},
			answers: map[string]any{"GET /v1/templates": users, "POST /v1/jobs": job("queued")},
		},
		"of one of several": {
			line: "workspace new plot", answers: map[string]any{"GET /v1/templates": users, "GET /v1/me": me}, code: 2, never: "POST",
			says: []string{"several users share a template plot (there are: ben/plot, eve/plot): give one by its whole name"},
		},
		"the site's before one's own": {
			line: "workspace new jupyter -d", asks: []string{`"image":"jupyter:1"`}, answers: map[string]any{"GET /v1/templates": users, "POST /v1/jobs": job("queued")},
		},
		"no such template": {line: "workspace new lab", answers: map[string]any{"GET /v1/templates": templates}, code: 2, says: []string{"no such template: lab (there are: jupyter)"}},
		"one that runs":    {line: "notebook", answers: ready, says: []string{"119.apps.localhost"}, never: "POST /v1/jobs {"},
		"for a script":     {line: "workspace start jupyter -o json", answers: ready, says: []string{`"id": "119"`, `"url": "http://119.apps.localhost:7370/.croft/open?ticket=x"`}},
		"somebody else's that runs": {
			line: "workspace start 119", answers: map[string]any{"GET /v1/jobs/119": bens, "GET /v1/me": me}, code: 2, never: "POST",
			says: []string{"119 is ben's, and running: croft app open 119"},
		},
		"one that is just being deleted": {
			line: "notebook -d", answers: map[string]any{"GET /v1/jobs/jupyter": job("stopping"), "GET /v1/jobs/119": job("ended"), "GET /v1/templates": templates, "POST /v1/jobs": job("queued")},
			says: []string{"119 jupyter is being stopped"}, asks: []string{"POST /v1/jobs {"},
		},
		"no browser": {line: "notebook --open", answers: ready, says: []string{"there is no browser here: open this yourself\n", "119.apps.localhost"}},
		"without a terminal": {
			line: "shell", answers: map[string]any{"GET /v1/jobs/shell": shell, "GET /v1/jobs/119": shell}, says: []string{"croft terminal shell\n", "119\n"}, never: "POST",
		},
		"open, without waiting": {line: "notebook -d --open", answers: ready, code: 2, says: []string{"[detach open]", "see:  croft notebook --help"}},
		"one that runs, with changes": {
			line: "notebook --gpu 2", answers: map[string]any{"GET /v1/jobs/jupyter": job("running")}, code: 2, says: []string{"croft workspace stop jupyter first"}, never: "POST",
		},
		"one that is stopped": {
			line: "notebook --gpu 2", answers: map[string]any{"GET /v1/jobs/jupyter": job("stopped"), "POST /v1/jobs/119/start": job("queued"), "GET /v1/jobs/119": job("running"), "POST /v1/jobs/119/open": ready["POST /v1/jobs/119/open"]},
			asks: []string{`POST /v1/jobs/119/start {"set":{"gpu":"2"}}`}, says: []string{"119 ready"},
		},
		"one that can't start": {
			line: "workspace start jupyter --gpu 8", answers: map[string]any{"GET /v1/jobs/jupyter": job("stopped"), "POST /v1/jobs/119/start": refused}, code: 3,
			says: []string{"refused 119: asked for 8 gpu", "try:  croft workspace start 119 --gpu 4"},
		},
		"one that stops at once": {
			line: "workspace start jupyter", answers: map[string]any{"GET /v1/jobs/jupyter": job("stopped"), "POST /v1/jobs/119/start": job("queued"), "GET /v1/jobs/119": failed}, code: 1,
			says: []string{"119 jupyter stopped: no such image", "see:  croft logs 119"},
		},
		"a job of the name": {line: "notebook", answers: map[string]any{"GET /v1/jobs/jupyter": running}, code: 2, says: []string{"is a job, not a workspace"}},
		"stop":              {line: "workspace stop jupyter", answers: map[string]any{"GET /v1/jobs/jupyter": job("running"), "POST /v1/jobs/119/stop": job("stopping")}, asks: []string{"POST /v1/jobs/119/stop {}"}, says: []string{"119 stopping"}},
		"delete":            {line: "workspace rm jupyter", answers: map[string]any{"GET /v1/jobs/jupyter": job("stopped"), "POST /v1/jobs/119/stop": job("ended")}, asks: []string{`POST /v1/jobs/119/stop {"delete":true}`}},
		"delete no workspace": {
			line: "workspace rm 118", answers: map[string]any{"GET /v1/jobs/118": running}, code: 2, never: "POST",
		},
		"list":      {line: "workspace ls", answers: map[string]any{"GET /v1/jobs": v1.Page[v1.Job]{Items: []v1.Job{job("running"), running, failed}}}, says: []string{"119  jupyter  ready", "119  jupyter  stopped", "failed: no such image"}},
		"templates": {line: "template ls", answers: map[string]any{"GET /v1/templates": templates}, says: []string{"jupyter", "jupyter:1", "2 cpu  4G mem  8h"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{answers: tt.answers}
			b := newBench(t, http.Handler(f))
			code := b.run(strings.Fields(tt.line)...)
			said, asked := b.stdout.String()+b.stderr.String(), strings.Join(f.requests(), "\n")
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, want := range tt.says {
				if !strings.Contains(said, want) {
					t.Errorf("doesn't say %q", want)
				}
			}
			if missing := slices.DeleteFunc(slices.Clone(tt.asks), func(s string) bool { return strings.Contains(asked, s) }); len(missing) > 0 || tt.never != "" && strings.Contains(asked, tt.never) {
				t.Errorf("doesn't ask %q, or does %q", missing, tt.never)
			}
			if t.Failed() {
				t.Logf("%s\n%s", said, asked)
			}
		})
	}
}

// Whoever wants a shell is in one, on a terminal; how he left it or not, he is told that it
// goes on.
func TestShell(t *testing.T) {
	spec := v1.JobSpec{Kind: "workspace", Name: "dev", Image: "debian", Pause: true}
	job := v1.Job{ID: "119", Name: "dev", State: "running", Spec: spec, Started: at(15, 0), Ready: at(15, 0), Limit: at(23, 0)}
	joined := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for _, text := range []string{string(rune(v1.TerminalAs)) + `{"id":"0123456789abcdef","seq":0}`, string(rune(v1.ExecExit)) + `{"exit_code":7}`} {
			_ = conn.Write(r.Context(), websocket.MessageBinary, []byte(text))
		}
		_ = conn.Close(websocket.StatusNormalClosure, "")
	})
	f := &fake{answers: map[string]any{"GET /v1/jobs/dev": job, "GET /v1/jobs/119": job, "GET /v1/jobs/119/terminals/main": joined}}
	b := newBench(t, f)
	raw := 0
	b.app.env.Term = terminalOf(&raw)
	in, feed := io.Pipe()
	defer feed.Close()
	b.app.env.Stdin = in
	if code := b.run("shell", "--name", "dev"); code != 7 || raw != 2 {
		t.Errorf("exit %d, raw %d", code, raw)
	}
	if strings.Contains(b.stderr.String(), "119 ready") {
		t.Errorf("it was: %q", b.stderr)
	}
	if want := "119 dev runs on.  back:  croft shell --name dev  no more:  croft workspace stop dev\n"; !strings.HasSuffix(b.stderr.String(), want) {
		t.Errorf("%q doesn't end with %q", b.stderr, want)
	}
}

// What is stopped while it starts goes on, and who stopped it knows how to come back.
func TestWorkspaceInterrupted(t *testing.T) {
	signals := make(chan os.Signal)
	job := v1.Job{ID: "119", Name: "jupyter", State: "starting", Spec: v1.JobSpec{Kind: "workspace", Name: "jupyter", Apps: []v1.App{{Name: "web", Port: 8888}}}}
	f := &fake{answers: map[string]any{"GET /v1/jobs/jupyter": job, "GET /v1/jobs/119": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signals <- os.Interrupt
		<-r.Context().Done()
	})}}
	b := newBench(t, f)
	b.signals = signals
	if code := b.run("notebook"); code != exitInterrupted || !strings.Contains(b.stderr.String(), "119 jupyter goes on without you.  back:  croft notebook  no more:  croft workspace stop jupyter\n") {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
}
