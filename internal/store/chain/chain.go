// Package chain links the rows of the log: each row's hash covers its content and the hash
// of the row before. How is audit.Row's, so that whoever has an export can check it.
package chain

import (
	"encoding/json"
	"time"

	"croft.dev/croft/api/v1/audit"
	"croft.dev/croft/internal/world"
)

// Row is an entry as it is hashed and exported.
func Row(e world.Entry) (audit.Row, error) {
	r := audit.Row{
		Seq: e.Seq, At: time.Unix(0, e.At).UTC(), User: int64(e.User), Principal: e.Principal, Kind: e.Kind, Command: e.Command,
		Touched: e.Touched, Changed: e.Changed,
		Job: int64(e.Event.Job), Refusal: int64(e.Event.Refusal), Account: int64(e.Event.Account), State: e.Event.State, Message: e.Event.Message,
		Prev: e.Prev, Hash: e.Hash,
	}
	if e.Key != nil {
		r.Key = &audit.Key{Name: e.Key.Name, Digest: e.Key.Digest, Job: int64(e.Key.Job), Refusal: int64(e.Key.Refusal)}
	}
	if len(e.Event.Reasons) == 0 {
		return r, nil
	}
	var err error
	r.Reasons, err = json.Marshal(e.Event.Reasons)
	return r, err
}

// Hash returns the hex SHA-256 of an entry and of its Prev. Its own Hash is not
// looked at.
func Hash(e world.Entry) (string, error) {
	r, err := Row(e)
	if err != nil {
		return "", err
	}
	return r.Sum(), nil
}

// Break is the first row that isn't as it was written.
type Break = audit.Break

// Verifier is given the rows of a log in order. The zero value expects the first.
type Verifier struct{ audit.Verifier }

// Next checks the next row; the error is a *Break.
func (v *Verifier) Next(e world.Entry) error {
	r, err := Row(e)
	if err != nil {
		return &Break{Seq: e.Seq, What: "isn't what was written"}
	}
	return v.Verifier.Next(r)
}
