package gateway

import (
	"errors"
	"net/http"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/workload"
)

// visit is a request to an application by somebody who may.
type visit struct {
	at     address.App
	base   string // path of the application on its host, without the slash that ends it
	p      access.Principal
	bearer bool // known by a token in the header Authorization
	action access.Action
	job    *workload.Job
	app    workload.App
	step   engine.StepID
	body   sent
}

// group is what the visit is open by.
func (v *visit) group() group {
	return group{id.User(v.p.User), id.Token(v.p.Narrow.Token), v.job.ID, v.action}
}

// stateError is a job whose applications can't be reached as it is.
type stateError struct {
	job  *workload.Job
	mine bool
	text string // how far it is
}

func (e *stateError) Error() string { return "job " + e.job.Name() + " is " + string(e.job.State) }

// errStranger is somebody who has to say who he is.
var errStranger = errors.New("nobody is known by this request")

// route answers a request for an application's address.
func (s *Server) route(w http.ResponseWriter, r *http.Request, a address.App, base string, at address.Place) {
	rest := strings.TrimPrefix(r.URL.EscapedPath(), base)
	switch {
	case at == address.Nowhere:
		s.refuse(w, r, fault.New(codes.NotFound, "there is no application at this address"))
	case rest == "": // links of the application are meant from the slash on
		http.Redirect(w, r, withQuery(base+"/", r.URL.RawQuery), http.StatusTemporaryRedirect)
	case rest == ticketPath:
		s.redeem(w, r, a)
	case strings.HasPrefix(rest, reserved) || rest+"/" == reserved:
		s.refuse(w, r, fault.New(codes.NotFound, "there is no such page"))
	default:
		s.visit(w, r, a, base)
	}
}

// reserved is what of an application's paths is Croft's.
const reserved = "/.croft/"

func withQuery(path, query string) string {
	if query != "" {
		return path + "?" + query
	}
	return path
}

func (s *Server) visit(w http.ResponseWriter, r *http.Request, a address.App, base string) {
	onlyWebSockets(r.Header)
	v, err := s.admit(r, a, base)
	if err == nil {
		err = s.enter(r, v)
	}
	if err != nil {
		s.turnAway(w, r, a, base, err)
		return
	}
	ctx, leave, err := s.live.enter(r.Context(), v.group())
	if err != nil {
		w.Header().Set("Retry-After", "10")
		s.refuse(w, r, err)
		return
	}
	defer leave()
	defer s.Presence.Enter(v.job.ID, presence.App)()
	s.forward(w, r.WithContext(ctx), v)
}

// admit finds out who comes, and whether he may.
func (s *Server) admit(r *http.Request, a address.App, base string) (*visit, error) {
	host := s.Site.AppHost(a)
	p, bearer, err := s.caller(r, host)
	if err != nil {
		return nil, err
	}
	if !bearer {
		if err := s.foreign(r); err != nil {
			return nil, err
		}
	}
	v := &visit{at: a, base: base, p: p, bearer: bearer, action: access.AppUse}
	world := s.Sequencer.World()
	j, found := world.Workload.Jobs.Get(a.Job)
	switch {
	case found && world.CanApp(p, access.AppUse, j):
	case found && world.CanApp(p, access.AppView, j):
		v.action = access.AppView
	case p.User == 0:
		return nil, errStranger
	default:
		return nil, fault.New(codes.NotFound, "there is no application at this address, or not for you")
	}
	if v.app, found = j.Spec.App(a.Name); !found {
		return nil, fault.New(codes.NotFound, "job %s has no application of that name", j.Name())
	}
	if v.action == access.AppView && !looks(r, v.app) {
		return nil, fault.New(codes.Denied, "this application is shared with you to look at: nothing can be changed in it")
	}
	v.job = j
	if j.State != workload.Running {
		return nil, &stateError{j, int64(j.User) == p.User, s.Progress(j.ID)}
	}
	name := id.Attempt{Job: j.ID, N: j.Attempt.N}.Engine(world.Site.Instance)
	v.step = engine.AttemptID(name).Primary()
	return v, nil
}

// looks reports whether a request changes nothing, as HTTP has it (RFC 9110, 9.2.1). What is
// said over a WebSocket can be anything, such as a cell to run: it is let through where the
// application has said that it keeps those from changing things who only look. A body has no
// meaning in such a request, and what doesn't read it may take it for the next one.
func looks(r *http.Request, app workload.App) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !hasBody(r) && (app.ViewSafe || !upgrades(r))
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// enter has a row in the log for whoever comes, before he is let in. It decides once more.
func (s *Server) enter(r *http.Request, v *visit) error {
	e, life := entry{group: v.group(), app: v.app.Name}, entryLife
	cmd := command.AppEnter{Job: v.job.ID, App: v.app.Name}
	actor := sequencer.Actor{User: e.user, Token: e.token}
	if v.p.User == 0 {
		// Whoever isn't known comes from somewhere; from how many places, who wants to fill
		// the log says himself, so that so many are noted and no more.
		e.from, life = s.Logins.From(r), visitLife
		cmd.Visitor, actor = e.from, sequencer.Actor{System: true, Name: "gateway"}
	}
	if s.entries.known(e, s.Now(), life) || v.p.User == 0 && !s.entries.room(v.job.ID, s.Now()) {
		return nil
	}
	if _, err := s.Sequencer.Do(r.Context(), actor, cmd, sequencer.Key{}); err != nil {
		return err
	}
	s.entries.note(e, s.Now())
	return nil
}

var errForeign = fault.New(codes.Denied, "this was asked for by a page of another origin, which isn't let through")

// foreign refuses what a page of another origin has the browser send: with its cookie it
// would act for whoever looks at that page. Following a link there is no such thing.
func (s *Server) foreign(r *http.Request) error {
	if origin := r.Header.Get("Origin"); origin != "" && (changes(r) || upgrades(r)) {
		if !s.sameOrigin(r, origin) {
			return errForeign
		}
		return nil
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "same-origin", "none":
		return nil
	}
	dest := r.Header.Get("Sec-Fetch-Dest")
	if !changes(r) && !upgrades(r) && r.Header.Get("Sec-Fetch-Mode") == "navigate" && (dest == "" || dest == "document") {
		return nil
	}
	return errForeign
}

// changes reports whether a request is of a kind that may change something.
func changes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}

// onlyWebSockets takes off that another protocol is asked for. What is said in that isn't looked
// at: with HTTP/2 in it whoever comes could say himself who he is. The request stays one
// (RFC 9110, 7.8).
func onlyWebSockets(h http.Header) {
	if up := h["Upgrade"]; len(up) > 0 && (len(up) > 1 || !strings.EqualFold(up[0], "websocket")) {
		delete(h, "Upgrade")
	}
}

// upgrades reports whether a request asks for another protocol on its connection.
func upgrades(r *http.Request) bool {
	return r.Header.Get("Upgrade") != "" || r.Method == http.MethodConnect
}

// sameOrigin reports whether an origin is the one that the request is for.
func (s *Server) sameOrigin(r *http.Request, origin string) bool {
	scheme, host, ok := strings.Cut(strings.ToLower(origin), "://")
	return ok && scheme == s.scheme() && host == strings.ToLower(r.Host)
}

func (s *Server) scheme() string {
	if s.Site.Secure() {
		return "https"
	}
	return "http"
}
