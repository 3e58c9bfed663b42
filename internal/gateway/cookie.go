package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/id"
)

// cookieLife bounds how long a browser is known without showing anything else.
const cookieLife = 12 * time.Hour

// badge is what a cookie says: whom it is of, and what he had shown.
type badge struct {
	user  id.User
	token id.Token // a session or a token, with which the cookie ends
	ends  int64    // ns
}

// cookieName is that of Croft's cookies at a site. Over HTTPS it has the prefix with which browsers
// keep a cookie to its very host (RFC 6265bis, 4.1.3.2); else the port, which cookies don't
// know otherwise.
func cookieName(site address.Site) string {
	if site.Secure() {
		return "__Host-croft"
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(site.Origin(), "http://"+site.Hostname()), ":")
	return "croft" + port
}

// cookieOf is what a cookie is sealed for: on another host it is worth nothing.
func cookieOf(host string) string { return "gateway cookie of " + host }

// setCookie makes the browser known at the host.
func (s *Server) setCookie(w http.ResponseWriter, host string, b badge) {
	s.put(w, s.Key.Seal(b.text(), cookieOf(host)), int(cookieLife/time.Second))
}

// dropCookie makes it forget.
func (s *Server) dropCookie(w http.ResponseWriter) { s.put(w, "", -1) }

func (s *Server) put(w http.ResponseWriter, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: s.cookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: s.Site.Secure(), SameSite: http.SameSiteLaxMode,
	})
}

func (b badge) text() string { return fmt.Sprintf("1 %d %d %d", b.user, b.token, b.ends) }

// parseBadge reads what text writes.
func parseBadge(text string) (badge, bool) {
	f := strings.Split(text, " ")
	if len(f) != 4 || f[0] != "1" {
		return badge{}, false
	}
	var n [3]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(f[i+1], 10, 64); err != nil {
			return badge{}, false
		}
	}
	return badge{id.User(n[0]), id.Token(n[1]), n[2]}, n[0] > 0 && n[1] > 0
}

// badgeOf is the one that a request shows at a host. Where several are good and not the same
// none counts: one was put there by somebody else.
func (s *Server) badgeOf(r *http.Request, host string) (badge, bool) {
	var out badge
	for _, c := range r.CookiesNamed(s.cookie) {
		b, ok := s.unseal(c.Value, host)
		if !ok || s.Now() >= b.ends {
			continue
		}
		if out != (badge{}) && (out.user != b.user || out.token != b.token) {
			return badge{}, false
		}
		out = b
	}
	return out, out != badge{}
}

// unseal reads a cookie that was set at a host.
func (s *Server) unseal(value, host string) (badge, bool) {
	if b, ok := s.opened.get(value, host); ok {
		return b, true
	}
	text, err := s.Key.Open(value, cookieOf(host))
	if err != nil {
		return badge{}, false
	}
	b, ok := parseBadge(text)
	if ok {
		s.opened.put(value, host, b)
	}
	return b, ok
}

// opened remembers what cookies say that are good, since opening one takes a while. That never
// changes; whether it counts is asked at every request all the same.
type opened struct {
	mu sync.RWMutex
	by map[sealed]badge
}

type sealed struct{ value, host string }

// maxOpened is how many are remembered.
const maxOpened = 4096

func newOpened() *opened { return &opened{by: map[sealed]badge{}} }

func (o *opened) get(value, host string) (badge, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	b, ok := o.by[sealed{value, host}]
	return b, ok
}

func (o *opened) put(value, host string, b badge) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.by) >= maxOpened {
		clear(o.by) // they are opened once more
	}
	o.by[sealed{strings.Clone(value), strings.Clone(host)}] = b // not the request's headers with it
}

// caller is who a request is from, at a host: nobody, if it shows nothing that is good.
func (s *Server) caller(r *http.Request, host string) (p access.Principal, bearer bool, err error) {
	p, bearer, err = s.Logins.Bearer(r)
	if bearer || err != nil {
		return p, bearer, err
	}
	if b, ok := s.badgeOf(r, host); ok {
		if p, ok := s.Logins.Known(r.Context(), b.user, b.token); ok {
			return p, false, nil
		}
	}
	return access.Principal{Now: s.Now()}, false, nil
}
