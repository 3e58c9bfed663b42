// Package registry asks image registries whether a login is good. Pulling is the
// container runtime's; what is pulled with which login is decided elsewhere.
package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/net/http/httpproxy"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// Config says how registries are reached.
type Config struct {
	CAFile              string // PEM of the site's own authority, trusted besides the system's
	HTTPProxy           string
	HTTPSProxy, NoProxy string
	Patience            time.Duration // 0: 15 s
}

// Client asks registries.
type Client struct {
	base     http.RoundTripper
	patience time.Duration
}

// New returns a Client. It fails when the certificate file can't be read.
func New(c Config) (*Client, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	proxy := (&httpproxy.Config{HTTPProxy: c.HTTPProxy, HTTPSProxy: c.HTTPSProxy, NoProxy: c.NoProxy}).ProxyFunc()
	t.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("engine.ca_file: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // a system without any
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("engine.ca_file: %s holds no certificate", c.CAFile)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	out := &Client{base: careful{t}, patience: c.Patience}
	if out.patience == 0 {
		out.patience = 15 * time.Second
	}
	return out, nil
}

// Transport is how registries are asked.
func (c *Client) Transport() http.RoundTripper { return c.base }

// Check asks a registry, such as ghcr.io or hub.lab:5000, whether it takes a name with a
// password: by basic authentication, or by the token that it sends for. What it refuses
// is codes.Invalid; a registry that can't be asked codes.Unavailable.
func (c *Client) Check(ctx context.Context, host, username, password string) error {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	reg, err := name.NewRegistry(host)
	if err != nil {
		return fault.Invalid("registry", "%q isn't a registry: give its host, such as ghcr.io or hub.lab:5000", host)
	}
	status, err := c.ask(ctx, reg, username, password)
	var refused *transport.Error
	if errors.As(err, &refused) {
		status, err = refused.StatusCode, nil
	}
	switch {
	case errors.Is(err, errClear):
		return fault.Invalid("registry", "%s would be sent the password in clear: it needs https", host)
	case err != nil:
		return fault.New(codes.Unavailable, "registry %s can't be asked: %s", host, reason(err))
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fault.Invalid("password", "registry %s doesn't take this name with this password", host)
	case status != http.StatusOK:
		return fault.New(codes.Unavailable, "registry %s can't be asked: it answers with status %d", host, status)
	}
	return nil
}

// ask authenticates and returns the status of the registry's base address.
func (c *Client) ask(ctx context.Context, reg name.Registry, username, password string) (int, error) {
	rt, err := transport.NewWithContext(ctx, reg, &authn.Basic{Username: username, Password: password}, c.base, nil)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, reg.Scheme()+"://"+reg.RegistryStr()+"/v2/", nil)
	if err != nil {
		return 0, err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// reason is why a registry can't be reached, without what it said: an address may hold
// more than its reader should see.
func reason(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "it doesn't answer"
	case errors.As(err, &dns):
		return "there is no such host"
	case errors.As(err, &cert):
		return "its certificate isn't trusted here; the site's own authority is set by engine.ca_file"
	case errors.As(err, &op):
		return "nothing answers at its address"
	}
	return "what answers isn't a registry"
}

var errClear = errors.New("a password in clear")

// careful sends nothing in clear but to this machine, and believes no answer that doesn't
// end.
type careful struct{ http.RoundTripper }

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 1 << 20

func (c careful) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !loopback(r.URL.Hostname()) {
		return nil, errClear
	}
	resp, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = limited{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

type limited struct {
	io.Reader
	io.Closer
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
