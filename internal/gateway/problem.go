package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/workload"
)

// problem is why somebody isn't where he wants to be.
type problem struct {
	code    codes.Code
	title   string
	text    string
	command string // what helps, on a terminal
	again   int    // seconds until it is worth another try; 0: it isn't by itself
}

// navigates reports whether a person looks at what is answered, and not a program.
func navigates(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || upgrades(r) {
		return false
	}
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// page answers with a problem: a page for people, JSON for programs.
func (s *Server) page(w http.ResponseWriter, r *http.Request, status int, p problem) {
	if p.again > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.again))
	}
	if navigates(r) {
		s.html(w, status, "problem", struct {
			Title, Text, Command string
			Again                int
		}{p.title, p.text, p.command, p.again})
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "code": p.code, "title": p.title, "detail": strings.TrimSpace(p.text + " " + p.command)}) // a reader that went away
}

// refuse answers with an error. What isn't a fault is nobody's business.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var f *fault.Error
	if !errors.As(err, &f) {
		if r.Context().Err() == nil {
			s.Logger.Error("gateway", "error", err)
		}
		f = fault.New(codes.Internal, "something went wrong here: the server's log says what")
	}
	status := codes.Of(f.Code).HTTP
	if f.Code == codes.TooMany { // of connections, not of requests
		status = http.StatusServiceUnavailable
	}
	s.page(w, r, status, problem{code: f.Code, title: http.StatusText(status), text: f.Message})
}

// turnAway answers who isn't let in: who may be known is asked who he is.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, a address.App, base string, err error) {
	var state *stateError
	switch {
	case errors.Is(err, errStranger) && navigates(r):
		rest := withQuery(strings.TrimPrefix(r.URL.EscapedPath(), base), r.URL.RawQuery)
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, s.Site.URL(a.OpenPath(rest)), http.StatusSeeOther)
	case errors.Is(err, errStranger):
		w.Header().Set("WWW-Authenticate", `Bearer realm="croft"`)
		s.refuse(w, r, fault.New(codes.Unauthenticated, "who are you? Open the application by croft app open, or send a token"))
	case errors.As(err, &state):
		s.waiting(w, r, state)
	default:
		s.refuse(w, r, err)
	}
}

// waiting says how a job is whose applications can't be reached now.
func (s *Server) waiting(w http.ResponseWriter, r *http.Request, e *stateError) {
	name := e.job.Name()
	p := problem{code: codes.Unavailable, title: "Job " + name + " isn't running", text: fmt.Sprintf("It is %s.", e.job.State)}
	switch e.job.State {
	case workload.Queued, workload.Held:
		p.title, p.text, p.again = "Job "+name+" waits for its turn", "This page goes on by itself when it has started.", 5
		if e.mine {
			p.command = "croft why " + name
		}
	case workload.Starting:
		p.title, p.text, p.again = "Job "+name+" is starting", strings.TrimSpace(e.text+" This page goes on by itself."), 2
	case workload.Stopping:
		p.title, p.text, p.again = "Job "+name+" is stopping", "", 5
	case workload.Stopped:
		p.title, p.text = "Workspace "+name+" is stopped", "Its files and its address stay. Whose it is can start it again:"
		p.command = "croft workspace start " + name
	}
	s.page(w, r, http.StatusServiceUnavailable, p)
}

// unready says that a running job's application isn't up, or not any more.
func (s *Server) unready(w http.ResponseWriter, r *http.Request, v *visit, err *engine.DialError) {
	p := problem{code: codes.Unavailable, title: "Application " + v.app.Name + " isn't up yet", again: 2,
		text: fmt.Sprintf("Job %s runs, but nothing of it listens on port %d. This page goes on by itself; if it doesn't, the log says why:", v.job.Name(), v.app.Port), command: "croft logs " + v.job.Name()}
	if err.Message != engine.NothingListens {
		p = problem{code: codes.Conflict, title: "Application " + v.app.Name + " can't be reached", text: err.Message}
	}
	s.page(w, r, http.StatusBadGateway, p)
}

// html writes a page of the gateway's own: nothing of it is run, framed or kept.
func (s *Server) html(w http.ResponseWriter, status int, name string, data any) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with none at all, forms would have no origin
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := pages.ExecuteTemplate(w, name, data); err != nil {
		s.Logger.Debug("a page wasn't written", "page", name, "error", err)
	}
}

var pages = template.Must(template.New("").Parse(`
{{- define "head"}}<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Croft</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:12vh auto;padding:0 1rem;color:#222;background:#fff}h1{font-size:1.3rem}
code{background:#eee;padding:.1em .3em}table{border-collapse:collapse;width:100%}td{padding:.3em .6em .3em 0;border-top:1px solid #ddd}
label{display:block;margin:.6em 0}input{font:inherit;padding:.3em;width:100%;box-sizing:border-box}button{font:inherit;padding:.3em 1em}
.bad{color:#a00}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}code{background:#333}td{border-color:#444}.bad{color:#f88}a{color:#8bf}}</style>{{end}}

{{- define "problem"}}{{template "head"}}{{if .Again}}<meta http-equiv="refresh" content="{{.Again}}">{{end}}</head>
<body><main><h1>{{.Title}}</h1><p>{{.Text}}</p>{{if .Command}}<p><code>{{.Command}}</code></p>{{end}}</main></body></html>
{{end}}

{{- define "login"}}{{template "head"}}</head><body><main><h1>Log in to Croft</h1>
{{if .Passwords}}{{if .Bad}}<p class="bad" role="alert">{{.Bad}}</p>{{end}}
<form method="post" action="/login"><input type="hidden" name="next" value="{{.Next}}">
<label>User<input name="user" autocomplete="username" autocapitalize="none" required autofocus value="{{.User}}"></label>
<label>Password<input type="password" name="password" autocomplete="current-password" required></label>
<button>Log in</button></form>
<p>A link that logs in by itself works once. Another, from where you use Croft:</p>
{{else}}<p>This server takes no passwords, and a link that logs in works once. Another, from a terminal:</p>
{{end}}<p><code>{{.Command}}</code></p></main></body></html>
{{end}}

{{- define "home"}}{{template "head"}}</head><body><main><h1>Applications and terminals of {{.User}}</h1>
{{if .Apps}}<table>{{range .Apps}}<tr><td>{{if .URL}}<a href="{{.URL}}">{{.Name}}</a>{{else}}{{.Name}}{{end}}</td><td>{{.App}}</td><td>{{if .Terminal}}<a href="{{.Terminal}}">terminal</a>{{end}}</td><td>{{.State}}{{if .Stops}}, <strong>{{.Stops}}</strong>{{end}}</td><td>{{.Of}}</td></tr>{{end}}</table>
{{else}}<p>None now.</p>{{end}}
<form method="post" action="/logout"><p><button>Log out</button></p></form></main></body></html>
{{end}}`))
