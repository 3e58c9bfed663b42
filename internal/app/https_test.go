package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"croft.dev/croft/internal/config"
)

// TestHTTP2 is spoken on listen.https with who can, and HTTP/1.1 with who can't.
func TestHTTP2(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"gpu1"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf := config.Default()
	conf.Listen.Socket, conf.Listen.HTTP, conf.Listen.HTTPS, conf.Listen.SSH = config.Path(filepath.Join(dir, "s")), config.HTTPOff, "127.0.0.1:0", config.SSHOff
	conf.TLS.Cert, conf.TLS.Key = config.Path(filepath.Join(dir, "cert.pem")), config.Path(filepath.Join(dir, "key.pem"))
	s := &server{Options: Options{Log: slog.New(slog.DiscardHandler), Config: conf}}
	at, err := s.listen()
	if err != nil {
		t.Fatal(err)
	}
	defer at.close() //nolint:errcheck // the server has closed some of it
	web := http.Server{Handler: strict(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Proto", r.Proto) }))}
	defer web.Close()
	ln := at.web[len(at.web)-1]
	go func() { _ = web.Serve(ln) }() // until it is closed
	for proto, h2 := range map[string]bool{"HTTP/2.0": true, "HTTP/1.1": false} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: h2}
		got, err := (&http.Client{Transport: tr}).Get("https://" + ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		tr.CloseIdleConnections()
		if got.Header.Get("Proto") != proto || fmt.Sprint(got.Header["Strict-Transport-Security"]) != "[max-age=2592000]" {
			t.Errorf("%s: %v", proto, got.Header)
		}
	}
	// Over plain HTTP it would count for nothing (RFC 6797, 7.2), and a proxy before the server says it itself.
	plain := httptest.NewRecorder()
	web.Handler.ServeHTTP(plain, httptest.NewRequest("GET", "http://gpu1.example.org/", nil))
	if got := plain.Header()["Strict-Transport-Security"]; got != nil {
		t.Errorf("over plain HTTP: %q", got)
	}
}

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
