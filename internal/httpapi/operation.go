package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"unicode"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/world"
)

// operation is one line of the table: how it is called, what it needs, what it
// takes and gives.
type operation struct {
	name    string // operationId of the document
	method  string
	path    string
	summary string
	action  access.Action
	params  []param
	body    reflect.Type // nil: none
	answer  reflect.Type // nil: none, or a stream
	stream  string       // content type of an answer that isn't JSON
	status  int
	serve   func(*call) error
}

// param is a parameter of the query.
type param struct{ name, doc string }

// call is one request of a known caller.
type call struct {
	*Server
	w    http.ResponseWriter
	r    *http.Request
	p    access.Principal
	body []byte
}

// route splits "GET /v1/me".
func route(name, s, summary string, action access.Action, params []param) operation {
	method, path, _ := strings.Cut(s, " ")
	return operation{name: name, method: method, path: path, summary: summary, action: action, params: params, status: http.StatusOK}
}

// ask is an operation without a body that answers with an A.
func ask[A any](name, at, summary string, action access.Action, fn func(*call) (A, error), params ...param) operation {
	op := route(name, at, summary, action, params)
	op.answer = reflect.TypeFor[A]()
	op.serve = func(c *call) error {
		out, err := fn(c)
		if err != nil {
			return err
		}
		return c.write(op.status, out)
	}
	return op
}

// tell is an operation that takes a B and answers with an A.
func tell[B, A any](name, at, summary string, action access.Action, status int, fn func(*call, B) (A, error)) operation {
	op := route(name, at, summary, action, nil)
	op.body, op.answer, op.status = reflect.TypeFor[B](), reflect.TypeFor[A](), status
	op.serve = func(c *call) error {
		var in B
		if err := decode(c.body, &in); err != nil {
			return err
		}
		out, err := fn(c, in)
		if err != nil {
			return err
		}
		return c.write(status, out)
	}
	return op
}

// drop is an operation that answers with nothing.
func drop(name, at, summary string, action access.Action, fn func(*call) error) operation {
	op := route(name, at, summary, action, nil)
	op.status = http.StatusNoContent
	op.serve = func(c *call) error {
		if err := fn(c); err != nil {
			return err
		}
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return op
}

// stream is an operation that writes its answer itself.
func stream(name, at, summary string, action access.Action, kind string, fn func(*call) error, params ...param) operation {
	op := route(name, at, summary, action, params)
	op.stream, op.serve = kind, fn
	return op
}

// operation serves one: who calls, may he ask for such a thing at all, what does he
// send.
func (s *Server) operation(op operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.perform(op, w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

func (s *Server) perform(op operation, w http.ResponseWriter, r *http.Request) error {
	p, err := s.authenticate(r)
	if err != nil {
		return err
	}
	noteCaller(w, p)
	if err := gate(p, op.action); err != nil {
		return err
	}
	c := call{Server: s, w: w, r: r, p: p}
	if op.body != nil {
		if c.body, err = readBody(w, r); err != nil {
			return err
		}
	}
	return op.serve(&c)
}

// gate refuses what no target whatever would allow this caller. What it lets
// through is decided again where the target is known.
func gate(p access.Principal, a access.Action) error {
	if access.Authorize(p, a, access.Target{Owner: p.User, Role: access.Owner, Within: true}) {
		return nil
	}
	if whole := p; p.Narrow != (access.Narrowing{}) {
		whole.Narrow = access.Narrowing{}
		if gate(whole, a) == nil {
			return fault.New(codes.Denied, "this token may not do that: it is narrowed%s", narrowedTo(p.Narrow))
		}
	}
	var who []string
	for _, role := range []access.Platform{access.Operator, access.Auditor, access.Admin} {
		if access.Authorize(access.Principal{User: p.User, Platform: role}, a, access.Target{}) {
			who = append(who, string(role))
		}
	}
	return fault.New(codes.Denied, "this needs the role %s; yours is %s", strings.Join(who, " or "), p.Platform)
}

func (c *call) write(status int, v any) error {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(buf.Bytes()) // a reader that went away
	return nil
}

func (c *call) path(name string) string { return c.r.PathValue(name) }

// long is the context of a request that may go on: it ends with the server too, and
// with the right that it was let in by. A user may have only so many.
func (c *call) long() (context.Context, context.CancelFunc, error) {
	if err := c.held.take(c.p.User); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	stop := context.AfterFunc(c.closing, cancel)
	go func() {
		defer cancel()
		_ = c.until(ctx, c.withdrawn) // its only error is ctx's
	}()
	return ctx, func() { stop(); cancel(); c.held.release(c.p.User) }, nil
}

// withdrawn reports whether the caller may do less, or something else, than when he
// was let in: he was blocked, has ended, got another role, or the token did.
func (c *call) withdrawn() (bool, error) {
	w := c.Sequencer.World()
	p := w.Principal(id.User(c.p.User), id.Token(c.p.Narrow.Token), max(c.Now(), w.Now))
	p.Now = c.p.Now
	return p != c.p, nil
}

func narrowedTo(n access.Narrowing) string {
	if n.Scopes == 0 {
		return " to an account"
	}
	return " to the scopes " + n.Scopes.String()
}

// maxKey bounds an idempotency key, in bytes.
const maxKey = 200

// do has a command decided on behalf of the caller. The key is good for this
// operation on this thing with this body.
func (c *call) do(cmd world.Command) (sequencer.Answer, error) {
	var key sequencer.Key
	if name := c.r.Header.Get("Idempotency-Key"); name != "" {
		if len(name) > maxKey || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
			return sequencer.Answer{}, fault.Invalid("Idempotency-Key", "must be at most %d bytes of printable text", maxKey)
		}
		key = sequencer.Key{Name: name, Body: append([]byte(c.r.Method+" "+c.r.URL.Path+"\n"), c.body...)}
	}
	return c.Sequencer.Do(c.r.Context(), sequencer.Actor{User: id.User(c.p.User), Token: id.Token(c.p.Narrow.Token)}, cmd, key)
}
