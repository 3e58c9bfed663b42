package approval

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
)

// Stage is where a request stands.
type Stage string

// The stages. Only an open request changes, and once.
const (
	Open      Stage = "open"
	Approved  Stage = "approved" // and what it asked for is done
	Rejected  Stage = "rejected"
	Withdrawn Stage = "withdrawn" // by whoever asked
	Expired   Stage = "expired"
)

// Stages are all of them.
func Stages() []Stage { return []Stage{Open, Approved, Rejected, Withdrawn, Expired} }

// Kind is what sort of thing is asked for.
type Kind string

// The kinds.
const (
	KindJoin     Kind = "join"     // a role in an account
	KindCredits  Kind = "credits"  // a grant for an account
	KindTransfer Kind = "transfer" // credits of an account for another
	KindLimit    Kind = "limit"    // another bound on what may be used
	KindWall     Kind = "wall"     // a longer time limit of a running job

	KindReservation Kind = "reservation" // resources set aside over a time
	KindAsset       Kind = "asset"       // an image or a folder for the members of an account
	KindJob         Kind = "job"         // to run what a token has submitted that asks for it
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{KindJoin, KindCredits, KindTransfer, KindLimit, KindWall, KindReservation, KindAsset, KindJob}
}

// Request is something that needs an approval. What it asks for never changes.
type Request struct {
	ID      id.Request
	User    id.User // who asks
	Token   tenancy.ByToken
	Kind    Kind
	Account id.Account // the account concerned, of a transfer the one that gives; 0: none, or none has that name
	Other   id.Account // of a transfer: the one that is given to, likewise
	Wish    Wish
	Message string
	State   Stage
	Created int64 // ns
	Expires int64 // ns

	Reminded int64 // ns; when whoever asks last reminded those who decide; 0: never

	Decided int64   // ns
	By      id.User // who decided; 0: nobody did
	Said    string  // by him

	Failed string // why approving it failed last; the request stayed open
}

// Wish is what is asked for: of its parts, the one of the request's kind.
type Wish struct {
	Join     *Join     `json:",omitempty"`
	Credits  *Credits  `json:",omitempty"`
	Transfer *Transfer `json:",omitempty"`
	Limit    *Limit    `json:",omitempty"`
	Wall     *Wall     `json:",omitempty"`

	Reservation *Reservation `json:",omitempty"`
	Asset       *Asset       `json:",omitempty"`
	Job         *Job         `json:",omitempty"`
}

// Join is a role in an account for whoever asks. Names are as they were given: an account that
// whoever asks can't see may not exist.
type Join struct {
	Account string
	Role    string
	Ends    int64 `json:",omitempty"` // ns; 0: with the account
}

// Credits are a grant for an account.
type Credits struct {
	Account string
	Amount  money.Micros
	Source  string `json:",omitempty"` // "": whoever approves says
	End     int64  `json:",omitempty"` // ns; 0: never
	Subtree bool   `json:",omitempty"`
}

// Transfer is credits of one account for another.
type Transfer struct {
	From, To string
	Amount   money.Micros
	Grant    id.Grant `json:",omitempty"` // 0: those that end first
}

// Limit is another bound on what may be used, in place of the one of its scope, resource and period.
type Limit struct {
	Account, User, Partition, QoS string  `json:",omitempty"`
	Of                            id.User `json:",omitempty"` // who User was when it was asked for
	Resource                      limits.Resource
	Per                           limits.Per `json:",omitzero"`
	Max                           int64
}

// The times of requests, in ns.
const (
	DefaultLife = int64(14 * 24 * 3600 * 1e9) // of one that doesn't say
	MaxLife     = int64(366 * 24 * 3600 * 1e9)
	RemindAfter = int64(24 * 3600 * 1e9) // at the earliest, after it was made or the last time
)

// MaxOpen bounds the open requests of a user, and MaxDaily those that he makes in a day: those
// who decide are told of each.
const (
	MaxOpen  = 50
	MaxDaily = 100
)

// Pending reports whether the request can still be decided at a time.
func (r Request) Pending(now int64) bool { return r.State == Open && now < r.Expires }

// Remindable says from when on those who decide can be reminded.
func (r Request) Remindable() int64 { return max(r.Created, r.Reminded) + RemindAfter }

// Close is the request as it is once somebody has decided.
func (r Request) Close(s Stage, by id.User, said string, now int64) Request {
	r.State, r.By, r.Said, r.Decided, r.Failed = s, by, said, now, ""
	return r
}
