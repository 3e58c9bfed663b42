package upstream

import (
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// maxPlainLines is how many headers an answer of the usual kind has at most.
const maxPlainLines = 64

// plain reads an answer of the usual kind: one whose headers have all arrived, that says once
// how long it is, and nothing that needs thought. nil: it isn't one, or hasn't arrived, and
// nothing of it was taken. http.ReadResponse reads all that this one does, and alike.
func (c *conn) plain(method string) *http.Response {
	if method == http.MethodHead {
		return nil
	}
	if _, err := c.br.Peek(1); err != nil {
		return nil // whoever reads next is told
	}
	raw, err := c.br.Peek(c.br.Buffered())
	if err != nil {
		return nil
	}
	end := bytes.Index(raw, []byte("\r\n\r\n"))
	if end < 0 {
		return nil
	}
	resp := parsePlain(string(raw[:end+2]))
	if resp == nil {
		return nil
	}
	if _, err := c.br.Discard(end + 4); err != nil {
		return nil
	}
	if resp.Body = http.NoBody; resp.ContentLength > 0 {
		resp.Body = &rest{c, resp.ContentLength}
	}
	return resp
}

// parsePlain reads the head of such an answer, each line of which ends with CR LF.
func parsePlain(head string) *http.Response {
	status, lines, ok := strings.Cut(head, "\r\n")
	const proto = "HTTP/1.1 "
	if !ok || len(status) < len(proto)+3 || status[:len(proto)] != proto || !clean(status) {
		return nil
	}
	code, err := strconv.ParseUint(status[len(proto):len(proto)+3], 10, 16)
	if err != nil || len(status) > len(proto)+3 && status[len(proto)+3] != ' ' {
		return nil
	}
	switch {
	case code < 200, code == http.StatusNoContent, code == http.StatusNotModified:
		return nil
	}
	n := strings.Count(lines, "\r\n")
	if n > maxPlainLines {
		return nil
	}
	resp := &http.Response{
		Status: status[len(proto):], StatusCode: int(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, n), ContentLength: -1,
	}
	values := make([]string, 0, n) // what is given away of it has no room to grow
	for lines != "" {
		var line string
		line, lines, _ = strings.Cut(lines, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		if !ok || !token(name) || !clean(value) {
			return nil
		}
		name, value = textproto.CanonicalMIMEHeaderKey(name), textproto.TrimString(value)
		if !usual(resp, name, value) {
			return nil
		}
		if before, ok := resp.Header[name]; ok {
			resp.Header[name] = append(before, value)
			continue
		}
		values = append(values, value)
		resp.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if resp.ContentLength < 0 {
		return nil
	}
	return resp
}

// usual takes note of a header; false: it needs more thought than this.
func usual(resp *http.Response, name, value string) bool {
	switch name {
	case "Content-Length":
		n, err := strconv.ParseUint(value, 10, 62)
		if err != nil || resp.ContentLength >= 0 {
			return false
		}
		resp.ContentLength = int64(n)
	case "Connection":
		return strings.EqualFold(value, "keep-alive")
	case "Transfer-Encoding", "Trailer", "Upgrade", "Pragma":
		return false
	}
	return true
}

// token reports whether a header may be called that (RFC 9110, 5.6.2).
func token(name string) bool {
	for i := range len(name) {
		switch b := name[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '-', b == '_':
		default:
			return false
		}
	}
	return name != ""
}

// clean reports whether a line or value has only what is seen, and spaces.
func clean(s string) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

// rest is the body of such an answer.
type rest struct {
	c    *conn
	left int64
}

// Read implements io.Reader. The end comes with the last byte.
func (r *rest) Read(p []byte) (int, error) {
	n, err := r.c.br.Read(p[:min(int64(len(p)), r.left)])
	switch r.left -= int64(n); {
	case r.left == 0:
		return n, io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer.
func (r *rest) Close() error { return nil }
