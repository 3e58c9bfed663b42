package gateway

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// identity are the headers by which an application is told who comes and how. Programs read
// a dash and an underscore as the same (RFC 3875, 4.1.18), so both are taken off.
var identity = []string{
	"forwarded", "x-real-ip", "x-client-ip", "x-original-url", "x-rewrite-url", "remote-user", "x-remote-user", "x-auth-request-user",
}

// spoofs reports whether a header says what only the gateway says.
func spoofs(name string) bool {
	if name == "" || !strings.ContainsRune("cfrx", rune(name[0]|0x20)) {
		return false // as all begin that are meant here
	}
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	return strings.HasPrefix(name, "croft-") || strings.HasPrefix(name, "x-forwarded-") || slices.Contains(identity, name)
}

// overrides reports whether some programs take a GET for something else by a header.
func overrides(name string) bool {
	switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
	case "x-http-method-override", "x-http-method", "x-method-override":
		return true
	}
	return false
}

// withheld reports whether a header isn't handed on to an application.
func withheld(name string, v *visit) bool {
	return spoofs(name) || v.action == access.AppView && overrides(name) || v.bearer && name == "Authorization"
}

// tell says by headers to an application who comes and how.
func (s *Server) tell(in *http.Request, v *visit, set func(name, value string)) {
	set("X-Forwarded-For", s.Logins.From(in))
	set("X-Forwarded-Host", in.Host)
	set("X-Forwarded-Proto", s.scheme())
	if v.base != "" {
		set("X-Forwarded-Prefix", v.base)
	}
	if v.p.User != 0 {
		set("X-Forwarded-User", v.p.Name)
		set("Croft-User", v.p.Name)
	}
	set("Croft-Access", accessWord(v))
}

// requestHeaders makes the headers that an application gets out of those that came.
func (s *Server) requestHeaders(in *http.Request, h http.Header, v *visit) {
	for name := range h {
		if withheld(name, v) {
			delete(h, name)
		}
	}
	if lines := h["Cookie"]; len(lines) > 0 {
		if kept := s.withoutCookie(lines); kept != "" {
			h["Cookie"] = []string{kept}
		} else {
			delete(h, "Cookie")
		}
	}
	s.tell(in, v, h.Set)
}

// accessWord says how far whoever comes was let in.
func accessWord(v *visit) string {
	switch {
	case v.action == access.AppView:
		return "view"
	case id.User(v.p.User) == v.job.User:
		return "owner"
	}
	return "full"
}

// withoutCookie is what is left of a request's cookies without Croft's own; the others are
// left as they are written.
func (s *Server) withoutCookie(lines []string) string {
	own := s.cookie
	var kept []string
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(part, "=")
			if strings.TrimSpace(name) != own && strings.TrimSpace(part) != "" {
				kept = append(kept, strings.TrimSpace(part))
			}
		}
	}
	return strings.Join(kept, "; ")
}

// stopsHeader says when a job is stopped if it stays idle, once its user was told so: to what
// shows its application, which may tell him. Nothing is written into others' pages.
const stopsHeader = "Croft-Stops-At"

// stops is when that is; zero: it isn't to be, or nobody was told.
func (s *Server) stops(j *workload.Job) time.Time {
	if j.State != workload.Running || j.Attempt.Idle.Told == 0 {
		return time.Time{}
	}
	at := s.StopsAt(id.Attempt{Job: j.ID, N: j.Attempt.N})
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at).Truncate(time.Second)
}

// forSite are headers by which an answer would act beyond the application that gave it: on
// the site's other names, or on the cookies of all of them.
var forSite = []string{"Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Public-Key-Pins"}

// answerHeaders makes the headers that the browser gets out of the application's.
func (s *Server) answerHeaders(h http.Header, host string, v *visit) {
	for _, name := range forSite {
		h.Del(name)
	}
	h.Del(stopsHeader)
	if at := s.stops(v.job); !at.IsZero() {
		h.Set(stopsHeader, at.UTC().Format(time.RFC3339))
	}
	if v.base != "" { // its scope would be all applications'
		h.Del("Service-Worker-Allowed")
	}
	if cookies := h["Set-Cookie"]; len(cookies) > 0 {
		var kept []string
		for _, c := range cookies {
			if c, ok := s.ownCookie(c, v.base); ok {
				kept = append(kept, c)
			}
		}
		if h["Set-Cookie"] = kept; len(kept) == 0 {
			delete(h, "Set-Cookie")
		}
	}
	if to := h.Get("Location"); to != "" {
		h.Set("Location", s.location(to, host, v))
	}
}

// ownCookie keeps a cookie that an application sets to its own host, and by path to its own
// path; false: it isn't one that an application may set.
func (s *Server) ownCookie(line, base string) (string, bool) {
	attrs := strings.Split(line, ";")
	name, _, ok := strings.Cut(attrs[0], "=")
	if name = strings.TrimSpace(name); !ok || name == "" || name == s.cookie || strings.EqualFold(name, "__Host-croft") {
		return "", false
	}
	out, path := []string{strings.TrimSpace(attrs[0])}, ""
	for _, a := range attrs[1:] {
		key, value, _ := strings.Cut(a, "=")
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "domain", "":
		case "path":
			path = strings.TrimSpace(value)
		default:
			out = append(out, strings.TrimSpace(a))
		}
	}
	switch {
	case base == "" && path != "":
		out = append(out, "Path="+path)
	case base != "" && !below(path, base):
		out = append(out, "Path="+base+"/")
	case base != "":
		out = append(out, "Path="+path)
	}
	return strings.Join(out, "; "), true
}

// below reports whether a path is a base or lies below it.
func below(path, base string) bool {
	return path == base || strings.HasPrefix(path, base+"/") && !strings.Contains(path, "..")
}

// location leads a redirect of an application to where the browser finds it: what names the
// application as it knows itself, or this host, is one of its own pages. Where it leads
// elsewhere, it does.
func (s *Server) location(to, host string, v *visit) string {
	u, err := url.Parse(to)
	if err != nil || u.Opaque != "" {
		return to
	}
	if u.Host != "" {
		if !s.ownHost(u, host, v) {
			return to
		}
		if u.Scheme != "" {
			u.Scheme = s.scheme()
		}
		u.Host = host
	} else if !strings.HasPrefix(to, "/") {
		return to // relative
	}
	if path := u.EscapedPath(); v.base != "" && v.app.Strip && !below(path, v.base) {
		if plain, err := url.PathUnescape(v.base + path); err == nil {
			u.Path, u.RawPath = plain, v.base+path
		}
	}
	return u.String()
}

// ownHost reports whether a URL's host is the application itself: under the name that the
// browser knows, or that of its own loopback.
func (s *Server) ownHost(u *url.URL, host string, v *visit) bool {
	if strings.EqualFold(u.Host, host) {
		return true
	}
	name, port, err := net.SplitHostPort(u.Host)
	if err != nil || port != strconv.Itoa(int(v.app.Port)) {
		return false
	}
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
