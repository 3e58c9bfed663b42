package registry

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

const password = "s3cret-of-ada"

// basic wants a name and a password of every request.
func basic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, pass, _ := r.BasicAuth(); user != "ada" || pass != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you"}]}`, http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer wants a token, which is given for a name and a password.
func bearer(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/token", basic(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"token":"for-ada"}`)
	})))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer for-ada" {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="hub"`, r.Host))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
	return mux
}

func TestCheck(t *testing.T) {
	blobs := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	asleep := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	elsewhere := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://tokens.example/token",service="hub"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	for name, tt := range map[string]struct {
		serve          http.Handler
		user, password string
		code           codes.Code // empty: good
		says           string
	}{
		"basic":                      {basic(blobs), "ada", password, "", ""},
		"basic, wrong password":      {basic(blobs), "ada", "wrong", codes.Invalid, "doesn't take this name"},
		"basic, wrong name":          {basic(blobs), "ben", password, codes.Invalid, "doesn't take this name"},
		"token":                      {bearer(blobs), "ada", password, "", ""},
		"token, wrong password":      {bearer(blobs), "ada", "wrong", codes.Invalid, "doesn't take this name"},
		"anybody":                    {blobs, "ada", "anything", "", ""},
		"nothing of the kind":        {http.NotFoundHandler(), "ada", password, codes.Unavailable, "can't be asked"},
		"broken":                     {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }), "ada", password, codes.Unavailable, "can't be asked"},
		"asleep":                     {asleep, "ada", password, codes.Unavailable, "doesn't answer"},
		"tokens elsewhere, in clear": {elsewhere, "ada", password, codes.Invalid, "needs https"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(tt.serve)
			defer s.Close()
			c, err := New(Config{Patience: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			err = c.Check(t.Context(), strings.TrimPrefix(s.URL, "http://"), tt.user, tt.password)
			if (err == nil) != (tt.code == "") || err != nil && (fault.Of(err) != tt.code || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%v; want %q: %q", err, tt.code, tt.says)
			}
			if err != nil && strings.Contains(err.Error(), tt.password) {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

// The site's own authority vouches for a registry; without it, nothing is sent there.
func TestOwnAuthority(t *testing.T) {
	s := httptest.NewTLSServer(basic(registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "https://")
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	trusting, err := New(Config{CAFile: file})
	if err != nil {
		t.Fatal(err)
	}
	if err := trusting.Check(t.Context(), host, "ada", password); err != nil {
		t.Errorf("with the authority: %v", err)
	}
	if err := trusting.Check(t.Context(), host, "ada", "wrong"); fault.Of(err) != codes.Invalid {
		t.Errorf("with a wrong password: %v", err)
	}
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(t.Context(), host, "ada", password); fault.Of(err) != codes.Unavailable {
		t.Errorf("without the authority: %v", err)
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "none"), "/dev/null"} {
		if _, err := New(Config{CAFile: bad}); err == nil {
			t.Errorf("%s is an authority", bad)
		}
	}
}

// Nothing but this machine is sent a password in clear.
func TestNothingInClear(t *testing.T) {
	for target, want := range map[string]bool{
		"http://hub.lab/v2/": false, "https://hub.lab/v2/": true, "http://127.0.0.1:5000/": true, "http://[::1]/": true, "http://localhost:5000/": true,
		"http://localhost.evil/": false, "http://192.168.1.1/": false, "http://127.0.0.1.evil/": false,
	} {
		sent := false
		rt := careful{roundTrip(func(*http.Request) (*http.Response, error) {
			sent = true
			return &http.Response{Body: http.NoBody}, nil
		})}
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if sent != want || (err == nil) != want {
			t.Errorf("%s: sent %v, %v", target, sent, err)
		}
		if resp != nil {
			_ = resp.Body.Close()
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
