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

	"golang.org/x/net/http/httpguts"
)

// hopByHop reports whether a header is about one connection (RFC 9110, 7.6.1), or is one that
// programs still send for that.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// named are the headers that Connection names, which are about the connection as well.
func named(h http.Header) (out []string) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); !strings.EqualFold(name, "keep-alive") {
				out = append(out, textproto.CanonicalMIMEHeaderKey(name))
			}
		}
	}
	return out
}

// endToEnd takes off an answer's headers what is about its connection.
func endToEnd(h http.Header) {
	for _, name := range named(h) {
		delete(h, name)
	}
	for name := range h {
		if hopByHop(name) {
			delete(h, name)
		}
	}
}

// head writes the request without a body that an application gets, as httputil.ReverseProxy
// and http.Request.Write do together, which copy a request four times. false: there is
// something in it that they are to look at.
func (s *Server) head(b []byte, r *http.Request, v *visit) ([]byte, bool) {
	at := v.url(r.URL).RequestURI()
	if !visible(at) || !visible(r.Host) {
		return b, false
	}
	b = append(append(append(b, r.Method...), ' '), at...)
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), r.Host...), "\r\n"...)
	good := true
	set := func(name, value string) {
		b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
		good = good && httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
	}
	about := named(r.Header)
	for name, values := range r.Header {
		switch {
		case hopByHop(name), name == "Host", name == "Content-Length", slices.Contains(about, name), withheld(name, v):
		case name == "Cookie":
			if kept := s.withoutCookie(values); kept != "" {
				set(name, kept)
			}
		default:
			for _, value := range values {
				set(name, value)
			}
		}
	}
	if te := r.Header.Get("Te"); te != "" && strings.Contains(strings.ToLower(te), "trailers") {
		set("Te", "trailers") // which this hop knows, too
	}
	s.tell(r, v, set)
	return append(b, "\r\n"...), good
}

// visible reports whether there are letters, digits and signs in it, and nothing else: so
// that it ends where it seems to.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != ""
}

// carry hands a request without a body on, which head has written, and the answer back.
func (s *Server) carry(w http.ResponseWriter, r *http.Request, v *visit, head []byte) {
	resp, err := s.upstream.Ask(r.Context(), target(v), r.Method, head, func(code int, h http.Header) error {
		informational(h)
		maps.Copy(w.Header(), h)
		w.WriteHeader(code)
		for name := range h { // what the server itself says stays for the answer
			delete(w.Header(), name)
		}
		return nil
	})
	if err != nil {
		s.failed(w, r, v, err)
		return
	}
	defer resp.Body.Close()
	endToEnd(resp.Header)
	s.answerHeaders(resp.Header, r.Host, v)
	h := w.Header()
	maps.Copy(h, resp.Header)
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
