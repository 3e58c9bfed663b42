package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/certs"
	"croft.dev/croft/internal/fault"
)

// certificates says where those of listen.https come from.
func (s *server) certificates() (*certs.Source, error) {
	c := s.Config.TLS
	cfg := certs.Config{Cert: string(c.Cert), Key: string(c.Key), Logger: s.Log}
	if c.ACME.Directory == "" {
		return certs.New(cfg)
	}
	site, err := s.Config.Address(0)
	if err != nil {
		return nil, err
	}
	client, err := trusting(string(c.ACME.CAFile))
	if err != nil {
		return nil, err
	}
	cfg.ACME = certs.ACME{
		Directory: c.ACME.Directory, Email: c.ACME.Email, Client: client,
		Dir:  filepath.Join(string(s.Config.Data), "acme"),
		Name: func(_ context.Context, name string) error { return s.named(site, name) },
	}
	return certs.New(cfg)
}

// named lets the server's own name and those of applications that there are have a
// certificate: an authority gives so many a week, and strangers must not use them up.
func (s *server) named(site address.Site, name string) error {
	a, at := site.ByHost(name)
	if at == address.OfApp {
		if j, ok := s.seq.World().Workload.Jobs.Get(a.Job); ok && len(j.Spec.Apps) > 0 {
			return nil
		}
	}
	return certs.Only(site.Hostname())(context.Background(), name)
}

// trusting is a client that knows the authorities of a PEM file beside the machine's.
func trusting(file string) (*http.Client, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fault.Invalid("tls.acme.ca_file", "%v", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fault.Invalid("tls.acme.ca_file", "%s has no certificate in it", file)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: roots}
	return &http.Client{Transport: t, Timeout: time.Minute}, nil
}

// strict has browsers that have come over HTTPS never come without (RFC 6797).
func strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", "max-age=2592000")
		}
		next.ServeHTTP(w, r)
	})
}

// redirecting is the server of plain HTTP: it sends on to public_url and says nothing else.
func (s *server) redirecting(c *certs.Source) *http.Server {
	handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		site, err := s.Config.Address(0)
		if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "use HTTPS", http.StatusBadRequest)
			return
		}
		path := r.URL.RequestURI()
		if !strings.HasPrefix(path, "/") {
			path = "/"
		}
		target := site.URL(path)
		if a, at := site.ByHost(r.Host); at == address.OfApp {
			target = site.AppURL(a, path)
		}
		http.Redirect(w, r, target, http.StatusPermanentRedirect)
	}))
	if c != nil {
		handler = c.Challenges(handler)
	}
	return &http.Server{
		Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
}
