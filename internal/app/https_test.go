package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"croft.dev/croft/internal/config"
)

// TestRedirect: plain HTTP is sent on to the server's own names, whatever is asked for.
func TestRedirect(t *testing.T) {
	s := &server{Options: Options{Log: slog.New(slog.DiscardHandler), Config: config.Config{PublicURL: "https://gpu1.example.org", Apps: config.Apps{Domain: "apps.gpu1.example.org"}}}}
	web := s.redirecting(nil)
	for name, c := range map[string]struct{ method, url, host, want string }{
		"a page":            {"GET", "/w/118/lab?x=1", "gpu1.example.org", "https://gpu1.example.org/w/118/lab?x=1"},
		"another host":      {"GET", "/a", "evil.example", "https://gpu1.example.org/a"},
		"an app":            {"GET", "/lab", "118.apps.gpu1.example.org:80", "https://118.apps.gpu1.example.org/lab"},
		"no app":            {"GET", "/lab", "evil.apps.gpu1.example.org", "https://gpu1.example.org/lab"},
		"two slashes":       {"GET", "//evil.example/a", "gpu1.example.org", "https://gpu1.example.org//evil.example/a"},
		"an absolute URL":   {"GET", "http://evil.example/a", "gpu1.example.org", "https://gpu1.example.org/a"},
		"a password on way": {"POST", "/login", "gpu1.example.org", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.url, nil)
			r.Host = c.host
			w := httptest.NewRecorder()
			web.Handler.ServeHTTP(w, r)
			if got := w.Header().Get("Location"); got != c.want || (c.want == "") == (w.Code == http.StatusPermanentRedirect) {
				t.Errorf("%d, sent to %q, want %q", w.Code, got, c.want)
			}
		})
	}
}
