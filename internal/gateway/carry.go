package gateway

import (
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
)

// hopByHop are the headers that are about one connection (RFC 9110, 7.6.1), with those that
// programs still send.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// endToEnd returns the headers that are handed on: neither those about the connection nor
// those that Connection names. Their values are the same ones.
func endToEnd(h http.Header) http.Header {
	out := make(http.Header, len(h)+8)
	for name, values := range h {
		if !slices.Contains(hopByHop, name) {
			out[name] = values
		}
	}
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			delete(out, textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)))
		}
	}
	return out
}

// carry hands a request without a body on, and the answer back. It does what
// httputil.ReverseProxy does, which copies a request three times: as much work as the rest of
// the way.
func (s *Server) carry(w http.ResponseWriter, r *http.Request, v *visit) {
	out := &http.Request{Method: r.Method, URL: v.url(r.URL), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: r.Host, Header: endToEnd(r.Header)}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = []string{""} // or it would be Go's
	}
	if strings.Contains(strings.ToLower(r.Header.Get("Te")), "trailers") {
		out.Header["Te"] = []string{"trailers"} // which this hop knows, too
	}
	s.requestHeaders(r, out.Header, v)
	resp, err := s.upstream.Ask(r.Context(), out, func(code int, h http.Header) error {
		informational(h)
		maps.Copy(w.Header(), h)
		w.WriteHeader(code)
		clear(w.Header())
		return nil
	})
	if err != nil {
		s.failed(w, r, v, err)
		return
	}
	defer resp.Body.Close()
	h := w.Header()
	maps.Copy(h, endToEnd(resp.Header))
	s.answerHeaders(h, r.Host, v)
	for name := range resp.Trailer {
		h.Add("Trailer", name)
	}
	w.WriteHeader(resp.StatusCode)
	if err := s.pass(w, resp); err != nil {
		panic(http.ErrAbortHandler) // whoever reads must not take it for whole
	}
	for name, values := range resp.Trailer {
		h[http.TrailerPrefix+name] = values
	}
}

// pass hands an answer's body on: at once, where it is a stream.
func (s *Server) pass(w http.ResponseWriter, resp *http.Response) error {
	flush := func() error { return nil }
	if resp.ContentLength < 0 || isEvents(resp.Header) {
		flush = http.NewResponseController(w).Flush
		if err := flush(); err != nil {
			return err
		}
	}
	buf := s.buffers.Get()
	defer s.buffers.Put(buf)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := flush(); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// isEvents reports whether an answer is a stream of events, whose length some programs give.
func isEvents(h http.Header) bool {
	kind := h.Get("Content-Type")
	if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(kind)), "text/event-stream") {
		return false
	}
	kind, _, _ = mime.ParseMediaType(kind)
	return kind == "text/event-stream"
}

// informational leaves of an answer before the answer what browsers read of it (RFC 8297):
// what else it says could act beyond the application as answers' headers do.
func informational(h http.Header) {
	for name := range h {
		if name != "Link" {
			delete(h, name)
		}
	}
}

// informed has answers before the answer be treated so, by whatever hands them on.
type informed struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t informed) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		informational(http.Header(h)) // hooks that were there before come after this one
		return nil
	}}
	return t.RoundTripper.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}
