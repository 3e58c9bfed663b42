// Package allowance has the rules by which accounts are given credits period after period,
// and says which grant a rule asks for at a moment. The grants themselves are the ledger's.
package allowance

import (
	"fmt"
	"time"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
)

// Allowance is a rule: so much for an account in each period of the calendar of money.
type Allowance struct {
	ID      id.Allowance
	Account id.Account
	Name    string // of the account's
	Amount  money.Micros
	Per     limits.Unit  // Week, Month, Quarter or Year
	From    int64        // ns; no grant begins before
	Until   int64        // ns; none begins from then on; 0: it goes on
	Carry   limits.Carry // of what the grant before has left, in micro-credits
	Source  string
	Subtree bool // accounts below may spend it
	By      id.User
	Changed int64 // ns
	Removed bool  // kept, so that the same name isn't given the same period twice

	Through int64    // ns; the end of the last period that was granted; 0: none was
	Last    id.Grant // that period's
}

// Valid reports whether a unit is one that allowances may be for.
func Valid(u limits.Unit) bool {
	switch u {
	case limits.Week, limits.Month, limits.Quarter, limits.Year:
		return true
	}
	return false
}

// Next is the earliest at which another grant may begin, in ns; not ok if none will.
func (a Allowance) Next() (at int64, ok bool) {
	at = max(a.From, a.Through)
	return at, !a.Removed && (a.Until == 0 || at < a.Until)
}

// Due is the span of the grant that the rule asks for at a moment, in ns: what is left of the
// period that this is in. Periods that were missed are not made up for.
func (a Allowance) Due(now int64) (from, to int64, ok bool) {
	next, more := a.Next()
	begin, to := a.Per.OfMoney(now)
	from = max(begin, next)
	return from, to, more && from <= now && (a.Until == 0 || from < a.Until)
}

// Left is what is carried over into a grant that is due, out of the one before: nothing if
// that was closed by the time at which the next one could begin.
func (a Allowance) Left(before ledger.Grant, balance money.Micros) money.Micros {
	if next, _ := a.Next(); !before.Open(next) {
		return 0
	}
	return money.Micros(a.Carry.Of(int64(balance)))
}

// Label is the source of the grant for the period that a moment is in: the rule's, and which
// period it is.
func (a Allowance) Label(at int64) string {
	begin, _ := a.Per.OfMoney(at)
	t := time.Unix(0, begin).UTC()
	period := t.Format("2006-01")
	switch a.Per {
	case limits.Week:
		y, w := t.ISOWeek()
		period = fmt.Sprintf("%d-W%02d", y, w)
	case limits.Quarter:
		period = fmt.Sprintf("%d-Q%d", t.Year(), (int(t.Month())+2)/3)
	case limits.Year:
		period = t.Format("2006")
	}
	return a.Source + " " + period
}
