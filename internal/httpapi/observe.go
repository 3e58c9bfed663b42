package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"croft.dev/croft/internal/access"
)

// observation notes what becomes of a request. It is also the ResponseWriter.
type observation struct {
	http.ResponseWriter
	number int64
	status int
	user   string
}

// Unwrap lets http.ResponseController reach the connection.
func (o *observation) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (o *observation) WriteHeader(status int) {
	if o.status == 0 {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

func (o *observation) Write(b []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	return o.ResponseWriter.Write(b)
}

func noteCaller(w http.ResponseWriter, p access.Principal) {
	if o, ok := w.(*observation); ok {
		o.user = p.Name
	}
}

// observed logs and measures a handler, and turns a panic into an answer. Neither
// headers nor bodies are logged: they hold secrets.
func (s *Server) observed(route string, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := &observation{ResponseWriter: w, number: s.requests.Add(1)}
		w.Header().Set(requestID, strconv.FormatInt(o.number, 10))
		begin := time.Now()
		defer func() {
			if p := recover(); p != nil {
				s.recovered(o, r, p)
			}
			s.report(o, r, route, time.Since(begin))
		}()
		h(o, r)
	})
}

func (s *Server) recovered(o *observation, r *http.Request, p any) {
	if p == http.ErrAbortHandler {
		panic(p)
	}
	s.Logger.Error("panic", "request", o.number, "value", p, "stack", string(debug.Stack()))
	if o.status == 0 {
		s.fail(o, r, fmt.Errorf("panic: %v", p))
	}
}

func (s *Server) report(o *observation, r *http.Request, route string, took time.Duration) {
	if o.status == 0 {
		o.status = http.StatusOK
		if r.Context().Err() != nil {
			o.status = 499 // the caller went away; nginx's number for it
		}
	}
	s.Metrics.request(route, r.Method, o.status, took)
	level := slog.LevelDebug
	if o.status >= 500 {
		level = slog.LevelWarn
	}
	s.Logger.LogAttrs(r.Context(), level, "request", slog.Int64("request", o.number), slog.String("method", r.Method),
		slog.String("route", route), slog.Int("status", o.status), slog.Duration("took", took), slog.String("user", o.user))
}
