package kube

import (
	"net/http"
	"net/url"
	"strings"
)

// mirrored asks mirrors before a registry, as the nodes' runtimes do, for whoever needs no
// login: a mirror is shown none.
type mirrored struct {
	base    http.RoundTripper
	mirrors map[string][]string // URLs by the registry's host
}

// RoundTrip implements http.RoundTripper. What no mirror has is asked of the registry itself.
func (m mirrored) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Host
	if host == "index.docker.io" {
		host = "docker.io"
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return m.base.RoundTrip(r)
	}
	for _, mirror := range m.mirrors[host] {
		at, err := url.Parse(mirror)
		if err != nil || !strings.HasPrefix(r.URL.Path, "/v2/") {
			continue
		}
		try := r.Clone(r.Context())
		try.URL.Scheme, try.URL.Host, try.Host = at.Scheme, at.Host, ""
		try.URL.Path = strings.TrimSuffix(at.Path, "/") + r.URL.Path
		try.Header.Del("Authorization")
		resp, err := m.base.RoundTrip(try)
		if err == nil && resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		if err == nil {
			_ = resp.Body.Close() // the next is asked
		}
	}
	return m.base.RoundTrip(r)
}
