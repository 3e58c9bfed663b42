// Package audit is the form in which rows of the log are exported, and how they are linked:
// whoever has an export can check it.
package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Row is one row of the log, whole: who carried out what, and what became of it. Each
// row has the hash of the one before, so that none can be changed, taken out or put between
// without every later hash being wrong.
type Row struct {
	Seq       int64           `json:"seq" doc:"rows are numbered without gaps"`
	At        time.Time       `json:"at" doc:"to the nanosecond, which the hash covers"`
	User      int64           `json:"user,omitempty" doc:"the principal's number; none is the server itself"`
	Principal string          `json:"principal" doc:"who, by the name of then; with the token, if it has a name: ada (ci)"`
	Kind      string          `json:"kind" doc:"command that was carried out, e.g. account.set"`
	Command   json.RawMessage `json:"command" doc:"what was asked for"`
	Touched   string          `json:"touched,omitempty" doc:"rows that it put, e.g. job:118 transfer:55"`
	Changed   json.RawMessage `json:"changed,omitempty" doc:"what some of them were and are: a list of {row, fields: [{name, before, after}]}"`
	Job       int64           `json:"job,omitempty"`
	Refusal   int64           `json:"refusal,omitempty"`
	Account   int64           `json:"account,omitempty" doc:"its number"`
	State     string          `json:"state,omitempty"`
	Message   string          `json:"message,omitempty"`
	Reasons   json.RawMessage `json:"reasons,omitempty" doc:"why something was refused or has to wait"`
	Key       *Key            `json:"key,omitempty" doc:"idempotency key that it came with"`
	Prev      string          `json:"prev" doc:"hash of the row before; empty before the first"`
	Hash      string          `json:"hash" doc:"hex SHA-256 of this row and of prev"`
}

// Key is the idempotency key of a request and what was answered to it.
type Key struct {
	Name    string `json:"name"`
	Digest  string `json:"digest" doc:"hex SHA-256 of the request's body"`
	Job     int64  `json:"job,omitempty"`
	Refusal int64  `json:"refusal,omitempty"`
}

// RowChange is what a command changed of one row.
type RowChange struct {
	Row    string        `json:"row" doc:"e.g. account:3"`
	Fields []FieldChange `json:"fields"`
}

// FieldChange is a field that was made something else.
type FieldChange struct {
	Name   string          `json:"name"`
	Before json.RawMessage `json:"before" doc:"null: it had none"`
	After  json.RawMessage `json:"after"`
}

// Changes are Changed, parsed.
func (r Row) Changes() ([]RowChange, error) {
	if len(r.Changed) == 0 {
		return nil, nil
	}
	var all []RowChange
	if err := json.Unmarshal(r.Changed, &all); err != nil {
		return nil, fmt.Errorf("what row %d changed: %w", r.Seq, err)
	}
	return all, nil
}

// Sum is what Hash has to be: the hex SHA-256 of every field but Hash, in the order below,
// numbers as 8 bytes big-endian, text as its length and its bytes, so that no two rows encode
// alike. Rows without Changed are encoded as before there was such a field.
func (r Row) Sum() string {
	b := make([]byte, 0, 512+len(r.Command)+len(r.Changed))
	if len(r.Changed) == 0 {
		b = hashText(b, "croft log 1")
	} else {
		b = hashText(b, "croft log 2", string(r.Changed))
	}
	b = hashText(b, r.Prev)
	b = hashNumber(b, r.Seq, r.At.UnixNano(), r.User)
	b = hashText(b, r.Principal, r.Kind, string(r.Command), r.Touched)
	b = hashNumber(b, r.Job, r.Refusal, r.Account)
	b = hashText(b, r.State, r.Message, string(r.Reasons))
	if r.Key != nil {
		b = hashText(b, r.Key.Name, r.Key.Digest)
		b = hashNumber(b, r.Key.Job, r.Key.Refusal)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func hashText(b []byte, all ...string) []byte {
	for _, s := range all {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func hashNumber(b []byte, all ...int64) []byte {
	for _, n := range all {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// Break is the first row that isn't as it was written.
type Break struct {
	Seq  int64
	What string
}

func (b *Break) Error() string { return fmt.Sprintf("log row %d: %s", b.Seq, b.What) }

// Verifier is given the rows of a log in order. The zero value expects the first one
// of all; After takes up a log in the middle.
type Verifier struct {
	seq  int64
	hash string
}

// After is a verifier of what follows a row whose number and hash are known.
func After(seq int64, hash string) Verifier { return Verifier{seq, hash} }

// Next checks the next row; the error is an *Break.
func (v *Verifier) Next(r Row) error {
	if r.Seq != v.seq+1 {
		return &Break{v.seq + 1, fmt.Sprintf("missing: row %d comes next", r.Seq)}
	}
	if r.Prev != v.hash {
		return &Break{r.Seq, "doesn't follow the row before"}
	}
	if r.Hash != r.Sum() {
		return &Break{r.Seq, "isn't what was written"}
	}
	v.seq, v.hash = r.Seq, r.Hash
	return nil
}

// Seq is the last row that was found right.
func (v *Verifier) Seq() int64 { return v.seq }

// Hash is that row's.
func (v *Verifier) Hash() string { return v.hash }
