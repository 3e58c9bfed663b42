package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/query"
)

// fail answers a request with an error. What isn't a fault is Croft's own failure:
// its text goes to the log, and the caller gets the number to find it by.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problem(r, w.Header().Get(requestID), err)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a reader that went away
}

// requestID is the header with the number that the log has a request under.
const requestID = "X-Request-Id"

func (s *Server) problem(r *http.Request, number string, err error) *v1.Problem {
	var f *fault.Error
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		f = fault.New(codes.Unavailable, "the request was given up")
	case !errors.As(err, &f):
		s.Logger.Error("request failed", "request", number, "path", r.Pattern, "error", err)
		f = fault.New(codes.Internal, "the server failed; its log has more under request %s", number)
	}
	p := &v1.Problem{
		Title: title(f.Code), Status: codes.Of(f.Code).HTTP, Detail: f.Message, Code: string(f.Code),
		Reasons: query.Reasons(f.Reasons), Remedy: query.Remedy(f.Remedy), ID: f.ID,
	}
	for _, field := range f.Fields {
		p.Fields = append(p.Fields, v1.Field{Path: field.Path, Message: field.Message})
	}
	return p
}

// title is a code in words.
func title(c codes.Code) string {
	s := strings.ReplaceAll(string(c), "_", " ")
	return strings.ToUpper(s[:1]) + s[1:]
}
