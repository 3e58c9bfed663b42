// Package chain links the rows of the log: each row's hash covers its content and
// the hash of the row before, so that a row can't be changed, removed or put in
// between without every later hash being wrong.
package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"croft.dev/croft/internal/world"
)

// version begins what is hashed; a new encoding gets a new one.
const version = "croft log 1"

// Hash returns the hex SHA-256 of an entry and of its Prev. Its own Hash is not
// looked at. What is hashed is every field in the order below, numbers as 8 bytes
// big-endian, text as its length and its bytes: no two entries encode alike.
func Hash(e world.Entry) (string, error) {
	b := make([]byte, 0, 512+len(e.Command))
	b = text(b, version)
	b = text(b, e.Prev)
	b = number(b, e.Seq, e.At, int64(e.User))
	b = text(b, e.Principal, e.Kind, string(e.Command), e.Touched)
	b = number(b, int64(e.Event.Job), int64(e.Event.Refusal), int64(e.Event.Account))
	b = text(b, e.Event.State, e.Event.Message)
	reasons, err := json.Marshal(e.Event.Reasons)
	if err != nil {
		return "", err
	}
	if len(e.Event.Reasons) == 0 {
		reasons = nil
	}
	b = text(b, string(reasons))
	if e.Key != nil {
		b = text(b, e.Key.Name, e.Key.Digest)
		b = number(b, int64(e.Key.Job), int64(e.Key.Refusal))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

func text(b []byte, all ...string) []byte {
	for _, s := range all {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func number(b []byte, all ...int64) []byte {
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

// Verifier is given the rows of a log in order. The zero value expects the first.
type Verifier struct {
	seq  int64
	hash string
}

// Next checks the next row; the error is a *Break.
func (v *Verifier) Next(e world.Entry) error {
	if e.Seq != v.seq+1 {
		return &Break{v.seq + 1, fmt.Sprintf("missing: row %d comes next", e.Seq)}
	}
	if e.Prev != v.hash {
		return &Break{e.Seq, "doesn't follow the row before"}
	}
	want, err := Hash(e)
	if err != nil || e.Hash != want {
		return &Break{e.Seq, "isn't what was written"}
	}
	v.seq, v.hash = e.Seq, e.Hash
	return nil
}

// Seq is the last row that was found right.
func (v *Verifier) Seq() int64 { return v.seq }
