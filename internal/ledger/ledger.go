// Package ledger is the money: balanced, append-only transfers between ledger
// accounts, grants with a start and an end, deposits for admitted jobs, and the
// tiles that give every device-second exactly one payer. A balance is always a
// sum of transfers.
package ledger

import (
	"fmt"
	"strings"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
)

// Account names a ledger account. Money only moves between two of them.
type Account string

// Platform is where the platform's own money comes from.
const Platform Account = "funding:platform"

// Expired collects what grants lose at their end.
const Expired Account = "expired"

// Funding is a source outside: its balance is minus what was granted.
func Funding(source string) Account { return Account("funding:" + source) }

// OfGrant is the unspent part of a grant.
func OfGrant(g id.Grant) Account { return Account(fmt.Sprintf("grant:%d", g)) }

// Unfunded is what showback posts beyond an account's grants: it may go below 0.
func Unfunded(a id.Account) Account { return Account(fmt.Sprintf("unfunded:%d", a)) }

// Deposit is what a job has set aside out of one source (the ledger account of a grant,
// of an overdraft, or Unfunded).
func Deposit(j id.Job, source Account) Account {
	return Account(fmt.Sprintf("deposit:%d:%s", j, source))
}

// Deposit reports whether the account is what a job has set aside.
func (a Account) Deposit() bool { return strings.HasPrefix(string(a), "deposit:") }

// Spent is what an account has paid.
func Spent(a id.Account) Account { return Account(fmt.Sprintf("spent:%d", a)) }

// Waste is what the platform paid for a cause.
func Waste(c Cause) Account { return Account("waste:" + string(c)) }

// Open reports whether the account may go below zero: only sources may.
func (a Account) Open() bool {
	s := string(a)
	return strings.HasPrefix(s, "funding:") || strings.HasPrefix(s, "unfunded:") || strings.HasPrefix(s, "overdraft:")
}

// Kind says what a transfer is for.
type Kind string

// The kinds of transfer.
const (
	KindGrant   Kind = "grant"
	KindCarry   Kind = "carry"   // out of a grant that has ended into the next of its allowance
	KindGiveUp  Kind = "give_up" // out of a grant, back to where it came from, to be given to another account
	KindDeposit Kind = "deposit"
	KindCharge  Kind = "charge"
	KindCorrect Kind = "correct" // a charge that was too high, taken back
	KindReturn  Kind = "return"
	KindRefund  Kind = "refund"
	KindExpire  Kind = "expire"
	KindRepay   Kind = "repay" // out of a grant, of what its account owes beyond its grants
	KindUnpay   Kind = "unpay" // back into it, since it isn't owed after all
	KindWaste   Kind = "waste"
)

// Transfer moves Amount (> 0) from one ledger account to another. It is balanced
// by construction and never changes once posted.
type Transfer struct {
	ID      id.Transfer
	Seq     int64 // the log row that posted it
	At      int64 // ns since the epoch
	From    Account
	To      Account
	Amount  money.Micros
	Kind    Kind
	Job     id.Job     // 0: none
	Attempt int32      // 0: none
	Account id.Account // account concerned, of that day
	User    id.User    // 0: none
	Token   id.Token   // by which its job was submitted; 0: none
}

// Grant is credits given to an account, usable from Start to End.
type Grant struct {
	ID      id.Grant
	Account id.Account
	Amount  money.Micros // with what was carried over into it
	Source  string
	Start   int64 // ns
	End     int64 // ns; 0: never ends. OwnEnd or, before that, its account's end
	OwnEnd  int64 // ns; as it was given; 0: with the account
	Subtree bool  // accounts below may spend it
	By      id.User
	Created int64
	Expired bool // its rest was posted to Expired

	Allowance id.Allowance // by whose rule it was given; 0: by hand
	Carried   money.Micros // out of it, into the next of its allowance

	Origin id.Grant     // of another account's, out of which it was transferred; 0: it wasn't
	Passed money.Micros // out of it, into other accounts' grants
}

// Own is what of the grant's amount its account has had to spend: what went into others' grants,
// or into the next of its allowance, isn't.
func (g Grant) Own() money.Micros { return g.Amount - g.Carried - g.Passed }

// Open reports whether what comes back to the grant at t still stays in it.
func (g Grant) Open(t int64) bool { return !g.Expired && (g.End == 0 || t < g.End+RefundTail) }

// Usable reports whether the grant may be spent at t.
func (g Grant) Usable(t int64) bool { return !g.Expired && g.Start <= t && (g.End == 0 || t < g.End) }

// RefundTail is how long after a grant's end money still returns into it.
const RefundTail = int64(30 * 24 * 3600 * 1e9)

// Cause says why a device-second was paid by whom.
type Cause string

// The causes of a tile. CauseUsed is the user's to pay, CauseReserved the payer's of the
// reservation, all else the platform's.
const (
	CauseUsed        Cause = "used"
	CauseStarting    Cause = "starting" // assigned, the primary hasn't begun
	CauseEnding      Cause = "ending"   // beyond limit and grace
	CauseIdle        Cause = "idle"
	CauseForeign     Cause = "foreign"
	CauseDrained     Cause = "drained"
	CauseMaintenance Cause = "maintenance"
	CauseDown        Cause = "down" // node or device lost or unhealthy
	CausePreempted   Cause = "preempted"
	CauseReserved    Cause = "reserved" // set aside, and used by nobody
)

// Tile is a span of time of a device, or of a part of one, with one payer. From the
// moment a device was first seen, its tiles come to the whole device at every time.
type Tile struct {
	Device  string // UUID
	Node    string
	Model   string
	From    int64 // ns
	To      int64 // ns; 0: open
	Milli   int64 // of the device, thousandths
	Cause   Cause
	Job     id.Job
	Attempt int32
	Account id.Account // payer; 0: the platform
	User    id.User
	Posted  money.Micros // for platform tiles: what was posted to waste; for reserved ones: what was charged
}
