package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// operation is one line of the table: how it is called, what it needs, what it
// takes and gives.
type operation struct {
	name    string // operationId of the document
	method  string
	path    string
	summary string
	about   string // more of it than fits there
	action  access.Action
	params  []param
	body    reflect.Type // nil: none
	answer  reflect.Type // nil: none, or a stream
	stream  string       // content type of an answer that isn't JSON
	status  int
	or      access.Action // another action that lets in; empty: none
	anybody bool          // needs no caller: it is how one becomes known
	paged   bool          // where the next page is says a header
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

// pages is an ask for a list that comes a page at a time. Where the next page is says a
// header, too (RFC 8288), so that it can be asked for before this one has been read.
func pages[T any](name, at, summary string, action access.Action, fn func(*call) (v1.Page[T], error), params ...param) operation {
	op := ask(name, at, summary, action, func(c *call) (v1.Page[T], error) {
		out, err := fn(c)
		if err == nil && out.Next != "" {
			q := c.r.URL.Query()
			q.Set("cursor", out.Next)
			c.w.Header().Set("Link", "<?"+q.Encode()+`>; rel="next"`)
		}
		return out, err
	}, append(params, limitParam(), cursorParam())...)
	op.paged = true
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

// with adds parameters.
func (op operation) with(params ...param) operation {
	op.params = append(op.params, params...)
	return op
}

// alsoBy lets in whom either action does.
func (op operation) alsoBy(a access.Action) operation {
	op.or = a
	return op
}

// open makes an operation one that needs no caller.
func (op operation) open() operation {
	op.anybody = true
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
	p, err := s.caller(op, r)
	if err != nil {
		return err
	}
	noteCaller(w, p)
	c := call{Server: s, w: w, r: r, p: p}
	if op.body != nil {
		if c.body, err = readBody(w, r); err != nil {
			return err
		}
	}
	return op.serve(&c)
}

// caller is who asks for op, and may.
func (s *Server) caller(op operation, r *http.Request) (access.Principal, error) {
	if op.anybody {
		return access.Principal{}, s.hostAllowed(r)
	}
	p, err := s.authenticate(r)
	if err != nil {
		return p, err
	}
	if op.or != "" && gate(p, op.or) == nil {
		return p, nil
	}
	return p, gate(p, op.action)
}

// gate refuses what no target whatever would allow this caller. What it lets
// through is decided again where the target is known.
func gate(p access.Principal, a access.Action) error {
	for _, owner := range []int64{p.User, 0} { // a narrowed token may be for others' things only
		if access.Authorize(p, a, access.Target{Owner: owner, Role: access.Owner, Within: true, Token: p.Narrow.Token}) {
			return nil
		}
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
	e := json.NewEncoder(&whole{c.w, status})
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// whole is written to once, when all of it is known: an Encoder does so.
type whole struct {
	w      http.ResponseWriter
	status int
}

func (a *whole) Write(b []byte) (int, error) {
	a.w.Header().Set("Content-Type", "application/json")
	a.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	a.w.WriteHeader(a.status)
	_, _ = a.w.Write(b) // a reader that went away
	return len(b), nil
}

func (c *call) path(name string) string { return c.r.PathValue(name) }

// token is the one that the caller showed; 0: none.
func (c *call) token() id.Token { return id.Token(c.p.Narrow.Token) }

// long is the context of a request that may go on: it ends with the server too, and
// with the right that it was let in by, may. A user may have only so many.
func (c *call) long(may basis) (context.Context, context.CancelFunc, error) {
	if err := c.held.take(c.p.User); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	stop := context.AfterFunc(c.closing, cancel)
	go func() {
		defer cancel()
		c.watch(ctx, may)
	}()
	return ctx, func() { stop(); cancel(); c.held.release(c.p.User) }, nil
}

// basis is what a request goes on by.
type basis struct {
	action access.Action // empty: what it was let in by is asked at every step
	user   id.User       // whose the thing is
	in     id.Account
	shared id.Job // a job that it may be shared with the caller as; 0: it is none
	job    id.Job // one that it is done to or in; 0: none
}

// ofShared is what a request to a job's terminals goes on by.
func ofShared(a access.Action, j *workload.Job) basis {
	return basis{action: a, user: j.User, in: j.Account, shared: j.ID}
}

// holds reports whether a principal still has it.
func (b basis) holds(w *world.World, p access.Principal) bool {
	if j, ok := w.Workload.Jobs.Get(b.shared); ok && b.shared != 0 {
		return w.CanApp(p, b.action, j)
	}
	if j, ok := w.Workload.Jobs.Get(b.job); ok && b.job != 0 {
		return w.CanJob(p, b.action, j)
	}
	return b.action == "" || w.Can(p, b.action, b.user, b.in)
}

// watch returns when the caller may no longer go on. What happened shows at the next
// publication, what ends by the clock at the next look.
func (c *call) watch(ctx context.Context, may basis) {
	look := time.NewTicker(c.recheck)
	defer look.Stop()
	for {
		changed := c.Sequencer.Watch() // before looking, so that nothing is missed
		if c.withdrawn(may) {
			return
		}
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// withdrawn reports whether the caller may do less, or something else, than when he
// was let in: he was blocked, has ended, got another role or lost one in an account,
// or the token ended.
func (c *call) withdrawn(may basis) bool {
	w := c.Sequencer.World()
	p := w.Principal(id.User(c.p.User), c.token(), max(c.Now(), w.Now))
	now := p.Now
	if p.Now = c.p.Now; p != c.p {
		return true
	}
	p.Now = now
	return !may.holds(w, p)
}

// until is the server's, as long as the caller may what he was let in by.
func (c *call) until(ctx context.Context, done func() (bool, error)) error {
	return c.Server.until(ctx, func() (bool, error) {
		if err := c.still(); err != nil {
			return false, err
		}
		return done()
	})
}

// still says that the caller may no longer do what he was let in by. What is answered
// after some time is answered to who he is then.
func (c *call) still() error {
	if c.withdrawn(basis{}) {
		return fault.New(codes.Denied, "what you may do has changed since you asked: ask again")
	}
	return nil
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
	return c.Sequencer.Do(c.r.Context(), sequencer.Actor{User: id.User(c.p.User), Token: c.token()}, cmd, key)
}
