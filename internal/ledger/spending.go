package ledger

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/table"
)

// Day is how long a day of the books is, in ns: they begin at midnight UTC.
const Day = int64(24 * 3600 * 1e9)

// Spending is what a user was charged in an account on a day, less what was corrected or
// refunded then: below zero where that is for days before.
type Spending struct {
	User    id.User
	Account id.Account
	Day     int64 // since the epoch
	Amount  money.Micros
}

// SpendingSet loads what the store has summed; it is never the outcome of a decision.
type SpendingSet struct{ Row Spending }

func (SpendingSet) ledger() {}

func (s Spending) key() string {
	return table.Pair(int64(s.User), int64(s.Account)) + table.Pair(s.Day, 0)
}

// spend counts a transfer to or from what an account has spent for a user.
func (s *State) spend(t Transfer) {
	var amount money.Micros
	switch {
	case t.User == 0 || t.Account == 0:
		return
	case t.To == Spent(t.Account):
		amount = t.Amount
	case t.From == Spent(t.Account):
		amount = -t.Amount
	default:
		return
	}
	s.addSpending(Spending{t.User, t.Account, t.At / Day, amount})
	if t.Token != 0 {
		s.addTokenSpending(TokenSpending{t.Token, t.At / Day, amount})
	}
}

// addSpending keeps only days that don't come to zero.
func (s *State) addSpending(row Spending) {
	k := row.key()
	before, _ := s.spending.Get(k)
	if row.Amount += before.Amount; row.Amount == 0 {
		s.spending.Delete(k)
	} else {
		s.spending.Set(k, row)
	}
}

// SpentBy is what a user was charged from the day of a moment on, in accounts that
// count, less what was corrected or refunded since.
func (s *State) SpentBy(u id.User, from int64, counts func(id.Account) bool) money.Micros {
	var sum money.Micros
	for _, row := range s.spending.From(table.Pair(int64(u), 0)) {
		if row.User != u {
			break
		}
		if row.Day >= from/Day && counts(row.Account) {
			sum += row.Amount
		}
	}
	return sum
}

// Spendings yields what everybody was charged, by user, account and day.
func (s *State) Spendings(yield func(Spending) bool) {
	for _, row := range s.spending.All() {
		if !yield(row) {
			return
		}
	}
}

// TokenSpending is what jobs that were submitted by a token were charged on a day, less what
// was corrected or refunded then.
type TokenSpending struct {
	Token  id.Token
	Day    int64 // since the epoch
	Amount money.Micros
}

// TokenSpendingSet loads what the store has summed; it is never the outcome of a decision.
type TokenSpendingSet struct{ Row TokenSpending }

func (TokenSpendingSet) ledger() {}

// addTokenSpending keeps only days that don't come to zero.
func (s *State) addTokenSpending(row TokenSpending) {
	k := table.Pair(int64(row.Token), row.Day)
	before, _ := s.byToken.Get(k)
	if row.Amount += before.Amount; row.Amount == 0 {
		s.byToken.Delete(k)
	} else {
		s.byToken.Set(k, row)
	}
}

// SpentByToken is what jobs of a token were charged from the day of a moment on, less what
// was corrected or refunded since.
func (s *State) SpentByToken(t id.Token, from int64) money.Micros {
	var sum money.Micros
	for _, row := range s.byToken.From(table.Pair(int64(t), from/Day)) {
		if row.Token != t {
			break
		}
		sum += row.Amount
	}
	return sum
}

// TokenSpendings yields what the jobs of every token were charged, by token and day.
func (s *State) TokenSpendings(yield func(TokenSpending) bool) {
	for _, row := range s.byToken.All() {
		if !yield(row) {
			return
		}
	}
}
