package webhook_test

import (
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"croft.dev/croft/internal/webhook"
)

// listener is a server that keeps what is posted to it.
type listener struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
}

func listen(t *testing.T, start func(http.Handler) *httptest.Server, answer http.HandlerFunc) *listener {
	t.Helper()
	l := &listener{}
	l.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.mu.Lock()
		l.bodies, l.heads = append(l.bodies, string(body)), append(l.heads, r.Header)
		l.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *listener) posted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.bodies)
}

func (l *listener) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(l.Certificate())
	return pool
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// Whoever listens can check by any library of Standard Webhooks who has posted, with the
// secret of now and the one before.
func TestSigned(t *testing.T) {
	l := listen(t, httptest.NewTLSServer, nil)
	p := webhook.New(webhook.Config{Networks: loopback, Roots: l.roots()})
	t.Cleanup(p.Close)
	secrets := []string{webhook.NewSecret(), webhook.NewSecret()}
	m := webhook.Message{URL: l.URL + "/x", Secrets: secrets, ID: "job_1_end", At: time.Now(), Body: `{"type":"test"}`}
	if err := p.Post(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if l.posted() != 1 || l.bodies[0] != m.Body || l.heads[0].Get("webhook-id") != m.ID || l.heads[0].Get("Content-Type") != "application/json" {
		t.Fatalf("%q %v", l.bodies, l.heads)
	}
	for _, s := range secrets {
		key, err := standardwebhooks.NewWebhook(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := key.Verify([]byte(m.Body), l.heads[0]); err != nil {
			t.Errorf("it can't be verified: %v", err)
		}
	}
	other, _ := standardwebhooks.NewWebhook(webhook.NewSecret())
	if other.Verify([]byte(m.Body), l.heads[0]) == nil {
		t.Error("another secret verifies it")
	}
	if m.Secrets = nil; p.Post(t.Context(), m) == nil || l.posted() != 1 {
		t.Error("it is posted unsigned")
	}
}

// Nothing is posted to the machine itself or its networks, by whatever name or scheme, unless
// the site says so.
func TestForbidden(t *testing.T) {
	plain, tls := listen(t, httptest.NewServer, nil), listen(t, httptest.NewTLSServer, nil)
	port := func(l *listener) string { u, _ := url.Parse(l.URL); return u.Port() }
	other := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	for _, networks := range [][]netip.Prefix{nil, other} {
		p := webhook.New(webhook.Config{Networks: networks, Roots: tls.roots()})
		t.Cleanup(p.Close)
		for _, to := range []string{
			plain.URL, tls.URL, "http://localhost:" + port(plain), "https://localhost:" + port(tls), "https://[::1]:" + port(tls), "https://[::ffff:127.0.0.1]:" + port(tls),
			"https://0.0.0.0:" + port(tls), "https://10.0.0.1", "https://192.168.1.1", "https://169.254.169.254/latest", "https://100.64.0.1", "https://[fd00::1]", "https://[fe80::1]", "https://[64:ff9b::7f00:1]", "http://1.1.1.1",
		} {
			err := p.Post(t.Context(), webhook.Message{URL: to + "/secret-path", Secrets: []string{webhook.NewSecret()}, ID: "x", At: time.Now()})
			if !errors.Is(err, webhook.ErrForbidden) {
				t.Errorf("%s: %v", to, err)
			}
		}
	}
	if plain.posted()+tls.posted() != 0 {
		t.Errorf("%d were posted nevertheless", plain.posted()+tls.posted())
	}
	p := webhook.New(webhook.Config{Networks: loopback})
	t.Cleanup(p.Close)
	if err := p.Post(t.Context(), webhook.Message{URL: plain.URL, Secrets: []string{webhook.NewSecret()}, ID: "x", At: time.Now()}); err != nil || plain.posted() != 1 {
		t.Errorf("in a network that is named: %v", err)
	}
}

// An answer that isn't success isn't; no redirect is followed, nobody is waited for without
// end, and no error says the URL.
func TestRefused(t *testing.T) {
	inside := listen(t, httptest.NewServer, nil)
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		code   int
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL, http.StatusTemporaryRedirect)
		}, 307},
		"refusal": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) }, 410},
		"slow":    {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 0},
		"hang up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, httptest.NewServer, tt.answer)
			timeout := 5 * time.Second
			if name == "slow" {
				timeout = 50 * time.Millisecond
			}
			p := webhook.New(webhook.Config{Networks: loopback, Timeout: timeout})
			t.Cleanup(p.Close)
			err := p.Post(t.Context(), webhook.Message{URL: l.URL + "/secret-path", Secrets: []string{webhook.NewSecret()}, ID: "x", At: time.Now()})
			var no *webhook.Refused
			if err == nil || strings.Contains(err.Error(), "secret-path") || errors.As(err, &no) != (tt.code != 0) || no != nil && no.Code != tt.code {
				t.Errorf("%v", err)
			}
		})
	}
	if inside.posted() != 0 {
		t.Error("a redirect was followed")
	}
}
