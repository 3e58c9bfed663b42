package gateway

import (
	"net/http"
	"net/url"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// maxForm bounds what is sent to log in, in bytes.
const maxForm = 16 << 10

// ownPath is a path of this server out of what a request says; anything else, the first
// page's: nobody is led elsewhere from here.
func ownPath(next string) string {
	bad := func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsFunc(next, bad) {
		return "/"
	}
	return next
}

// signedIn is who a browser is known as at the server's own pages.
func (s *Server) signedIn(r *http.Request) (access.Principal, bool) {
	b, ok := s.badgeOf(r, s.Site.Hostname())
	if !ok {
		return access.Principal{}, false
	}
	return s.Logins.Known(r.Context(), b.user, b.token)
}

func (s *Server) loginPage(w http.ResponseWriter, r *http.Request) {
	s.askLogin(w, http.StatusOK, r.URL.Query().Get("next"), "", "")
}

func (s *Server) askLogin(w http.ResponseWriter, status int, next, user, bad string) {
	s.html(w, status, "login", struct {
		Passwords                bool
		Next, User, Bad, Command string
	}{s.Logins.Passwords(), ownPath(next), user, bad, openCommand(next)})
}

// openCommand is what gives a link that logs in, to where somebody wanted to be.
func openCommand(next string) string {
	rest, _ := strings.CutPrefix(ownPath(next), "/open/")
	name, _, _ := strings.Cut(rest, "?")
	a, ok := address.ParseApp(name)
	switch {
	case !ok:
		return "croft app open JOB"
	case a.Name == "":
		return "croft app open " + a.Job.Name()
	}
	return "croft app open " + a.Job.Name() + " --app " + a.Name
}

// ownForm refuses a form that wasn't sent from a page of this server: browsers say whence.
func (s *Server) ownForm(w http.ResponseWriter, r *http.Request) bool {
	if origin := r.Header.Get("Origin"); s.sameOrigin(r, origin) {
		return true
	}
	s.refuse(w, r, fault.New(codes.Denied, "this form was sent from a page of another origin"))
	return false
}

// login opens a session, as the API does, and lets the browser be known by it.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if !s.ownForm(w, r) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		s.refuse(w, r, fault.New(codes.Invalid, "the form can't be read"))
		return
	}
	user, next := r.PostForm.Get("user"), r.PostForm.Get("next")
	row, err := s.Logins.LogIn(r, user, r.PostForm.Get("password"), "browser")
	if err != nil {
		code := fault.Of(err)
		if code == codes.Internal {
			s.refuse(w, r, err)
			return
		}
		s.askLogin(w, codes.Of(code).HTTP, next, user, err.Error())
		return
	}
	s.setCookie(w, s.Site.Hostname(), s.newBadge(row.User, row.ID))
	http.Redirect(w, r, s.Site.URL(ownPath(next)), http.StatusSeeOther)
}

// newBadge is one for a user, by the session or token that he has shown.
func (s *Server) newBadge(user id.User, token id.Token) badge {
	return badge{user, token, s.Now() + int64(cookieLife)}
}

// logout ends the session: with it all that this browser is known by.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if !s.ownForm(w, r) {
		return
	}
	if p, ok := s.signedIn(r); ok {
		if err := s.Logins.LogOut(r.Context(), p); err != nil {
			s.refuse(w, r, err)
			return
		}
	}
	s.dropCookie(w)
	http.Redirect(w, r, s.Site.URL("/login"), http.StatusSeeOther)
}

// open leads somebody on to an application, with a ticket.
func (s *Server) open(w http.ResponseWriter, r *http.Request) {
	a, ok := address.ParseApp(r.PathValue("app"))
	if !ok {
		s.refuse(w, r, fault.New(codes.NotFound, "there is no such application"))
		return
	}
	p, ok := s.signedIn(r)
	if !ok {
		http.Redirect(w, r, s.Site.URL("/login?"+url.Values{"next": {withQuery(r.URL.EscapedPath(), r.URL.RawQuery)}}.Encode()), http.StatusSeeOther)
		return
	}
	world := s.Sequencer.World()
	j, ok := world.Workload.Jobs.Get(a.Job)
	if !ok || !world.CanApp(p, access.AppView, j) {
		s.refuse(w, r, fault.New(codes.NotFound, "there is no application at this address, or not for you (you are %s)", p.Name))
		return
	}
	to, _, err := s.Tickets.URL(id.User(p.User), id.Token(p.Narrow.Token), a, ownPath(r.URL.Query().Get("next")))
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.lead(w, r, to)
}

// lead redirects to where nobody else may learn that one was.
func (s *Server) lead(w http.ResponseWriter, r *http.Request, to string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// redeem lets whoever has a ticket be known at the application's host, or at the server's own
// where no application is meant, and leads on to a
// path without it. A ticket that is spent leads there as well: it may be the page's own
// history.
func (s *Server) redeem(w http.ResponseWriter, r *http.Request, a address.App) {
	if dest := r.Header.Get("Sec-Fetch-Dest"); r.Method != http.MethodGet || dest != "" && dest != "document" || strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch") {
		w.Header().Set("Allow", http.MethodGet)
		s.page(w, r, http.StatusMethodNotAllowed, problem{code: codes.Invalid, title: "Not like that", text: "This address is opened by a browser, once."})
		return
	}
	host, at := s.Site.AppHost(a), func(path string) string { return s.Site.AppURL(a, path) }
	if a == (address.App{}) {
		host, at = s.Site.Hostname(), s.Site.URL
	}
	t, ok := s.Tickets.redeem(r.URL.Query().Get("ticket"), a)
	p, known := s.Logins.Known(r.Context(), t.user, t.token)
	if !ok || !known {
		s.lead(w, r, at("/"))
		return
	}
	if other, ok := s.otherwise(r, host, p); ok {
		s.page(w, r, http.StatusConflict, problem{code: codes.Conflict, title: "A link of " + p.Name + "'s", text: "This link is for " + p.Name + ", and this browser is known as " + other.Name + " here. To be " + p.Name + ", log out on the server's first page, and ask for another link."})
		return
	}
	if t.token == 0 {
		var err error
		if t.token, err = s.Logins.ByLinks(r.Context(), t.user, s.Now()+int64(cookieLife)); err != nil {
			s.refuse(w, r, err)
			return
		}
	}
	s.setCookie(w, host, s.newBadge(t.user, t.token))
	s.lead(w, r, at(t.next))
}

// otherwise is as whom else than p a browser is known at a host: a link that somebody gives
// out doesn't change who another is.
func (s *Server) otherwise(r *http.Request, host string, p access.Principal) (access.Principal, bool) {
	b, ok := s.badgeOf(r, host)
	if !ok || int64(b.user) == p.User {
		return access.Principal{}, false
	}
	return s.Logins.Known(r.Context(), b.user, b.token)
}

// listed is an application on the first page, or a job that has terminals alone.
type listed struct{ Name, App, State, Of, URL, Terminal, Stops string }

// home lists what somebody may go to.
func (s *Server) home(w http.ResponseWriter, r *http.Request) {
	p, ok := s.signedIn(r)
	if !ok {
		http.Redirect(w, r, s.Site.URL("/login"), http.StatusSeeOther)
		return
	}
	world := s.Sequencer.World()
	var apps []listed
	for _, j := range world.Workload.Jobs.All() {
		terminals := j.State == workload.Running && world.Site.Apps.Pages && world.CanApp(p, access.TermView, j)
		if len(j.Spec.Apps) == 0 && !terminals || !world.CanApp(p, access.AppSee, j) {
			continue
		}
		owner, _ := world.Tenancy.Users.Get(j.User)
		as := listed{Name: j.Name(), State: string(j.State), Of: owner.Name}
		if j.Spec.Name != "" {
			as.Name = j.Spec.Name + " (" + j.Name() + ")"
		}
		if terminals {
			as.Terminal = s.Site.URL(address.Terminal{Job: j.Name(), Name: "main"}.Path())
		}
		if at := s.stops(j); !at.IsZero() {
			as.Stops = "idle: stops at " + at.Format("15:04")
		}
		var own []listed
		for i, app := range j.Spec.Apps {
			at := address.App{Job: j.ID}
			if i > 0 {
				at.Name = app.Name
			}
			one := as
			one.App, one.URL = app.Name, s.Site.URL(at.OpenPath(app.Path))
			own = append(own, one)
		}
		if len(own) == 0 {
			own = append(own, as)
		}
		apps = append(own, apps...) // the newest job first
	}
	s.html(w, http.StatusOK, "home", struct {
		User string
		Apps []listed
	}{p.Name, apps})
}
