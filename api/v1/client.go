package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"croft.dev/croft/api/v1/codes"
)

// Bounds of what the client reads into memory from one answer.
const (
	maxAnswer  = 256 << 20
	maxGrow    = 4 << 20 // what an answer is believed to be before it has come
	maxProblem = 1 << 20
)

// Config says how to reach a server.
type Config struct {
	// Server is "unix:///path/to.sock", an absolute path of a socket, or the
	// URL of an HTTP server: "http://127.0.0.1:8080".
	Server string
	// Token is sent as a bearer token over HTTP; a socket knows its peer.
	Token string
	// HTTPClient replaces the client's own connection pool. It must be able to
	// reach Server by itself.
	HTTPClient *http.Client
	// UserAgent is sent with every request; by default "croft".
	UserAgent string
	// MaxIdleConns is how many idle connections are kept for reuse, by default
	// 128: as many as there are callers at once, so that none opens a
	// connection per request.
	MaxIdleConns int
}

// Client calls one server. It is safe for concurrent use.
//
// Every error of a call can be had as a *Problem with errors.As. When the server
// gave no answer, it is also a *NoAnswer. When the context ended, errors.Is finds
// the context's error instead.
type Client struct {
	server string // as the user gave it, for messages
	base   string
	token  string
	agent  string
	http   *http.Client
	pool   *http.Transport // nil when the caller brought an HTTPClient
}

// New returns a client. It opens no connection before the first call.
func New(cfg Config) (*Client, error) {
	socket, base, err := parseServer(cfg.Server)
	if err != nil {
		return nil, err
	}
	c := &Client{server: cfg.Server, base: base, agent: cfg.UserAgent, http: cfg.HTTPClient}
	if c.agent == "" {
		c.agent = "croft"
	}
	if socket == "" {
		c.token = cfg.Token
	}
	if c.http == nil {
		c.pool = newTransport(socket, cfg.MaxIdleConns)
		c.http = &http.Client{Transport: c.pool, CheckRedirect: refuseRedirect}
	}
	return c, nil
}

// Close closes idle connections. Calls after it open new ones.
func (c *Client) Close() {
	if c.pool != nil {
		c.pool.CloseIdleConnections()
	}
}

// Server returns the address that the client was made for.
func (c *Client) Server() string { return c.server }

func parseServer(s string) (socket, base string, err error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		// unix:///run/x and unix:/run/x are the same, as elsewhere.
		socket = strings.TrimPrefix(path, "//")
	} else if strings.HasPrefix(s, "/") {
		socket = s
	}
	if socket != "" {
		return socket, "http://croft", nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", "", &Problem{
			Title:  "Invalid server address",
			Code:   string(codes.Invalid),
			Detail: fmt.Sprintf("server %q: want unix:///path or http://host:port", s),
		}
	}
	return "", strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/"), nil
}

func newTransport(socket string, idle int) *http.Transport {
	if idle <= 0 {
		idle = 128
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	t := &http.Transport{
		DialContext:         dialer.DialContext,
		MaxIdleConns:        idle,
		MaxIdleConnsPerHost: idle,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		DisableCompression:  true,
	}
	if socket != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
		return t
	}
	t.Proxy = http.ProxyFromEnvironment
	return t
}

// refuseRedirect keeps the token from following a redirect to another host.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Option changes one call.
type Option func(*http.Request)

// Key makes a call idempotent: repeated with the same key and body, it has the
// effect of one call and gives the same answer.
func Key(key string) Option {
	return func(r *http.Request) {
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
	}
}

// call sends body, if any, as JSON and decodes the answer into out, if any.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, out any, opts ...Option) error {
	resp, err := c.send(ctx, method, path, query, body, opts...)
	if err != nil {
		return err
	}
	if out == nil {
		drain(resp.Body)
		return nil
	}
	return c.read(ctx, resp, out)
}

// read decodes the answer to a call into out.
func (c *Client) read(ctx context.Context, resp *http.Response, out any) error {
	defer drain(resp.Body)
	var body bytes.Buffer
	body.Grow(int(min(max(resp.ContentLength, 0), maxGrow)) + bytes.MinRead)
	_, err := body.ReadFrom(io.LimitReader(resp.Body, maxAnswer))
	if err == nil {
		err = decode(body.Bytes(), out)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case isCut(err):
		return c.noAnswer(err, true)
	}
	return &Problem{
		Title:  "Unreadable answer",
		Status: resp.StatusCode,
		Code:   string(codes.Internal),
		Detail: fmt.Sprintf("%s %s: the answer isn't what this client expects: %v", resp.Request.Method, resp.Request.URL.Path, err),
	}
}

// decode reads a JSON value; of one that isn't whole it says that its end is missing.
func decode(b []byte, out any) error {
	err := json.Unmarshal(b, out)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset == int64(len(b)) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// send returns the response of a successful call; the caller closes its body.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any, opts ...Option) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, &Problem{Title: "Unencodable request", Code: string(codes.Invalid), Detail: err.Error()}
		}
		payload = bytes.NewReader(b)
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, payload)
	if err != nil {
		return nil, &Problem{Title: "Bad request", Code: string(codes.Invalid), Detail: err.Error()}
	}
	c.header(req.Header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, opt := range opts {
		opt(req)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, c.noAnswer(err, !isDial(err))
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer drain(resp.Body)
	return nil, problemOf(resp)
}

func (c *Client) header(h http.Header) {
	h.Set("User-Agent", c.agent)
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
}

// drain reads what little is left, so that the connection can be used again.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}

// problemOf decodes an error answer; one that isn't a Problem becomes one.
func problemOf(resp *http.Response) *Problem {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	p := &Problem{}
	if json.Unmarshal(b, p) != nil || p.Code == "" {
		p = &Problem{
			Title:  http.StatusText(resp.StatusCode),
			Detail: fmt.Sprintf("the server answered %s, which is no answer of Croft's", resp.Status),
			Code:   string(codeOfStatus(resp.StatusCode)),
		}
	}
	p.Status = resp.StatusCode
	return p
}

// codeOfStatus is for answers of proxies and other servers, which know no codes.
func codeOfStatus(status int) codes.Code {
	switch status {
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.Denied
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusRequestEntityTooLarge:
		return codes.TooLarge
	case http.StatusTooManyRequests:
		return codes.TooMany
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return codes.Unavailable
	}
	return codes.Internal
}

// segment escapes a name for use in a path. Names that a path would swallow are
// no names of anything.
func segment(kind, name string) (string, error) {
	if name == "" || name == "." || name == ".." {
		return "", &Problem{
			Title:  "Invalid name",
			Code:   string(codes.Invalid),
			Detail: fmt.Sprintf("%s: %q is no name", kind, name),
			Fields: []Field{{Path: kind, Message: fmt.Sprintf("%q is no name", name)}},
		}
	}
	return url.PathEscape(name), nil
}

// CodeOf returns the fault code of a call's error; "" for nil, internal for an
// error that is no Problem.
func CodeOf(err error) codes.Code {
	if err == nil {
		return ""
	}
	var p *Problem
	if errors.As(err, &p) {
		return codes.Code(p.Code)
	}
	return codes.Internal
}
