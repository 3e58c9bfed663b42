// Package tenancy has the people and the accounts: users, the account tree,
// memberships and personal tokens.
package tenancy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
)

// Billing says what money means for an account.
type Billing string

// The billing modes.
const (
	BillingOff      Billing = "off"      // not metered in money
	BillingShowback Billing = "showback" // metered and posted, never refused for funds
	BillingEnforce  Billing = "enforce"  // no funds, no start
)

// ParseBilling reads a mode; empty is showback.
func ParseBilling(s string) (Billing, bool) {
	switch b := Billing(s); b {
	case BillingOff, BillingShowback, BillingEnforce:
		return b, true
	case "":
		return BillingShowback, true
	}
	return "", false
}

// OutOfCredit says what becomes of what runs in an account whose billing is enforced, once
// its credits are used up.
type OutOfCredit string

// The ways.
const (
	Stop  OutOfCredit = "stop"  // rolling deposits aren't renewed: it is stopped
	Drain OutOfCredit = "drain" // it runs to its time limit, and what that costs is owed

	// Overdraft: jobs may go beyond the grants up to a bound, which later grants repay; then as Stop.
	Overdraft OutOfCredit = "overdraft"
)

// ParseOutOfCredit reads one; empty is Stop.
func ParseOutOfCredit(s string) (OutOfCredit, bool) {
	switch o := OutOfCredit(s); o {
	case Stop, Drain, Overdraft:
		return o, true
	case "":
		return Stop, true
	}
	return "", false
}

// Account is a node of the account tree: who pays. Nothing is deleted: an account
// is closed, and one that nothing needs any more is retired.
type Account struct {
	ID      id.Account
	Name    string
	Parent  id.Account // 0: a root
	Billing Billing
	Group   string // Unix group that the membership follows; empty: none
	Closed  bool
	Created int64 // ns since the epoch
	Ends    int64 // ns; from then on nothing starts and its members are none; 0: never
	Weight  int64 // of its share, against accounts and members beside it; 0: 1
	Retired int64 // ns; when it was removed, and its name became free; 0: wasn't

	OutOfCredit OutOfCredit  // "": Stop
	Overdraft   money.Micros // how far jobs may go beyond the grants, where OutOfCredit is Overdraft
}

// Drains reports whether what runs goes on once the account's credits are used up.
func (a Account) Drains() bool { return a.Billing == BillingEnforce && a.OutOfCredit == Drain }

// MayOverdraw is how far the account's jobs may go beyond its grants; 0: not at all.
func (a Account) MayOverdraw() money.Micros {
	if a.Billing != BillingEnforce || a.OutOfCredit != Overdraft {
		return 0
	}
	return a.Overdraft
}

// Over reports whether the account has ended at time now; those above it aside.
func (a Account) Over(now int64) bool { return over(a.Ends, now) }

// User is a person. UID is the Unix uid bound to the name, or -1.
type User struct {
	ID       id.User
	Name     string
	Platform access.Platform
	UID      int64
	UIDSince int64  // ns; when the binding was made
	Warning  string // e.g. the uid was given to another name: no job runs until rebound
	Blocked  bool
	Created  int64
	Ends     int64 // ns; from then on the user may nothing; 0: never
	Retired  int64 // ns; when the user left for good; 0: hasn't
}

// Barred says what keeps the user from everything at time now; empty: nothing.
func (u User) Barred(now int64) string {
	switch {
	case u.Retired != 0:
		return "retired"
	case u.Blocked:
		return "blocked"
	case over(u.Ends, now):
		return "expired"
	}
	return ""
}

// over reports whether an end (0: never) has passed at time now.
func over(end, now int64) bool { return end != 0 && now >= end }

// Sooner is the earlier of two ends, of which 0 is never.
func Sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Member is a user's role in an account.
type Member struct {
	Account   id.Account
	User      id.User
	Role      access.Role
	FromGroup bool  // by the followed Unix group: comes and goes with it
	Ends      int64 // ns; 0: with the account
	Weight    int64 // of his share, against members and accounts beside him; 0: 1
}

// MaxWeight is the most that a share can weigh.
const MaxWeight = 1_000_000

// CheckWeight says what is wrong with a weight.
func CheckWeight(n int64) error {
	if n < 1 || n > MaxWeight {
		return fmt.Errorf("must be from 1 to %d", MaxWeight)
	}
	return nil
}

// Entry is one line of a list of members to be.
type Entry struct {
	Line int // in the table, for messages
	User string
	UID  int64       // -1: not said
	Role access.Role // NoRole: not said
	Ends *int64      `json:",omitempty"` // ns, 0: never; nil: not said
}

// UnixID reports whether n can be the uid of a user.
func UnixID(n int64) bool { return n >= 0 && n < 1<<32-1 }

// Token authenticates a user: a personal token, which programs have, or a session,
// which a password opened. Only the SHA-256 of its secret is kept.
type Token struct {
	ID      id.Token
	User    id.User
	Name    string
	Hash    string // hex SHA-256 of the secret
	Created int64
	Expires int64 // 0: never
	Revoked bool
	Scopes  access.Scope // 0: all
	Account id.Account   // only it and those below; 0: every one
	// Idle is for how long, in ns, a session lives unused; 0 on a personal token.
	Idle int64
	Used int64 // ns; when a session was last seen in use, give or take Idle/UseStep
	Caps Caps
}

// Caps bound what all jobs that are submitted by a token come to together. They never
// change. The zero value bounds nothing.
type Caps struct {
	Spend   money.Micros `json:",omitempty"` // charged and set aside; 0: any amount
	Per     string       `json:",omitempty"` // of what is charged: "day", "week" or "month", of UTC; "": in all
	Devices int64        `json:",omitempty"` // milli-devices that they hold at once; 0: any number, below 0: none
	Ask     money.Micros `json:",omitempty"` // what costs more waits until its user approves it; 0: nothing does, below 0: whatever costs anything
}

// NoDevices is a cap on devices that leaves none.
const NoDevices = -1

// AskAll is a threshold above which everything is that costs anything.
const AskAll = -1

// Asks reports whether a job that costs so much in all needs its user's approval.
func (c Caps) Asks(cost money.Micros) bool { return c.Ask != 0 && cost > max(c.Ask, 0) }

// MostDevices is the cap on devices, in milli-devices, if there is one.
func (c Caps) MostDevices() (most int64, capped bool) { return max(c.Devices, 0), c.Devices != 0 }

// ByToken is the personal token by which a job was submitted, as it stays with the job
// when the token is gone; zero: by none.
type ByToken struct {
	ID   id.Token `json:",omitempty"`
	Name string   `json:",omitempty"`
	Caps Caps     `json:",omitzero"`
}

// String is its name and, as names come again, its number.
func (t ByToken) String() string {
	if t.ID == 0 {
		return ""
	}
	return fmt.Sprintf("%s #%d", t.Name, t.ID)
}

// By is the token as the jobs that are submitted by it keep it; a session is none.
func (t Token) By() ByToken {
	if t.Session() {
		return ByToken{}
	}
	return ByToken{t.ID, t.Name, t.Caps}
}

// UseStep is into how many parts Idle is divided: a session's use is noted once in
// each, not at every request.
const UseStep = 16

// Session reports whether the token was made by a password.
func (t Token) Session() bool { return t.Idle != 0 }

// ByLinks reports whether it is the session of a user's browsers that came in by links, which
// somebody gets who needn't show a secret. No secret has its hash.
func (t Token) ByLinks() bool { return t.Session() && strings.HasPrefix(t.Hash, byLinks) }

const byLinks = "links:"

// LinksHash is the hash of that session, by its id.
func LinksHash(k id.Token) string { return byLinks + strconv.FormatInt(int64(k), 10) }

// End is when the token ends if it isn't used again; 0: never.
func (t Token) End() int64 {
	if t.Idle == 0 {
		return t.Expires
	}
	return Sooner(t.Expires, t.Used+t.Idle)
}

// Usable reports whether the token still authenticates at time now.
func (t Token) Usable(now int64) bool { return !t.Revoked && !over(t.End(), now) }

// NoteUse reports whether a use at time now is worth noting.
func (t Token) NoteUse(now int64) bool { return t.Idle != 0 && now-t.Used >= t.Idle/UseStep }

// Password is what is kept of a user's password. Nothing else of it ever gets into
// the world, and this gets out of it only to be checked against.
type Password struct {
	User    id.User
	Hash    string // see package password; empty: the user has none
	Changed int64  // ns
}

var namePattern = regexp.MustCompile(`^[a-z_][a-z0-9_.-]{0,62}$`)

// CheckName says what is wrong with the name of a user or account.
func CheckName(name string) error {
	if !namePattern.MatchString(name) || name == ".." {
		return fmt.Errorf("must be 1 to 63 of a-z 0-9 _ . - and begin with a letter or _")
	}
	return nil
}
