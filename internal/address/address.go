// Package address says where people find the server and the applications of jobs. Every
// link is made here, and what a browser asks for is read here, so that the two agree.
package address

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"croft.dev/croft/internal/id"
)

// Site is where a server is found. The zero value is nowhere: it can't be reached over HTTP.
type Site struct {
	scheme string
	host   string // of the server itself, in small letters
	port   string // empty: the scheme's own
	apps   string // domain that applications have names in; empty: they are reached by path
}

// Values of a site's domain of applications beside a name.
const (
	DomainAuto = ""     // apps.localhost where the server is localhost, else none
	DomainNone = "none" // by path
)

// loopbackApps is the domain that browsers resolve by themselves (RFC 6761, 6.3).
const loopbackApps = "apps.localhost"

// New returns the site with a public URL, which is a scheme and a host, and a domain of
// applications. The errors name what is wrong and the fix.
func New(public, domain string) (Site, error) {
	u, err := url.Parse(public)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return Site{}, errors.New("must be a scheme and a host and perhaps a port, such as https://croft.example.org")
	}
	s := Site{scheme: u.Scheme, host: strings.ToLower(u.Hostname()), port: u.Port()}
	if !hostName(s.host) && !isIP(s.host) {
		return Site{}, errors.New("has no host's name in it, such as croft.example.org")
	}
	if _, err := strconv.ParseUint(s.port, 10, 16); s.port != "" && err != nil {
		return Site{}, errors.New("has a port that isn't from 0 to 65535")
	}
	if s.scheme == "http" && s.port == "80" || s.scheme == "https" && s.port == "443" {
		s.port = ""
	}
	if s.scheme == "http" && !IsLoopback(s.host) {
		return Site{}, errors.New("must begin with https://: passwords and cookies aren't for everybody on the way to read")
	}
	switch domain {
	case DomainAuto:
		if IsLoopback(s.host) {
			s.apps = loopbackApps
		}
	case DomainNone:
	default:
		s.apps = strings.ToLower(domain)
	}
	return s, nil
}

// CheckDomain says what is wrong with a domain of applications, for a site with that public
// URL; empty: nothing.
func (s Site) CheckDomain(domain string) string {
	domain = strings.ToLower(domain)
	switch {
	case domain == DomainAuto || domain == DomainNone:
		return ""
	case !hostName(domain) || !strings.Contains(domain, "."):
		return "must be a domain that all names below lead to this server, such as apps.croft.example.org, or none"
	case domain == s.host || strings.HasSuffix(s.host, "."+domain):
		return "must not be above the server's own name: applications are kept apart from it by theirs"
	}
	return ""
}

// IsLoopback reports whether a host is this machine by its name or number alone.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.IsLoopback()
}

func isIP(host string) bool { _, err := netip.ParseAddr(host); return err == nil }

var namePattern = regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*\z`)

func hostName(s string) bool { return len(s) <= 253 && namePattern.MatchString(s) }

// None reports whether there is no way here over HTTP.
func (s Site) None() bool { return s.host == "" }

// Secure reports whether browsers come over HTTPS: cookies are then for that alone.
func (s Site) Secure() bool { return s.scheme == "https" }

// Hostname is the server's own name, without a port.
func (s Site) Hostname() string { return s.host }

// Origin is the scheme, host and port of the server itself (RFC 6454).
func (s Site) Origin() string { return s.origin(s.host) }

// URL is a page of the server itself; the path begins with a slash.
func (s Site) URL(path string) string { return s.Origin() + path }

func (s Site) origin(host string) string {
	if s.None() {
		return ""
	}
	if s.port != "" {
		host = net.JoinHostPort(host, s.port)
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return s.scheme + "://" + host
}

// App is an application of a job.
type App struct {
	Job  id.Job
	Name string // empty: the job's first
}

// label is an app's name in the domain: 118 or 118-board.
func (a App) label() string {
	if a.Name == "" {
		return number(a.Job)
	}
	return number(a.Job) + "-" + a.Name
}

func number(j id.Job) string { return strconv.FormatInt(int64(j), 10) }

// ByName reports whether applications have names, and so an origin each, of their own.
func (s Site) ByName() bool { return s.apps != "" }

// AppHost is the host of an application, without a port: a name of its own, or the server's.
func (s Site) AppHost(a App) string {
	if s.apps == "" {
		return s.host
	}
	return a.label() + "." + s.apps
}

// AppOrigin is the scheme, host and port of an application.
func (s Site) AppOrigin(a App) string { return s.origin(s.AppHost(a)) }

// Base is the path below which an application is, on its host. It begins and ends with a
// slash.
func (s Site) Base(a App) string {
	switch {
	case s.apps != "":
		return "/"
	case a.Name == "":
		return pathPrefix + number(a.Job) + "/"
	}
	return pathPrefix + number(a.Job) + "/" + a.Name + "/"
}

// AppURL is a page of an application. The path begins with a slash, and is written as in a
// request: escaped, with its query.
func (s Site) AppURL(a App, path string) string {
	if s.None() {
		return ""
	}
	return s.AppOrigin(a) + strings.TrimSuffix(s.Base(a), "/") + path
}

// OpenPath is the server's own page that leads on to a page of an application, for whoever is
// logged in.
func (a App) OpenPath(next string) string {
	if next == "" || next == "/" {
		return "/open/" + a.label()
	}
	return "/open/" + a.label() + "?" + url.Values{"next": {next}}.Encode()
}

// pathPrefix is above all applications that are reached by path.
const pathPrefix = "/w/"

// Place is what a request is for.
type Place int

// The places.
const (
	Elsewhere Place = iota // the server itself
	OfApp                  // an application
	Nowhere                // a name or path of an application that can't be
)

// ByHost says what a request for a host is for. The port doesn't count.
func (s Site) ByHost(host string) (App, Place) {
	if s.apps == "" {
		return App{}, Elsewhere
	}
	label, ok := strings.CutSuffix(BareHost(host), "."+s.apps)
	if !ok {
		return App{}, Elsewhere
	}
	if a, ok := ParseApp(label); ok {
		return a, OfApp
	}
	return App{}, Nowhere
}

// BareHost is a host as it is compared: without port, brackets, capitals and the dot of the
// root.
func BareHost(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// ParseApp reads an application's label: 118, or 118-board.
func ParseApp(label string) (App, bool) {
	number, name, named := strings.Cut(label, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || len(number) > 18 || number[0] == '0' || named && !appName(name) {
		return App{}, false
	}
	return App{id.Job(n), name}, true
}

// appName reports whether an application may be called so: up to 32 small letters, digits and
// dashes, which are neither first nor last.
func appName(s string) bool {
	if s == "" || len(s) > 32 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// ByPath says what a request for an escaped path is for, at a site that reaches applications
// so. named says whether a job has an application of that name beside its first; where there
// is none, the name belongs to the first one's own paths. base is what Base says of the app,
// without the slash that ends it.
func (s Site) ByPath(path string, named func(id.Job, string) bool) (a App, base string, at Place) {
	rest, ok := strings.CutPrefix(path, pathPrefix)
	if s.apps != "" || !ok {
		return App{}, "", Elsewhere
	}
	number, rest, _ := strings.Cut(rest, "/")
	a, ok = ParseApp(number)
	if !ok || a.Name != "" {
		return App{}, "", Nowhere
	}
	base = pathPrefix + number
	name, _, _ := strings.Cut(rest, "/")
	if inner, ok := ParseApp("1-" + name); ok && named(a.Job, inner.Name) {
		a.Name = inner.Name
		base += "/" + name
	}
	return a, base, OfApp
}
