package approval

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/quantity"
)

// Wall is a longer time limit of a job.
type Wall struct {
	Job  id.Job
	Name string `json:",omitempty"` // what the job is called
	Time int64  // ns, from its start on
}

// Reservation is resources set aside for accounts and users over a time, as whoever sets them
// aside says it.
type Reservation struct {
	Name            string
	Partition       string   `json:",omitempty"`
	Accounts, Users []string `json:",omitempty"`
	Payer           string   `json:",omitempty"`

	Count         int64    `json:",omitempty"`
	CPU, Mem, GPU int64    `json:",omitempty"`
	Model, Where  string   `json:",omitempty"`
	Nodes         []string `json:",omitempty"`

	From, To int64    `json:",omitempty"` // ns; From 0: once it is approved
	Length   int64    `json:",omitempty"` // ns; instead of To
	Repeat   uint8    `json:",omitempty"` // days of the week, as a set of bits
	Until    int64    `json:",omitempty"` // ns
	Join     bool     `json:",omitempty"`
	Each     int64    `json:",omitempty"`
	Images   []string `json:",omitempty"`
	Reason   string   `json:",omitempty"`

	OfAccounts []id.Account `json:",omitempty"` // who Accounts were when it was asked for
	OfUsers    []id.User    `json:",omitempty"` // and Users
}

// Asset is the use of an image or a folder for the members of an account. Names are as they were
// given: whoever asks needn't see it, and there may be none.
type Asset struct {
	Account string
	Image   string     `json:",omitempty"`
	Folder  string     `json:",omitempty"` // or this one
	Owner   string     `json:",omitempty"` // of the folder: the account that has it; "": everybody
	Of      id.Account `json:",omitempty"` // which that was when it was asked for
	Made    int64      `json:",omitempty"` // ns; of which moment the one is that is meant; 0: there was none
}

// Job is a job that waits for its user's approval: it was submitted by a token of his that asks.
type Job struct {
	Job   id.Job
	Title string       `json:",omitempty"` // its own name
	Cost  money.Micros // of all of its time and all of its elements, with the runs that it is to have again
	Above money.Micros // what the token submits without asking
}

// KindOf is the kind of the one part that a wish has; not ok if it hasn't just one.
func (w Wish) KindOf() (k Kind, ok bool) {
	n := 0
	for _, part := range []struct {
		there bool
		kind  Kind
	}{
		{w.Join != nil, KindJoin}, {w.Credits != nil, KindCredits}, {w.Transfer != nil, KindTransfer}, {w.Limit != nil, KindLimit},
		{w.Wall != nil, KindWall}, {w.Reservation != nil, KindReservation}, {w.Asset != nil, KindAsset}, {w.Job != nil, KindJob},
	} {
		if part.there {
			k, n = part.kind, n+1
		}
	}
	return k, n == 1
}

// AsRole is the role that is asked for, or none if there is no such role.
func (j Join) AsRole() access.Role {
	r, _ := access.ParseRole(j.Role)
	return r
}

// String shows all of it, for whoever prints or compares a row.
func (w Wish) String() string {
	text, err := json.Marshal(w)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Words says what the request asks for, "to be member of nlp".
func (r Request) Words() string {
	switch x := r.Wish; r.Kind {
	case KindJoin:
		return fmt.Sprintf("to be %s of %s", x.Join.Role, x.Join.Account)
	case KindCredits:
		return fmt.Sprintf("for %s credits for %s", x.Credits.Amount, x.Credits.Account)
	case KindTransfer:
		return fmt.Sprintf("for %s credits of %s for %s", x.Transfer.Amount, x.Transfer.From, x.Transfer.To)
	case KindWall:
		return fmt.Sprintf("for a time limit of %s for job %s", quantity.FormatDuration(x.Wall.Time), x.Wall.Name)
	case KindReservation:
		return "for reservation " + x.Reservation.Words()
	case KindAsset:
		return x.Asset.Words()
	case KindJob:
		return fmt.Sprintf("to run job %d, %s, for up to %s credits", x.Job.Job, x.Job.Title, x.Job.Cost)
	default:
		return "for a limit of " + x.Limit.Words()
	}
}

// Words is the reservation, "ml24 for course, for 2h from 2026-11-18 09:00 UTC".
func (x Reservation) Words() string {
	from, length := "now on", x.Length
	if x.From != 0 {
		from = time.Unix(0, x.From).UTC().Format("2006-01-02 15:04 UTC")
	}
	window := quantity.FormatDuration(length) + " from " + from
	if x.To != 0 {
		window = from + " until " + time.Unix(0, x.To).UTC().Format("2006-01-02 15:04 UTC")
	}
	return fmt.Sprintf("%s for %s, %s", x.Name, strings.Join(append(append([]string(nil), x.Accounts...), x.Users...), ", "), window)
}

// Words is the use of the asset, "for nlp to use image croft.local/ada/env:v2".
func (x Asset) Words() string {
	switch {
	case x.Image != "":
		return "for " + x.Account + " to use image " + x.Image
	case x.Owner != "":
		return "for " + x.Account + " to use folder " + x.Folder + " of " + x.Owner
	}
	return "for " + x.Account + " to use folder " + x.Folder + " of everybody"
}

// Words is the limit, "8 gpu for account nlp".
func (l Limit) Words() string {
	text := limits.Format(l.Resource, l.Max) + " " + string(l.Resource)
	if l.Per != (limits.Per{}) {
		text += " per " + l.Per.String()
	}
	var whose []string
	for _, part := range []struct{ word, name string }{{"user ", l.User}, {"account ", l.Account}, {"partition ", l.Partition}, {"QoS ", l.QoS}} {
		if part.name != "" {
			whose = append(whose, part.word+part.name)
		}
	}
	return text + " for " + strings.Join(whose, ", ")
}
