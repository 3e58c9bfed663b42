package address

import (
	"testing"

	"croft.dev/croft/internal/id"
)

// TestNew takes and refuses public URLs.
func TestNew(t *testing.T) {
	tests := map[string]struct {
		public string
		ok     bool
		origin string
		secure bool
	}{
		"a name":                    {"https://croft.example.org", true, "https://croft.example.org", true},
		"with a port":               {"https://croft.example.org:8443/", true, "https://croft.example.org:8443", true},
		"the scheme's own port":     {"https://Croft.Example.org:443", true, "https://croft.example.org", true},
		"localhost":                 {"http://localhost:7370", true, "http://localhost:7370", false},
		"loopback, IPv6":            {"http://[::1]:7370", true, "http://[::1]:7370", false},
		"an address":                {"https://192.0.2.7", true, "https://192.0.2.7", true},
		"in the clear":              {"http://croft.example.org", false, "", false},
		"a path":                    {"https://example.org/croft", false, "", false},
		"a query":                   {"https://example.org?x=1", false, "", false},
		"an empty query":            {"https://example.org?", false, "", false},
		"a user":                    {"https://ada@example.org", false, "", false},
		"no scheme":                 {"croft.example.org", false, "", false},
		"another scheme":            {"ftp://croft.example.org", false, "", false},
		"no host":                   {"https://:443", false, "", false},
		"a host that can't be one":  {"https://croft_example", false, "", false},
		"a header in it":            {"https://croft.example.org\r\nX: y", false, "", false},
		"a name that isn't its own": {"http://localhost.example.org", false, "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := New(tt.public, DomainAuto)
			if (err == nil) != tt.ok {
				t.Fatalf("error %v", err)
			}
			if err == nil && (s.Origin() != tt.origin || s.Secure() != tt.secure) {
				t.Errorf("%s, secure %v", s.Origin(), s.Secure())
			}
		})
	}
}

func site(t testing.TB, public, domain string) Site {
	t.Helper()
	s, err := New(public, domain)
	if err != nil {
		t.Fatal(err)
	}
	if why := s.CheckDomain(domain); why != "" {
		t.Fatal(why)
	}
	return s
}

// TestLinks makes links and reads them back.
func TestLinks(t *testing.T) {
	named := func(job id.Job, name string) bool { return job == 118 && name == "board" }
	for name, tt := range map[string]struct {
		public, domain string
		app            App
		url            string
	}{
		"on this machine":          {"http://localhost:7370", DomainAuto, App{Job: 118}, "http://118.apps.localhost:7370/lab?x=1"},
		"by address":               {"http://127.0.0.1:7370", DomainAuto, App{118, "board"}, "http://118-board.apps.localhost:7370/lab?x=1"},
		"a domain":                 {"https://croft.example.org", "apps.example.org", App{118, "board"}, "https://118-board.apps.example.org/lab?x=1"},
		"no domain":                {"https://croft.example.org", DomainAuto, App{Job: 118}, "https://croft.example.org/w/118/lab?x=1"},
		"none, and another's name": {"https://croft.example.org:8443", DomainNone, App{118, "board"}, "https://croft.example.org:8443/w/118/board/lab?x=1"},
		"none on this machine":     {"http://localhost:7370", DomainNone, App{118, "board"}, "http://localhost:7370/w/118/board/lab?x=1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := site(t, tt.public, tt.domain)
			if got := s.AppURL(tt.app, "/lab?x=1"); got != tt.url {
				t.Errorf("%s, want %s", got, tt.url)
			}
			var got App
			var at Place
			if s.ByName() {
				got, at = s.ByHost(s.AppHost(tt.app) + ":7370")
			} else {
				got, _, at = s.ByPath(s.Base(tt.app)+"lab", named)
			}
			if got != tt.app || at != OfApp {
				t.Errorf("read back: %+v, %v", got, at)
			}
		})
	}
}

// TestByHost reads hosts that browsers and others send.
func TestByHost(t *testing.T) {
	s := site(t, "http://localhost:7370", DomainAuto)
	for host, want := range map[string]struct {
		app App
		at  Place
	}{
		"118.apps.localhost":                    {App{Job: 118}, OfApp},
		"118.APPS.localhost.:7370":              {App{Job: 118}, OfApp},
		"118-board.apps.localhost":              {App{118, "board"}, OfApp},
		"localhost:7370":                        {App{}, Elsewhere},
		"apps.localhost":                        {App{}, Elsewhere},
		"evil.example.org":                      {App{}, Elsewhere},
		"118.apps.localhost.evil.org":           {App{}, Elsewhere},
		"xapps.localhost":                       {App{}, Elsewhere},
		".apps.localhost":                       {App{}, Nowhere},
		"0118.apps.localhost":                   {App{}, Nowhere},
		"-1.apps.localhost":                     {App{}, Nowhere},
		"118-.apps.localhost":                   {App{}, Nowhere},
		"1.118.apps.localhost":                  {App{}, Nowhere},
		"118.apps.localhost@evil.org":           {App{}, Elsewhere},
		"9999999999999999999999.apps.localhost": {App{}, Nowhere},
	} {
		if app, at := s.ByHost(host); app != want.app || at != want.at {
			t.Errorf("%s: %+v, %v", host, app, at)
		}
	}
}

// TestByPath reads paths.
func TestByPath(t *testing.T) {
	s := site(t, "https://croft.example.org", DomainNone)
	named := func(job id.Job, name string) bool { return job == 118 && name == "board" }
	for path, want := range map[string]struct {
		app  App
		base string
		at   Place
	}{
		"/w/118/":             {App{Job: 118}, "/w/118", OfApp},
		"/w/118":              {App{Job: 118}, "/w/118", OfApp},
		"/w/118/lab/tree":     {App{Job: 118}, "/w/118", OfApp},
		"/w/118/board":        {App{118, "board"}, "/w/118/board", OfApp},
		"/w/118/board/x":      {App{118, "board"}, "/w/118/board", OfApp},
		"/w/118/boards/x":     {App{Job: 118}, "/w/118", OfApp},
		"/w/119/board/x":      {App{Job: 119}, "/w/119", OfApp},
		"/w/118/../119/x":     {App{Job: 118}, "/w/118", OfApp}, // handed on as it is
		"/w/118%2f..%2f119/x": {App{}, "", Nowhere},
		"/w//118/":            {App{}, "", Nowhere},
		"/w/":                 {App{}, "", Nowhere},
		"/w/118-board/":       {App{}, "", Nowhere},
		"/w/0/":               {App{}, "", Nowhere},
		"/W/118/":             {App{}, "", Elsewhere},
		"/v1/jobs":            {App{}, "", Elsewhere},
		"/x/../w/118/":        {App{}, "", Elsewhere},
	} {
		if app, base, at := s.ByPath(path, named); app != want.app || base != want.base || at != want.at {
			t.Errorf("%s: %+v, %q, %v", path, app, base, at)
		}
	}
}

// TestCheckDomain refuses domains in which applications would be too near.
func TestCheckDomain(t *testing.T) {
	s := site(t, "https://croft.example.org", DomainAuto)
	for domain, ok := range map[string]bool{
		"": true, "none": true, "apps.croft.example.org": true, "apps.example.net": true,
		"example.org": false, "croft.example.org": false, "org": false, "*.example.org": false, "apps.example.org:8443": false, "apps..org": false,
	} {
		if why := s.CheckDomain(domain); (why == "") != ok {
			t.Errorf("%q: %q", domain, why)
		}
	}
}

// FuzzByHost holds that what is taken for an application's host is that of the link to it.
func FuzzByHost(f *testing.F) {
	for _, s := range []string{"118.apps.localhost", "118-board.apps.localhost:80", "[::1]:80", "x@118.apps.localhost"} {
		f.Add(s)
	}
	s := site(f, "http://localhost:7370", DomainAuto)
	f.Fuzz(func(t *testing.T, host string) {
		a, at := s.ByHost(host)
		if at == OfApp && s.AppHost(a) != BareHost(host) {
			t.Errorf("%q is taken for %q", host, s.AppHost(a))
		}
	})
}

// FuzzByPath holds that an application's path begins as links to it do.
func FuzzByPath(f *testing.F) {
	for _, s := range []string{"/w/118/x", "/w/118/board/", "/w/118/../119", "/w/%31/"} {
		f.Add(s)
	}
	s := site(f, "https://croft.example.org", DomainNone)
	f.Fuzz(func(t *testing.T, path string) {
		a, base, at := s.ByPath(path, func(_ id.Job, name string) bool { return name == "board" })
		if at == OfApp && (base+"/" != s.Base(a) || len(path) < len(base) || path[:len(base)] != base || len(path) > len(base) && path[len(base)] != '/') {
			t.Errorf("%q is taken for %+v at %q", path, a, base)
		}
	})
}
