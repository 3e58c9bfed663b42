// Package webhook posts events to URLs that users have named, signed as Standard Webhooks
// (https://www.standardwebhooks.com) says. Wherever a name leads to, nothing is posted to
// an address that isn't public unless the site has named its network.
package webhook

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Config says where to may be posted.
type Config struct {
	Networks []netip.Prefix // that aren't public and may be posted to; by http these alone
	Roots    *x509.CertPool // that certificates are checked against; nil: the machine's
	Timeout  time.Duration  // of one post; 0: ten seconds
}

// Message is one post.
type Message struct {
	URL     string
	Secrets []string // each signs it: the one of now, and for a while the one before
	ID      string   // the same again for the same message
	At      time.Time
	Body    string // JSON
}

// Refused says that somebody answered, and not that he has taken it.
type Refused struct{ Code int } // of HTTP

func (r *Refused) Error() string { return "it was answered with " + strconv.Itoa(r.Code) }

// ErrForbidden says that the address isn't one that may be posted to.
var ErrForbidden = errors.New("its address isn't public, nor in a network that this site names (notify.webhook.networks)")

// Poster posts. Make it with New.
type Poster struct {
	https, http *http.Client
	timeout     time.Duration
}

const (
	defTimeout = 10 * time.Second
	maxAnswer  = 64 << 10 // bytes of an answer that are read, so that its connection can be used again
	secretLen  = 32       // bytes; Standard Webhooks wants 24 to 64
)

// New returns a poster.
func New(c Config) *Poster {
	p := &Poster{timeout: c.Timeout}
	if p.timeout <= 0 {
		p.timeout = defTimeout
	}
	var v4, v6 []netip.Prefix
	for _, n := range c.Networks {
		if n.Addr().Is4() {
			v4 = append(v4, n)
		} else {
			v6 = append(v6, n)
		}
	}
	guard := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	p.https = client(c.Roots, func(network, address string, conn syscall.RawConn) error {
		if guard.Safe(network, address, conn) != nil {
			return ErrForbidden
		}
		return nil
	})
	p.http = client(c.Roots, func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		for _, n := range c.Networks {
			if err == nil && n.Contains(to.Addr()) {
				return nil
			}
		}
		return ErrForbidden
	})
	return p
}

// client is one that goes nowhere else than it is sent, checked after names are looked up.
func client(roots *x509.CertPool, check func(network, address string, conn syscall.RawConn) error) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Control: check}).DialContext,
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 1, MaxIdleConns: 32, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: maxAnswer,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes connections that nothing is posted over.
func (p *Poster) Close() {
	p.https.CloseIdleConnections()
	p.http.CloseIdleConnections()
}

// Post posts a message. The error is a *Refused if it was answered and not with success; no
// error has the URL in it, which may be a secret.
func (p *Poster) Post(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, strings.NewReader(m.Body))
	if err != nil {
		return bare(err)
	}
	signature, err := sign(m)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "croft")
	req.Header.Set(standardwebhooks.HeaderWebhookID, m.ID)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(m.At.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	by := p.https
	if req.URL.Scheme == "http" {
		by = p.http
	}
	resp, err := by.Do(req)
	if err != nil {
		return bare(err)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // whatever it says is of no use
	_ = resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return &Refused{Code: resp.StatusCode}
	}
	return nil
}

func sign(m Message) (string, error) {
	var all []string
	for _, s := range m.Secrets {
		key, err := standardwebhooks.NewWebhook(s)
		if err != nil {
			return "", errors.New("its secret can't be read")
		}
		one, err := key.Sign(m.ID, m.At, []byte(m.Body))
		if err != nil {
			return "", fmt.Errorf("signing: %w", err)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return "", errors.New("it has no secret")
	}
	return strings.Join(all, " "), nil
}

// bare is an error of an HTTP client without the URL.
func bare(err error) error {
	var with *url.Error
	if errors.Is(err, ErrForbidden) {
		return ErrForbidden
	}
	if errors.As(err, &with) {
		if with.Timeout() {
			return errors.New("it hasn't answered in time")
		}
		return with.Err
	}
	return err
}

// NewSecret makes a secret to sign with.
func NewSecret() string {
	key := make([]byte, secretLen)
	_, _ = rand.Read(key) // never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}
