package certs

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
)

// authority is a real ACME server in this process that looks names up at a name server
// of its own and finds them here.
func authority(t *testing.T, port int) (directory string, client *http.Client, roots *x509.CertPool) {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	names := &dns.Server{Listener: ln, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		if q := r.Question[0]; q.Qtype == dns.TypeA {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(127, 0, 0, 1)})
		}
		_ = w.WriteMsg(m)
	})}
	go names.ActivateAndServe() //nolint:errcheck // ends with the test
	t.Cleanup(func() { _ = names.Shutdown() })

	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {}})
	front := wfe.New(quiet, store, va.New(quiet, 0, port, false, ln.Addr().String(), store), issuer, nil, false, false, 0, 0)
	s := httptest.NewTLSServer(front.Handler())
	t.Cleanup(s.Close)
	roots = x509.NewCertPool()
	roots.AddCert(issuer.GetRootCert(0).Cert)
	return s.URL + wfe.DirectoryPath, s.Client(), roots
}

// TestACME: a certificate is had from a real ACME server at the first connection, kept
// over a restart, and asked for the server's own names only.
func TestACME(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := ln.Addr().(*net.TCPAddr).Port
	directory, client, roots := authority(t, port)
	cfg := Config{ACME: ACME{
		Directory: directory, Client: client, Email: "ops@example.org",
		Dir: filepath.Join(t.TempDir(), "acme"), Name: Only("gpu1.example.org"),
	}}
	serve := func(ln net.Listener) *http.Server {
		s, err := New(cfg)
		must(t, err)
		web := &http.Server{Handler: http.NotFoundHandler(), ErrorLog: log.New(io.Discard, "", 0)}
		go web.Serve(tls.NewListener(ln, s.TLS())) //nolint:errcheck // ends with Close
		return web
	}
	serial := func(name string) (string, error) {
		c, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{ServerName: name, RootCAs: roots})
		if err != nil {
			return "", err
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
	}
	web := serve(ln)
	first, err := serial("gpu1.example.org")
	must(t, err)
	if _, err := serial("gpu2.example.org"); err == nil {
		t.Error("a certificate was had for a name that isn't this server's")
	}
	must(t, web.Close())

	// The authority is gone, the certificate isn't.
	cfg.ACME.Directory = "https://127.0.0.1:1/"
	ln, err = net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	web = serve(ln)
	defer web.Close()
	again, err := serial("gpu1.example.org")
	must(t, err)
	if again != first {
		t.Errorf("certificate %s after a restart, want %s", again, first)
	}
}
