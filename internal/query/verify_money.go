package query

import (
	"context"
	"errors"
	"maps"
	"slices"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/chain"
	"croft.dev/croft/internal/workload"
)

// readTransfers adds every transfer up to S.
func (a *audit) readTransfers(ctx context.Context) error {
	var last id.Transfer
	var seq int64
	for {
		rows, err := a.r.History.Transfers(ctx, store.TransferFilter{After: last}, pageRows)
		if err != nil {
			return err
		}
		for _, t := range rows {
			if t.Seq > a.w.Seq {
				a.counted(last)
				return nil
			}
			a.transfers.want(t.ID == last+1, "transfer %d follows transfer %d", t.ID, last)
			if t.Amount <= 0 || t.From == t.To || t.Seq < seq {
				a.transfers.want(false, "transfer %d: %s from %s to %s in log row %d after row %d", t.ID, t.Amount, t.From, t.To, t.Seq, seq)
				a.transfers.n--
			}
			last, seq = t.ID, t.Seq
			a.add(t)
		}
		if len(rows) < pageRows {
			a.counted(last)
			return nil
		}
	}
}

// readDaily compares the sums by day with the transfers, as they are now.
func (a *audit) readDaily(ctx context.Context) error {
	rows, first, err := a.r.History.DailyDiffers(ctx)
	if a.daily.n = rows; err == nil {
		a.daily.first = first
	}
	return err
}

// readClosed compares what is kept of closed periods with its hashes and with the postings.
func (a *audit) readClosed(ctx context.Context) error {
	return a.r.History.Books(ctx, func(b *store.Books) error {
		for _, p := range a.w.Ledger.Closed.All() {
			books, first, err := b.ClosedDiffers(p, nil)
			if err != nil {
				return err
			}
			a.periods.want(first == "", "%s: %s", periodName(p.From, p.To), first)
			a.periods.n += books
		}
		return nil
	})
}

func (a *audit) counted(last id.Transfer) {
	next := a.w.Ledger.NextTransfer()
	a.counters.want(last+1 == next, "the last transfer is %d, the next would be %d", last, next)
}

func (a *audit) add(t ledger.Transfer) {
	n := int64(t.Amount)
	a.move(t.From, -n)
	a.move(t.To, n)
	key := id.Attempt{Job: t.Job, N: t.Attempt}
	j, at := a.jobs[t.Job], a.attempts[key]
	switch t.Kind {
	case ledger.KindGrant:
		a.given[t.To] += t.Amount
	case ledger.KindGiveUp:
		a.passed[t.From] += t.Amount
	case ledger.KindCarry:
		a.given[t.To] += t.Amount
		a.carried[t.From] += t.Amount
	case ledger.KindDeposit:
		j.deposit += n
	case ledger.KindReturn:
		j.returned += n
	case ledger.KindCharge:
		if t.Job == 0 {
			a.waste[ledger.CauseReserved] += n
		}
		j.charge += n
		at.charged += n
	case ledger.KindCorrect:
		j.charge -= n
		at.charged -= n
	case ledger.KindRefund:
		j.refund += n
		at.charged -= n
	case ledger.KindWaste:
		// What is lost for an account's job names the account; what is posted for
		// device time names none.
		switch {
		case t.Account == 0:
			a.waste[wasteOf(t.To)] += n
		case t.To == ledger.Waste(ledger.CauseEnding):
			at.over += n
		}
	}
	if t.User != 0 {
		a.spends(t)
	}
	if t.Job != 0 {
		if t.User != 0 {
			j.token = t.Token
		}
		a.jobs[t.Job], a.attempts[key] = j, at
	}
}

// spends counts what a user was charged on a day; only what isn't zero is kept.
func (a *audit) spends(t ledger.Transfer) {
	k, n := ledger.Spending{User: t.User, Account: t.Account, Day: t.At / ledger.Day}, t.Amount
	switch t.Kind {
	case ledger.KindCharge:
	case ledger.KindCorrect, ledger.KindRefund:
		n = -n
	default:
		return
	}
	if a.spent[k] += n; a.spent[k] == 0 {
		delete(a.spent, k)
	}
	if t.Token != 0 {
		k := ledger.TokenSpending{Token: t.Token, Day: k.Day}
		if a.byToken[k] += n; a.byToken[k] == 0 {
			delete(a.byToken, k)
		}
	}
}

// compareTokens compares what caps of tokens count as spent with the transfers, both ways.
func (a *audit) compareTokens() {
	for have := range a.w.Ledger.TokenSpendings {
		k := have
		k.Amount = 0
		a.tokens.want(a.byToken[k] == have.Amount, "token %d on %s: %s is counted, the charges come to %s", k.Token, stamp(k.Day*ledger.Day), have.Amount, a.byToken[k])
		delete(a.byToken, k)
	}
	for k, n := range a.byToken {
		a.tokens.want(false, "token %d on %s: nothing is counted, the charges come to %s", k.Token, stamp(k.Day*ledger.Day), n)
	}
}

// compareSpending compares what caps count as spent with the transfers, both ways.
func (a *audit) compareSpending() {
	for have := range a.w.Ledger.Spendings {
		k := have
		k.Amount = 0
		a.spending.want(a.spent[k] == have.Amount, "user %d in account %d on %s: %s is counted, the charges come to %s",
			k.User, k.Account, stamp(k.Day*ledger.Day), have.Amount, a.spent[k])
		delete(a.spent, k)
	}
	for k, n := range a.spent {
		a.spending.want(false, "user %d in account %d on %s: nothing is counted, the charges come to %s", k.User, k.Account, stamp(k.Day*ledger.Day), n)
	}
}

// compareGrants compares grants with what was posted into them and carried over out of them,
// and sees that no allowance gave the same time twice.
func (a *audit) compareGrants() {
	through := map[id.Allowance]int64{}
	for k, g := range a.w.Ledger.Grants.All() {
		acc := ledger.OfGrant(k)
		a.grants.want(a.given[acc] == g.Amount && a.carried[acc] == g.Carried && a.passed[acc] == g.Passed,
			"grant %d is of %s, of which %s were carried over and %s went to other accounts; its transfers come to %s, %s and %s",
			k, g.Amount, g.Carried, g.Passed, a.given[acc], a.carried[acc], a.passed[acc])
		if g.Allowance != 0 {
			if g.Start < through[g.Allowance] {
				a.grants.want(false, "grant %d begins on %s, when another of its allowance hadn't ended", k, stamp(g.Start))
			}
			through[g.Allowance] = g.OwnEnd
		}
	}
}

func wasteOf(to ledger.Account) ledger.Cause { return ledger.Cause(to[len(ledger.Waste("")):]) }

// move keeps only what isn't zero, so that closed deposits cost no memory.
func (a *audit) move(acc ledger.Account, n int64) {
	if b := a.balances[acc] + n; b == 0 {
		delete(a.balances, acc)
	} else {
		a.balances[acc] = b
	}
}

// compareBalances compares the sums with the snapshot's, both ways.
func (a *audit) compareBalances() {
	seen := 0
	for acc, have := range a.w.Ledger.Balances {
		sum := money.Micros(a.balances[acc])
		a.balance.want(have == sum, "%s has %s, its transfers come to %s", acc, have, sum)
		a.signs.want(have >= 0 || acc.Open(), "%s has %s", acc, have)
		seen++
	}
	for _, acc := range slices.Sorted(maps.Keys(a.balances)) {
		if a.w.Ledger.Balance(acc) == 0 {
			a.balance.want(false, "%s has 0.000, its transfers come to %s", acc, money.Micros(a.balances[acc]))
		}
	}
	a.compareOverdrafts()
	var aside int
	for acc := range a.balances {
		if isDeposit(acc) {
			aside++
		}
	}
	open := 0
	for _, j := range a.w.Workload.Jobs.All() {
		for _, s := range j.Sources {
			sum := money.Micros(a.balances[ledger.Deposit(j.ID, ledger.Account(s.Source))])
			a.deposits.want(sum == s.Left, "job %d has %s of %s left, the ledger has %s", j.ID, s.Left, s.Source, sum)
			if s.Left != 0 {
				open++
			}
		}
	}
	a.deposits.want(open == aside, "%d deposits aren't empty, open jobs have %d", aside, open)
}

// compareOverdrafts sees that no account has gone beyond its grants further than it may.
func (a *audit) compareOverdrafts() {
	for k, row := range a.w.Tenancy.Accounts.All() {
		if used := a.w.Ledger.Overdrawn(k); used != 0 {
			a.signs.want(used > 0 && used <= row.Overdraft, "account %s has overdrawn %s, it may %s", row.Name, used, row.Overdraft)
		}
	}
}

func isDeposit(acc ledger.Account) bool {
	const prefix = "deposit:"
	return len(acc) > len(prefix) && acc[:len(prefix)] == prefix
}

// job compares a job's own sums with its transfers, and the charges of the
// attempts that are over with what prices and time make of them.
func (a *audit) job(j *workload.Job) {
	t := a.jobs[j.ID]
	ok := t.deposit == int64(j.Deposit) && t.returned == int64(j.Returned) && t.refund == int64(j.Refunded) && t.charge-t.refund == int64(j.Charged)
	a.perJob.want(ok, "job %d says deposit %s, charged %s, returned %s, refunded %s; its transfers %s, %s, %s, %s",
		j.ID, j.Deposit, j.Charged, j.Returned, j.Refunded,
		money.Micros(t.deposit), money.Micros(t.charge-t.refund), money.Micros(t.returned), money.Micros(t.refund))
	if t.deposit+t.charge != 0 {
		a.tokens.want(t.token == j.Token.ID, "job %d was submitted by token %d, its last transfer names %d", j.ID, j.Token.ID, t.token)
	}
	for _, past := range j.Past {
		a.attempt(j, past)
	}
	if j.State == workload.Ended && j.Attempt.N > 0 || j.Attempt.Ended != 0 {
		a.attempt(j, j.Attempt)
	}
}

func (a *audit) attempt(j *workload.Job, at workload.Attempt) {
	key := id.Attempt{Job: j.ID, N: at.N}
	sums := a.attempts[key]
	if cause, forgiven := metering.Forgiven(at); forgiven {
		a.charges.want(sums.charged == 0, "attempt %s is the platform's to pay (%s) and yet charged %s", key, cause, money.Micros(sums.charged))
	} else {
		cost, err := metering.Accrued(&a.w.Catalog, j, at, at.Ended)
		a.charges.want(err == nil && int64(cost.Total) == sums.charged+sums.over,
			"attempt %s was charged %s and %s beyond its deposit; prices and time make %s", key, money.Micros(sums.charged), money.Micros(sums.over), cost.Total)
	}
	a.usedTime(j, at)
}

// compareWaste compares what was posted for device time that nobody used, as waste or as
// the charge of a reservation, with what the tiles say was posted.
func (a *audit) compareWaste() {
	causes := maps.Clone(a.waste)
	maps.Copy(causes, a.posted)
	for _, c := range slices.Sorted(maps.Keys(causes)) {
		a.lost.want(a.waste[c] == a.posted[c], "%s: %s was posted, the device time says %s", c, money.Micros(a.waste[c]), money.Micros(a.posted[c]))
	}
}

func chainBreak(err error) string {
	var b *chain.Break
	if errors.As(err, &b) {
		return b.Error()
	}
	return ""
}
