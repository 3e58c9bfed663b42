package stories

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"croft.dev/croft/test/site"
)

// TestHTTPS: the server speaks TLS by itself, with HTTP/2, and sends those on who come
// without.
func TestHTTPS(t *testing.T) {
	cert, key, roots := certificate(t)
	secure, plain := freePort(t), freePort(t)
	for name, value := range map[string]string{
		"CROFT_PUBLIC_URL": fmt.Sprintf("https://gpu1.example.org:%d", secure), "CROFT_APPS_DOMAIN": "apps.gpu1.example.org",
		"CROFT_LISTEN_HTTPS": fmt.Sprintf("127.0.0.1:%d", secure), "CROFT_LISTEN_REDIRECT": fmt.Sprintf("127.0.0.1:%d", plain),
		"CROFT_TLS_CERT": cert, "CROFT_TLS_KEY": key,
	} {
		t.Setenv(name, value)
	}
	s, err := site.Open(t.Context(), site.Config{Name: "https", Sim: true})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, err)
	must(t, s.Start(t.Context()))

	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "gpu1.example.org"}, ForceAttemptHTTP2: true,
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(url, host string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		must(t, err)
		r.Host = host
		resp, err := client.Do(r)
		must(t, err)
		must(t, resp.Body.Close())
		return resp
	}
	host := fmt.Sprintf("gpu1.example.org:%d", secure)
	resp := get(fmt.Sprintf("https://127.0.0.1:%d/healthz", secure), host)
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || resp.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%s %s, strict: %q", resp.Proto, resp.Status, resp.Header.Get("Strict-Transport-Security"))
	}
	if resp := get(fmt.Sprintf("https://127.0.0.1:%d/healthz", secure), "evil.example"); resp.StatusCode == http.StatusOK {
		t.Error("the server answers to another name")
	}
	resp = get(fmt.Sprintf("http://127.0.0.1:%d/w/1?x=1", plain), "gpu1.example.org")
	if got, want := resp.Header.Get("Location"), "https://"+host+"/w/1?x=1"; got != want {
		t.Errorf("sent on to %q, want %q", got, want)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, ln.Close())
	return ln.Addr().(*net.TCPAddr).Port
}

// certificate is one for the names of a site, in files, and who trusts it.
func certificate(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"gpu1.example.org", "*.apps.gpu1.example.org"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	must(t, err)
	parsed, err := x509.ParseCertificate(der)
	must(t, err)
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key, roots
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
