package kube

import (
	"net/http"
	"strings"
	"testing"
)

// asked notes who is asked, and answers as it is told to.
type asked struct {
	all    []string
	status map[string]int // by host; else it isn't there
}

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.all = append(a.all, r.URL.Scheme+"://"+r.URL.Host+r.URL.Path+r.Header.Get("Authorization"))
	if a.status[r.URL.Host] == 0 {
		return nil, http.ErrServerClosed
	}
	return &http.Response{StatusCode: a.status[r.URL.Host], Body: http.NoBody}, nil
}

func TestMirrors(t *testing.T) {
	tests := map[string]struct {
		url  string
		want string
	}{
		"the first that has it":  {"https://index.docker.io/v2/library/a/manifests/1", "https://gone/v2/library/a/manifests/1 http://old/p/v2/library/a/manifests/1 http://good/v2/library/a/manifests/1"},
		"none":                   {"https://hub.lab/v2/a/manifests/1", "http://old/v2/a/manifests/1 https://hub.lab/v2/a/manifests/1secret"},
		"another's":              {"https://ghcr.io/v2/a/manifests/1", "https://ghcr.io/v2/a/manifests/1secret"},
		"a place to get a token": {"https://hub.lab/token", "https://hub.lab/tokensecret"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := &asked{status: map[string]int{"old": 404, "good": 200, "hub.lab": 200, "ghcr.io": 200}}
			m := mirrored{a, map[string][]string{"docker.io": {"https://gone", "http://old/p/", "http://good"}, "hub.lab": {"http://old"}}}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
			must(t, err)
			r.Header.Set("Authorization", "secret")
			resp, err := m.RoundTrip(r)
			must(t, err)
			must(t, resp.Body.Close())
			if got := strings.Join(a.all, " "); got != test.want {
				t.Errorf("asked %s, want %s", got, test.want)
			}
		})
	}
}
