package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// pair writes a self-signed certificate with a serial number, and its key.
func pair(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "gpu1"}, DNSNames: []string{"gpu1"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	return cert, key
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRenewedFiles: a renewed pair is served without a restart; half a renewal isn't.
func TestRenewedFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := pair(t, dir, 1)
	f, err := open(cert, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	f.now = func() time.Time { return now }
	serial := func() int64 {
		t.Helper()
		c, err := f.certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Fatalf("certificate %d", got)
	}
	old, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	pair(t, dir, 22)
	renewed, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, key, append(old, '\n')) // amid the renewal: the new certificate with the old key
	now = now.Add(recheck)
	if got := serial(); got != 1 {
		t.Errorf("certificate %d amid a renewal, want the one before", got)
	}
	write(t, key, renewed)
	now = now.Add(recheck)
	if got := serial(); got != 22 {
		t.Errorf("certificate %d after the renewal, want the new one", got)
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	now = now.Add(recheck)
	if got := serial(); got != 22 {
		t.Errorf("certificate %d with the file gone", got)
	}
}

// TestBadFiles: what can't be served is said at the start, by field.
func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, cert, key string)
		field string
		words string
	}{
		"no certificate":      {func(t *testing.T, cert, _ string) { must(t, os.Remove(cert)) }, "tls.cert", "no such file"},
		"no key":              {func(t *testing.T, _, key string) { must(t, os.Remove(key)) }, "tls.key", "no such file"},
		"everybody's key":     {func(t *testing.T, _, key string) { must(t, os.Chmod(key, 0o644)) }, "tls.key", "everybody may read"},
		"key of another":      {func(t *testing.T, _, key string) { _, k := pair(t, t.TempDir(), 2); must(t, os.Rename(k, key)) }, "tls.cert", "no certificate and its key"},
		"no PEM":              {func(t *testing.T, cert, _ string) { write(t, cert, []byte("hello")) }, "tls.cert", "no certificate and its key"},
		"files in each other": {func(t *testing.T, cert, key string) { must(t, os.Rename(key, cert)); write(t, key, nil) }, "tls.cert", "no certificate and its key"},
	} {
		t.Run(name, func(t *testing.T) {
			cert, key := pair(t, t.TempDir(), 1)
			c.spoil(t, cert, key)
			_, err := New(Config{Cert: cert, Key: key})
			var f *fault.Error
			if !errors.As(err, &f) || f.Code != codes.Invalid || len(f.Fields) != 1 || f.Fields[0].Path != c.field || !strings.Contains(f.Fields[0].Message, c.words) {
				t.Errorf("error %#v, want field %s: …%s…", err, c.field, c.words)
			}
		})
	}
}

// TestOldVersions: nothing below TLS 1.2 is spoken.
func TestOldVersions(t *testing.T) {
	cert, key := pair(t, t.TempDir(), 1)
	s, err := New(Config{Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.TLS().MinVersion; got != tls.VersionTLS12 {
		t.Errorf("from version %x on", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
