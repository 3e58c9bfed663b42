// Package fault has Croft's one error type. An error that isn't a *fault.Error
// is internal: its text reaches the log and never a user.
package fault

import (
	"errors"
	"fmt"

	"croft.dev/croft/api/v1/codes"
)

// Error is an error that a user may see.
type Error struct {
	Code    codes.Code
	Message string
	Fields  []Field  // for Invalid: what is wrong where
	Reasons []Reason // for Refused: why, the tightest first
	Remedy  *Remedy  // for Refused: the smallest change that would be admitted
	ID      string   // for Refused: the record's name, for example "R-7"
}

// Field names one wrong field of the input and the fix.
type Field struct {
	Path    string // "spec.gpu"
	Message string
}

// Reason is one violated bound.
type Reason struct {
	Code     codes.Reason
	Message  string // "asked for 8 gpu, gpu1 has 4"
	Field    string // spec field that the bound applies to, if any
	Observed string
	Bound    string
	Scope    string // whose bound: "account nlp", "node gpu1"
	Never    bool   // waiting doesn't cure it
}

// Remedy is the smallest change found that the same decision admits.
type Remedy struct {
	Set   map[string]string // spec field to value: {"gpu": "4"}
	Flags string            // the same as command-line flags: "--gpu 4"
	Start int64             // earliest start, nanoseconds since the epoch; 0 unknown
	Exact bool              // the start is promised, not estimated
}

func (e *Error) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return string(e.Code)
}

// New returns an error with a formatted message.
func New(code codes.Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns an error about one field.
func Invalid(path, format string, args ...any) *Error {
	m := fmt.Sprintf(format, args...)
	return &Error{Code: codes.Invalid, Message: path + ": " + m, Fields: []Field{{Path: path, Message: m}}}
}

// NotFound says that there is no such thing, or none that the caller may see.
func NotFound(kind, name string) *Error {
	return New(codes.NotFound, "no such %s: %s", kind, name)
}

// Of returns err's code; any error but a *fault.Error is internal.
func Of(err error) codes.Code {
	var f *Error
	if errors.As(err, &f) {
		return f.Code
	}
	return codes.Internal
}

// Fields collects several field errors and is one Invalid error in the end.
type Fields []Field

// Add notes that the field at path is wrong.
func (f *Fields) Add(path, format string, args ...any) {
	*f = append(*f, Field{Path: path, Message: fmt.Sprintf(format, args...)})
}

// Err returns nil when nothing was added.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}
	m := f[0].Path + ": " + f[0].Message
	if len(f) > 1 {
		m += fmt.Sprintf(" (and %d more)", len(f)-1)
	}
	return &Error{Code: codes.Invalid, Message: m, Fields: f}
}
