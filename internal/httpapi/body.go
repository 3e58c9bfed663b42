package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// The bounds of a request's body: its size, and how long it may take to arrive.
const (
	maxBody  = 1 << 20
	bodyTime = 30 * time.Second
)

// readBody reads a request's body whole.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	tooLarge := fault.New(codes.TooLarge, "the request is larger than %d bytes", maxBody)
	if r.ContentLength > maxBody {
		return nil, tooLarge
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	rc := http.NewResponseController(w)
	// A transport without deadlines (a test's) has no slow clients either.
	if rc.SetReadDeadline(time.Now().Add(bodyTime)) == nil {
		defer rc.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case err != nil:
		return nil, fault.New(codes.Invalid, "the request's body broke off")
	}
	return buf.Bytes(), nil
}

// decode reads JSON strictly: nothing unknown, nothing after it, valid UTF-8. Its
// errors name the place and never what was there, which may be a secret.
func decode(b []byte, into any) error {
	if !utf8.Valid(b) {
		return fault.Invalid("body", "isn't UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return decodeFault(err, b)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fault.Invalid("body", "has something after the JSON value")
	}
	return nil
}

func decodeFault(err error, b []byte) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		return fault.Invalid("body", "is missing: send JSON")
	case errors.As(err, &syntax):
		return fault.Invalid("body", "isn't JSON: wrong at byte %d", syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return fault.Invalid("body", "isn't whole JSON")
	case errors.As(err, &kind):
		path := kind.Field
		if path == "" {
			path = "body"
		}
		return fault.Invalid(path, "must be %s", typeWord(kind.Type.Kind().String()))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		name = strings.Trim(name, `"`)
		if len(name) > 64 {
			name = strings.ToValidUTF8(name[:64], "") + "…"
		}
		return fault.Invalid(name, "there is no such field")
	}
	return fault.Invalid("body", "has a value of the wrong form: amounts are numbers or text, points in time are RFC 3339")
}

// typeWord is a Go kind in JSON's words.
func typeWord(kind string) string {
	switch {
	case kind == "bool":
		return "true or false"
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	case kind == "slice":
		return "a list"
	case kind == "map" || kind == "struct":
		return "an object"
	}
	return "a text"
}
