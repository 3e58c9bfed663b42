package gateway

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/terminal"
	"croft.dev/croft/internal/webterm"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Terminals are those of running jobs, as the API has them.
type Terminals interface {
	// Seat is whether somebody may use those of a job: its row, and whether he may only look.
	// The error is a *fault.Error.
	Seat(ctx context.Context, p access.Principal, job string) (j *workload.Job, view bool, err error)
	// JoinTerminal serves the WebSocket of a page for somebody who is known: the request's
	// path has the job's id and the terminal's name.
	JoinTerminal(w http.ResponseWriter, r *http.Request, p access.Principal)
}

// terminalPages has the pages of terminals answered.
func (s *Server) terminalPages() error {
	pages, err := webterm.New()
	if err != nil {
		return err
	}
	page := func(w http.ResponseWriter, r *http.Request) { s.terminalPage(w, r, pages) }
	s.pages.HandleFunc("GET "+address.TerminalPath+"{id}", page)
	s.pages.HandleFunc("GET "+address.TerminalPath+"{id}/{name}", page)
	s.pages.HandleFunc("GET "+address.TerminalPath+"{id}/{name}/socket", s.terminalSocket)
	s.pages.HandleFunc("GET "+webterm.FilesPath+"{file}", func(w http.ResponseWriter, r *http.Request) {
		if !pages.File(w, r, r.PathValue("file")) {
			s.refuse(w, r, fault.New(codes.NotFound, "there is no such page"))
		}
	})
	return nil
}

// terminalPage shows a terminal to whoever has logged in here and may look at it.
func (s *Server) terminalPage(w http.ResponseWriter, r *http.Request, pages *webterm.Pages) {
	t, ok := address.ParseTerminal(r.PathValue("id"), r.PathValue("name"), r.URL.Query())
	if !ok || !terminal.ValidName(t.Name) {
		s.refuse(w, r, fault.New(codes.NotFound, "there is no such page"))
		return
	}
	if !s.Sequencer.World().Site.Apps.Pages {
		s.refuse(w, r, world.NoPages())
		return
	}
	p, known := s.signedIn(r)
	switch {
	case !known && navigates(r):
		w.Header().Set("Cache-Control", "no-store")
		next := withQuery(r.URL.EscapedPath(), r.URL.RawQuery)
		http.Redirect(w, r, s.Site.URL("/login?"+url.Values{"next": {next}}.Encode()), http.StatusSeeOther)
		return
	case !known:
		s.refuse(w, r, fault.New(codes.Unauthenticated, "who are you? Log in at %s", s.Site.URL("/login")))
		return
	}
	j, view, err := s.Terminals.Seat(r.Context(), p, t.Job)
	switch {
	case err != nil:
		s.refuse(w, r, err)
		return
	case j.State == workload.Ended:
		s.page(w, r, http.StatusGone, problem{code: codes.Gone, title: "Job " + j.Name() + " has ended", text: "Job " + j.Name() + " has ended, and its terminals with it."})
		return
	case j.State != workload.Running:
		s.waiting(w, r, &stateError{j, int64(j.User) == p.User, s.Progress(j.ID)})
		return
	}
	t.View = t.View || view
	if err := pages.Show(w, t); err != nil {
		s.refuse(w, r, err)
	}
}

// terminalSocket is what the page speaks on. A browser sends its cookie along whoever's page
// opens a WebSocket, so that says of what origin it is; only this server's own may.
func (s *Server) terminalSocket(w http.ResponseWriter, r *http.Request) {
	site := r.Header.Get("Sec-Fetch-Site")
	if !s.sameOrigin(r, r.Header.Get("Origin")) || site != "" && site != "same-origin" {
		s.refuse(w, r, fault.New(codes.Denied, "this was asked for by a page of another origin, which isn't let through"))
		return
	}
	if !s.Sequencer.World().Site.Apps.Pages {
		s.refuse(w, r, world.NoPages())
		return
	}
	p, known := s.signedIn(r)
	switch {
	case !known:
		s.refuse(w, r, fault.New(codes.Unauthenticated, "who are you? Log in at %s", s.Site.URL("/login")))
	case !strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		s.refuse(w, r, fault.New(codes.Invalid, "this is spoken over a WebSocket"))
	default:
		s.Terminals.JoinTerminal(w, r, p)
	}
}
