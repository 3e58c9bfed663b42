package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/upstream"
)

const (
	// maxAnswerHeader bounds the headers of an application's answer, in bytes.
	maxAnswerHeader = 256 << 10
	// dialPatience is how long making a connection to an application may take.
	dialPatience = 10 * time.Second
	copyBuffer   = 32 << 10
)

// visitKey is where a request's visit stands in its context: the one way that
// httputil.ReverseProxy has to hand it on.
type visitKey struct{}

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// newProxy makes what carries requests. Connections to applications are kept and used again,
// each for one port of one attempt, which is the host of its URL.
func (s *Server) newProxy() {
	s.upstream = upstream.New(upstream.Config{Dial: s.dial, Header: maxAnswerHeader, Patience: s.Limits.Header, Idle: 128, IdleFor: 90 * time.Second})
	s.heads.New = func() any { return new([]byte) }
	s.proxy = &httputil.ReverseProxy{
		Transport:      informed{s.upstream},
		Rewrite:        s.rewrite,
		ModifyResponse: s.answer,
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { s.failed(w, r, visitOf(r.Context()), err) },
		BufferPool:     &s.buffers,
		ErrorLog:       slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
	}
}

// buffers are for bodies on their way.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[copyBuffer]byte); ok {
		return buf[:]
	}
	return new([copyBuffer]byte)[:]
}

func (b *buffers) Put(buf []byte) {
	if len(buf) == copyBuffer {
		b.pool.Put((*[copyBuffer]byte)(buf))
	}
}

// target is a port of a step as the host of a URL.
func target(v *visit) string {
	return net.JoinHostPort(v.step.String(), strconv.Itoa(int(v.app.Port)))
}

// dial connects to what target names.
func (s *Server) dial(ctx context.Context, to string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		return nil, err
	}
	attempt, number, _ := strings.Cut(host, ".")
	n, err1 := strconv.Atoi(number)
	p, err2 := strconv.ParseUint(port, 10, 16)
	if err1 != nil || err2 != nil {
		return nil, errors.New("gateway: " + to + " isn't a step's port")
	}
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	return s.Engine.Dial(ctx, engine.StepID{Attempt: engine.AttemptID(attempt), N: n}, uint16(p))
}

// forward hands a request on, and the answer back.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, v *visit) {
	if upgrades(r) && hasBody(r) { // whoever switches reads what follows in another way
		s.refuse(w, r, fault.Invalid("body", "a request for another protocol has none"))
		return
	}
	if !upgrades(r) && upstream.Bare(r) {
		b := s.heads.Get().(*[]byte)
		defer s.heads.Put(b)
		head, good := s.head((*b)[:0], r, v)
		*b = head
		if good {
			s.carry(w, r, v, head)
			return
		}
	}
	if hasBody(r) {
		v.body.ReadCloser, r.Body = r.Body, &v.body
	}
	s.proxy.ServeHTTP(keeper{w, w.Header().Clone()}, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
}

// sent is a request's body, which notes that it couldn't be read.
type sent struct {
	io.ReadCloser
	bad atomic.Bool
}

func (s *sent) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		s.bad.Store(true)
	}
	return n, err
}

// keeper keeps what the server itself says for the answer: httputil.ReverseProxy takes all
// headers away with what an application says before it.
type keeper struct {
	http.ResponseWriter
	own http.Header
}

// WriteHeader implements http.ResponseWriter.
func (k keeper) WriteHeader(code int) {
	if code >= http.StatusOK {
		maps.Copy(k.Header(), k.own)
	}
	k.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (k keeper) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// rewrite makes the request that the application gets.
func (s *Server) rewrite(p *httputil.ProxyRequest) {
	v, out := visitOf(p.In.Context()), p.Out
	out.URL = v.url(p.In.URL)
	out.Host = p.In.Host
	s.requestHeaders(p.In, out.Header, v)
}

// url is where what was asked for is found: with its query as it came, well written or not.
func (v *visit) url(in *url.URL) *url.URL {
	u := *in
	u.Scheme, u.Host, u.User = "http", target(v), nil
	if v.base != "" && v.app.Strip {
		stripBase(&u, v.base)
	}
	return &u
}

// stripBase takes the application's own path off; the rest is kept as it was written.
func stripBase(u *url.URL, base string) {
	raw := strings.TrimPrefix(u.EscapedPath(), base)
	if plain, err := url.PathUnescape(raw); err == nil {
		u.Path, u.RawPath = plain, raw
	}
}

// answer looks at what the application answers, before anything of it is sent on.
func (s *Server) answer(r *http.Response) error {
	s.answerHeaders(r.Header, r.Request.Host, visitOf(r.Request.Context()))
	return nil
}

// failed says why there is no answer.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	var not *engine.DialError
	var gone *engine.NotFoundError
	var slow interface{ Timeout() bool }
	var kept *fault.Error
	switch {
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // nobody is there any more, or may no longer be
	case errors.As(err, &not):
		s.unready(w, r, v, not)
		return
	case errors.As(err, &gone):
		err = fault.New(codes.Unavailable, "job %s is ending", v.job.Name())
	case engine.IsUnavailable(err):
		err = fault.New(codes.Unavailable, "the container runtime can't be reached right now: try again")
	case errors.As(err, &kept):
	case v.body.bad.Load():
		err = fault.Invalid("body", "it ends before its time, or its chunks can't be read")
	case errors.As(err, &slow) && slow.Timeout():
		s.page(w, r, http.StatusGatewayTimeout, problem{code: codes.Unavailable, title: "The application doesn't answer",
			text: "Application " + v.app.Name + " of job " + v.job.Name() + " took the request and didn't answer within " + s.Limits.Header.String() + ". It may hang: its log says more."})
		return
	case errors.Is(err, upstream.ErrHeaders):
		s.broken(w, r, v, "its answer's headers are larger than 256 KiB")
		return
	default:
		s.Logger.Debug("an application didn't answer", "job", int64(v.job.ID), "app", v.app.Name, "error", err)
		s.broken(w, r, v, "the connection to it was cut off, or what it answered isn't HTTP")
		return
	}
	s.refuse(w, r, err)
}

// broken says that an application's answer can't be used.
func (s *Server) broken(w http.ResponseWriter, r *http.Request, v *visit, why string) {
	s.page(w, r, http.StatusBadGateway, problem{code: codes.Unavailable, title: "The application's answer can't be used",
		text: "Application " + v.app.Name + " of job " + v.job.Name() + " was asked, but " + why + "."})
}
