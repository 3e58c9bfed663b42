package store

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
)

// Day is how long a day of the daily sums is, in ns: they begin at midnight UTC.
const Day = ledger.Day

// MoneyDay is what became of an account's money on a day, by grant. What a grant has
// left, set aside or not, changes by Given - Spent - Expired.
type MoneyDay struct {
	Account id.Account
	Day     int64    // since the epoch
	Grant   id.Grant // 0: beyond its grants

	Given   money.Micros
	Aside   money.Micros // set aside for jobs, less what was charged or returned of it
	Spent   money.Micros // charged, less what was corrected or refunded
	Expired money.Micros
}

// SpentDay is what an attempt was charged on a day, by grant.
type SpentDay struct {
	Account id.Account
	Day     int64
	User    id.User
	Job     id.Job // 0: for a reservation that nobody used
	Attempt int32
	Grant   id.Grant

	Spent money.Micros
	Lost  money.Micros // what it cost beyond its deposit: the platform's
}

func moneyDays() *relation[MoneyDay] {
	type row = MoneyDay
	return &relation[row]{name: "money_day", keys: 3, adds: true, columns: []column[row]{
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("day", func(r *row) *int64 { return &r.Day }),
		num("grant_id", func(r *row) *id.Grant { return &r.Grant }),
		num("given", func(r *row) *money.Micros { return &r.Given }),
		num("aside", func(r *row) *money.Micros { return &r.Aside }),
		num("spent", func(r *row) *money.Micros { return &r.Spent }),
		num("expired", func(r *row) *money.Micros { return &r.Expired }),
	}}
}

func spentDays() *relation[SpentDay] {
	type row = SpentDay
	return &relation[row]{name: "spent_day", keys: 6, adds: true, columns: []column[row]{
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("day", func(r *row) *int64 { return &r.Day }),
		num("person", func(r *row) *id.User { return &r.User }),
		num("job", func(r *row) *id.Job { return &r.Job }),
		num("attempt", func(r *row) *int32 { return &r.Attempt }),
		num("grant_id", func(r *row) *id.Grant { return &r.Grant }),
		num("spent", func(r *row) *money.Micros { return &r.Spent }),
		num("lost", func(r *row) *money.Micros { return &r.Lost }),
	}}
}

// daily adds up what the transfers of a commit come to: each row is put once, whatever
// number of them it has.
type daily struct {
	money map[MoneyDay]*MoneyDay // by themselves without their sums
	spent map[SpentDay]*SpentDay
}

// addDaily counts a transfer in. What the platform's own device time cost concerns no account.
func (b *batchRows) addDaily(t *ledger.Transfer) error {
	if t.Account == 0 {
		return nil
	}
	grant := id.Grant(max(grantIn(t.From), grantIn(t.To)))
	m, s := Effects(*t)
	if err := b.addMoney(MoneyDay{Account: t.Account, Day: t.At / Day, Grant: grant}, m); err != nil {
		return err
	}
	switch t.Kind {
	case ledger.KindCarry: // it has two grants
		return b.addMoney(MoneyDay{Account: t.Account, Day: t.At / Day, Grant: id.Grant(grantIn(t.From))}, MoneyDay{Given: -m.Given})
	case ledger.KindRepay, ledger.KindUnpay: // what was spent beyond grants becomes the grant's, or again isn't
		return b.addMoney(MoneyDay{Account: t.Account, Day: t.At / Day}, MoneyDay{Spent: -m.Spent})
	}
	ofJob := SpentDay{Account: t.Account, Day: t.At / Day, User: t.User, Job: t.Job, Attempt: t.Attempt, Grant: grant}
	if s != (SpentDay{}) {
		row, ok := b.daily.spent[ofJob]
		if !ok {
			own := ofJob
			row = &own
			b.daily.spent[ofJob] = row
			if err := b.spentDays.put(row); err != nil {
				return err
			}
		}
		row.Spent, row.Lost = row.Spent+s.Spent, row.Lost+s.Lost
	}
	return nil
}

// addMoney adds to the sums of an account's day and grant.
func (b *batchRows) addMoney(key, m MoneyDay) error {
	if m == (MoneyDay{}) {
		return nil
	}
	row, ok := b.daily.money[key]
	if !ok {
		own := key
		row = &own
		b.daily.money[key] = row
		if err := b.moneyDays.put(row); err != nil {
			return err
		}
	}
	row.Given, row.Aside, row.Spent, row.Expired = row.Given+m.Given, row.Aside+m.Aside, row.Spent+m.Spent, row.Expired+m.Expired
	return nil
}

// Effects is what a transfer adds to the sums of its day; of what is carried over, to those
// of the grant that it goes into; of what is repaid or isn't after all, to those of the grant
// and, the other way round, to those of what was spent beyond grants.
func Effects(t ledger.Transfer) (m MoneyDay, s SpentDay) {
	switch t.Kind {
	case ledger.KindGrant, ledger.KindCarry:
		m.Given = t.Amount
	case ledger.KindGiveUp:
		m.Given = -t.Amount
	case ledger.KindDeposit:
		if !t.From.Deposit() { // else an array's deposit becomes its element's
			m.Aside = t.Amount
		}
	case ledger.KindCharge:
		m.Aside, m.Spent = -t.Amount, t.Amount
	case ledger.KindCorrect:
		m.Aside, m.Spent = t.Amount, -t.Amount
	case ledger.KindReturn:
		m.Aside = -t.Amount
	case ledger.KindRefund:
		m.Spent = -t.Amount
	case ledger.KindExpire:
		m.Expired = t.Amount
	case ledger.KindRepay:
		m.Spent = t.Amount
		return m, s // nothing was charged
	case ledger.KindUnpay:
		m.Spent = -t.Amount
		if t.To == ledger.Expired {
			m.Expired = t.Amount
		}
		return m, s
	case ledger.KindWaste:
		if t.Job != 0 && t.Account != 0 && t.To == ledger.Waste(ledger.CauseEnding) {
			s.Lost = t.Amount
		}
	}
	if t.To == ledger.Expired && t.Kind != ledger.KindExpire {
		m.Expired += t.Amount
	}
	s.Spent = m.Spent
	return m, s
}
