package certs

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// Config says where certificates come from: from a pair of files, or from ACME.
type Config struct {
	Cert, Key string // PEM files: the chain, the server's own first, and its key
	ACME      ACME
	Logger    *slog.Logger // nil: none
}

// ACME is a server that gives certificates to whoever answers at the names.
type ACME struct {
	Directory string                                       // URL; empty: none is asked
	Email     string                                       // told of certificates that aren't renewed; may be empty
	Dir       string                                       // where the account's key and the certificates are kept
	Client    *http.Client                                 // nil: http.DefaultClient
	Name      func(ctx context.Context, name string) error // whether name may have a certificate
}

// Source gives a certificate to each connection. Make it with New.
type Source struct {
	files *files
	acme  *autocert.Manager
}

// New reads the files, so that what is wrong with them is a *fault.Error now; nothing
// is asked of an ACME server before the first connection.
func New(c Config) (*Source, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ACME.Directory == "" {
		f, err := open(c.Cert, c.Key, c.Logger)
		return &Source{files: f}, err
	}
	log := c.Logger
	return &Source{acme: &autocert.Manager{
		Prompt: func(terms string) bool {
			log.Info("agreeing to the certificate authority's terms, as tls.acme says", "terms", terms)
			return true
		},
		Cache: autocert.DirCache(c.ACME.Dir),
		HostPolicy: func(ctx context.Context, name string) error {
			return c.ACME.Name(ctx, strings.ToLower(name))
		},
		Client: &acme.Client{DirectoryURL: c.ACME.Directory, HTTPClient: c.ACME.Client, UserAgent: "croft"},
		Email:  c.ACME.Email,
	}}, nil
}

// TLS is how connections are taken: TLS 1.2 and above, HTTP/2 where the client has it.
func (s *Source) TLS() *tls.Config {
	t := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if s.acme == nil {
		t.GetCertificate = s.files.certificate
		return t
	}
	t.GetCertificate = s.acme.GetCertificate
	t.NextProtos = append(t.NextProtos, acme.ALPNProto)
	return t
}

// Challenges answers what an ACME server asks over plain HTTP, and leaves the rest to next.
func (s *Source) Challenges(next http.Handler) http.Handler {
	if s.acme == nil {
		return next
	}
	return s.acme.HTTPHandler(next)
}

// Only lets names have a certificate, and no others.
func Only(names ...string) func(context.Context, string) error {
	return func(_ context.Context, name string) error {
		if !slices.Contains(names, name) {
			return fault.New(codes.Denied, "no certificate is asked for %s: it isn't this server's name", name)
		}
		return nil
	}
}
