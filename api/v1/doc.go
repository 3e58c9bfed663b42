// Package v1 is Croft's public API: the wire types, which are also the schema of
// job files, and the Go client. It imports nothing else of Croft but its codes.
//
// Amounts travel as text, exact and readable: CPU in cores ("8", "0.5"), memory
// in powers of 1024 ("64G"), spans of time as "2h" or "1h30m", credits with
// three to six decimal places ("2.288"). Points in time are RFC 3339.
package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// Quantity is an amount as text. It may also be given as a JSON number.
type Quantity string

// UnmarshalJSON accepts a string or a number, which keeps its own digits.
func (q *Quantity) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) > 1 && b[0] == '"' {
		if text := b[1 : len(b)-1]; bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
			*q = Quantity(text) // as nearly always: there is nothing to decode
			return nil
		}
		return json.Unmarshal(b, (*string)(q))
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return fmt.Errorf("want a number or a text such as \"2\" or \"64G\"")
	}
	*q = Quantity(n)
	return nil
}

// Page is one page of a list. Next is empty on the last page.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"cursor of the next page"`
}

// Problem is an error, as application/problem+json (RFC 9457).
type Problem struct {
	Type    string   `json:"type,omitempty"`
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail,omitempty"`
	Code    string   `json:"code" doc:"stable fault code, see the reference"`
	Fields  []Field  `json:"fields,omitempty"`
	Reasons []Reason `json:"reasons,omitempty"`
	Remedy  *Remedy  `json:"remedy,omitempty"`
	ID      string   `json:"id,omitempty" doc:"of a refusal: its name, for clone and why"`
}

func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// Field is what is wrong with one field.
type Field struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Reason is one bound that a request violates or that a job waits for.
type Reason struct {
	Code     string `json:"code" doc:"stable reason code, e.g. DEVICES_NEVER_FIT"`
	Message  string `json:"message"`
	Field    string `json:"field,omitempty"`
	Observed string `json:"observed,omitempty"`
	Bound    string `json:"bound,omitempty"`
	Scope    string `json:"scope,omitempty"`
	Never    bool   `json:"never,omitempty" doc:"waiting does not cure it"`
}

// Remedy is the smallest change found that the same decision admits.
type Remedy struct {
	Set   map[string]string `json:"set" doc:"field of the spec to value"`
	Flags string            `json:"flags" doc:"the same as command-line flags"`
	Start *time.Time        `json:"start,omitempty" doc:"earliest start with it"`
	Exact bool              `json:"exact,omitempty" doc:"the start is promised, not estimated"`
}
