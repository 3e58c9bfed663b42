package query

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/fault"
)

// cursor is where a page of a list begins. It is opaque to callers, and good only
// for the question that it came from.
type cursor struct {
	Version int    `json:"v"`
	Filter  string `json:"f"` // of the question
	Key     string `json:"k,omitempty"`
	ID      int64  `json:"i,omitempty"`
}

const (
	cursorVersion = 1
	maxCursor     = 1024 // bytes
)

// filterHash names a question: the list and everything that selects its rows.
func filterHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

func (c cursor) encode() string {
	c.Version = cursorVersion
	b, err := json.Marshal(c)
	if err != nil {
		return "" // strings and numbers always marshal
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor reads a cursor of the question named by filter; an empty one is the
// beginning.
func parseCursor(s, filter string) (cursor, error) {
	var c cursor
	if s == "" {
		return c, nil
	}
	bad := fault.Invalid("cursor", "isn't a cursor of this list: start again without one")
	if len(s) > maxCursor {
		return c, bad
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || json.Unmarshal(b, &c) != nil || c.Version != cursorVersion || c.Filter != filter || c.ID < 0 {
		return cursor{}, bad
	}
	return c, nil
}

// defaultPage is how many items a page has where nobody says.
const defaultPage = 100

// pageSize is how many items a page has when limit were asked for; 0: the default.
func pageSize(limit int) (int, error) {
	switch {
	case limit < 0 || limit > v1.MaxPage:
		return 0, fault.Invalid("limit", "must be from 1 to %d", v1.MaxPage)
	case limit == 0:
		return defaultPage, nil
	}
	return limit, nil
}
