package world

import (
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
)

// Command is one thing that somebody wants changed. It is plain data: its JSON
// form is kept in the log, so it holds no secret.
type Command interface {
	// Kind is the command's stable name, "job.submit".
	Kind() string
	// Decide looks at w and says what the command changes there. It changes
	// nothing and is deterministic: the same world and context give the same
	// outcome. An error (a *fault.Error) rejects the command without a trace.
	Decide(w *World, at Context) (Outcome, error)
}

// Context is what a decision may know besides the world.
type Context struct {
	Seq       int64 // the log row that this command becomes
	Now       int64 // ns; at least the world's
	Principal access.Principal
	Key       string // idempotency key, already joined with principal and operation
	Digest    string // of the body, with Key
}

// Outcome is what a command comes to.
type Outcome struct {
	Changes []Change
	Result  any          // for the caller
	Fault   *fault.Error // answered although the changes were made: a refusal
	Event   Event
}

// Event is the part of a log row that people read.
type Event struct {
	Job     id.Job
	Refusal id.Refusal
	Account id.Account
	State   string
	Message string
	Reasons []fault.Reason
	Skip    bool // nothing happened: no changes, no row
}

// Entry is a row of the log: decision, audit entry and event in one.
type Entry struct {
	Seq       int64
	At        int64 // ns
	User      id.User
	Principal string // name as of then; "system"
	Kind      string
	Command   []byte // JSON
	Touched   string // rows changed, "job:118 transfer:55"
	Changed   []byte // of some of them, what they were and are: JSON, a list of audit.RowChange
	Event     Event
	Key       *Key
	Prev      string // hex SHA-256 of the row before
	Hash      string // hex SHA-256 of this row and Prev
}
